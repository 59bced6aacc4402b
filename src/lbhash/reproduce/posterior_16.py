"""The paper's second test of the surrogate: 16 bits with 65,536 random joint probabilities, in two blocks of 8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from lbhash.reproduce import distributions as joints
from lbhash.reproduce import scores
from lbhash.reproduce import surrogate_fit as fit
from lbhash.reproduce.distributions import Joint
from lbhash.reproduce.results import Record, Result, plots
from lbhash.reproduce.runs import Settings
from lbhash.reproduce.texts import text
from lbhash.training.schedule import Schedule

BITS, BLOCK = 16, 8
SAMPLES = (10_000, 30_000, 100_000, 300_000)
MOST_STEPS = 100_000
CURVE = (10_000, 30_000, 100_000, 300_000, 1_000_000)
MARGINALS, FLOOR = "marginals", "two blocks, exact"
BLOCKS, OF_BLOCKS, OF_PRODUCTS = "two blocks, frequencies", "surrogate, blocks", "surrogate, joint"
DIRICHLET, PRIOR = "Dirichlet", "known prior"
PAPER = {MARGINALS: 0.4965, OF_BLOCKS: 0.1084, OF_PRODUCTS: 0.1084}
IN_CURVE = (MARGINALS, FLOOR, BLOCKS, DIRICHLET, PRIOR)


def run(
    settings: Settings,
    samples: Sequence[int] = SAMPLES,
    curve: Sequence[int] = CURVE,
    schedule: Schedule = fit.PAPER_SCHEDULE,
) -> Result:
    """Return the table of all estimates at ``samples``, and of those without training at each number of ``curve``."""
    trials = {
        n: [scores.Trial(n, seed, lasting(schedule, n) if n in samples else None) for seed in settings.all_seeds()]
        for n in dict.fromkeys([*samples, *curve])
    }
    there, back, _ = scores.complete_trials("posterior-16", trials, score, settings)
    records: list[Record] = []
    for name in there[samples[0]]:
        record: Record = {"estimate": name}
        for n in samples:
            record |= {f"{scores.THERE}, {n:,}": there[n][name], f"{scores.BACK}, {n:,}": back[n][name]}
        records.append(record | {"paper": PAPER.get(name)})
    cells: list[Record] = [{"samples": n, **{name: there[n][name] for name in IN_CURVE}} for n in curve]
    trained: list[Record] = [{"samples": n, **{name: there[n][name] for name in PAPER}} for n in samples]
    title = f"16 bits: {scores.THERE} against the number of samples"
    lines = partial(scores.samples_figure, [*cells, *trained], PAPER[OF_BLOCKS])
    more = Result.of(title, cells, text("posterior-16-samples", seeds=settings.seeds), lines, digits=4)
    kls = scores.divergence_records({n: there[n] for n in samples}, back, PAPER)
    options: dict[str, Any] = {"panels": ["samples"], "xscale": "log", "xlabel": "nats"}
    figure = partial(plots.panel_figure, kls, plots.draw_points, "estimate", "KL", "direction", **options)
    about = text("posterior-16", seeds=settings.seeds, epochs=schedule.epochs, most=MOST_STEPS)
    title = "16 bits, 65,536 random joint probabilities"
    uncompared = {"paper": None}  # the paper does not say of how many samples
    return Result.of(title, records, about, figure, {"samples": more}, digits=4, paper=uncompared)


def lasting(schedule: Schedule, samples: int) -> Schedule:
    """Return a schedule with at least the steps of ``SAMPLES[0]`` samples, and at most those of ``MOST_STEPS``."""
    if samples > MOST_STEPS:
        return replace(schedule, batch_size=round(schedule.batch_size * samples / MOST_STEPS))
    return fit.stretched(schedule, samples, SAMPLES[0])


def score(trial: scores.Trial) -> dict[str, Any]:
    """Compare all estimates of a seed's truth with it."""
    truth = scores.random_truth(BITS, trial.seed)
    return scores.scored(truth, estimates(truth, trial))


def estimates(truth: Joint, trial: scores.Trial) -> dict[str, Joint]:
    """Return all estimates of a truth by name; without the surrogate's if there is no schedule."""
    rng = np.random.default_rng([trial.seed, trial.samples])
    outcomes = joints.sample(truth, trial.samples, rng)
    counts = np.bincount(outcomes, minlength=len(truth))
    seen = joints.frequencies(counts)
    found = {
        MARGINALS: joints.independent_bits(seen),
        FLOOR: joints.independent_blocks(truth, BLOCK),
        BLOCKS: joints.independent_blocks(seen, BLOCK),
    }
    if trial.schedule is not None:
        outputs = fit.raw_outputs(outcomes, BITS, rng)
        surrogate = fit.fit_surrogate(outputs, trial.seed, trial.schedule)
        first, second = fit.mean_of_blocks(surrogate, outputs)
        found |= {OF_BLOCKS: np.outer(second, first).ravel(), OF_PRODUCTS: fit.mean_of_products(surrogate, outputs)}
    return found | {"frequencies": seen, DIRICHLET: joints.dirichlet(counts), PRIOR: joints.knowing_the_prior(counts)}
