"""``lbhash search``: find the codes nearest to rows, images, texts or codes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from lbhash.cli.commands.options import (
    Json,
    MovedBackbone,
    MovedEncoder,
    choice,
    data_option,
    print_json,
    several,
)


def search(
    index: Annotated[str, typer.Argument(help="An index (a folder, or milvus+URL), or a file of codes.")],
    model: Annotated[Path | None, typer.Option(help="A folder that 'lbhash train' wrote; for rows as queries.")] = None,
    backbone: MovedBackbone = None,
    encoder: MovedEncoder = None,
    data: Annotated[
        str | None,
        data_option("The data of --row: a file of embeddings or images, 'digits' or 'characters'."),
    ] = None,
    row: Annotated[
        list[str] | None, several("Queries: rows of --data, counted from 0, such as 3,7, 0-5, 0:100 or all.")
    ] = None,
    image: Annotated[
        list[str] | None, typer.Option(help="Queries: an image file, a folder of them, or - for standard input.")
    ] = None,
    text: Annotated[
        list[str] | None, typer.Option(help="A query: a text, for a model that was trained on texts.")
    ] = None,
    code: Annotated[list[str] | None, several("Queries: the hexadecimal digits of codes.")] = None,
    k: Annotated[
        int | None, typer.Option("-k", help="How many neighbors; 10 if not given.", show_default=False)
    ] = None,
    radius: Annotated[int | None, typer.Option(help="All codes within this distance, instead of -k.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="Only codes like 'label = 3', '20 <= price < 50', 'color in (red, blue)' or 'size is null'."),
    ] = None,
    rerank: Annotated[
        Literal["outputs", "embeddings"] | None,
        choice("Rank candidates again, by the vectors of 'index build --vectors'."),
    ] = None,
    candidates: Annotated[
        int | None, typer.Option(help="How many candidates to rank again; 100 if not given.", show_default=False)
    ] = None,
    hamming: Annotated[
        bool, typer.Option("--hamming", help="Rank by the bits that differ, not by the real outputs of the queries.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the neighbors as .parquet or .csv (formulas in a .csv get an apostrophe)."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Find the codes nearest to rows of data, images, texts or codes."""
    from lbhash.pipeline import search as searches

    query: dict[str, Any] = {"model": model, "encoder": encoder, "backbone": backbone}
    query |= {"data": data, "rows": row or (), "codes": code or ()}
    query |= {"images": image or (), "texts": text or ()}
    found = searches.search(
        index,
        **query,
        k=k,
        radius=radius,
        where=where or (),
        rerank=rerank,
        candidates=candidates,
        hamming=hamming,
        out=out,
    )
    if as_json:
        print_json(found)
    elif out is not None:
        typer.echo(f"{sum(len(answer['neighbors']) for answer in found['queries']):,} neighbors are in {out}")
    else:
        from lbhash.cli.tables import print_neighbors

        for answer in found["queries"]:
            print_neighbors(answer, found["ranking"])
