"""Curves of evaluations, as images and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lbhash.evaluation.metrics import Curve
from lbhash.evaluation.report import Report
from lbhash.utils.files import check_folder, replacing, write_text
from lbhash.utils.plotting import new_figure, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def write_curves(reports: Mapping[str, Report], folder: str | Path) -> list[Path]:
    """Draw precision against recall, precision at K and precision within a radius, and write the points as CSV.

    Args:
        reports: evaluations by the name that the legend gives them; the CSV files have it in a column. A single one
            may have the name "", and goes without.
        folder: where ``precision_recall``, ``precision_at_k`` and ``precision_within_radius`` go, ``.png`` each, and
            ``ranks.csv`` and ``radii.csv``.

    Returns:
        The files.
    """
    out = Path(folder)
    check_folder(folder, "curves")
    figures = {
        "precision_recall.png": precision_recall_figure(reports, "rank"),
        "precision_at_k.png": precision_at_k_figure(reports),
        "precision_within_radius.png": radius_figure(reports),
    }
    for name, figure in figures.items():
        with replacing(out / name) as temporary:
            figure.savefig(temporary, format="png", dpi=150)
    ranks = {name: report.rank_curve for name, report in reports.items()}
    radii = {name: report.curve for name, report in reports.items()}
    write_text(out / "ranks.csv", _csv("k", ranks))
    write_text(out / "radii.csv", _csv("radius", radii))
    return [out / name for name in (*figures, "ranks.csv", "radii.csv")]


def precision_recall_figure(reports: Mapping[str, Report], by: Literal["radius", "rank"] = "radius") -> Figure:
    """Precision against recall as the Hamming radius or the rank grows, a curve an evaluation."""
    figure, (axes,) = new_figure(8, 4.5)
    for name, report, style in _styled(reports):
        curve = report.curve if by == "radius" else report.rank_curve
        axes.plot(curve.recall, curve.precision, label=name, **style)
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1.01), ylim=(0, 1.02))
    return _with_legend(figure, axes, reports)


def precision_at_k_figure(reports: Mapping[str, Report]) -> Figure:
    """Precision of the first K places, K on a logarithmic axis."""
    figure, (axes,) = new_figure(8, 4.5)
    for name, report, style in _styled(reports):
        axes.plot(report.rank_curve.at, report.rank_curve.precision, label=name, **style)
    axes.set(xscale="log", xlabel="K", ylabel="precision of the first K places", ylim=(0, 1.02))
    return _with_legend(figure, axes, reports)


def radius_figure(reports: Mapping[str, Report]) -> Figure:
    """Precision (and recall, thin) within each Hamming radius."""
    figure, (axes,) = new_figure(8, 4.5)
    for name, report, style in _styled(reports):
        axes.plot(report.curve.at, report.curve.precision, label=f"{name}, precision".strip(", "), **style)
        axes.plot(report.curve.at, report.curve.recall, **{**style, "linestyle": ":", "marker": ""})
    axes.plot([], [], color="0.4", linestyle=":", label="recall")
    axes.set(xlabel="Hamming radius in bits", ylabel="within the radius", ylim=(0, 1.02), xlim=(0, None))
    axes.legend()
    return figure


def _styled(reports: Mapping[str, Report]) -> Iterable[tuple[str, Report, dict[str, Any]]]:
    for (name, report), color in zip(reports.items(), palette(len(reports)), strict=True):
        plain = len(reports) > 1 and not name.endswith("_d")
        yield name, report, {"color": color, "linestyle": "--" if plain else "-", "marker": "o", "markersize": 3}


def _with_legend(figure: Figure, axes: Axes, reports: Mapping[str, Report]) -> Figure:
    if len(reports) > 1:
        axes.legend(title="method")
    return figure


def _csv(by: str, curves: Mapping[str, Curve]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    named = any(curves)  # one evaluation without a name needs no column for it
    writer.writerow(["name"] * named + [by, "precision", "recall"])
    for name, curve in curves.items():
        for point in zip(*(np.asarray(values).tolist() for values in curve), strict=True):
            writer.writerow([name] * named + list(point))
    return text.getvalue()
