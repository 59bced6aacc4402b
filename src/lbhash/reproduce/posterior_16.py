"""The paper's second test of the surrogate: 16 bits with 65,536 random joint probabilities, in two blocks of 8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lbhash.reproduce import scores
from lbhash.reproduce import surrogate_fit as fit
from lbhash.reproduce.distributions import Joint, independent_bits, independent_blocks
from lbhash.reproduce.results import Record, Result, panels
from lbhash.reproduce.runs import Settings
from lbhash.reproduce.texts import text
from lbhash.training.schedule import Schedule

BITS, BLOCK = 16, 8
SAMPLES = (10_000, 30_000, 100_000, 300_000)
MOST_STEPS = 100_000
CURVE = (10_000, 30_000, 100_000, 300_000, 1_000_000)
FLOOR, BLOCKS = "two blocks, exact", "two blocks, frequencies"
OF_BLOCKS, OF_PRODUCTS = "surrogate, blocks", "surrogate, joint"
PAPER = {scores.MARGINALS: 0.4965, OF_BLOCKS: 0.1084, OF_PRODUCTS: 0.1084}
IN_CURVE = (scores.MARGINALS, FLOOR, BLOCKS, scores.DIRICHLET, scores.PRIOR)


def run(
    settings: Settings,
    samples: Sequence[int] = SAMPLES,
    curve: Sequence[int] = CURVE,
    schedule: Schedule = fit.PAPER_SCHEDULE,
) -> Result:
    """Return the table of all estimates at ``samples``, and of those without training at each number of ``curve``."""
    draws = {
        n: [scores.Draw(n, seed, lasting(schedule, n) if n in samples else None) for seed in settings.all_seeds()]
        for n in dict.fromkeys([*samples, *curve])
    }
    there, back, _ = scores.complete_draws(BITS, draws, estimates, settings)
    records: list[Record] = []
    for name in there[samples[0]]:
        record: Record = {"estimate": name}
        for n in samples:
            record |= {f"{scores.THERE}, {n:,}": there[n][name], f"{scores.BACK}, {n:,}": back[n][name]}
        records.append(record | {"paper": PAPER.get(name)})
    cells: list[Record] = [{"samples": n, **{name: there[n][name] for name in IN_CURVE}} for n in curve]
    trained: list[Record] = [{"samples": n, **{name: there[n][name] for name in PAPER}} for n in samples]
    lines = scores.samples_figure([*cells, *trained], PAPER[OF_BLOCKS])
    title = f"16 bits: {scores.THERE} against the number of samples"
    more = Result.of(title, cells, text("posterior-16-samples", seeds=settings.seeds), lines, digits=4)
    kls = scores.divergence_records({n: there[n] for n in samples}, back, PAPER)
    figure = panels.points(kls, ["KL"], "estimate", "direction", by=["samples"], xscale="log", xlabel="nats")
    about = text("posterior-16", seeds=settings.seeds, epochs=schedule.epochs, most=MOST_STEPS)
    title = "16 bits, 65,536 random joint probabilities"
    return Result.of(title, records, about, figure, {"samples": more}, digits=4)


def lasting(schedule: Schedule, samples: int) -> Schedule:
    """Return a schedule with at least the steps of ``SAMPLES[0]`` samples, and at most those of ``MOST_STEPS``."""
    if samples > MOST_STEPS:
        return replace(schedule, batch_size=round(schedule.batch_size * samples / MOST_STEPS))
    return fit.stretched(schedule, samples, SAMPLES[0])


def estimates(
    draw: scores.Draw, truth: Joint, seen: Joint, outcomes: npt.NDArray[np.int64], rng: np.random.Generator
) -> dict[str, Joint]:
    """Return products of marginals and of blocks, and if there is a schedule, the surrogate's P."""
    found = {
        scores.MARGINALS: independent_bits(seen),
        FLOOR: independent_blocks(truth, BLOCK),
        BLOCKS: independent_blocks(seen, BLOCK),
    }
    if draw.schedule is not None:
        outputs = fit.raw_outputs(outcomes, BITS, rng)
        surrogate = fit.fit_surrogate(outputs, draw.seed, draw.schedule)
        first, second = fit.mean_of_blocks(surrogate, outputs)
        found |= {OF_BLOCKS: np.outer(second, first).ravel(), OF_PRODUCTS: fit.mean_of_products(surrogate, outputs)}
    return found
