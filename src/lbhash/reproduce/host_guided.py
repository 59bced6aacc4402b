"""A host method beside its guided form, cell by cell: the table, the lift, and the paper's figures beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lbhash.reproduce.paper import METHOD_TITLES, Pairs
from lbhash.reproduce.results.interval import LIFT_COUNTS, Interval, lift_counts
from lbhash.reproduce.results.result import Cell, Result
from lbhash.reproduce.runs.config import Cell as Run
from lbhash.reproduce.runs.grid import cell, completed, setting_text
from lbhash.reproduce.runs.settings import METHODS, Settings
from lbhash.reproduce.runs.sources import Source
from lbhash.utils.plotting import new_panels, palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BITS = (16, 32, 64)
GROUPS = {"pairwise methods": METHODS[:4], "GreedyHash and CSQ": METHODS[4:], "all methods": METHODS}
"""The methods that learn from pairs of rows, and those that have a target for each row."""

LIFT_TEXT = """The lift is what guidance adds to a host, X_D − X, in points. Both have the same seeds, and with a seed
the same first weights, batches and dropout, so that the interval is that of the paired differences: the mean over the
cells of a seed, then over the seeds, ± half a 95 % confidence interval (Student's t)."""

TABLE_TEXT = """{measure} in %, mean over the seeds ± half a 95 % confidence interval; the lift's is that of the
differences with the same seed."""


@dataclass(frozen=True)
class Measure:
    """What is compared.

    Attributes:
        name: as a table's title has it.
        of: the figure of a run, from 0 to 1, out of its final figures.
        paper: the paper's, by data.
    """

    name: str
    of: Callable[[dict[str, Any]], float]
    paper: Mapping[str, Pairs]


@dataclass(frozen=True)
class Pair:
    """A host and its guided form, in %, a value a seed; and what the paper has for them."""

    source: Source
    bits: int
    method: str
    host: Sequence[float]
    guided: Sequence[float]
    paper: tuple[float, float] | None

    def lifts(self) -> list[float]:
        """In points, a value a seed."""
        return [guided - host for host, guided in zip(self.host, self.guided, strict=True)]

    def paper_lift(self) -> float | None:
        """In points."""
        return None if self.paper is None else self.paper[1] - self.paper[0]


def pair_cells(settings: Settings, sources: Iterable[Source], lengths: Sequence[int] = BITS) -> list[Run]:
    """The trainings: every method, plain and guided, on every set of data, at these lengths where none are given."""
    return [
        cell(settings, source, method, recipe, bits)
        for source in sources
        for bits in settings.bits_or(*lengths)
        for method in settings.methods_or(*METHODS)
        for recipe in ("plain", "guided")
    ]


def compare(settings: Settings, sources: Sequence[Source], measure: Measure, text: str) -> Result:
    """The mean lifts, and a table of all cells for each set of data."""
    runs = completed(settings, pair_cells(settings, sources))
    pairs: dict[Source, list[Pair]] = {source: [] for source in sources}
    for source in sources:
        for bits in settings.bits_or(*BITS):
            for method in settings.methods_or(*METHODS):
                of_recipe = {
                    recipe: [100 * measure.of(runs.final(run, seed)) for seed in settings.all_seeds()]
                    for recipe in ("plain", "guided")
                    for run in [cell(settings, source, method, recipe, bits)]
                }
                known = measure.paper.get(source.column or "", {}).get(method, {}).get(bits)
                pairs[source].append(Pair(source, bits, method, of_recipe["plain"], of_recipe["guided"], known))
    all_pairs = [pair for of_source in pairs.values() for pair in of_source]
    return Result(
        f"{measure.name}: what guidance adds, in points",
        *lift_table(all_pairs),
        "\n\n".join([text, LIFT_TEXT, setting_text(settings, sources)]),
        lambda: draw_lifts(pairs),
        {source.name: table_of(measure, of_source) for source, of_source in pairs.items()},
        digits=2,
        paper={"lift, paper": "lift"} if any(pair.paper for pair in all_pairs) else {},
    )


def lift_table(pairs: Sequence[Pair]) -> tuple[list[str], list[list[Cell]]]:
    """Columns and rows of the mean lift over each group of methods, by data."""
    in_paper = any(pair.paper for pair in pairs)
    columns = ["data", "methods", "cells", "lift", *["lift, paper"] * in_paper, *LIFT_COUNTS]
    rows: list[list[Cell]] = []
    for source in dict.fromkeys(pair.source for pair in pairs):
        for group, methods in GROUPS.items():
            own = [pair for pair in pairs if pair.source == source and pair.method in methods]
            if not own:
                continue
            lifts = [Interval.of(pair.lifts()) for pair in own]
            mean = Interval.of(np.mean([pair.lifts() for pair in own], axis=0))
            known = [lift for pair in own if (lift := pair.paper_lift()) is not None]
            paper = float(np.mean(known)) if len(known) == len(own) else None
            rows.append([source.name, group, len(own), mean, *[paper] * in_paper, *lift_counts(lifts)])
    return columns, rows


def table_of(measure: Measure, pairs: Sequence[Pair]) -> Result:
    """All cells of a set of data, the paper's figures beside them where it has such data."""
    in_paper = any(pair.paper for pair in pairs)
    columns, rows = ["bits", "method"], []
    for name in ("host", "guided", "lift"):
        columns += [name, *[f"{name}, paper"] * in_paper]
    for pair in pairs:
        row: list[Cell] = [pair.bits, METHOD_TITLES[pair.method]]
        known = (None, None) if pair.paper is None else pair.paper
        beside = (*known, pair.paper_lift())
        for values, paper in zip((pair.host, pair.guided, pair.lifts()), beside, strict=True):
            row += [Interval.of(values), *[paper] * in_paper]
        rows.append(row)
    source = pairs[0].source
    return Result(
        f"{measure.name} on {source.name}",
        columns,
        rows,
        TABLE_TEXT.format(measure=measure.name),
        lambda: draw_pairs(measure, pairs),
        digits=2,
        paper={name: name.removesuffix(", paper") for name in columns if name.endswith(", paper")},
    )


def draw_lifts(pairs: Mapping[Source, Sequence[Pair]]) -> Figure:
    """The lift of every cell with its interval, a panel a set of data; the paper's as a star."""
    methods = [m for m in METHODS if any(pair.method == m for own in pairs.values() for pair in own)]
    lengths = sorted({pair.bits for own in pairs.values() for pair in own})
    figure, panels = new_panels(len(pairs), 5, 1.2 + 0.62 * len(methods), sharey=True)
    for axis, (source, own) in zip(panels, pairs.items(), strict=True):
        axis.axvline(0, color="0.3", linewidth=1)
        for place, bits, color in zip(_spread(len(lengths)), lengths, palette(len(lengths)), strict=True):
            for pair in own:
                if pair.bits == bits:
                    y, lift = methods.index(pair.method) + place, Interval.of(pair.lifts())
                    axis.errorbar(lift.mean, y, xerr=lift.half, fmt="o", capsize=3, markersize=5, color=color)
                    known = pair.paper_lift()
                    if known is not None:
                        axis.plot(known, y, "*", color=color, markeredgecolor="black", markersize=9)
            axis.plot([], [], "o", color=color, label=f"{bits} bits")
        axis.set(title=source.name, xlabel="lift in points")
        if any(pair.paper for pair in own):
            axis.plot([], [], "*", color="white", markeredgecolor="black", markersize=9, label="in the paper")
        _name_methods(axis, methods)
        axis.legend(fontsize=8)
    return figure


def draw_pairs(measure: Measure, pairs: Sequence[Pair]) -> Figure:
    """From host to guided, a panel a length of code; thin, the paper's."""
    methods = [m for m in METHODS if any(pair.method == m for pair in pairs)]
    lengths = sorted({pair.bits for pair in pairs})
    figure, panels = new_panels(len(lengths), 4.5, 1.5 + 0.55 * len(methods), sharey=True, sharex=True)
    colors = dict(zip(METHODS, palette(len(METHODS)), strict=True))
    for axis, bits in zip(panels, lengths, strict=True):
        for pair in (pair for pair in pairs if pair.bits == bits):
            y = methods.index(pair.method)
            color = colors[pair.method]
            host, guided = Interval.of(pair.host), Interval.of(pair.guided)
            arrow(axis, (host.mean, y - 0.1), (guided.mean, y + 0.1), color, linewidth=2)
            for value, shift, fill in ((host, -0.1, "white"), (guided, 0.1, color)):
                style = {"fmt": "o", "capsize": 3, "markersize": 6, "color": color, "markerfacecolor": fill}
                axis.errorbar(value.mean, y + shift, xerr=value.half, **style)
            if pair.paper:
                arrow(axis, (pair.paper[0], y + 0.35), (pair.paper[1], y + 0.35), "0.45", linewidth=1)
                axis.plot(pair.paper[0], y + 0.35, "|", color="0.45")
                axis.plot(pair.paper[1], y + 0.35, "*", color="0.45", markersize=6)
        axis.set(title=f"{bits} bits", xlabel=f"{measure.name}, %")
        _name_methods(axis, methods)
    last = panels[-1]
    left, right = last.get_xlim()
    last.set_xlim(max(0, left), min(100, right))  # an interval of few seeds goes beyond
    last.plot([], [], "o", color="0.3", markerfacecolor="white", label="host")
    last.plot([], [], "o", color="0.3", label="guided")
    if any(pair.paper for pair in pairs):
        last.plot([], [], "*-", color="0.45", linewidth=1, label="in the paper")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], color: Any, **style: Any) -> None:
    """From one point to another; the axes reach both."""
    axes.plot(*zip(start, end, strict=True), alpha=0)
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": color, "shrinkA": 4, "shrinkB": 4, **style})


def _spread(count: int) -> list[float]:
    """Places around 0 for so many marks of one row."""
    return list(np.linspace(-0.25, 0.25, count)) if count > 1 else [0.0]


def _name_methods(axes: Axes, methods: Sequence[str]) -> None:
    axes.set(yticks=range(len(methods)), ylim=(len(methods) - 0.5, -0.5))
    axes.set_yticklabels([METHOD_TITLES[method] for method in methods])
    axes.grid(visible=False, axis="y")
