"""``lbhash compare``: what one's own data could be stored as, and what to take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lbhash.cli.commands.options import Data, Json, integers, new_data, print_json, several, with_options


@with_options(new_data)
def compare(
    data: Data,
    bits: Annotated[list[str] | None, several("Lengths of the codes; 16,32,64,128 if not given.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the results; a comparison that was interrupted goes on there.")
    ] = None,
    epochs: Annotated[int, typer.Option(help="Epochs of each network.")] = 30,
    seed: Annotated[int, typer.Option(help="Seed of everything.")] = 0,
    as_json: Json = False,
    **source: Any,
) -> None:
    """Compare codes of your data with what you could store instead, and say what to take."""
    from lbhash.cli.tables import print_table
    from lbhash.comparison.study import compare_dataset
    from lbhash.pipeline.splits import open_embedded
    from lbhash.utils.system import usable_cores

    lengths = integers(bits or ("16", "32", "64", "128"), "bits", "16,32,64")
    dataset, _ = open_embedded(data, **source)
    how: dict[str, Any] = {"epochs": epochs, "workers": usable_cores(), "progress": not as_json}
    found = compare_dataset(dataset, lengths, out, seed=seed, **how)
    if as_json:
        print_json({"about": dict(found.about), "recommended": found.sentences(), "lines": found.records()})
        return
    sizes = found.about["rows"]
    title = f"{dataset.name}: {sizes['train']:,} rows train, {sizes['base']:,} are stored, {sizes['query']:,} asked"
    rows = [cells[:-1] for cells in found.cells(found.frontier())]  # the milliseconds are on the page
    print_table(found.columns()[:-1], rows, title=title)
    typer.echo("later: mAP of classes that were left out of training; + embeddings: 100 found by codes, ranked again\n")
    for sentence in found.sentences():
        typer.echo(sentence)
    if out is not None:
        typer.echo(f"all {len(found.lines)} lines and the page are in {out}")
