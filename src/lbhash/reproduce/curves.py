"""The paper's curves: precision against recall, precision at K, and precision within a Hamming radius of 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lbhash.reproduce.host_guided import pair_configs as configs
from lbhash.reproduce.results import Interval, Record, Result
from lbhash.reproduce.results.plots import method_color, source_grid, source_panels
from lbhash.reproduce.runs import RunConfig, Settings, completed, row_head, with_setting
from lbhash.reproduce.texts import text

__all__ = ["configs", "run"]

RADIUS = 2
RECALLS = (0.1, 0.3, 0.5, 0.7, 0.9)
PLACES = (1, 10, 100, 1000)


@dataclass(frozen=True)
class Curves:
    """A run's curves in %, a value a seed; ``precision`` and ``recall`` are ``[seeds, ranks]``."""

    config: RunConfig
    within_radius: list[float]
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
            [100 * report["curve"]["precision"][min(RADIUS, config.bits)] for report in reports],
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

    def plot(self, axes: Axes, x: Any, y: Any, **style: Any) -> None:
        """Draw a line in the method's color; the host's is dashed."""
        config = self.config
        line = "-" if config.recipe == "guided" else "--"
        axes.plot(x, y, color=method_color(config.method), linestyle=line, linewidth=1.4, label=config.title, **style)


def run(settings: Settings) -> Result:
    """Return precision within the radius, and both kinds of curves."""
    found = [Curves.of(*one) for one in completed(settings, configs(settings)).items()]
    recall = Result.of(
        "Precision against recall",
        [row_head(one.config) | {f"recall {100 * x:.0f} %": one.at_recall(x) for x in RECALLS} for one in found],
        text("curves-precision-recall"),
        lambda: curves_figure(found, "recall, %", lambda one: one.recall.mean(axis=0)),
    )
    places = Result.of(
        "Precision of the first K places",
        [row_head(one.config) | {f"K = {place:,}": one.at_place(place) for place in PLACES} for one in found],
        text("curves-precision-at-k"),
        lambda: curves_figure(found, "K", lambda one: one.ranks, xscale="log"),
    )
    records: list[Record] = []
    for host, guided in zip(found[::2], found[1::2], strict=True):
        lifts = [b - a for a, b in zip(host.within_radius, guided.within_radius, strict=True)]
        values = {"host": host.within_radius, "guided": guided.within_radius, "lift": lifts}
        records.append(row_head(host.config) | {name: Interval.of(own) for name, own in values.items()})
    return Result.of(
        "Precision within a Hamming radius of 2",
        records,
        with_setting(text("curves"), settings),
        lambda: radius_figure(found),
        {"precision-recall": recall, "precision-at-k": places},
    )


def radius_figure(found: Sequence[Curves]) -> Figure:
    """Draw precision within the radius against the number of bits."""
    lengths = sorted({one.config.bits for one in found})
    figure, panels = source_panels((one.config.source for one in found), 5, 4, sharey=True)
    lines: dict[Any, list[Curves]] = {}
    for one in sorted(found, key=lambda one: one.config.bits):
        lines.setdefault((one.config.source, one.config.title), []).append(one)
    for (source, _), own in lines.items():
        values = [np.mean(one.within_radius) for one in own]
        own[0].plot(panels[source], range(len(lengths)), values, marker="o", markersize=4)
    for axes in panels.values():
        axes.set(xlabel="bits", ylabel="P@H≤2, %", ylim=(0, 101), xticks=range(len(lengths)))
        axes.set_xticklabels([str(length) for length in lengths])
    handles = next(iter(panels.values())).get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=6, fontsize=8)
    return figure


def curves_figure(found: Sequence[Curves], xlabel: str, x: Callable[[Curves], Any], xscale: str = "linear") -> Figure:
    """Draw precision, mean over the seeds, with a curve for each method."""
    figure, panels = source_grid(((one.config.source, one.config.bits) for one in found), 4.2, 3.4, sharey=True)
    for one in found:
        axes = panels[one.config.source, one.config.bits]
        one.plot(axes, x(one), one.precision.mean(axis=0))
        axes.set(xlabel=xlabel, xscale=xscale, ylabel="precision, %", ylim=(0, 101))
    handles = next(iter(panels.values())).get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=6, fontsize=8)
    return figure
