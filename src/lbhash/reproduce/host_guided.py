"""Host methods compared with their guided forms: the table, the lift, and the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from lbhash.reproduce.paper import Pairs
from lbhash.reproduce.results import Interval, Record, Result, lift_counts
from lbhash.reproduce.results.plots import (
    arrow,
    method_color,
    name_methods,
    paper_star,
    source_panels,
)
from lbhash.reproduce.runs import (
    BITS,
    METHODS,
    RunConfig,
    Settings,
    Source,
    completed,
    grid,
    pairs,
    with_setting,
)
from lbhash.reproduce.texts import text
from lbhash.utils.plotting import new_panels, palette

GROUPS = {"pairwise methods": METHODS[:4], "GreedyHash and CSQ": METHODS[4:], "all methods": METHODS}
"""The methods that learn from pairs of rows, and those that have a target for each row."""


@dataclass(frozen=True)
class Measure:
    """A metric by which hosts are compared: its name, its value in a run's final metrics, and the paper's figures."""

    name: str
    of: Callable[[dict[str, Any]], float]
    paper: Mapping[str, Pairs]


@dataclass(frozen=True)
class Pair:
    """A host and its guided form in %, a value a seed, and the paper's figures for them."""

    config: RunConfig
    host: Sequence[float]
    guided: Sequence[float]
    paper: tuple[float, float] | None

    def lifts(self) -> list[float]:
        """Return the lift in points, a value a seed."""
        return [guided - host for host, guided in zip(self.host, self.guided, strict=True)]

    def paper_lift(self) -> float | None:
        """Return the paper's lift in points."""
        return None if self.paper is None else self.paper[1] - self.paper[0]


def pair_configs(settings: Settings, sources: Iterable[Source] | None = None) -> list[RunConfig]:
    """Return the runs: every method, plain and guided, on every set of data."""
    return grid(settings, BITS, pairs(settings), sources=sources)


def compare(settings: Settings, sources: Sequence[Source], measure: Measure, name: str) -> Result:
    """Return the mean lifts, and a table of all cells for each set of data; ``name`` is the experiment's."""
    found = completed(settings, pair_configs(settings, sources))
    values = {config: [100 * measure.of(final) for final in finals] for config, finals in found.items()}
    configs = list(values)
    all_pairs = []
    for host, guided in zip(configs[::2], configs[1::2], strict=True):
        known = measure.paper.get(host.source.column or "", {}).get(host.method, {}).get(host.bits)
        all_pairs.append(Pair(host, values[host], values[guided], known))
    by_source = {source: [pair for pair in all_pairs if pair.config.source == source] for source in sources}
    return Result.of(
        f"{measure.name}: what guidance adds, in points",
        lift_records(by_source),
        with_setting(text(name, "host-guided-lift"), settings, sources),
        lambda: lift_figure(by_source),
        {source.name: pair_table(measure, source, own) for source, own in by_source.items()},
    )


def lift_records(by_source: Mapping[Source, Sequence[Pair]]) -> list[Record]:
    """Return the mean lift of each group of methods on each set of data."""
    records = []
    for source, pairs_of_source in by_source.items():
        for group, methods in GROUPS.items():
            own = [pair for pair in pairs_of_source if pair.config.method in methods]
            if not own:
                continue
            known = [lift for pair in own if (lift := pair.paper_lift()) is not None]
            record: Record = {"data": source.name, "methods": group, "cells": len(own)}
            record["lift"] = Interval.of(np.mean([pair.lifts() for pair in own], axis=0))
            record["lift, paper"] = float(np.mean(known)) if len(known) == len(own) else None
            records.append(record | lift_counts([Interval.of(pair.lifts()) for pair in own]))
    return records


def pair_table(measure: Measure, source: Source, pairs: Sequence[Pair]) -> Result:
    """Return all cells of a set of data, with the paper's figures if it has such data."""
    records: list[Record] = []
    for pair in pairs:
        host, guided = pair.paper or (None, None)
        records.append(
            {
                "bits": pair.config.bits,
                "method": pair.config.title,
                "host": Interval.of(pair.host),
                "host, paper": host,
                "guided": Interval.of(pair.guided),
                "guided, paper": guided,
                "lift": Interval.of(pair.lifts()),
                "lift, paper": pair.paper_lift(),
            }
        )
    title, about = f"{measure.name} on {source.name}", text("host-guided", measure=measure.name)
    return Result.of(title, records, about, lambda: pair_figure(measure, pairs))


def lift_figure(by_source: Mapping[Source, Sequence[Pair]]) -> Figure:
    """Draw the lift of every cell with its interval, a panel a set of data, with a star for the paper's."""
    configs = [pair.config for own in by_source.values() for pair in own]
    methods = [method for method in METHODS if any(config.method == method for config in configs)]
    lengths = sorted({config.bits for config in configs})
    figure, panels = source_panels(by_source, 5, 1.2 + 0.62 * len(methods), sharey=True)
    shifts = np.linspace(-0.25, 0.25, len(lengths)) if len(lengths) > 1 else np.zeros(1)
    for source, axes in panels.items():
        axes.axvline(0, color="0.3", linewidth=1)
        for shift, bits, color in zip(shifts, lengths, palette(len(lengths)), strict=True):
            for pair in by_source[source]:
                if pair.config.bits != bits:
                    continue
                y, lift, known = methods.index(pair.config.method) + shift, Interval.of(pair.lifts()), pair.paper_lift()
                axes.errorbar(lift.mean, y, xerr=lift.half, fmt="o", capsize=3, markersize=5, color=color)
                if known is not None:
                    paper_star(axes, known, y, color)
            axes.plot([], [], "o", color=color, label=f"{bits} bits")
        axes.set(xlabel="lift in points")
        if any(pair.paper for pair in by_source[source]):
            paper_star(axes, [], [], "white", "in the paper")
        name_methods(axes, methods)
        axes.legend(fontsize=8)
    return figure


def pair_figure(measure: Measure, pairs: Sequence[Pair]) -> Figure:
    """Draw an arrow from host to guided, a panel a number of bits, with a thin one for the paper's."""
    methods = [method for method in METHODS if any(pair.config.method == method for pair in pairs)]
    lengths = sorted({pair.config.bits for pair in pairs})
    figure, panels = new_panels(len(lengths), 4.5, 1.5 + 0.55 * len(methods), sharey=True, sharex=True)
    for axes, bits in zip(panels, lengths, strict=True):
        for pair in (pair for pair in pairs if pair.config.bits == bits):
            y, color = methods.index(pair.config.method), method_color(pair.config.method)
            host, guided = Interval.of(pair.host), Interval.of(pair.guided)
            arrow(axes, (host.mean, y - 0.1), (guided.mean, y + 0.1), color, linewidth=2)
            for value, shift, fill in ((host, -0.1, "white"), (guided, 0.1, color)):
                style = {"fmt": "o", "capsize": 3, "markersize": 6, "color": color, "markerfacecolor": fill}
                axes.errorbar(value.mean, y + shift, xerr=value.half, **style)
            if pair.paper:
                arrow(axes, (pair.paper[0], y + 0.35), (pair.paper[1], y + 0.35), "0.45", linewidth=1)
                axes.plot(pair.paper[0], y + 0.35, "|", color="0.45")
                axes.plot(pair.paper[1], y + 0.35, "*", color="0.45", markersize=6)
        axes.set(title=f"{bits} bits", xlabel=f"{measure.name}, %")
        name_methods(axes, methods)
    last = panels[-1]
    left, right = last.get_xlim()
    last.set_xlim(max(0, left), min(100, right))  # the interval of a few seeds goes beyond
    last.plot([], [], "o", color="0.3", markerfacecolor="white", label="host")
    last.plot([], [], "o", color="0.3", label="guided")
    if any(pair.paper for pair in pairs):
        last.plot([], [], "*-", color="0.45", linewidth=1, label="in the paper")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure
