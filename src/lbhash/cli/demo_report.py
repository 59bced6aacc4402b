"""The demo's report: one HTML file that holds its table, curves and images."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from lbhash.cli.tables import RESULT_COLUMNS, result_row
from lbhash.data import Dataset
from lbhash.evaluation.plots import precision_recall_figure
from lbhash.evaluation.report import Report
from lbhash.utils.files import write_text
from lbhash.utils.html import png_url, render

matplotlib.use("agg")


class Neighborhood(NamedTuple):
    """A query and what a search found for it; ``rows`` are positions in the data set, nearest first."""

    query: int
    rows: np.ndarray
    distances: np.ndarray


def write_report(
    path: str | Path,
    results: Sequence[Mapping[str, Any]],
    reports: Mapping[str, Report],
    dataset: Dataset,
    found: Sequence[Neighborhood],
    *,
    searched: str,
    seed: int,
) -> None:
    """Write the report as one HTML file, with the results and evaluations by method and the neighbors it searched."""
    values: dict[str, Any] = {"searched": searched, "seed": seed, "columns": RESULT_COLUMNS}
    values |= {"train": len(dataset.train), "base": len(dataset.base), "queries": len(dataset.query)}
    values |= {"bits": next(iter(reports.values())).bits, "count": len(found[0].rows)}
    curves, neighbors = _png(precision_recall_figure(reports)), _png(neighbors_figure(dataset, found))
    rows = [result_row(result) for result in results]
    write_text(path, render("lbhash.cli", "demo.html", rows=rows, curves=curves, neighbors=neighbors, **values))


def bits_apart(distance: int) -> str:
    """Return a Hamming distance with its unit."""
    return f"{distance} bit" if distance == 1 else f"{distance} bits"


def neighbors_figure(dataset: Dataset, found: Sequence[Neighborhood]) -> Figure:
    """Draw a row for each query: its image, then its neighbors', with a red frame where the digit differs."""
    columns = 1 + len(found[0].rows)
    figure = Figure(figsize=(1.05 * columns, 1.35 * len(found)), layout="constrained")
    grid = figure.subplots(len(found), columns, squeeze=False)
    labels = np.full(len(dataset.base.embeddings), -1)
    for split in (dataset.base, dataset.query):
        labels[split.rows] = split.labels
    for axes_row, hood in zip(grid, found, strict=True):
        titles = ["query", *(bits_apart(distance) for distance in hood.distances)]
        for axes, row, title in zip(axes_row, (hood.query, *hood.rows), titles, strict=True):
            axes.imshow(dataset.base.embeddings[row].reshape(8, 8), cmap="gray_r")
            axes.set_title(title, fontsize=9)
            axes.set(xticks=[], yticks=[])
            wrong = labels[row] != labels[hood.query]
            for spine in axes.spines.values():
                spine.set(color="tab:red" if wrong else "0.8", linewidth=2.5 if wrong else 0.8)
    return figure


def _png(figure: Figure) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=140)
    return png_url(buffer.getvalue())
