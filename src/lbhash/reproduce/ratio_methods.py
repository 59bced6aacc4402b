"""The paper's figure of mAP against the ratio over all methods, and what guidance does to both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lbhash.evaluation.bound import quotient
from lbhash.reproduce.host_guided import arrow, pair_cells
from lbhash.reproduce.paper import METHOD_TITLES
from lbhash.reproduce.results.interval import Interval, interval_of_some
from lbhash.reproduce.results.regression import Regression
from lbhash.reproduce.results.result import Cell, Result
from lbhash.reproduce.runs.config import Cell as Run
from lbhash.reproduce.runs.grid import completed, setting_text
from lbhash.reproduce.runs.settings import METHODS, Settings
from lbhash.reproduce.runs.sources import Source
from lbhash.utils.plotting import new_panels, palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BITS = (64,)

TEXT = """The ratio is that of the base's codes when training has ended, the smallest distance of two classes' centers
over the largest distance of a code from its own class's center; "99.9 %" takes that percentile of D_intra in the place
of its maximum. mAP is in %, mean over the seeds ± half a 95 % confidence interval (Student's t)."""

FIT_TEXT = """The line is the least squares of mAP on the ratio through the methods' means over the seeds, as in the
figure, host and guided alike: two points a method, since the seeds of a method are no further methods. The slope is in
points of mAP for a ratio that is larger by 1. Its 95 % band takes points as independent, which a host and its guided
form are not."""


@dataclass(frozen=True)
class Point:
    """A method, host or guided: mAP in % and both ratios, a value a seed."""

    source: Source
    bits: int
    method: str
    recipe: str
    map: Sequence[float]
    ratio: Sequence[float]
    ratio_of_most: Sequence[float]


def cells(settings: Settings) -> list[Run]:
    """The trainings, which are some of those of ``map``."""
    return pair_cells(settings, settings.all_sources(), BITS)


def run(settings: Settings) -> Result:
    """Ratio and mAP of every method, and the line through them."""
    wanted = cells(settings)
    runs = completed(settings, wanted)
    points = [point_of(c, [runs.final(c, seed)["report"] for seed in settings.all_seeds()]) for c in wanted]
    rows: list[list[Cell]] = [
        [
            point.source.name,
            point.bits,
            METHOD_TITLES[point.method] + ("_D" if point.recipe == "guided" else ""),
            Interval.of(point.map),
            interval_of_some(point.ratio),
            interval_of_some(point.ratio_of_most),
        ]
        for point in points
    ]
    groups = by_panel(points)
    fit = Result(
        "The line through all methods",
        ("data", "bits", "ratio", "points", "slope", "Pearson's r", "Spearman's ρ"),
        [row for (source, bits), own in groups.items() for row in line_rows(source, bits, own)],
        FIT_TEXT,
        lambda: draw(groups, most=True),
        digits=3,
    )
    return Result(
        "mAP against the ratio, all methods",
        ("data", "bits", "method", "mAP", "ratio", "ratio, 99.9 %"),
        rows,
        "\n\n".join([TEXT, setting_text(settings, settings.all_sources())]),
        lambda: draw(groups, most=False),
        {"line": fit},
        digits=3,
    )


def point_of(run: Run, reports: Sequence[Mapping[str, Any]]) -> Point:
    """Of the seeds' reports."""
    ratios = [
        [quotient(report[key]["inter"], report[key]["intra"]) for report in reports] for key in ("bound", "bound_99.9")
    ]
    return Point(run.source, run.bits, run.method, run.recipe, [100 * report["map"] for report in reports], *ratios)


def by_panel(points: Sequence[Point]) -> dict[tuple[Source, int], list[Point]]:
    """The points by data and length of code."""
    groups: dict[tuple[Source, int], list[Point]] = {}
    for point in points:
        groups.setdefault((point.source, point.bits), []).append(point)
    return groups


def regression(points: Sequence[Point], *, most: bool) -> Regression | None:
    """The line through the means."""
    means = [Interval.of(point.ratio_of_most if most else point.ratio).mean for point in points]
    return Regression.of(means, [Interval.of(point.map).mean for point in points])


def line_rows(source: Source, bits: int, points: Sequence[Point]) -> list[list[Cell]]:
    """The lines for the maximum of D_intra and for its 99.9th percentile."""
    rows: list[list[Cell]] = []
    for most in (False, True):
        line = regression(points, most=most)
        found: list[Cell] = [None] * 4 if line is None else [len(line.x), line.slope, line.pearson, line.spearman]
        rows.append([source.name, bits, "99.9 %" if most else "max D_intra", *found])
    return rows


def draw(groups: Mapping[tuple[Source, int], Sequence[Point]], *, most: bool) -> Figure:
    """An arrow a method from host to guided, over the regression line with its 95 % band."""
    figure, panels = new_panels(len(groups), 5, 4.6)
    colors = dict(zip(METHODS, palette(len(METHODS)), strict=True))
    for axis, ((source, bits), points) in zip(panels, groups.items(), strict=True):
        line = regression(points, most=most)
        said = f"{source.name}, {bits} bits"
        if line is not None:
            x = np.linspace(line.x.min(), line.x.max(), 100)
            axis.plot(x, line.line(x), color="0.3", linewidth=1.2)
            half = line.band(x)
            axis.fill_between(x, line.line(x) - half, line.line(x) + half, color="0.5", alpha=0.2, linewidth=0)
            said += f": r = {line.pearson:.2f}, ρ = {line.spearman:.2f}"
        ends: dict[str, list[tuple[float, float]]] = {}
        for point in points:
            ratios = point.ratio_of_most if most else point.ratio
            ratio, found = Interval.of(ratios).mean, Interval.of(point.map).mean
            if not np.isfinite(ratio):
                continue
            color, guided = colors[point.method], point.recipe == "guided"
            axis.plot(ratios, point.map, ".", color=color, markersize=4, alpha=0.4)
            fill, label = (color, METHOD_TITLES[point.method]) if guided else ("white", None)
            axis.plot(ratio, found, "o", color=color, markerfacecolor=fill, markersize=7, label=label)
            ends.setdefault(point.method, []).append((ratio, found))
        for method, both in ends.items():
            if len(both) == 2:
                arrow(axis, both[0], both[1], colors[method], linewidth=1.5)
        intra = "99.9 % of D_intra" if most else "max D_intra"
        axis.set(title=said, xlabel=f"min D_inter / {intra}", ylabel="mAP, %")
    handles, names = panels[0].get_legend_handles_labels()
    title = "host (hollow) → guided, mean over the seeds; dots are the seeds"
    figure.legend(handles, names, title=title, loc="outside lower center", ncols=6, frameon=False)
    return figure
