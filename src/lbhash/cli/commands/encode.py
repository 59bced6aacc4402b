"""``lbhash encode``: codes of a data set, in a file or, of a large one, in a folder of shards."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from lbhash.cli.commands.options import (
    Backbone,
    BaseFile,
    ClassList,
    DamagedImages,
    Data,
    Images,
    Json,
    Labels,
    Layout,
    Model,
    QueryFile,
    SplitName,
    image_options,
    print_json,
)


def _data_options(
    base: BaseFile = None,
    query: QueryFile = None,
    labels: Labels = None,
    protocol: Annotated[str | None, typer.Option(help="How to split the data; as in training if not given.")] = None,
    split_seed: Annotated[int | None, typer.Option(help="Seed of the split; as in training if not given.")] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--columns",
            "--carry",
            help="A column of DATA, a .parquet file, that goes with the codes, or the 'path' of images in files; may "
            "be given several times.",
        ),
    ] = None,
    backbone: Backbone = None,
    layout: Layout = None,
    images: Images = None,
    class_list: ClassList = None,
    damaged: DamagedImages = "refuse",
) -> dict[str, Any]:
    """Return the options that say what a model encodes, as arguments of ``EncodingJob``."""
    data = {"base": base, "query": query, "labels": labels, "protocol": protocol, "split_seed": split_seed}
    settings = image_options(backbone, layout, images, class_list, damaged)
    return {**data, "columns": tuple(columns or ()), "images": settings}


def with_data_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command, which takes ``**options``, those of ``_data_options``."""
    signature, more = (inspect.signature(function, eval_str=True) for function in (command, _data_options))
    own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]

    @wraps(command)
    def run(**given: Any) -> None:
        data = {name: given.pop(name) for name in more.parameters}
        command(**given, **_data_options(**data))

    run.__signature__ = signature.replace(parameters=[*own, *more.parameters.values()])  # type: ignore[attr-defined]
    return run


@with_data_options
def encode(
    model: Model,
    out: Annotated[
        str, typer.Option(help="The file of codes, .parquet or .npz; or a folder, which is written shard by shard.")
    ],
    data: Data = "digits",
    split: Annotated[
        SplitName,
        typer.Option(help="Which rows: all of one file, or those of a split."),
    ] = "all",
    shard_rows: Annotated[
        int | None,
        typer.Option(help="Folders only: rows of a shard; 65,536, or as the folder has them, if not given."),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Folders only: images in a pass through the backbone; 32 if not given.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Folders only: processes that decode images; one less than the cores if not given, none on two."
        ),
    ] = None,
    precision: Annotated[
        Literal["32", "bf16"] | None,
        typer.Option(help="Folders only: precision of the backbone; bf16 is faster, and changes some bits."),
    ] = None,
    engine: Annotated[
        Literal["local", "ray"] | None,
        typer.Option(help="Folders only: this process, or a Ray cluster that sees the same files."),
    ] = None,
    ray_address: Annotated[
        str | None, typer.Option(help="Address of the Ray cluster; if not given, one is started on this machine.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Start a folder again, whatever codes it holds.")
    ] = False,
    as_json: Json = False,
    **options: Any,
) -> None:
    """Encode embeddings, or images, into packed codes.

    Into a folder any number of rows is encoded with the same memory, images included, and the same command again goes
    on where it stopped.
    """
    from lbhash.pipeline import encode as encoding
    from lbhash.pipeline.encoding.job import EncodingJob

    options |= {"batch_size": batch_size, "precision": precision, "workers": workers}
    job = EncodingJob(model, data, split, **options)
    facts = encoding.encode(
        job, out, shard_rows=shard_rows, engine=engine, ray_address=ray_address, overwrite=overwrite
    )
    if as_json:
        print_json(facts)
        return
    line = "{codes:,} codes of {bits} bits ({bytes:,} bytes) are in {out}"
    if "shards" in facts:
        line += ", {shards:,} shards, of which {found:,} were there before"
        line += "\n{codes:,} codes + {damaged:,} damaged = {rows:,} {unit}"
    if facts.get("damaged"):
        from lbhash.pipeline.shard_store import DAMAGED

        line += f"; the damaged ones are named in {Path(out) / DAMAGED}"
    typer.echo(line.format(**facts))
