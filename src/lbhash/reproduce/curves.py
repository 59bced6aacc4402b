"""The paper's curves: precision against recall, precision at K, and precision within a Hamming radius of 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lbhash.reproduce.results import Interval, Record, Result, plots
from lbhash.reproduce.runs import Settings
from lbhash.reproduce.runs.runner import BITS, RunConfig, completed, grid, pairs, row_head, with_setting
from lbhash.reproduce.texts import text

RADIUS = 2
RECALLS = (0.1, 0.3, 0.5, 0.7, 0.9)
PLACES = (1, 10, 100, 1000)
RECALL, K, PRECISION = "recall, %", "K", "precision, %"


class Curves(NamedTuple):
    """A run's curves in %, a value a seed; ``precision`` and ``recall`` are ``[seeds, ranks]``."""

    config: RunConfig
    within_radius: npt.NDArray[np.float64]
    ranks: npt.NDArray[np.int64]
    precision: npt.NDArray[np.float64]
    recall: npt.NDArray[np.float64]

    @classmethod
    def of(cls, config: RunConfig, finals: Sequence[Mapping[str, Any]]) -> Curves:
        """Return the curves of a run with several seeds."""
        reports = [final["report"] for final in finals]
        curves = [report["rank_curve"] for report in reports]
        return cls(
            config,
            100 * np.array([report["curve"]["precision"][min(RADIUS, config.bits)] for report in reports]),
            np.array(curves[0]["rank"]),
            100 * np.array([curve["precision"] for curve in curves]),
            100 * np.array([curve["recall"] for curve in curves]),
        )

    def at_recall(self, recall: float) -> Interval | None:
        """Return the precision at a recall."""
        if (self.recall[:, 0] > 100 * recall).any():
            return None
        seeds = zip(self.recall, self.precision, strict=True)
        return Interval.of(np.interp(100 * recall, own, precision) for own, precision in seeds)

    def at_place(self, place: int) -> Interval | None:
        """Return the precision of the first places, interpolated between the curve's ranks by their logarithm."""
        if place > self.ranks[-1]:
            return None
        return Interval.of(np.interp(np.log(place), np.log(self.ranks), own) for own in self.precision)

    def records(self) -> list[Record]:
        """Return the means over the seeds at each rank."""
        x, y = self.recall.mean(axis=0), self.precision.mean(axis=0)
        head = row_head(self.config)
        return [head | {RECALL: a, K: rank, PRECISION: b} for a, rank, b in zip(x, self.ranks, y, strict=True)]


def configs(settings: Settings) -> list[RunConfig]:
    """Return the runs, which are those of ``map``."""
    return grid(settings, BITS, pairs(settings))


def run(settings: Settings) -> Result:
    """Return precision within the radius, and both kinds of curves."""
    found = [Curves.of(*one) for one in completed(settings, configs(settings)).items()]
    points = [record for one in found for record in one.records()]
    cells = [row_head(one.config) | {f"recall {100 * x:.0f} %": one.at_recall(x) for x in RECALLS} for one in found]
    figure = partial(plots.panel_figure, points, plots.draw_lines, RECALL, PRECISION, "method")
    recall = Result.of("Precision against recall", cells, text("curves-precision-recall"), figure)
    cells = [row_head(one.config) | {f"K = {place:,}": one.at_place(place) for place in PLACES} for one in found]
    figure = partial(plots.panel_figure, points, plots.draw_lines, K, PRECISION, "method", xscale="log")
    places = Result.of("Precision of the first K places", cells, text("curves-precision-at-k"), figure)
    records: list[Record] = []
    for host, guided in zip(found[::2], found[1::2], strict=True):
        values = {"host": host.within_radius, "guided": guided.within_radius}
        values["lift"] = values["guided"] - values["host"]
        records.append(row_head(host.config) | {name: Interval.of(own) for name, own in values.items()})
    radius = "P@H≤2, %"
    one_panel: dict[str, Any] = {"panels": ["data"], "xlabel": radius}
    bars = [row_head(one.config) | {radius: Interval.of(one.within_radius)} for one in found]
    figure = partial(plots.panel_figure, bars, plots.draw_points, "method", radius, "bits", **one_panel)
    more = {"precision-recall": recall, "precision-at-k": places}
    about = with_setting(text("curves"), settings)
    return Result.of("Precision within a Hamming radius of 2", records, about, figure, more)
