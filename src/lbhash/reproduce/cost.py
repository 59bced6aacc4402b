"""The paper's table of training time: seconds an epoch with guidance, BCE and Cauchy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lbhash.reproduce import paper
from lbhash.reproduce.losses import BCE, LOSSES
from lbhash.reproduce.losses import TEXT as LOSSES_TEXT
from lbhash.reproduce.results.interval import Interval
from lbhash.reproduce.results.result import Cell, Result
from lbhash.reproduce.runs.config import SECONDS
from lbhash.reproduce.runs.grid import cell, setting_text
from lbhash.reproduce.runs.settings import Settings
from lbhash.reproduce.runs.sources import Source
from lbhash.reproduce.runs.store import complete
from lbhash.utils.plotting import new_panels, palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BITS = (16, 32, 64)
MOST_EPOCHS = 5

TEXT = """Seconds of the processor for an epoch of training alone: one run at a time on one thread, which is the time
that it takes where nothing else runs, and the losses in turn, so that a slower hour of the machine meets all of them.
Each figure is the median of a run's epochs without the first, mean over the seeds ± half a 95 % confidence interval
(Student's t). "× BCE" is the quotient with BCE's seconds of the same seed. The paper's are of a ResNet-50 on an RTX
3090, where the network takes nearly all of the time: on embeddings the head is all there is, so that the quotient here
is what the loss costs at most."""

Times = Mapping[tuple[Source, int, str], Sequence[float]]


def run(settings: Settings) -> Result:
    """The seconds and their quotients."""
    settings = settings.lasting(min(MOST_EPOCHS, settings.all_epochs()))
    keys = [
        (source, bits, name) for source in settings.all_sources() for bits in settings.bits_or(*BITS) for name in LOSSES
    ]
    found: dict[tuple[Source, int, str], list[float]] = {key: [] for key in keys}
    for seed in settings.all_seeds():
        for source, bits, name in keys:
            wanted = cell(settings, source, *LOSSES[name], bits).wanting(SECONDS)
            runs = complete([wanted], [seed], settings.runs, workers=1)
            found[source, bits, name].append(typical(runs.seconds(wanted, seed)))
    in_paper = any(bits in paper.SECONDS[BCE] for _, bits, _ in keys)
    columns = ["data", "bits", "loss", "seconds", *["seconds, paper"] * in_paper, "× BCE", *["× BCE, paper"] * in_paper]
    return Result(
        "Training seconds an epoch",
        columns,
        rows_of(found, in_paper),
        "\n\n".join([LOSSES_TEXT, TEXT, setting_text(settings, settings.all_sources())]),
        lambda: draw(found),
        digits=3,
        paper={"× BCE, paper": "× BCE"} if in_paper else {},
    )


def typical(seconds: Sequence[float]) -> float:
    """The median of the epochs without the first, in which things are set up; of a single epoch, that one."""
    return float(np.median(seconds[1:] or seconds))


def rows_of(found: Times, in_paper: bool) -> list[list[Cell]]:
    """A row a loss."""
    rows: list[list[Cell]] = []
    for (source, bits, name), seconds in found.items():
        times = quotients(seconds, found[source, bits, BCE])
        known = paper.SECONDS[name].get(bits)
        quotient = None if known is None else known / paper.SECONDS[BCE][bits]
        beside = ([known], [quotient]) if in_paper else ([], [])
        rows.append([source.name, bits, name, Interval.of(seconds), *beside[0], times, *beside[1]])
    return rows


def quotients(seconds: Sequence[float], of_bce: Sequence[float]) -> Interval:
    """Those with the same seed."""
    return Interval.of([a / b for a, b in zip(seconds, of_bce, strict=True)])


def draw(found: Times) -> Figure:
    """Bars of seconds by length of code, a panel a set of data; above them the quotient with BCE."""
    sources, lengths, _ = (list(dict.fromkeys(keys)) for keys in zip(*found, strict=True))
    figure, panels = new_panels(len(sources), 5, 4)
    colors = dict(zip(LOSSES, palette(len(LOSSES)), strict=True))
    width = 0.8 / len(LOSSES)
    for (source, bits, name), seconds in found.items():
        axis = panels[sources.index(source)]
        at = lengths.index(bits) + width * (list(LOSSES).index(name) - (len(LOSSES) - 1) / 2)
        mean = Interval.of(seconds)
        label = name if bits == lengths[0] else None
        axis.bar(at, mean.mean, 0.95 * width, yerr=mean.half, capsize=3, color=colors[name], label=label)
        times = quotients(seconds, found[source, bits, BCE])
        axis.text(at, mean.mean + (mean.half or 0), f"× {times.mean:.2f}", ha="center", va="bottom", fontsize=8)
        axis.set(title=source.name, ylabel="seconds an epoch", xticks=range(len(lengths)))
        axis.set_xticklabels([f"{length} bits" for length in lengths])
        axis.grid(visible=False, axis="x")
        axis.margins(y=0.15)
    for axis in panels:
        axis.set_ylim(bottom=0)  # only now, for it ends the scaling by what is drawn
    panels[0].legend()
    return figure
