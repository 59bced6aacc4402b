"""``lbhash compare``: compare ways to store your data, and recommend one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lbhash.cli.commands.options import Data, Json, as_typed, integers, new_data, print_json, several, with_options


@with_options(new_data)
def compare(
    data: Data,
    bits: Annotated[list[str] | None, several("Lengths of the codes; 16,32,64,128 if not given.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the results; an interrupted comparison resumes there.")
    ] = None,
    count: Annotated[
        float | None, typer.Option(help="The expected number of rows, such as 10e6; that of DATA if not given.")
    ] = None,
    metadata: Annotated[
        list[str] | None,
        several("Columns of DATA, one table, to store with the rows, such as price,title: prints their memory."),
    ] = None,
    epochs: Annotated[int, typer.Option(help="Epochs of each network.")] = 30,
    seed: Annotated[int, typer.Option(help="Seed of everything.")] = 0,
    as_json: Json = False,
    **source: Any,
) -> None:
    """Compare codes of your data with the alternatives, and recommend one."""
    from lbhash.cli.tables import print_table
    from lbhash.comparison.result import amount
    from lbhash.comparison.study import compare_dataset
    from lbhash.pipeline.columns import metadata_bytes
    from lbhash.pipeline.splits import open_embedded
    from lbhash.utils.system import usable_cores

    lengths = integers(bits or ("16", "32", "64", "128"), "bits", "16,32,64")
    if count is not None and not (count >= 1 and count % 1 == 0):  # refuses NaN and infinity
        raise ValueError(f"count is {count:g}; it must be a whole number of rows from 1 on, such as 10e6")
    beside = metadata_bytes(data, metadata) if metadata else 0.0
    dataset, _ = open_embedded(data, **source)
    how: dict[str, Any] = {"epochs": epochs, "workers": usable_cores(), "progress": not as_json}
    count = None if count is None else int(count)
    read = as_typed(source)
    how["reading"] = {"train": f"{read} --freeze" if source["images"] else read, "index build": read}
    found = compare_dataset(dataset, lengths, out, count=count, seed=seed, **how)
    if as_json:
        print_json(found.as_dict() | {"metadata_bytes": round(beside, 1)})
        return
    rows = found.about["rows"]
    each = f"{rows['train']:,} training rows and {found.about['queries']:,} queries each"
    title = f"{dataset.name}, {found.about['splits']} splits, {each}"
    cells = [cells[:-1] for cells in found.cells(found.frontier())]  # the milliseconds are on the page
    print_table(found.columns()[:-1], cells, title=title)
    typer.echo("mAP: new rows; later: of classes that were left out of training; mixed: a fifth of these")
    typer.echo(f"recall: of the ten nearest among {rows['nearest']:,} rows; + 100 by int8: 100 found, ranked again\n")
    for sentence in found.sentences():
        typer.echo(sentence)
    typer.echo(f"{found.count:,} rows, without ids and metadata: {'; '.join(found.memory())}")
    if metadata:
        typer.echo(f"{', '.join(metadata)}: {beside:.0f} bytes a row, {amount(beside * found.count)} in memory")
    if out is not None:
        typer.echo(f"all {len(found.lines)} ways, and a page with the lines for the recommended ways, are in {out}")
