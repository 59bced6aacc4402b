"""Plots of the curves of evaluations, and their points as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from lbhash.evaluation.metrics import Curve
from lbhash.evaluation.report import Report
from lbhash.utils.files import check_folder, replacing
from lbhash.utils.plotting import new_figure, palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")


def write_curves(reports: Mapping[str, Report], folder: str | Path) -> list[Path]:
    """Plot precision against recall, precision at K and within a radius, write the points as CSV, and return the files.

    The reports are named in the legend and in a column of the CSV files; a single one may have the name "".
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
    _write_csv(out / "ranks.csv", "k", {name: report.rank_curve for name, report in reports.items()})
    _write_csv(out / "radii.csv", "radius", {name: report.curve for name, report in reports.items()})
    return [out / name for name in (*figures, "ranks.csv", "radii.csv")]


def precision_recall_figure(reports: Mapping[str, Report], by: Literal["radius", "rank"] = "radius") -> Figure:
    """Plot precision against recall as the Hamming radius or the rank grows, with a curve for each evaluation."""
    curves = {name: report.curve if by == "radius" else report.rank_curve for name, report in reports.items()}
    points = {name: (curve.recall, curve.precision) for name, curve in curves.items()}
    return _figure(points, xlabel="recall", ylabel="precision", xlim=(0, 1.01), ylim=(0, 1.02))


def precision_at_k_figure(reports: Mapping[str, Report]) -> Figure:
    """Plot the precision of the first K places, K on a logarithmic axis."""
    points = {name: report.rank_curve[:2] for name, report in reports.items()}
    return _figure(points, xscale="log", xlabel="K", ylabel="precision of the first K places", ylim=(0, 1.02))


def radius_figure(reports: Mapping[str, Report]) -> Figure:
    """Plot precision (and recall, dotted) within each Hamming radius."""
    figure, (axes,) = new_figure(8, 4.5)
    for name, report, style in _styled(reports):
        axes.plot(*report.curve[:2], label=f"{name}, precision".strip(", "), **style)
        axes.plot(report.curve.at, report.curve.recall, **{**style, "linestyle": ":", "marker": ""})
    axes.plot([], [], color="0.4", linestyle=":", label="recall")
    axes.set(xlabel="Hamming radius in bits", ylabel="within the radius", ylim=(0, 1.02), xlim=(0, None))
    axes.legend()
    return figure


def _figure(points: Mapping[str, tuple[Any, Any]], **of_axes: Any) -> Figure:
    figure, (axes,) = new_figure(8, 4.5)
    for name, (x, y), style in _styled(points):
        axes.plot(x, y, label=name, **style)
    axes.set(**of_axes)
    if len(points) > 1:
        axes.legend(title="method")
    return figure


def _styled(named: Mapping[str, T]) -> Iterable[tuple[str, T, dict[str, Any]]]:
    for (name, item), color in zip(named.items(), palette(len(named)), strict=True):
        plain = len(named) > 1 and not name.endswith("_d")
        yield name, item, {"color": color, "linestyle": "--" if plain else "-", "marker": "o", "markersize": 3}


def _write_csv(path: Path, by: str, curves: Mapping[str, Curve]) -> None:
    named = any(curves)  # a single evaluation without a name needs no column for it
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["name"] * named + [by, "precision", "recall"])
        for name, curve in curves.items():
            writer.writerows([name] * named + list(point) for point in zip(*map(np.ndarray.tolist, curve), strict=True))
