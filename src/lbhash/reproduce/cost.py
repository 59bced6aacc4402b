"""The paper's table of training time: seconds an epoch with guidance, BCE and Cauchy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from lbhash.reproduce import paper
from lbhash.reproduce.losses import BCE, LOSSES, NAMES
from lbhash.reproduce.results import Interval, Record, Result
from lbhash.reproduce.results.plots import grouped_bars
from lbhash.reproduce.runs import BITS, SECONDS, Settings, Source, completed, grid, with_setting
from lbhash.reproduce.texts import text

MOST_EPOCHS = 5

Times = Mapping[tuple[Source, int, str], Sequence[float]]


def run(settings: Settings) -> Result:
    """Return the seconds and their quotients; its runs are timed, so that no other experiment makes them first."""
    settings = replace(settings, epochs=min(MOST_EPOCHS, settings.training()["epochs"]), workers=1)
    found: dict[tuple[Source, int, str], list[float]] = {}
    for seed in settings.all_seeds():
        for config in grid(settings, BITS, LOSSES.values(), SECONDS):
            once = replace(settings, seed=seed, seeds=1)
            ((seconds,),) = completed(once, [config], SECONDS).values()
            key = (config.source, config.bits, NAMES[config.method, config.recipe])
            found.setdefault(key, []).append(typical(seconds))
    records: list[Record] = []
    for (source, bits, name), seconds in found.items():
        known = paper.SECONDS[name].get(bits)
        records.append(
            {
                "data": source.name,
                "bits": bits,
                "loss": name,
                "seconds": Interval.of(seconds),
                "seconds, paper": known,
                "× BCE": quotients(seconds, found[source, bits, BCE]),
                "× BCE, paper": known and known / paper.SECONDS[BCE][bits],
            }
        )
    return Result.of(
        "Training seconds an epoch",
        records,
        with_setting(text("losses", "cost"), settings),
        lambda: seconds_figure(found),
        digits=3,
        paper={"seconds, paper": None},  # of another machine and a larger model
    )


def typical(seconds: Sequence[float]) -> float:
    """Return the median of the epochs without the first, in which things are set up; of a single epoch, that one."""
    return float(np.median(seconds[1:] or seconds))


def quotients(seconds: Sequence[float], of_bce: Sequence[float]) -> Interval:
    """Return the interval of the quotients with the same seed."""
    return Interval.of([a / b for a, b in zip(seconds, of_bce, strict=True)])


def seconds_figure(found: Times) -> Figure:
    """Draw bars of seconds, with the quotient with BCE above each."""
    figure, panels, bars = grouped_bars(found, list(LOSSES), "seconds an epoch", 5, 4)
    for (source, bits, name), (axes, place, _) in bars.items():
        seconds = found[source, bits, name]
        mean, times = Interval.of(seconds), quotients(seconds, found[source, bits, BCE])
        axes.text(place, mean.mean + (mean.half or 0), f"× {times.mean:.2f}", ha="center", va="bottom", fontsize=8)
    for axes in panels:
        axes.margins(y=0.15)
        axes.set_ylim(bottom=0)  # only now, because it ends the scaling by the bars
    panels[0].legend()
    return figure
