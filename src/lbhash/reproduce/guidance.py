"""The paper's guidance compared with arranged centers and with a balanced weight, on rows held out of training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lbhash.centers.targets import ARRANGED, DESIGNED
from lbhash.reproduce.results import Interval, Record, Result, lift_counts
from lbhash.reproduce.results.plots import name_methods, source_grid
from lbhash.reproduce.runs import (
    BITS,
    METHOD_TITLES,
    METHODS,
    RunConfig,
    Settings,
    completed,
    grid,
    row_head,
    with_setting,
)
from lbhash.reproduce.texts import text
from lbhash.utils.plotting import palette

HOST, PAPER, OWN, BALANCED, ALONE = "host", "paper", "arranged", "balanced", "arranged, no guidance"
COMPARED = {
    HOST: ("plain", DESIGNED),
    PAPER: ("guided", DESIGNED),
    OWN: ("guided", ARRANGED),
    BALANCED: ("balanced", ARRANGED),
    ALONE: ("plain", ARRANGED),
}
"""Recipe of the guidance and kind of the centers; what a host gains by the last is not due to guidance."""
DIFFERENCE = f"{OWN} − {PAPER}"
DIFFERENCES = {DIFFERENCE: OWN, f"{BALANCED} − {PAPER}": BALANCED}
"""Rows of one recipe's lift minus the paper's, and which recipe it is."""

HELD_OUT = """on rows held out of the training split; each seed has a cut of its own, so that the intervals
are over the cut of the rows, too"""


@dataclass(frozen=True)
class Lifts:
    """A host and what each recipe adds to it, a value a seed: mAP in %, and points."""

    config: RunConfig
    host: Sequence[float]
    added: dict[str, list[float]]

    @property
    def is_weighed(self) -> bool:
        """Whether the balanced weight differs from the paper's."""
        return _weight(self.config.method) != 1

    def of(self, row: str) -> list[float]:
        """Return a row of the summary in points: what a recipe adds, or by how much it adds more than the paper's."""
        if row in DIFFERENCES:
            return np.subtract(self.added[DIFFERENCES[row]], self.added[PAPER]).tolist()
        return self.added[row]


def configs(settings: Settings, *, validation: bool = True) -> list[RunConfig]:
    """Return the runs of every host, plain and by each recipe, on validation rows or else on the data's queries."""
    sources = [replace(source, validation=validation) for source in settings.all_sources()]
    methods = settings.methods_or(*METHODS)
    trained = [(method, *_choice(method, recipe)) for method in methods for recipe in (HOST, *_added(method))]
    return grid(settings, BITS, trained, sources=sources)


def run(settings: Settings, *, validation: bool = True) -> Result:
    """Return how often the guidance helps with either centers, and the lifts of all cells."""
    finals = completed(settings, configs(settings, validation=validation))
    maps = {config: [100 * final["report"]["map"] for final in of_seeds] for config, of_seeds in finals.items()}
    lifts = []
    for config, host in maps.items():
        if (config.recipe, config.centers) == COMPARED[HOST]:
            added = {}
            for name in _added(config.method):
                recipe, centers = _choice(config.method, name)
                guided = maps[replace(config, recipe=recipe, centers=centers)]
                added[name] = np.subtract(guided, host).tolist()
            lifts.append(Lifts(config, host, added))
    rows = "held-out rows" if validation else "the queries"
    about = text(
        "guidance",
        where=HELD_OUT if validation else "on the data's own queries",
        centers=DESIGNED,
        arranged=ARRANGED,
        weights=", ".join(f"{_weight(name):g} for {METHOD_TITLES[name]}" for name in METHODS if _weight(name) != 1),
        differences=", ".join(DIFFERENCES),
    )
    cells = Result.of(
        "Lifts of all cells", [cell(one) for one in lifts], text("guidance-cells"), lambda: lifts_figure(lifts, 6.0)
    )
    return Result.of(
        f"Guidance on {rows}: the paper's recipe, with arranged centers, and in balance with the host",
        summary(lifts),
        with_setting(about, settings, dict.fromkeys(config.source for config in maps)),
        lambda: lifts_figure(lifts),
        {"cells": cells},
    )


def summary(lifts: Sequence[Lifts]) -> list[Record]:
    """Return for each recipe the mean lift, how often it is above 0, and the lowest, on each set of data and on all.

    The last rows are of the own recipes' lifts minus the paper's, with the same seeds.
    """
    records: list[Record] = []
    sources = dict.fromkeys(lift.config.source for lift in lifts)
    groups = [(source.name, [lift for lift in lifts if lift.config.source == source]) for source in sources]
    if len(groups) > 1:
        groups.append(("all", list(lifts)))
    for recipe in (PAPER, OWN, BALANCED, *DIFFERENCES):
        for group, own in groups:
            mean = Interval.of(np.mean([lift.of(recipe) for lift in own], axis=0))
            lowest = min(own, key=lambda lift: float(np.mean(lift.of(recipe))))
            cell = f"{METHOD_TITLES[lowest.config.method]}, {lowest.config.bits} bits"
            records.append(
                {
                    "recipe": recipe,
                    "data": group,
                    "cells": len(own),
                    "mean lift": mean,
                    **lift_counts([Interval.of(lift.of(recipe)) for lift in own]),
                    "lowest lift": Interval.of(lowest.of(recipe)),
                    "of": cell + f", {lowest.config.source.name}" * (group == "all"),
                }
            )
    return records


def cell(lifts: Lifts) -> Record:
    """Return the lifts of each recipe in a cell."""
    return {
        **row_head(lifts.config),
        "host": Interval.of(lifts.host),
        f"lift, {PAPER}": Interval.of(lifts.of(PAPER)),
        f"lift, {OWN}": Interval.of(lifts.of(OWN)),
        DIFFERENCE: Interval.of(lifts.of(DIFFERENCE)),
        f"lift, {BALANCED}": Interval.of(lifts.of(BALANCED)) if lifts.is_weighed else None,
        f"lift, {ALONE}": Interval.of(lifts.of(ALONE)) if ALONE in lifts.added else None,
    }


def lifts_figure(lifts: Sequence[Lifts], limit: float | None = None) -> Figure:
    """Draw the lifts by method; those beyond ``limit`` as arrows with numbers."""
    methods = [method for method in METHODS if any(lift.config.method == method for lift in lifts)]
    keys = ((lift.config.source, lift.config.bits) for lift in sorted(lifts, key=lambda lift: lift.config.bits))
    figure, panels = source_grid(keys, 4.2, 0.9 + 0.45 * len(methods), sharey=True, sharex="row")
    last = lifts[-1].config.source
    for (source, bits), axes in panels.items():
        axes.axvline(0, color="0.3", linewidth=1)
        for recipe, color, shift in zip((PAPER, OWN, BALANCED), palette(3), (-0.3, 0, 0.3), strict=True):
            for lift in lifts:
                shown = recipe != BALANCED or lift.is_weighed
                if shown and (lift.config.source, lift.config.bits) == (source, bits):
                    place = methods.index(lift.config.method) + shift
                    _plot_lift(axes, Interval.of(lift.added[recipe]), place, color, limit)
            axes.plot([], [], "o", color=color, label=recipe)
        name_methods(axes, methods)
        if limit is not None:
            axes.set_xlim(-limit, limit)
        if source == last:
            axes.set_xlabel("lift in points")
    handles = axes.get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _plot_lift(axes: Axes, lift: Interval, place: float, color: Any, limit: float | None) -> None:
    if limit is None or abs(lift.mean) <= limit:
        axes.errorbar(lift.mean, place, xerr=lift.half, fmt="o", capsize=3, color=color)
        return
    edge, sign, side = (limit, "→", "right") if lift.mean > 0 else (-limit, "←", "left")
    style: dict[str, Any] = {"ha": side, "va": "center", "color": color, "fontsize": 9}
    axes.text(edge, place, f" {lift.mean:+.1f} {sign} ", **style)


def _choice(method: str, recipe: str) -> tuple[str, str]:
    """Return the guidance's recipe and the kind of centers; with the weight 1 "balanced" is the same as "arranged"."""
    return COMPARED[OWN if recipe == BALANCED and _weight(method) == 1 else recipe]


def _added(method: str) -> list[str]:
    """Return the recipes that are compared with the plain host."""
    from lbhash.losses import uses_centers

    return [PAPER, OWN, BALANCED, *([ALONE] if uses_centers(method, guided=False) else [])]


def _weight(method: str) -> float:
    """Return the weight of the guidance in balance with the host's loss."""
    from lbhash.losses import METHODS as HOSTS

    return HOSTS[method].guidance_weight
