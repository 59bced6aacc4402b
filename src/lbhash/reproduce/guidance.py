"""The paper's guidance compared with arranged centers and with a balanced weight, on rows held out of training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from lbhash.centers.targets import ARRANGED, DESIGNED
from lbhash.losses import METHODS as HOSTS
from lbhash.losses import uses_centers
from lbhash.reproduce.results import Interval, Record, Result, lift_counts, plots
from lbhash.reproduce.runs import METHOD_TITLES, METHODS, Settings
from lbhash.reproduce.runs.runner import BITS, RunConfig, completed, grid, with_setting
from lbhash.reproduce.texts import text

PAPER, OWN, BALANCED, ALONE = "paper", "arranged", "balanced", "arranged, no guidance"
HOST = ("plain", DESIGNED)
COMPARED = {
    PAPER: ("guided", DESIGNED),
    OWN: ("guided", ARRANGED),
    BALANCED: ("balanced", ARRANGED),
    ALONE: ("plain", ARRANGED),
}
"""The recipe of the guidance and the kind of centers of each row; the last row gains by its centers alone."""
DIFFERENCE = f"{OWN} − {PAPER}"
DIFFERENCES = {DIFFERENCE: OWN, f"{BALANCED} − {PAPER}": BALANCED}
"""Rows of one recipe's lift minus the paper's, and which recipe it is."""

HELD_OUT = """on rows held out of the training split; each seed has a cut of its own, so that the intervals
are over the cut of the rows, too"""


class Lifts(NamedTuple):
    """A host's mAP in %, and what each recipe adds to it in points or adds more than the paper's, a value a seed."""

    config: RunConfig
    host: npt.NDArray[np.float64]
    added: dict[str, npt.NDArray[np.float64]]


def configs(settings: Settings, *, validation: bool = True) -> list[RunConfig]:
    """Return the runs of every host, plain and by each recipe, on validation rows or else on the data's queries."""
    sources = [replace(source, validation=validation) for source in settings.all_sources()]
    methods = settings.methods_or(*METHODS)
    trained = [(method, *of) for method in methods for of in (HOST, *_added(method).values())]
    return grid(settings, BITS, trained, sources=sources)


def run(settings: Settings, *, validation: bool = True) -> Result:
    """Return how often the guidance helps with either centers, and the lifts of all cells."""
    done = completed(settings, configs(settings, validation=validation))
    maps = {one.config: 100 * one.values("report", "map") for one in done}
    lifts = []
    for config, host in maps.items():
        if (config.recipe, config.centers) == HOST:
            added = {
                name: maps[replace(config, recipe=recipe, centers=centers)] - host
                for name, (recipe, centers) in _added(config.method).items()
            }
            added |= {row: added[recipe] - added[PAPER] for row, recipe in DIFFERENCES.items()}
            lifts.append(Lifts(config, host, added))
    rows = "held-out rows" if validation else "the queries"
    about = text(
        "guidance",
        where=HELD_OUT if validation else "on the data's own queries",
        weights=", ".join(f"{_weight(name):g} for {METHOD_TITLES[name]}" for name in METHODS if _weight(name) != 1),
        centers=DESIGNED,
        arranged=ARRANGED,
        differences=", ".join(DIFFERENCES),
    )
    cells = [cell(one) for one in lifts]
    more = Result.of("Lifts of all cells", cells, text("guidance-cells"), lifts_figure(cells, "symlog"))
    return Result.of(
        f"Guidance on {rows}: the paper's recipe, with arranged centers, and in balance with the host",
        summary(lifts),
        with_setting(about, settings, dict.fromkeys(config.source for config in maps)),
        lifts_figure(cells, "linear"),
        {"cells": more},
    )


def summary(lifts: Sequence[Lifts]) -> list[Record]:
    """Return for each recipe the mean lift, how often it is above 0, and the lowest, on each set of data and on all.

    The last rows are of the own recipes' lifts minus the paper's, with the same seeds.
    """
    names = dict.fromkeys(lift.config.source.name for lift in lifts)
    groups = [(name, [lift for lift in lifts if lift.config.source.name == name]) for name in names]
    if len(groups) > 1:
        groups.append(("all", list(lifts)))
    records: list[Record] = []
    for recipe in (PAPER, OWN, BALANCED, *DIFFERENCES):
        for group, own in groups:
            added = [lift.added[recipe] for lift in own]
            place = int(np.argmin(np.mean(added, axis=1)))
            head = own[place].config.head
            where = f"{head['method']}, {head['bits']} bits" + f", {head['data']}" * (group == "all")
            record: Record = {"recipe": recipe, "data": group, "cells": len(own)}
            record |= {"mean lift": Interval.of(np.mean(added, axis=0)), **lift_counts(list(map(Interval.of, added)))}
            records.append(record | {"lowest lift": Interval.of(added[place]), "of": where})
    return records


def cell(lifts: Lifts) -> Record:
    """Return the lifts of each recipe in a cell; the balanced one only if its weight is not the paper's."""
    found = {name: Interval.of(values) for name, values in lifts.added.items()}
    return {
        **lifts.config.head,
        "host": Interval.of(lifts.host),
        **{f"lift, {name}": found[name] for name in (PAPER, OWN)},
        DIFFERENCE: found[DIFFERENCE],
        f"lift, {BALANCED}": found[BALANCED] if _weight(lifts.config.method) != 1 else None,
        f"lift, {ALONE}": found.get(ALONE),
    }


def lifts_figure(cells: Sequence[Record], scale: str) -> Callable[[], Figure]:
    """Draw the lifts by method; a "symlog" scale shows those near 0 and large ones."""
    shown = [
        {**{key: record[key] for key in ("data", "bits", "method")}, "recipe": name, "lift": record[f"lift, {name}"]}
        for record in cells
        for name in (PAPER, OWN, BALANCED)
    ]
    return plots.panels(shown, plots.draw_points, "method", "lift", "recipe", xlabel="lift in points", xscale=scale)


def _added(method: str) -> dict[str, tuple[str, str]]:
    """Return what is compared with the plain host; with the weight 1 "balanced" is the same as "arranged"."""
    found = COMPARED if _weight(method) != 1 else COMPARED | {BALANCED: COMPARED[OWN]}
    return {name: of for name, of in found.items() if name != ALONE or uses_centers(method, "none")}


def _weight(method: str) -> float:
    """Return the weight of the guidance in balance with the host's loss."""
    return HOSTS[method].guidance_weight
