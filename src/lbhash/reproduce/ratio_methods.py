"""The paper's figure of mAP against the ratio over all methods, and what guidance does to both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from lbhash.evaluation.bound import quotient
from lbhash.reproduce.results import Interval, Record, Regression, Result
from lbhash.reproduce.results.plots import arrow, method_color, regression_line
from lbhash.reproduce.runs import (
    METHOD_TITLES,
    RunConfig,
    Settings,
    Source,
    completed,
    grid,
    pairs,
    row_head,
    with_setting,
)
from lbhash.reproduce.texts import text
from lbhash.utils.plotting import new_panels

BITS = (64,)

MAXIMUM, PERCENTILE = "max D_intra", "99.9 %"
BOUNDS = {MAXIMUM: "bound", PERCENTILE: "bound_99.9"}
"""The two ratios, and where a report has them."""


@dataclass(frozen=True)
class Point:
    """A method, host or guided: mAP in % and both ratios, a value a seed."""

    config: RunConfig
    map: Sequence[float]
    ratios: Mapping[str, Sequence[float]]

    @classmethod
    def of(cls, config: RunConfig, finals: Sequence[Mapping[str, Any]]) -> Point:
        """Return the point of a run with several seeds."""
        reports = [final["report"] for final in finals]
        ratios = {
            name: [quotient(report[bound]["inter"], report[bound]["intra"]) for report in reports]
            for name, bound in BOUNDS.items()
        }
        return cls(config, [100 * report["map"] for report in reports], ratios)


Panels = Mapping[tuple[Source, int], Sequence[Point]]


def configs(settings: Settings) -> list[RunConfig]:
    """Return the runs, which are some of those of ``map``."""
    return grid(settings, BITS, pairs(settings))


def run(settings: Settings) -> Result:
    """Return ratio and mAP of every method, and the line through them."""
    panels: dict[tuple[Source, int], list[Point]] = {}
    records: list[Record] = []
    for config, finals in completed(settings, configs(settings)).items():
        point = Point.of(config, finals)
        panels.setdefault((config.source, config.bits), []).append(point)
        ratio, of_most = (Interval.of_known(values) for values in point.ratios.values())
        values = {"mAP": Interval.of(point.map), "ratio": ratio, "ratio, 99.9 %": of_most}
        records.append(row_head(config) | values)
    fits: list[Record] = []
    for (source, bits), points in panels.items():
        for name in BOUNDS:
            line = regression(points, name)
            fits.append(
                {
                    "data": source.name,
                    "bits": bits,
                    "ratio": name,
                    "points": len(line.x) if line else None,
                    "slope": line.slope if line else None,
                    "Pearson's r": line.pearson if line else None,
                    "Spearman's ρ": line.spearman if line else None,
                }
            )
    fit = Result.of(
        "The line through all methods",
        fits,
        text("ratio-methods-line"),
        lambda: ratio_figure(panels, PERCENTILE),
        digits=3,
    )
    return Result.of(
        "mAP against the ratio, all methods",
        records,
        with_setting(text("ratio-methods"), settings),
        lambda: ratio_figure(panels, MAXIMUM),
        {"line": fit},
        digits=3,
    )


def regression(points: Sequence[Point], name: str) -> Regression | None:
    """Return the line through the means."""
    means = [Interval.of(point.ratios[name]).mean for point in points]
    return Regression.of(means, [Interval.of(point.map).mean for point in points])


def ratio_figure(panels: Panels, name: str) -> Figure:
    """Draw an arrow for each method from host to guided, and the regression line with its 95 % band."""
    figure, grid_of_axes = new_panels(len(panels), 5, 4.6)
    for axes, ((source, bits), points) in zip(grid_of_axes, panels.items(), strict=True):
        axes.set_title(f"{source.name}, {bits} bits")
        regression_line(axes, regression(points, name), band=True)
        ends: dict[str, list[tuple[float, float]]] = {}
        for point in points:
            method, ratios = point.config.method, point.ratios[name]
            ratio, mean = Interval.of(ratios).mean, Interval.of(point.map).mean
            if not np.isfinite(ratio):
                continue
            color = method_color(method)
            axes.plot(ratios, point.map, ".", color=color, markersize=4, alpha=0.4)
            fill, label = (color, METHOD_TITLES[method]) if point.config.recipe == "guided" else ("white", None)
            axes.plot(ratio, mean, "o", color=color, markerfacecolor=fill, markersize=7, label=label)
            ends.setdefault(method, []).append((ratio, mean))
        for method, both in ends.items():
            if len(both) == 2:
                arrow(axes, both[0], both[1], method_color(method), linewidth=1.5)
        intra = "99.9 % of D_intra" if name == PERCENTILE else name
        axes.set(xlabel=f"min D_inter / {intra}", ylabel="mAP, %")
    handles, names = grid_of_axes[0].get_legend_handles_labels()
    title = "host (hollow) → guided, mean over the seeds; dots are the seeds"
    figure.legend(handles, names, title=title, loc="outside lower center", ncols=6, frameon=False)
    return figure
