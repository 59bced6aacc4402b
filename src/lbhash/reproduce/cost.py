"""The paper's table of training time: seconds an epoch with guidance, BCE and Cauchy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lbhash.reproduce import paper
from lbhash.reproduce.convergence import BCE, LOSSES, NAMES
from lbhash.reproduce.results import Record, Result, panels
from lbhash.reproduce.runs import Settings, Source
from lbhash.reproduce.runs.trained import BITS, SECONDS, completed, grid, with_setting
from lbhash.reproduce.texts import text
from lbhash.trials.intervals import Interval

MOST_EPOCHS = 5


def run(settings: Settings) -> Result:
    """Return the seconds and their quotients; its runs are timed, so other experiments' runs do not serve."""
    settings = replace(settings, epochs=min(MOST_EPOCHS, settings.training()["epochs"]), workers=1)
    found: dict[tuple[Source, int, str], npt.NDArray[np.float64]] = {}
    for done in completed(settings, grid(settings, BITS, LOSSES.values(), SECONDS)):
        config, seconds = done.config, done.values(SECONDS)
        # The median of the epochs after the first, which includes setup; a single epoch counts.
        later = seconds[:, 1:] if seconds.shape[1] > 1 else seconds
        found[config.source, config.bits, NAMES[config.method, config.recipe]] = np.median(later, axis=1)
    records: list[Record] = []
    for (source, bits, name), of_seeds in found.items():
        known = paper.SECONDS[name].get(bits)
        record: Record = {"data": source.name, "bits": bits, "loss": name}
        record |= {"seconds": Interval.of(of_seeds), "seconds, paper": known}
        record["× BCE"] = Interval.of(np.divide(of_seeds, found[source, bits, BCE]))
        records.append(record | {"× BCE, paper": known and known / paper.SECONDS[BCE][bits]})
    shown = [record | {"seconds, paper": None} for record in records]  # the paper has a larger model
    figure = panels.points(shown, ["seconds", "× BCE"], "bits", "loss")
    about = with_setting(text("losses", "cost"), settings)
    return Result.of("Training seconds an epoch", records, about, figure, digits=3)
