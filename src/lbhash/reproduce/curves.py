"""The paper's curves: precision against recall, precision at K, and precision within a Hamming radius of 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.reproduce.host_guided import pair_cells
from lbhash.reproduce.paper import METHOD_TITLES
from lbhash.reproduce.results.interval import Interval
from lbhash.reproduce.results.result import Cell, Result
from lbhash.reproduce.runs.config import Cell as Run
from lbhash.reproduce.runs.grid import completed, setting_text
from lbhash.reproduce.runs.settings import METHODS, Settings
from lbhash.utils.plotting import new_grid, new_panels, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RADIUS = 2
RECALLS = (0.1, 0.3, 0.5, 0.7, 0.9)
PLACES = (1, 10, 100, 1000)

TEXT = """P@H≤2 is the mean precision among the codes within a Hamming radius of 2 bits of a query, in %; a query that
finds none counts as 0, so that long codes, which leave most of that ball empty, score low by it. Mean over the seeds ±
half a 95 % confidence interval (Student's t); "lift" is guided minus host with the same seed, in points."""

RECALL_TEXT = """Mean precision in %, at a rank, against mean recall at that rank, over ranks from 1 to the whole base;
in the table read off by linear interpolation, and empty where the first place has a larger recall already. Mean over
the seeds ± half a 95 % confidence interval."""

PLACES_TEXT = "Mean precision of the first K places in %, mean over the seeds ± half a 95 % confidence interval."


@dataclass(frozen=True)
class Found:
    """A run's curves, a value a seed, in %."""

    run: Run
    within_radius: list[float]
    at: npt.NDArray[np.int64]
    precision: npt.NDArray[np.float64]
    recall: npt.NDArray[np.float64]

    @classmethod
    def of(cls, run: Run, reports: Sequence[Mapping[str, Any]]) -> Found:
        """Of the seeds' reports; ``precision`` and ``recall`` are ``[seeds, ranks]``."""
        curves = [report["rank_curve"] for report in reports]
        return cls(
            run,
            [100 * report["curve"]["precision"][min(RADIUS, run.bits)] for report in reports],
            np.array(curves[0]["rank"]),
            100 * np.array([curve["precision"] for curve in curves]),
            100 * np.array([curve["recall"] for curve in curves]),
        )

    @property
    def title(self) -> str:
        """As the paper writes the method."""
        return METHOD_TITLES[self.run.method] + ("_D" if self.run.recipe == "guided" else "")

    def at_recall(self, recall: float) -> Interval | None:
        """Precision where recall is so large."""
        if (self.recall[:, 0] > 100 * recall).any():
            return None
        pairs = zip(self.recall, self.precision, strict=True)
        return Interval.of(np.interp(100 * recall, own, precision) for own, precision in pairs)

    def at_place(self, place: int) -> Interval | None:
        """Precision of so many first places, between the ranks of the curve by their logarithm."""
        if place > self.at[-1]:
            return None
        return Interval.of(np.interp(np.log(place), np.log(self.at), own) for own in self.precision)


def cells(settings: Settings) -> list[Run]:
    """The trainings, which are those of ``map``."""
    return pair_cells(settings, settings.all_sources())


def run(settings: Settings) -> Result:
    """Precision within the radius, and both kinds of curves."""
    wanted = cells(settings)
    runs = completed(settings, wanted)
    found = [Found.of(c, [runs.final(c, seed)["report"] for seed in settings.all_seeds()]) for c in wanted]
    heads = ("data", "bits", "method")
    recall = Result(
        "Precision against recall",
        (*heads, *(f"recall {100 * recall:.0f} %" for recall in RECALLS)),
        [[*head(one), *(one.at_recall(recall) for recall in RECALLS)] for one in found],
        RECALL_TEXT,
        lambda: draw_grid(found, recall_curve, "recall, %"),
        digits=2,
    )
    places = Result(
        "Precision of the first K places",
        (*heads, *(f"K = {place:,}" for place in PLACES)),
        [[*head(one), *(one.at_place(place) for place in PLACES)] for one in found],
        PLACES_TEXT,
        lambda: draw_grid(found, place_curve, "K"),
        digits=2,
    )
    return Result(
        "Precision within a Hamming radius of 2",
        (*heads, "host", "guided", "lift"),
        radius_rows(found),
        "\n\n".join([TEXT, setting_text(settings, settings.all_sources())]),
        lambda: draw_radius(found),
        {"precision-recall": recall, "precision-at-k": places},
        digits=2,
    )


def head(found: Found) -> list[Cell]:
    """The first cells of a row."""
    return [found.run.source.name, found.run.bits, found.title]


def radius_rows(found: Sequence[Found]) -> list[list[Cell]]:
    """Host, guided and lift, a row a method and length of code."""
    rows: list[list[Cell]] = []
    for host, guided in zip(found[::2], found[1::2], strict=True):
        values = host.within_radius, guided.within_radius
        lifts = [b - a for a, b in zip(*values, strict=True)]
        rows.append([*head(host), *(Interval.of(own) for own in (*values, lifts))])
    return rows


def draw_radius(found: Sequence[Found]) -> Figure:
    """Precision within the radius against the length of the code, a panel a set of data."""
    sources = list(dict.fromkeys(one.run.source for one in found))
    lengths = sorted({one.run.bits for one in found})
    figure, panels = new_panels(len(sources), 5, 4, sharey=True)
    for axis, source in zip(panels, sources, strict=True):
        for method, recipe in dict.fromkeys((one.run.method, one.run.recipe) for one in found):
            key = (source, method, recipe)
            own = [one for one in found if (one.run.source, one.run.method, one.run.recipe) == key]
            values = [np.mean(one.within_radius) for one in sorted(own, key=lambda one: one.run.bits)]
            axis.plot(range(len(lengths)), values, marker="o", markersize=4, **style(own[0]))
        axis.set(title=source.name, xlabel="bits", ylabel="P@H≤2, %", ylim=(0, 101), xticks=range(len(lengths)))
        axis.set_xticklabels([str(length) for length in lengths])
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize=8)
    return figure


def draw_grid(found: Sequence[Found], curve: Any, xlabel: str) -> Figure:
    """A curve a method, a row of panels a set of data, a column a length of code."""
    sources, lengths = (
        list(dict.fromkeys(keys)) for keys in zip(*((o.run.source, o.run.bits) for o in found), strict=True)
    )
    figure, axes = new_grid(len(sources), len(lengths), 4.2, 3.4, sharey=True)
    for one in found:
        axis: Axes = axes[sources.index(one.run.source), lengths.index(one.run.bits)]
        curve(axis, one)
        axis.set(
            title=f"{one.run.source.name}, {one.run.bits} bits", xlabel=xlabel, ylabel="precision, %", ylim=(0, 101)
        )
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize=8)
    return figure


def recall_curve(axes: Axes, found: Found) -> None:
    """The mean over the seeds."""
    axes.plot(found.recall.mean(axis=0), found.precision.mean(axis=0), **style(found))


def place_curve(axes: Axes, found: Found) -> None:
    """The mean over the seeds."""
    axes.plot(found.at, found.precision.mean(axis=0), **style(found))
    axes.set_xscale("log")


def style(found: Found) -> dict[str, Any]:
    """A color a method; dashed is the host."""
    color = palette(len(METHODS))[METHODS.index(found.run.method)]
    line = "-" if found.run.recipe == "guided" else "--"
    return {"color": color, "linestyle": line, "linewidth": 1.4, "label": found.title}
