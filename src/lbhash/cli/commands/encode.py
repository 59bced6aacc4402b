"""``lbhash encode``: codes of a data set, in a file or, of a large one, in a folder of shards."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from lbhash.cli.commands.options import (
    Backbone,
    BaseFile,
    Carry,
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


class Engine(str, Enum):
    """What encodes."""

    local = "local"
    ray = "ray"


class Precision(str, Enum):
    """Of the backbone."""

    full = "32"
    bf16 = "bf16"


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
    base: BaseFile = None,
    query: QueryFile = None,
    labels: Labels = None,
    protocol: Annotated[str | None, typer.Option(help="How to draw the splits; as in training if not given.")] = None,
    split_seed: Annotated[int | None, typer.Option(help="Seed of the draw; as in training if not given.")] = None,
    backbone: Backbone = None,
    layout: Layout = None,
    images: Images = None,
    class_list: ClassList = None,
    damaged: DamagedImages = "refuse",
    carry: Carry = None,
    shard_rows: Annotated[
        int | None, typer.Option(help="Rows of a shard of a folder; 65,536, or as the folder has them, if not given.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Into a folder: images in a pass through the backbone; 32 if not given.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Into a folder: processes that decode images; one less than the cores if not given, none on two."
        ),
    ] = None,
    precision: Annotated[
        Precision | None,
        typer.Option(help="Into a folder: of the backbone; bf16 is quicker, and some bits come out otherwise."),
    ] = None,
    engine: Annotated[
        Engine | None, typer.Option(help="Into a folder: this process, or a Ray cluster that sees the same files.")
    ] = None,
    ray_address: Annotated[
        str | None, typer.Option(help="Of the Ray cluster; one of this machine is started where it is not given.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Begin a folder anew, whatever it holds codes of.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Encode embeddings, or images, into packed codes.

    Into a folder any number of rows is encoded with the same memory, images included, and the same command again goes
    on where it stopped.
    """
    settings = image_options(backbone, layout, images, class_list, damaged)
    where: dict[str, Any] = {"base": base, "query": query, "labels": labels}
    where |= {"protocol": protocol, "split_seed": split_seed, "images": settings, "carry": tuple(carry or ())}
    chosen = {
        "shard_rows": shard_rows,
        "batch_size": batch_size,
        "workers": workers,
        "precision": None if precision is None else precision.value,
        "engine": None if engine is None else engine.value,
        "ray_address": ray_address,
    }
    line = "{codes:,} codes of {bits} bits ({bytes:,} bytes) are in {out}"
    named = None
    if is_folder(out):
        from lbhash.pipeline.encoding.folder import DAMAGED

        facts = _into_folder(model, data, split, out, overwrite, where, chosen)
        line += ", {shards:,} shards, of which {found:,} were there before"
        line += "\n{codes:,} codes + {damaged:,} damaged = {rows:,} {unit}"
        line += "; those that are damaged are named in {named}" if facts["damaged"] else ""
        named = Path(out) / DAMAGED
    else:
        from lbhash.pipeline.encode import encode_file

        for name, value in chosen.items():
            if value is not None:
                raise ValueError(f"{name} is {str(value)!r} and out is {out!r}, a file; it is for a folder of shards")
        facts = encode_file(model, data, split, out, **where)
    if as_json:
        print_json(facts)
    else:
        typer.echo(line.format(**facts, named=named))


def is_folder(out: str) -> bool:
    """Whether an output is a folder: it is one, ends as one, or has no suffix."""
    ends = (os.sep, os.altsep) if os.altsep else (os.sep,)
    return out.endswith(ends) or Path(out).is_dir() or not Path(out).suffix


def _into_folder(
    model: Path, data: str, split: str, out: str, overwrite: bool, where: dict[str, Any], chosen: dict[str, Any]
) -> dict[str, Any]:
    from lbhash.pipeline.encoding import Job, encode_folder

    paths = {name: None if where[name] is None else str(where[name]) for name in ("base", "query", "labels")}
    of_job = {name: chosen.pop(name) for name in ("batch_size", "workers", "precision")}
    job = Job(str(model), data, split, **{**where, **paths}, **of_job)
    engine = chosen.pop("engine") or "local"
    return encode_folder(job, out, **chosen, engine=engine, overwrite=overwrite)
