"""``lbhash search``: the codes nearest to a row of data, or to a code."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from lbhash.cli.commands.options import Json, print_json


class Rerank(str, Enum):
    """What candidates are ranked anew by."""

    asymmetric = "asymmetric"
    outputs = "outputs"
    embeddings = "embeddings"


def search(
    base: Annotated[
        str, typer.Option("--index", "--base", help="An index (a folder, or milvus+URL), or a file of codes.")
    ],
    model: Annotated[Path | None, typer.Option(help="A folder that 'lbhash train' wrote; for rows as queries.")] = None,
    data: Annotated[
        str, typer.Option(help="'digits', a .parquet, .npz or .npy file of embeddings, or images.")
    ] = "digits",
    row: Annotated[
        list[int] | None, typer.Option(help="A query: a row of DATA, counted from 0; may be given often.")
    ] = None,
    code: Annotated[list[str] | None, typer.Option(help="A query: the hexadecimal digits of a code.")] = None,
    k: Annotated[
        int | None, typer.Option("-k", help="How many neighbors; 10 if not given.", show_default=False)
    ] = None,
    radius: Annotated[int | None, typer.Option(help="All codes within this distance, in the place of -k.")] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="Only codes with NAME=VALUE, or NAME=VALUE,VALUE, such as label=3.")
    ] = None,
    rerank: Annotated[
        Rerank | None,
        typer.Option(help="Rank candidates anew: asymmetric needs the codes only, the others 'index build --keep'."),
    ] = None,
    candidates: Annotated[
        int | None, typer.Option(help="How many to rank anew; 100 if not given.", show_default=False)
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the neighbors as .parquet.")] = None,
    as_json: Json = False,
) -> None:
    """Find the codes nearest to rows of data, or to codes."""
    from lbhash.codes.io import check_suffix
    from lbhash.pipeline.search import (
        open_base,
        parse_where,
        queries_by_code,
        queries_by_row,
        search_index,
        write_neighbors,
    )

    if out is not None:
        check_suffix(out, suffixes=(".parquet",))
    if row and code:
        raise ValueError("row is given, and so is code; search for one or the other")
    if code:
        hasher = None
    elif model is None:
        raise ValueError("model is missing; a row needs the model that encodes it, and a code is given by --code")
    else:
        from lbhash.hasher import load_hasher

        hasher = load_hasher(model)
    index = open_base(base, hasher)
    queries = queries_by_code(code or [], index.bits) if hasher is None else queries_by_row(hasher, data, row or [0])
    answers = search_index(
        index,
        queries,
        k,
        radius=radius,
        where=parse_where(where or []),
        by=None if rerank is None else rerank.value,
        candidates=candidates,
    )
    if out is not None:
        write_neighbors(out, answers)
    if as_json:
        from lbhash.index.milvus.address import shown_address
        from lbhash.utils.serialization import json_value

        found = {"index": shown_address(base), "codes": len(index), "bits": index.bits, "queries": answers}
        print_json(json_value(found))
        return
    from lbhash.cli.tables import print_neighbors

    if out is None:
        for answer in answers:
            print_neighbors(answer)
    else:
        typer.echo(f"{sum(len(answer['neighbors']) for answer in answers):,} neighbors are in {out}")
