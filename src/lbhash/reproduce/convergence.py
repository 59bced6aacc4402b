"""The paper's figure of how fast guidance, BCE and Cauchy converge in the same model."""

from __future__ import annotations

import numpy as np

from lbhash.reproduce.losses import LOSSES, NAMES
from lbhash.reproduce.ratio import Course, epochs_figure
from lbhash.reproduce.results import Interval, Record, Result
from lbhash.reproduce.runs import TRAJECTORY, RunConfig, Settings, Source, completed, grid, with_setting
from lbhash.reproduce.texts import text

BITS = (64,)
SHARE = 0.95


def configs(settings: Settings) -> list[RunConfig]:
    """Return the runs, with metrics by epoch."""
    return grid(settings, BITS, LOSSES.values(), TRAJECTORY)


def run(settings: Settings) -> Result:
    """Return how far and how fast each loss comes, and its curves by epoch."""
    panels: dict[tuple[Source, int], dict[str, Course]] = {}
    for config, of_seeds in completed(settings, configs(settings), TRAJECTORY).items():
        name = NAMES[config.method, config.recipe]
        panels.setdefault((config.source, config.bits), {})[name] = Course.of(of_seeds)
    records: list[Record] = []
    for (source, bits), courses in panels.items():
        best = np.max([course.map[:, -1] for course in courses.values()], axis=0)
        for name, course in courses.items():
            last = course.map[:, -1]
            records.append(
                {
                    "data": source.name,
                    "bits": bits,
                    "loss": name,
                    "mAP": Interval.of(last),
                    "epochs to 95 %": first_reaching(course, SHARE * last),
                    "epochs to 95 % of the best": first_reaching(course, SHARE * best),
                    "ratio": Interval.of_known(course.ratio[:, -1]),
                    "ratio, 99.9 %": Interval.of_known(course.ratio_of_most[:, -1]),
                }
            )
    return Result.of(
        "Guidance, BCE and Cauchy, each alone in the same model",
        records,
        with_setting(text("losses", "convergence"), settings),
        lambda: epochs_figure(panels),
    )


def first_reaching(course: Course, level: np.ndarray) -> Interval:
    """Return the first epoch, from 1, after which a seed's mAP has reached its level; infinite if none has."""
    reached = course.map >= level[:, None]
    return Interval.of(np.where(reached.any(axis=1), reached.argmax(axis=1) + 1.0, np.inf))
