"""Plots of the curves of evaluations, and their points as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lbhash.evaluation.metrics import Curve
from lbhash.evaluation.report import Report
from lbhash.utils.files import check_folder, replacing
from lbhash.utils.plotting import new_figure, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def write_curves(reports: Mapping[str, Report], folder: str | Path) -> list[Path]:
    """Plot precision against recall, precision at K and precision within a radius, and write the points as CSV.

    Args:
        reports: evaluations by their names in the legend and in a column of the CSV files. A single one may have the
            name "", which is not shown.
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
    _write_csv(out / "ranks.csv", "k", ranks)
    _write_csv(out / "radii.csv", "radius", radii)
    return [out / name for name in (*figures, "ranks.csv", "radii.csv")]


def precision_recall_figure(reports: Mapping[str, Report], by: Literal["radius", "rank"] = "radius") -> Figure:
    """Plot precision against recall as the Hamming radius or the rank grows, with a curve for each evaluation."""
    figure, (axes,) = new_figure(8, 4.5)
    for name, report, style in _styled(reports):
        curve = report.curve if by == "radius" else report.rank_curve
        axes.plot(curve.recall, curve.precision, label=name, **style)
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1.01), ylim=(0, 1.02))
    return _with_legend(figure, axes, reports)


def precision_at_k_figure(reports: Mapping[str, Report]) -> Figure:
    """Plot the precision of the first K places, K on a logarithmic axis."""
    figure, (axes,) = new_figure(8, 4.5)
    for name, report, style in _styled(reports):
        axes.plot(report.rank_curve.at, report.rank_curve.precision, label=name, **style)
    axes.set(xscale="log", xlabel="K", ylabel="precision of the first K places", ylim=(0, 1.02))
    return _with_legend(figure, axes, reports)


def radius_figure(reports: Mapping[str, Report]) -> Figure:
    """Plot precision (and recall, dotted) within each Hamming radius."""
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


def _write_csv(path: Path, by: str, curves: Mapping[str, Curve]) -> None:
    named = any(curves)  # a single evaluation without a name needs no column for it
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["name"] * named + [by, "precision", "recall"])
        for name, curve in curves.items():
            writer.writerows([name] * named + list(point) for point in zip(*map(np.ndarray.tolist, curve), strict=True))
