"""The demo's report: one HTML file with its table, curves and images inside it."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np

from lbhash.cli.tables import RESULT_COLUMNS, result_row
from lbhash.data import Dataset
from lbhash.evaluation.plots import precision_recall_figure
from lbhash.evaluation.report import Report
from lbhash.utils.files import write_text
from lbhash.utils.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

matplotlib.use("agg")

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>lbhash: digits</title>
<style>
  :root {{ color-scheme: light dark; }}
  body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
  h1, h2 {{ line-height: 1.2; }}
  .wide {{ overflow-x: auto; }}
  table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
  th, td {{ padding: .35rem .8rem; text-align: right; border-bottom: 1px solid #8886; white-space: nowrap; }}
  th:first-child, td:first-child {{ text-align: left; }}
  img {{ max-width: 100%; background: #fff; border-radius: .4rem; }}
  small {{ opacity: .75; }}
</style>
</head>
<body>
<h1>Hash codes of handwritten digits</h1>
<p>{intro}</p>
<h2>Results</h2>
<div class="wide"><table>
<thead><tr>{head}</tr></thead>
<tbody>
{rows}
</tbody>
</table></div>
<p><small>mAP is the expectation over a random order of codes at equal distance; beside it what the worst and the best
order would give. D_inter is the smallest distance between two class centers of the base's codes, D_intra the largest
distance of a code from its own class's center; average precision is bounded from below by their ratio, up to a
constant. k-NN is the accuracy of a vote of the 100 nearest codes, seconds is the time of training. A name with _d is
guided.</small></p>
<h2>Precision and recall</h2>
<p>A point is a Hamming radius, from 0 bits on the left to {bits} on the right: what share of the codes within it is
relevant, and what share of the relevant ones it holds. A query that finds nothing has precision 0.</p>
<img alt="Precision against recall, one curve a method" src="{curves}">
<h2>Nearest neighbors</h2>
<p>Queries are on the left; to the right the {count} nearest codes of {searched}, with their Hamming distances. A red
frame marks another digit than the query's.</p>
<img alt="Queries and their nearest neighbors" src="{neighbors}">
<p><small>lbhash {version}, seed {seed}.</small></p>
</body>
</html>
"""


@dataclass(frozen=True)
class Neighborhood:
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
    """Write the report.

    Args:
        path: of the HTML file.
        results: a mapping a method, as ``lbhash.cli.tables.result_row`` takes it.
        reports: the evaluations by method, for the curves.
        dataset: whose rows are 8 × 8 images.
        found: the queries and their neighbors.
        searched: the method that was searched with.
        seed: to be named.
    """
    cells = "\n".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in result_row(result)) + "</tr>" for result in results
    )
    write_text(
        path,
        PAGE.format(
            intro=f"{len(dataset.train)} rows to train, {len(dataset.base)} in the base, {len(dataset.query)} queries.",
            head="".join(f"<th>{html.escape(name)}</th>" for name in RESULT_COLUMNS),
            rows=cells,
            curves=_png(precision_recall_figure(reports)),
            neighbors=_png(neighbors_figure(dataset, found)),
            bits=next(iter(reports.values())).bits,
            count=len(found[0].rows),
            searched=html.escape(searched),
            version=__version__,
            seed=seed,
        ),
    )


def bits_apart(distance: int) -> str:
    """A Hamming distance with its unit."""
    return f"{distance} bit" if distance == 1 else f"{distance} bits"


def neighbors_figure(dataset: Dataset, found: Sequence[Neighborhood]) -> Figure:
    """A row a query: its image, then its neighbors' with distance and, where the digit differs, a red frame."""
    from matplotlib.figure import Figure

    columns = 1 + len(found[0].rows)
    figure = Figure(figsize=(1.05 * columns, 1.35 * len(found)), layout="constrained")
    grid = figure.subplots(len(found), columns, squeeze=False)
    labels = _labels_by_row(dataset)
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


def _labels_by_row(dataset: Dataset) -> np.ndarray:
    labels = np.full(len(dataset.base.embeddings), -1)
    for part in (dataset.base, dataset.query):
        labels[part.rows] = part.labels
    return labels


def _png(figure: Figure) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=140)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
