"""Estimates of random joint distributions compared with the truth: a file for each number of samples and each seed."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lbhash.reproduce.distributions import Joint, divergence, random_joint
from lbhash.reproduce.results import Interval
from lbhash.reproduce.runs import Settings
from lbhash.training.schedule import Schedule
from lbhash.utils.formatting import number
from lbhash.utils.parallel import run_missing

STORED_OUTCOMES = 2**8
"""Estimates of more outcomes are not stored."""


@dataclass(frozen=True)
class Trial:
    """What the estimates of a truth depend on.

    Attributes:
        samples: the number of samples of the truth.
        seed: the seed of truth and samples.
        schedule: the schedule of the surrogate's training; ``None`` without a surrogate.
        fresh: the number of outputs that training has not seen and that variants of the surrogate use; 0 for none.
    """

    samples: int
    seed: int
    schedule: Schedule | None
    fresh: int = 0

    def name(self, experiment: str) -> str:
        """Return the file's name, which says all that decides what is in it."""
        schedule = None if self.schedule is None else asdict(self.schedule)
        settings = zlib.crc32(json.dumps([schedule, self.fresh]).encode())
        return f"{experiment}-{self.samples}samples-seed{self.seed}-settings{settings:08x}"


@dataclass(frozen=True, eq=False)
class Scored:
    """The scores of each estimate by its name, in nats.

    Attributes:
        there: KL(truth ‖ estimate), infinite if an outcome that is possible has the estimate 0.
        back: KL(estimate ‖ truth), finite if every true probability is above 0.
        joints: the estimates, ``float64 [2**bits]``, of 8 bits at most.
    """

    there: dict[str, float]
    back: dict[str, float]
    joints: dict[str, Joint]

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Scored:
        """Return what ``scored`` made."""
        there, back = (
            {name: math.inf if value is None else value for name, value in stored[way].items()}
            for way in ("there", "back")
        )
        return cls(there, back, {name: np.array(joint) for name, joint in stored["joints"].items()})


def random_truth(bits: int, seed: int) -> Joint:
    """Return the distribution that a seed's samples come from."""
    return random_joint(bits, np.random.default_rng([seed, 0]))


def scored(truth: Joint, estimates: Mapping[str, Joint]) -> dict[str, Any]:
    """Return both KLs of each estimate as JSON holds them; an infinite one is ``None``."""
    there = {name: divergence(truth, joint) for name, joint in estimates.items()}
    back = {name: divergence(joint, truth) for name, joint in estimates.items()}
    return {
        "there": {name: value if math.isfinite(value) else None for name, value in there.items()},
        "back": {name: value if math.isfinite(value) else None for name, value in back.items()},
        "joints": {name: joint.tolist() for name, joint in estimates.items()} if len(truth) <= STORED_OUTCOMES else {},
    }


Intervals = dict[int, dict[str, Interval]]
"""The mean score of each estimate by the number of samples."""


def complete_trials(
    experiment: str,
    trials: Mapping[int, Sequence[Trial]],
    score: Callable[[Trial], dict[str, Any]],
    settings: Settings,
) -> tuple[Intervals, Intervals, dict[Trial, Scored]]:
    """Run the trials that have no file yet, several at a time, those with most samples first.

    Args:
        experiment: the experiment's name, with which the files' names begin.
        trials: the trials of all seeds by their number of samples.
        score: a function that makes ``scored`` of a trial, in a process of its own.
        settings: the folder of the files, and how many trials run at a time.

    Returns:
        KL(truth ‖ estimate) and KL(estimate ‖ truth) over the seeds, and the scores of each trial.
    """
    names = {trial: trial.name(experiment) for samples in sorted(trials, reverse=True) for trial in trials[samples]}
    tasks = {name: (trial,) for trial, name in names.items()}
    stored, _ = run_missing(tasks, score, settings.runs, settings.all_workers(), _line)
    found = {trial: Scored.of(stored[name]) for trial, name in names.items()}
    there = {samples: _over_seeds([found[trial].there for trial in group]) for samples, group in trials.items()}
    back = {samples: _over_seeds([found[trial].back for trial in group]) for samples, group in trials.items()}
    return there, back, found


def _over_seeds(of_seeds: Sequence[Mapping[str, float]]) -> dict[str, Interval]:
    return {name: Interval.of(values[name] for values in of_seeds) for name in of_seeds[0]}


def _line(stored: dict[str, Any]) -> str:
    return "KL of " + "; ".join(f"{name} {number(value, 4)}" for name, value in Scored.of(stored).there.items())
