"""Estimates of random joint distributions held against them: a file for each number of samples and each seed."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lbhash.reproduce.distributions import Joint, divergence
from lbhash.reproduce.results.interval import Interval
from lbhash.reproduce.runs.settings import Settings
from lbhash.training.schedule import Schedule
from lbhash.utils.formatting import number
from lbhash.utils.parallel import run_missing

KEPT = 2**8  # outcomes of estimates that are kept whole


@dataclass(frozen=True)
class Trial:
    """What estimates are made of.

    Attributes:
        samples: of the truth.
        seed: of truth and samples.
        schedule: of the surrogate's training; ``None`` for the estimates that need none.
        fresh: outputs that training has not seen; where it is not 0, further estimates of the surrogate use them.
    """

    samples: int
    seed: int
    schedule: Schedule | None
    fresh: int = 0

    def name(self, experiment: str) -> str:
        """Of its file: all that decides what is in it."""
        schedule = None if self.schedule is None else asdict(self.schedule)
        mark = zlib.crc32(json.dumps([schedule, self.fresh]).encode())
        return f"{experiment}-{self.samples}samples-seed{self.seed}-settings{mark:08x}"


@dataclass(frozen=True, eq=False)
class Scored:
    """Of each estimate by name, in nats.

    Attributes:
        there: KL(truth ‖ estimate), infinite where an outcome is taken to be impossible that is not.
        back: KL(estimate ‖ truth), finite where every true probability is above 0.
        joints: the estimates themselves, ``float64 [2**bits]``, of 8 bits at most.
    """

    there: dict[str, float]
    back: dict[str, float]
    joints: dict[str, Joint]


def scored(truth: Joint, estimates: Mapping[str, Joint]) -> dict[str, Any]:
    """Both KLs of each estimate, as JSON holds them: ``None`` for what is infinite."""
    there = {name: divergence(truth, joint) for name, joint in estimates.items()}
    back = {name: divergence(joint, truth) for name, joint in estimates.items()}
    return {
        "there": {name: value if math.isfinite(value) else None for name, value in there.items()},
        "back": {name: value if math.isfinite(value) else None for name, value in back.items()},
        "joints": {name: joint.tolist() for name, joint in estimates.items()} if len(truth) <= KEPT else {},
    }


def complete_trials(
    experiment: str, trials: Sequence[Trial], score: Callable[[Trial], dict[str, Any]], settings: Settings
) -> dict[Trial, Scored]:
    """Make the trials that have no file yet, several at a time.

    Args:
        experiment: which the files are named after.
        trials: which.
        score: makes ``scored`` of one, in a process of its own.
        settings: folder of the files and how many at a time.
    """
    longest_first = sorted(trials, key=lambda trial: -trial.samples)
    names = {trial: trial.name(experiment) for trial in longest_first}
    tasks = {name: (trial,) for trial, name in names.items()}
    held, _ = run_missing(tasks, score, settings.runs, settings.all_workers(), _said)
    return {trial: _read(held[name]) for trial, name in names.items()}


def over_seeds(found: Iterable[Mapping[str, float]]) -> dict[str, Interval]:
    """The seeds' values of each estimate, whose names all seeds have."""
    of_seeds = list(found)
    return {name: Interval.of(values[name] for values in of_seeds) for name in of_seeds[0]}


def _said(result: dict[str, Any]) -> str:
    return "KL of " + "; ".join(f"{name} {number(value, 4)}" for name, value in _read(result).there.items())


def _read(result: dict[str, Any]) -> Scored:
    there, back = (
        {name: math.inf if value is None else value for name, value in result[way].items()} for way in ("there", "back")
    )
    return Scored(there, back, {name: np.array(joint) for name, joint in result["joints"].items()})
