"""Options that several commands share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else on standard output.")]
Data = Annotated[
    str,
    typer.Option(
        help="'digits'; a .parquet, .npz or .npy file of embeddings; or a folder with the files train, base and query. "
        "The labels of NAME.npy are in NAME_labels.npy beside it."
    ),
]
Labels = Annotated[Path | None, typer.Option(help="An .npy with the labels of the file --data.")]
BaseFile = Annotated[Path | None, typer.Option(help="A file of the base rows; --data then holds the train rows.")]
QueryFile = Annotated[Path | None, typer.Option(help="A file of the query rows, together with --base.")]
Protocol = Annotated[
    str | None, typer.Option(help="How to draw the splits; the file's own flags where it is not given.")
]
SplitSeed = Annotated[int, typer.Option(help="Seed of the protocol's draw.")]
Model = Annotated[Path, typer.Option(help="A folder that 'lbhash train' wrote.")]


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))
