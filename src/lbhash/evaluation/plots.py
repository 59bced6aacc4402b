"""Plots of the curves of evaluations, and their points as CSV."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lbhash.evaluation.report import Report
from lbhash.utils.files import replacing, write_csv
from lbhash.utils.paths import check_folder
from lbhash.utils.plotting import new_figure, palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_curves(report: Report, folder: str | Path) -> None:
    """Plot precision against recall, precision at K and within a radius, and write the points as CSV."""
    out = Path(folder)
    check_folder(folder, "curves")
    figures = {
        "precision_recall.png": precision_recall_figure({"": report}),
        "precision_at_k.png": precision_at_k_figure(report),
        "precision_within_radius.png": radius_figure(report),
    }
    for name, figure in figures.items():
        with replacing(out / name) as temporary:
            figure.savefig(temporary, format="png", dpi=150)
    for name, by, curve in (("ranks.csv", "k", report.rank_curve), ("radii.csv", "radius", report.curve)):
        write_csv(out / name, [(by, "precision", "recall"), *zip(*map(np.ndarray.tolist, curve), strict=True)])


def precision_recall_figure(reports: Mapping[str, Report]) -> Figure:
    """Plot precision against recall as the rank grows, with a curve for each evaluation."""
    figure, (axes,) = new_figure(8, 4.5)
    for (name, report), color in zip(reports.items(), palette(len(reports)), strict=True):
        curve, plain = report.rank_curve, len(reports) > 1 and not name.endswith("_d")
        axes.plot(curve.recall, curve.precision, label=name, **_style(color, "--" if plain else "-"))
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1.01), ylim=(0, 1.02))
    if len(reports) > 1:
        axes.legend(title="method")
    return figure


def precision_at_k_figure(report: Report) -> Figure:
    """Plot the precision of the first K places, K on a logarithmic axis."""
    figure, (axes,) = new_figure(8, 4.5)
    axes.plot(report.rank_curve.at, report.rank_curve.precision, **_style(*palette(1)))
    axes.set(xscale="log", xlabel="K", ylabel="precision of the first K places", ylim=(0, 1.02))
    return figure


def radius_figure(report: Report) -> Figure:
    """Plot precision (and recall, dotted) within each Hamming radius."""
    figure, (axes,) = new_figure(8, 4.5)
    (color,), curve = palette(1), report.curve
    axes.plot(curve.at, curve.precision, label="precision", **_style(color))
    axes.plot(curve.at, curve.recall, label="recall", color=color, linestyle=":")
    axes.set(xlabel="Hamming radius in bits", ylabel="within the radius", ylim=(0, 1.02), xlim=(0, None))
    axes.legend()
    return figure


def _style(color: str, line: str = "-") -> dict[str, Any]:
    return {"color": color, "linestyle": line, "marker": "o", "markersize": 3}
