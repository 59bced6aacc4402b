"""``lbhash prepare``: convert a published image data set to Parquet, with the paper's splits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from lbhash.cli.commands.options import Json, choice, print_json


def prepare(
    kind: Annotated[str, typer.Argument(help="cifar10, nuswide, imagenet or lists (of HashNet and DeepHash).")],
    folder: Annotated[Path, typer.Argument(help="The folder of the data set, as it is published.")],
    out: Annotated[Path, typer.Option(help="The .parquet file.")],
    protocol: Annotated[
        str | None,
        typer.Option(help="How to split the rows; without it, by the paper's protocol for KIND, or as the lists do."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="<int>", help="Seed of the split.", min=0)] = 0,
    images: Annotated[
        Path | None, typer.Option(help="lists, nuswide: the folder that the lists' paths are relative to.")
    ] = None,
    class_list: Annotated[
        Path | None, typer.Option(help="imagenet: a file of the WordNet ids to take, one a line; all without it.")
    ] = None,
    damaged: Annotated[
        Literal["refuse", "skip"], choice("Refuse a data set with missing images, or leave these out.")
    ] = "refuse",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file OUT.")] = False,
    as_json: Json = False,
) -> None:
    """Write a published data set of images as Parquet, with the paper's splits.

    Image files stay where they are, and OUT has their paths.
    """
    from lbhash.pipeline.prepare import prepare as run

    how: dict[str, Any] = {"protocol": protocol, "seed": seed, "images": images, "class_list": class_list}
    facts = run(kind, folder, out, **how, damaged=damaged, overwrite=overwrite, progress=not as_json)
    if as_json:
        print_json(facts)
        return
    typer.echo("{images:,} images are in {out}: {train:,} train, {base:,} base, {query:,} query".format(**facts))
