"""Compare estimates of random joint distributions with the truth: a file for each number of samples and each seed."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from lbhash.reproduce.distributions import Joint, dirichlet, divergence, knowing_the_prior, random_joint
from lbhash.reproduce.results import Record, panels
from lbhash.reproduce.runs import Settings
from lbhash.training.hardware import cpu_settings
from lbhash.training.schedule import Schedule
from lbhash.trials.intervals import Interval
from lbhash.utils.parallel import run_missing

STORED_OUTCOMES = 2**8
"""Estimates of more outcomes are not stored."""

THERE, BACK = "KL(truth ‖ estimate)", "KL(estimate ‖ truth)"
MARGINALS, FREQUENCIES, DIRICHLET, PRIOR = "marginals", "frequencies", "Dirichlet", "known prior"


@dataclass(frozen=True)
class Draw:
    """Settings of the estimates of a truth: samples, seed, and the schedule of the surrogate, if there is one.

    For each number in ``fresh``, the surrogate's P is also averaged over as many outputs that training has not seen.
    """

    samples: int
    seed: int
    schedule: Schedule | None
    fresh: tuple[int, ...] = ()

    def name(self, bits: int) -> str:
        """Return the file's name, which depends on all settings that decide its content."""
        schedule = None if self.schedule is None else asdict(self.schedule)
        settings = zlib.crc32(json.dumps([schedule, self.fresh or 0]).encode())
        return f"posterior-{bits}-{self.samples}samples-seed{self.seed}-settings{settings:08x}"


Estimates = Callable[[Draw, Joint, Joint, npt.NDArray[np.int64], np.random.Generator], dict[str, Joint]]
"""A function that makes an experiment's own estimates of a truth.

It takes a draw, the truth, the frequencies and the outcomes of its samples, and a random generator.
"""

Intervals = dict[int, dict[str, Interval]]
"""The mean score of each estimate by the number of samples."""


def random_truth(bits: int, seed: int) -> Joint:
    """Return the distribution that a seed's samples come from."""
    return random_joint(bits, np.random.default_rng([seed, 0]))


def score(draw: Draw, bits: int, estimates: Estimates) -> dict[str, Any]:
    """Return both KLs of each estimate of a seed's truth as JSON values, and the estimates of at most 8 bits.

    KL(truth ‖ estimate) is infinite, here ``None``, if a possible outcome has the estimate 0.
    """
    truth, rng = random_truth(bits, draw.seed), np.random.default_rng([draw.seed, draw.samples])
    outcomes = rng.choice(len(truth), draw.samples, p=truth)
    counts = np.bincount(outcomes, minlength=len(truth))
    seen = counts / counts.sum()
    with cpu_settings(threads=1):
        joints = estimates(draw, truth, seen, outcomes, rng)
    joints |= {FREQUENCIES: seen, DIRICHLET: dirichlet(counts), PRIOR: knowing_the_prior(counts)}
    found: dict[str, dict[str, Any]] = {"there": {}, "back": {}, "joints": {}}
    for name, joint in joints.items():
        for way, value in (("there", divergence(truth, joint)), ("back", divergence(joint, truth))):
            found[way][name] = value if math.isfinite(value) else None
        if len(truth) <= STORED_OUTCOMES:
            found["joints"][name] = joint.tolist()
    return found


def complete_draws(
    bits: int, draws: Mapping[int, Sequence[Draw]], estimates: Estimates, settings: Settings
) -> tuple[Intervals, Intervals, dict[str, Any]]:
    """Score the draws that have no file yet, those with most samples first.

    ``draws`` has the draws of all seeds by number of samples. Returns both KLs over the seeds by number of samples, and
    the scores by file name.
    """
    ordered = [draw for samples in sorted(draws, reverse=True) for draw in draws[samples]]
    tasks = {draw.name(bits): (draw, bits, estimates) for draw in ordered}
    found = run_missing(tasks, score, settings.runs, settings.all_workers(), title="estimating")

    def over_seeds(way: str, group: Sequence[Draw]) -> dict[str, Interval]:
        of_seeds = [found[draw.name(bits)][way] for draw in group]
        return {name: Interval.of(_number(of_seed[name]) for of_seed in of_seeds) for name in of_seeds[0]}

    there, back = ({samples: over_seeds(way, group) for samples, group in draws.items()} for way in ("there", "back"))
    return there, back, found


def divergence_records(there: Intervals, back: Intervals, paper: Mapping[str, float]) -> list[Record]:
    """Return both KLs of each estimate as records for a figure, the paper's beside KL(truth ‖ estimate)."""
    return [
        {"samples": f"{n:,} samples", "estimate": name, "direction": way, "KL": value, "KL, paper": reported}
        for n, of_n in there.items()
        for name in of_n
        for way, value, reported in ((THERE, of_n[name], paper.get(name)), (BACK, back[n][name], None))
    ]


def samples_figure(records: Sequence[Record], reported: float | None = None) -> Figure:
    """Draw the KL of each estimate against the number of samples on logarithmic axes, and the paper's as a line."""
    kls = [
        {"samples": record["samples"], "estimate": name, THERE: kl}
        for record in records
        for name, kl in record.items()
        if name != "samples"
    ]
    scales: dict[str, Any] = {"xscale": "log", "yscale": "log", "ylabel": f"{THERE}, nats"}
    figure = panels.lines(kls, "samples", [THERE], "estimate", by=(), **scales)
    if reported is not None:
        figure.axes[0].axhline(reported, color="black", linewidth=1, linestyle=":")
    return figure


def _number(value: float | None) -> float:
    return math.inf if value is None else value
