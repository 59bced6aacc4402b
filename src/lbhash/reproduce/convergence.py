"""The paper's figure of how fast guidance, BCE and Cauchy converge in the same model."""

from __future__ import annotations

import numpy as np

from lbhash.reproduce.ratio import MAP, Course, at_epoch, by_epoch, course_of, epochs_figure
from lbhash.reproduce.results import Record, Result
from lbhash.reproduce.runs import Settings
from lbhash.reproduce.runs.trained import TRAJECTORY, completed, grid, with_setting
from lbhash.reproduce.texts import text
from lbhash.trials.intervals import Interval

BCE = "BCE"
LOSSES = {BCE: ("csq", "plain"), "Cauchy": ("dch", "plain"), "guidance": ("csq", "replace")}
"""Method and recipe by the loss's name."""
NAMES = {recipe: name for name, recipe in LOSSES.items()}
BITS = (64,)
SHARE = 0.95


def run(settings: Settings) -> Result:
    """Return the final mAP and the speed of each loss, and its curves by epoch."""
    done = completed(settings, grid(settings, BITS, LOSSES.values(), TRAJECTORY))
    courses = {one.config: course_of(one) for one in done}
    records: list[Record] = []
    epochs: list[Record] = []
    for config, course in courses.items():
        here = (config.source, config.bits)
        same = [one[MAP][:, -1] for other, one in courses.items() if (other.source, other.bits) == here]
        head: Record = {"data": config.source.name, "bits": config.bits, "loss": NAMES[config.method, config.recipe]}
        last, best = at_epoch(course, -1), np.max(same, axis=0)
        reached: Record = {
            "epochs to 95 %": first_reaching(course, SHARE * course[MAP][:, -1]),
            "epochs to 95 % of the best": first_reaching(course, SHARE * best),
        }
        records.append(head | {MAP: last[MAP]} | reached | last)
        epochs += [head | record for record in by_epoch(course)]
    return Result.of(
        "Guidance, BCE and Cauchy, each alone in the same model",
        records,
        with_setting(text("losses", "convergence"), settings),
        epochs_figure(epochs, "loss"),
    )


def first_reaching(course: Course, level: np.ndarray) -> Interval:
    """Return the first epoch, from 1, after which a seed's mAP has reached its level; infinite if none has."""
    reached = course[MAP] >= level[:, None]
    return Interval.of(np.where(reached.any(axis=1), reached.argmax(axis=1) + 1.0, np.inf))
