"""The paper's guidance beside the same with arranged centers and in balance, judged by rows held out of training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lbhash.centers.targets import ARRANGED, DESIGNED
from lbhash.reproduce.paper import METHOD_TITLES
from lbhash.reproduce.results.interval import LIFT_COUNTS, Interval, lift_counts
from lbhash.reproduce.results.result import Cell, Result
from lbhash.reproduce.runs.config import Cell as Run
from lbhash.reproduce.runs.grid import cell, completed, setting_text
from lbhash.reproduce.runs.settings import METHODS, Settings
from lbhash.reproduce.runs.sources import Source
from lbhash.utils.plotting import new_grid, palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BITS = (16, 32, 64)
HOST, PAPER, OWN, BALANCED, ALONE = "host", "paper", "arranged", "balanced", "arranged, no guidance"
COMPARED = {
    HOST: ("plain", DESIGNED),
    PAPER: ("guided", DESIGNED),
    OWN: ("guided", ARRANGED),
    BALANCED: ("balanced", ARRANGED),
    ALONE: ("plain", ARRANGED),
}
"""Recipe of the guidance and kind of the centers; what a host gains by the last is not the guidance's."""
DIFFERENCE = f"{OWN} − {PAPER}"
DIFFERENCES = {DIFFERENCE: OWN, f"{BALANCED} − {PAPER}": BALANCED}
"""Rows of one recipe's lift minus the paper's, and which recipe it is."""

TEXT = """mAP in %, {where}. The lift is X_D − X in points, with the same seeds and with
a seed the same first weights, batches and dropout of the inputs: the mean of the paired differences ± half a 95 %
confidence interval (Student's t).

- **paper**: Algorithm 1, with class centers of the kind "{centers}", which those hosts have, too, that have centers.
- **arranged**: the same with "{arranged}" centers, where classes are neighbors that are mistaken for each other by a
  linear model that has not seen the row's label (`lbhash.centers.arrange_centers`).
- **{balanced}**: arranged centers, and the guidance weighed against the host's own loss (`Objective.guidance_weight`):
  {weights}, and 1, the paper's, for the others, which makes it the same as "{arranged}".
- **{differences}**: by how much more they lift, in all columns of the row."""

HELD_OUT = """on rows held out of the training split; each seed has a draw of its own, so that the intervals
are over the draw of the rows, too"""


@dataclass(frozen=True)
class Lifts:
    """A host and what each recipe adds to it, a value a seed: mAP in %, and points."""

    source: Source
    bits: int
    method: str
    host: Sequence[float]
    added: dict[str, list[float]]

    def of(self, row: str) -> list[float]:
        """What a row of the summary is about, in points: what a recipe adds, or by how much it adds more."""
        if row in DIFFERENCES:
            return np.subtract(self.added[DIFFERENCES[row]], self.added[PAPER]).tolist()
        return self.added[row]


def cells(settings: Settings) -> list[Run]:
    """The trainings."""
    return trainings(settings, _held_out(settings))


def run(settings: Settings) -> Result:
    """How often the guidance helps with either centers, and the lifts of all cells."""
    return compared(settings, _held_out(settings), "Guidance on held-out rows", HELD_OUT)


def trainings(settings: Settings, sources: Sequence[Source]) -> list[Run]:
    """Of every host plain, and by each recipe."""
    return [
        _cell(settings, source, method, recipe, bits)
        for source in sources
        for bits in settings.bits_or(*BITS)
        for method in settings.methods_or(*METHODS)
        for recipe in (HOST, *_added(method))
    ]


def compared(settings: Settings, sources: Sequence[Source], title: str, where: str) -> Result:
    """What the guidance does on these data; ``where`` says in the text which rows judge it."""
    runs = completed(settings, trainings(settings, sources))

    def maps(source: Source, bits: int, method: str, recipe: str) -> list[float]:
        of = _cell(settings, source, method, recipe, bits)
        return [100 * runs.final(of, seed)["report"]["map"] for seed in settings.all_seeds()]

    lifts = []
    for source in sources:
        for bits in settings.bits_or(*BITS):
            for method in settings.methods_or(*METHODS):
                host = maps(source, bits, method, HOST)
                added = {name: np.subtract(maps(source, bits, method, name), host).tolist() for name in _added(method)}
                lifts.append(Lifts(source, bits, method, host, added))
    text = TEXT.format(
        where=where,
        centers=DESIGNED,
        arranged=ARRANGED,
        balanced=BALANCED,
        weights=", ".join(f"{_weight(name):g} for {METHOD_TITLES[name]}" for name in METHODS if _weight(name) != 1),
        differences=", ".join(DIFFERENCES),
    )
    return Result(
        f"{title}: the paper's recipe, with arranged centers, and in balance with the host",
        ("recipe", "data", "cells", "mean lift", *LIFT_COUNTS, "lowest lift", "of"),
        summary(lifts),
        "\n\n".join([text, setting_text(settings, sources)]),
        lambda: draw(lifts),
        {"cells": all_cells(lifts)},
        digits=2,
    )


def summary(lifts: Sequence[Lifts]) -> list[list[Cell]]:
    """Of each recipe on each set of data, and on all of them: the mean lift, how often it is above 0, the lowest.

    The last rows are of the own recipes' lifts minus the paper's, with the same seeds.
    """
    rows: list[list[Cell]] = []
    sources = dict.fromkeys(lift.source for lift in lifts)
    groups = [(source.name, [lift for lift in lifts if lift.source == source]) for source in sources]
    if len(groups) > 1:
        groups.append(("all", list(lifts)))
    for recipe in (PAPER, OWN, BALANCED, *DIFFERENCES):
        for group, own in groups:
            lowest = min(own, key=lambda lift: float(np.mean(lift.of(recipe))))
            of = f"{METHOD_TITLES[lowest.method]}, {lowest.bits} bits" + (f", {lowest.source.name}" * (group == "all"))
            counts = lift_counts([Interval.of(lift.of(recipe)) for lift in own])
            mean = Interval.of(np.mean([lift.of(recipe) for lift in own], axis=0))
            rows.append([recipe, group, len(own), mean, *counts, Interval.of(lowest.of(recipe)), of])
    return rows


def all_cells(lifts: Sequence[Lifts]) -> Result:
    """The lift of each recipe in every cell."""
    lift_columns = [f"lift, {PAPER}", f"lift, {OWN}", DIFFERENCE, f"lift, {BALANCED}", f"lift, {ALONE}"]
    return Result(
        "Lifts of all cells",
        ("data", "bits", "method", "host", *lift_columns),
        [
            [
                lift.source.name,
                lift.bits,
                METHOD_TITLES[lift.method],
                Interval.of(lift.host),
                *(Interval.of(lift.of(recipe)) for recipe in (PAPER, OWN, DIFFERENCE)),
                Interval.of(lift.added[BALANCED]) if _weight(lift.method) != 1 else None,
                Interval.of(lift.added[ALONE]) if ALONE in lift.added else None,
            ]
            for lift in lifts
        ],
        f'As above, cell by cell; "{BALANCED}" where it is not the same as "{OWN}", and of the host that has centers '
        "also what arranged ones do without any guidance.",
        lambda: draw(lifts, limit=6.0),
        digits=2,
    )


def draw(lifts: Sequence[Lifts], limit: float | None = None) -> Figure:
    """Lifts by method, a row of panels a set of data and a panel a length; those beyond ``limit`` as numbers."""
    sources = list(dict.fromkeys(lift.source for lift in lifts))
    lengths = sorted({lift.bits for lift in lifts})
    methods = [method for method in METHODS if any(lift.method == method for lift in lifts)]
    figure, grid = new_grid(len(sources), len(lengths), 4.2, 0.9 + 0.45 * len(methods), sharey=True, sharex="row")
    for axes, source in zip(grid, sources, strict=True):
        for axis, bits in zip(axes, lengths, strict=True):
            axis.axvline(0, color="0.3", linewidth=1)
            for recipe, color, shift in zip((PAPER, OWN, BALANCED), palette(3), (-0.3, 0, 0.3), strict=True):
                for lift in lifts:
                    shown = recipe != BALANCED or _weight(lift.method) != 1
                    if shown and (lift.source, lift.bits) == (source, bits):
                        found = Interval.of(lift.added[recipe])
                        place = methods.index(lift.method) + shift
                        if limit is not None and abs(found.mean) > limit:  # an arrow at the edge, with the number
                            right = found.mean > 0
                            edge, sign = (limit, "→") if right else (-limit, "←")
                            words: dict[str, Any] = {"ha": "right" if right else "left", "va": "center", "color": color}
                            axis.text(edge, place, f" {found.mean:+.1f} {sign} ", fontsize=9, **words)
                            continue
                        axis.errorbar(found.mean, place, xerr=found.half, fmt="o", capsize=3, color=color)
                axis.plot([], [], "o", color=color, label=recipe)
            axis.set(title=f"{source.name}, {bits} bits", yticks=range(len(methods)), ylim=(len(methods) - 0.5, -0.5))
            axis.set_yticklabels([METHOD_TITLES[method] for method in methods])
            axis.grid(visible=False, axis="y")
            if limit is not None:
                axis.set_xlim(-limit, limit)
    for axis in grid[-1]:
        axis.set_xlabel("lift in points")
    handles = grid[0][-1].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _held_out(settings: Settings) -> list[Source]:
    return [replace(source, validation=True) for source in settings.all_sources()]


def _cell(settings: Settings, source: Source, method: str, recipe: str, bits: int) -> Run:
    guidance, centers = COMPARED[recipe]
    if recipe == BALANCED and _weight(method) == 1:
        guidance, centers = COMPARED[OWN]  # the same runs
    return cell(settings, source, method, guidance, bits, centers=centers)


def _added(method: str) -> list[str]:
    """What is compared with the plain host."""
    from lbhash.losses import uses_centers

    return [PAPER, OWN, BALANCED, *([ALONE] if uses_centers(method, guided=False) else [])]


def _weight(method: str) -> float:
    """Of the guidance in balance with the host."""
    from lbhash.losses import METHODS as HOSTS

    return HOSTS[method].guidance_weight
