"""``lbhash index``: build an index of codes, change it, look into it."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lbhash.cli.commands.options import (
    Backbone,
    BaseFile,
    Carry,
    ClassList,
    DamagedImages,
    Images,
    Json,
    Labels,
    Layout,
    QueryFile,
    SplitName,
    image_options,
    print_json,
)

if TYPE_CHECKING:
    from lbhash.codes.io import CodeTable
    from lbhash.index import Index
    from lbhash.pipeline.embeddings import ImageOptions

index_app = typer.Typer(
    name="index", help="Build an index of codes, change it, and look into it.", no_args_is_help=True
)

IndexPath = Annotated[str, typer.Option("--index", help="A folder that 'lbhash index build' wrote, or milvus+URL.")]
ModelOrCodes = Annotated[Path | None, typer.Option(help="A folder that 'lbhash train' wrote; with --data.")]
CodesFile = Annotated[
    Path | None, typer.Option(help="Codes, .parquet, .npz, .npy or a folder, in the place of --model and --data.")
]
DataOrCodes = Annotated[
    str | None, typer.Option(help="What the model is to encode: 'digits', a file of embeddings, or a folder of splits.")
]
Ids = Annotated[
    str | None,
    typer.Option(help="row, next (count on), or an integer column of --codes; its column id, else row, if not given."),
]
Protocol = Annotated[str | None, typer.Option(help="How to draw the splits; as in training if not given.")]
SplitSeed = Annotated[int | None, typer.Option(help="Seed of the draw; as in training if not given.")]


class Kind(str, Enum):
    """How an index searches."""

    flat = "flat"
    mih = "mih"
    ivf = "ivf"
    hnsw = "hnsw"


class Keep(str, Enum):
    """Real numbers that an index holds for re-ranking."""

    outputs = "outputs"
    embeddings = "embeddings"


Rows = Annotated[SplitName | None, typer.Option(help="Which rows of --data; base if not given.")]


@index_app.command()
def build(
    out: Annotated[str, typer.Option(help="The folder of the index, or milvus+URL; it must not hold one yet.")],
    model: ModelOrCodes = None,
    data: DataOrCodes = None,
    split: Rows = None,
    base: BaseFile = None,
    query: QueryFile = None,
    labels: Labels = None,
    protocol: Protocol = None,
    split_seed: SplitSeed = None,
    backbone: Backbone = None,
    layout: Layout = None,
    images: Images = None,
    class_list: ClassList = None,
    damaged: DamagedImages = "refuse",
    carry: Carry = None,
    codes: CodesFile = None,
    ids: Ids = None,
    kind: Annotated[Kind, typer.Option(help="flat is exact; mih, ivf and hnsw are approximate.")] = Kind.flat,
    option: Annotated[
        list[str] | None, typer.Option(help="NAME=NUMBER, an option of the kind, such as nprobe=32.")
    ] = None,
    keep: Annotated[Keep | None, typer.Option(help="Keep these too, for 'lbhash search --rerank'.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the index in OUT.")] = False,
    as_json: Json = False,
) -> None:
    """Make an index of codes: of a file of them, or of what a model makes of a data set."""
    from lbhash.index import build_index, check_build
    from lbhash.pipeline.search import ids_of

    chosen = image_options(backbone, layout, images, class_list, damaged)
    where = _where(base, query, labels, protocol, split_seed, carry, chosen)
    kept = "" if keep is None else keep.value
    options = _numbers(option or [])
    check_build(out, kind.value, store_vectors=kept, options=options, overwrite=overwrite)
    table, vectors = _source(model, data, split, codes, kept, ids, where, progress=not as_json)
    names = ids_of(table, ids)
    if names is None:
        import numpy as np

        names = np.arange(len(table.codes))
    index = build_index(
        table,
        out,
        kind.value,
        ids=names,
        vectors=vectors,
        store_vectors=kept,
        options=options,
        overwrite=overwrite,
        progress=not as_json,
    )
    _print_info(index.info() | {"index": out}, as_json)


@index_app.command()
def add(
    index: IndexPath,
    model: ModelOrCodes = None,
    data: DataOrCodes = None,
    split: Rows = None,
    base: BaseFile = None,
    query: QueryFile = None,
    labels: Labels = None,
    protocol: Protocol = None,
    split_seed: SplitSeed = None,
    backbone: Backbone = None,
    layout: Layout = None,
    images: Images = None,
    class_list: ClassList = None,
    damaged: DamagedImages = "refuse",
    carry: Carry = None,
    codes: CodesFile = None,
    ids: Ids = None,
    as_json: Json = False,
) -> None:
    """Add codes to an index, all of them or none."""
    from lbhash.index import code_attributes, open_index
    from lbhash.pipeline.search import ids_of

    opened = open_index(index, progress=not as_json)
    chosen = image_options(backbone, layout, images, class_list, damaged)
    where = _where(base, query, labels, protocol, split_seed, carry, chosen)
    table, vectors = _source(
        model, data, split, codes, opened.store_vectors, ids, where, index=opened, progress=not as_json
    )
    opened.add(table.codes, ids_of(table, ids), code_attributes(table), vectors=vectors)
    facts = {"added": len(table.codes), "codes": len(opened), "generation": opened.generation, "index": index}
    _say(facts, "{added:,} codes added; {index} has {codes:,}", as_json)


@index_app.command()
def remove(
    index: IndexPath,
    ids: Annotated[list[int], typer.Option("--id", help="Of a code to remove; may be given often.")],
    as_json: Json = False,
) -> None:
    """Remove codes by their ids, all of them or none."""
    from lbhash.index import open_index

    opened = open_index(index)
    removed = opened.remove(ids)
    facts = {"removed": removed, "codes": len(opened), "generation": opened.generation, "index": index}
    _say(facts, "{removed:,} codes removed; {index} has {codes:,}", as_json)


@index_app.command()
def compact(index: IndexPath, as_json: Json = False) -> None:
    """Write an index anew as one segment, without what was removed."""
    from lbhash.index import LocalIndex, open_index
    from lbhash.index.milvus.address import shown_address

    opened = open_index(index)
    if not isinstance(opened, LocalIndex):
        raise ValueError(f"index is {shown_address(index)!r}, of kind {opened.kind}, which compacts itself")
    opened.compact()
    _print_info(opened.info() | {"index": index}, as_json)


@index_app.command()
def info(index: IndexPath, as_json: Json = False) -> None:
    """Say what an index holds."""
    from lbhash.index import open_index

    _print_info(open_index(index).info() | {"index": index}, as_json)


@index_app.command()
def verify(index: IndexPath, as_json: Json = False) -> None:
    """Read all of an index and compare every checksum."""
    from lbhash.index import open_index

    opened = open_index(index)
    opened.verify()
    facts = {"intact": True, "codes": len(opened), "generation": opened.generation, "index": index}
    _say(facts, "{index} is intact: {codes:,} codes, generation {generation}", as_json)


@index_app.command()
def bench(
    index: IndexPath,
    queries: Annotated[
        Path | None, typer.Option(help="A file of codes; where not given, codes of the index, each its own nearest.")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="How many neighbors.")] = 10,
    limit: Annotated[int, typer.Option(min=1, help="Of queries.")] = 1000,
    rounds: Annotated[int, typer.Option(min=1, help="Of which the quickest counts.")] = 5,
    as_json: Json = False,
) -> None:
    """Build every embedded kind of the same codes in memory: recall against flat, and speed as a multiple of it."""
    from lbhash.index import check_model, open_index
    from lbhash.index.bench import compare_kinds

    opened = open_index(index)
    opened.check_k(k)
    names = opened.ids()
    if queries is None:
        asked = opened.codes_of(names[:: max(1, len(names) // limit)][:limit])
    else:
        from lbhash.codes.io import read_codes

        table = read_codes(queries, "queries")
        check_model(opened, table.model, table.bits, "queries")
        asked = table.codes[:limit]
    rows = compare_kinds(
        opened.codes_of(names), opened.bits, asked, k, rounds=rounds, say=lambda line: typer.echo(line, err=True)
    )
    facts = {"codes": len(names), "bits": opened.bits, "queries": len(asked), "k": k, "kinds": rows}
    if as_json:
        print_json(facts)
        return
    from lbhash.cli.tables import print_kinds

    print_kinds(facts)


@index_app.command()
def export(
    index: IndexPath,
    out: Annotated[Path, typer.Option(help="A .parquet: id, code and attributes; a file of codes like any other.")],
    as_json: Json = False,
) -> None:
    """Write all of an index to a Parquet file."""
    from lbhash.index import open_index
    from lbhash.pipeline.search import export_index

    facts = export_index(open_index(index), out)
    _say(facts, "{codes:,} codes of {bits} bits are in {out}", as_json)


@index_app.command()
def size(
    bits: Annotated[list[int] | None, typer.Option(help="Length of a code; may be given often.")] = None,
    count: Annotated[list[str] | None, typer.Option(help="How many codes, such as 1e9; may be given often.")] = None,
    attributes: Annotated[int, typer.Option(help="Bytes of what travels with a code, such as its label.")] = 0,
    consecutive: Annotated[
        bool, typer.Option("--consecutive", help="Ids follow each other; an index in a folder then keeps none.")
    ] = False,
    memory: Annotated[str | None, typer.Option(help="Of one machine, such as 16GiB: how many are needed?")] = None,
    usable: Annotated[float, typer.Option(help="The share of the memory that may hold codes.")] = 0.75,
    as_json: Json = False,
) -> None:
    """Say what codes cost in memory, and in machines."""
    from dataclasses import asdict

    from lbhash.index.sizing import ID_BYTES, parse_bytes, parse_count, size_of

    amount = None if memory is None else parse_bytes(memory)
    ids = 0 if consecutive else ID_BYTES
    sizes = [
        size_of(length, parse_count(text), ids=ids, attributes=attributes, memory=amount, usable=usable)
        for text in count or ("1e6", "1e8", "1e9")
        for length in bits or (16, 32, 64, 128)
    ]
    if as_json:
        print_json({"memory": amount, "usable": usable, "sizes": [asdict(size) for size in sizes]})
        return
    from lbhash.cli.tables import print_sizes

    print_sizes(sizes, memory)


def _where(
    base: Path | None,
    query: Path | None,
    labels: Path | None,
    protocol: str | None,
    split_seed: int | None,
    carry: list[str] | None,
    images: ImageOptions | None,
) -> dict[str, Any]:
    """What the options say of the data, as ``lbhash.pipeline.search.encode_for_index`` takes it."""
    return {
        "base": base,
        "query": query,
        "labels": labels,
        "protocol": protocol,
        "split_seed": split_seed,
        "carry": carry,
        "images": images,
    }


def _source(
    model: Path | None,
    data: str | None,
    split: SplitName | None,
    codes: Path | None,
    keep: str,
    ids: str | None,
    where: dict[str, Any],
    *,
    index: Index | None = None,
    progress: bool = True,
) -> tuple[CodeTable, Any]:
    """The codes to index, and their vectors, of whichever source is given."""
    if codes is not None:
        if model is not None or data is not None:
            raise ValueError("codes is given, and so is model or data; give codes, or model and data")
        where |= {"split": split}
        if any(value is not None for value in where.values()):
            raise ValueError("codes is given, and so is an option of data; a file of codes is taken as it is")
        if keep:
            raise ValueError(f"the index keeps {keep}, which a file of codes does not have; give model and data")
        from lbhash.codes.io import read_codes
        from lbhash.index import check_model

        table = read_codes(codes)
        if index is not None:
            check_model(index, table.model, table.bits, "codes")
        return table, None
    where["carry"] = where["carry"] or ()
    if model is None or data is None:
        raise ValueError(f"{'model' if model is None else 'data'} is missing; give model and data, or codes")
    from lbhash.pipeline.search import encode_for_index

    rows = split or "base"
    return encode_for_index(model, data, rows, index=index, keep=keep, ids=ids, progress=progress, **where)


def _numbers(texts: list[str]) -> dict[str, int]:
    options = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            options[name] = int(value)
        except ValueError:
            raise ValueError(f"option is {text!r}; it must be NAME=NUMBER, such as nprobe=32") from None
    return options


def _say(facts: dict[str, Any], line: str, as_json: bool) -> None:
    from lbhash.index.milvus.address import shown_address

    facts |= {"index": shown_address(facts["index"])} if "index" in facts else {}
    if as_json:
        print_json(facts)
    else:
        typer.echo(line.format(**facts))


def _print_info(facts: dict[str, Any], as_json: bool) -> None:
    from lbhash.index.milvus.address import shown_address

    facts |= {"index": shown_address(facts["index"])}
    if as_json:
        print_json(facts)
        return
    from lbhash.cli.tables import print_index

    print_index(facts)
