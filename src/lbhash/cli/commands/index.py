"""``lbhash index``: build an index of codes, change it, check it and export it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lbhash.cli.commands.options import (
    Json,
    SplitName,
    choice,
    data_option,
    encoded_data,
    method_options,
    print_json,
    several,
    with_options,
)
from lbhash.cli.rules import App

if TYPE_CHECKING:
    from lbhash.index.base import BaseIndex

_HELP = "Build an index of codes, change it, check it and export it."
index_app = App(name="index", help=_HELP, no_args_is_help=True)

IndexPath = Annotated[str, typer.Argument(help="A folder that 'lbhash index build' wrote, or milvus+URL.")]


def chosen_codes(
    data: Annotated[
        str | None,
        data_option(
            "Data to encode, as in training: a file of embeddings or images, a folder, or a name.",
            typer.Argument,
        ),
    ] = None,
    model: Annotated[Path | None, typer.Option(help="A folder that 'lbhash train' wrote; with DATA.")] = None,
    split: Annotated[
        SplitName | None, choice("Which rows of DATA: by default all, or base if the data have splits.")
    ] = None,
    codes: Annotated[
        Path | None, typer.Option(help="Codes (.parquet, .npz, .npy or a folder) instead of DATA and --model.")
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(
            help="The column of ids (integers or texts), 'row' for row numbers, or 'next' to count on. By default the "
            "index's own; for a new index the column id, else 'row'."
        ),
    ] = None,
) -> dict[str, Any]:
    """Return the options that choose the codes of an index."""
    return {"model": model, "data": data, "split": split, "codes": codes, "id_column": id_column}


@index_app.command()
@with_options(encoded_data)
@with_options(chosen_codes)
def build(
    out: Annotated[str, typer.Option(help="The folder of the index, or milvus+URL; it must not hold an index yet.")],
    kind: Annotated[Literal["flat", "ivf"], choice("flat is exact; ivf is quicker, and may miss some codes.")] = "flat",
    option: Annotated[
        list[str] | None, typer.Option(help="NAME=NUMBER, an option of the kind, such as nprobe=32.")
    ] = None,
    vectors: Annotated[
        Literal["outputs", "embeddings", "int8"] | None,
        choice(
            "Store vectors for 'lbhash search --rerank', two bytes a number; int8 stores embeddings in one byte a "
            "number, with a scale for each dimension.",
            "--vectors",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the index in OUT.")] = False,
    as_json: Json = False,
    **options: Any,
) -> None:
    """Build an index from a file of codes, or from a model and data."""
    from lbhash.pipeline import index as indexes

    options |= {"options": method_options(option or []), "vectors": vectors or "", "overwrite": overwrite}
    _print(indexes.build(out, kind, progress=not as_json, **options), out, as_json)


@index_app.command()
@with_options(encoded_data)
@with_options(chosen_codes)
def add(
    index: IndexPath,
    upsert: Annotated[bool, typer.Option("--upsert", help="Replace codes whose id the index has.")] = False,
    as_json: Json = False,
    **options: Any,
) -> None:
    """Add codes to an index, all or none, with the columns that it was built with."""
    from lbhash.pipeline import index as indexes

    opened = _open(index, progress=not as_json)
    changed = indexes.add(opened, upsert=upsert, progress=not as_json, **options)
    line = "{added:,} codes added" + ", {replaced:,} replaced" * upsert + "; {index} has {codes:,}"
    _print(opened, index, as_json, line, **changed)


@index_app.command()
def remove(
    index: IndexPath,
    ids: Annotated[
        list[str], several("Ids of codes to remove, such as 3,7 or sku-7; an id with a comma is in quotes.", "--ids")
    ],
    as_json: Json = False,
) -> None:
    """Remove codes by their ids, all or none."""
    from lbhash.pipeline.index import parse_ids

    opened = _open(index)
    removed = opened.remove(parse_ids(ids, opened))
    _print(opened, index, as_json, "{removed:,} codes removed; {index} has {codes:,}", removed=removed)


@index_app.command()
def compact(index: IndexPath, as_json: Json = False) -> None:
    """Rewrite an index as one segment, without removed codes."""
    from lbhash.index import Index

    opened = _open(index)
    if not isinstance(opened, Index):
        raise ValueError(f"index is {index!r}, of kind {opened.kind}, which compacts itself")
    opened.compact()
    _print(opened, index, as_json)


@index_app.command()
def verify(index: IndexPath, as_json: Json = False) -> None:
    """Read all of an index and compare every checksum."""
    opened = _open(index)
    opened.verify()
    _print(opened, index, as_json, "{index} is intact: {codes:,} codes, generation {generation}", intact=True)


@index_app.command()
def export(
    index: IndexPath,
    out: Annotated[Path, typer.Option(help="The file: .parquet, .sql (its name is the table's), .npz or .ndjson.")],
    to: Annotated[
        str,
        typer.Option(metavar="FORMAT", help="The program that loads it, such as pgvector; parquet is a file of codes."),
    ] = "parquet",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file OUT.")] = False,
    as_json: Json = False,
) -> None:
    """Write all of an index to a file, for a database or another program."""
    from lbhash.index.export import export_index
    from lbhash.utils.files import check_new

    check_new(out, "out", overwrite)
    facts = export_index(_open(index), out, to)
    if as_json:
        print_json(facts)
    else:
        typer.echo("{codes:,} codes of {bits} bits are in {out}".format(**facts))


def _open(path: str, progress: bool = False) -> BaseIndex:
    from lbhash.index import Index

    return Index.open(path, "a", progress=progress)


def _print(index: BaseIndex, path: str, as_json: bool, line: str = "", **facts: Any) -> None:
    """Print facts and the size of an index in the format ``line``; without ``line``, print its ``info``."""
    facts |= {"codes": len(index), "generation": index.generation} if line else index.info()
    facts["index"] = path
    if as_json:
        print_json(facts)
    elif line:
        typer.echo(line.format(**facts))
    else:
        from lbhash.cli.tables import print_facts

        print_facts(facts)
