"""The paper's second test of the surrogate: 16 bits with 65,536 random joint probabilities, in two blocks of 8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from lbhash.reproduce.distributions import (
    Joint,
    dirichlet,
    frequencies,
    independent_bits,
    independent_blocks,
    knowing_the_prior,
    sample,
)
from lbhash.reproduce.results import Record, Result
from lbhash.reproduce.results.plots import interval_line, interval_points
from lbhash.reproduce.runs import Settings
from lbhash.reproduce.scores import Intervals, Trial, complete_trials, random_truth, scored
from lbhash.reproduce.surrogate_fit import (
    PAPER_SCHEDULE,
    fit_surrogate,
    mean_of_blocks,
    mean_of_products,
    raw_outputs,
    stretched,
)
from lbhash.reproduce.texts import text
from lbhash.training.schedule import Schedule
from lbhash.utils.plotting import new_figure, palette

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
    schedule: Schedule = PAPER_SCHEDULE,
) -> Result:
    """Return the table of all estimates at ``samples``, and of those without training at each number of ``curve``."""
    trials = {
        n: [Trial(n, seed, lasting(schedule, n) if n in samples else None) for seed in settings.all_seeds()]
        for n in dict.fromkeys([*samples, *curve])
    }
    there, back, _ = complete_trials("posterior-16", trials, score, settings)
    records: list[Record] = []
    for name in there[samples[0]]:
        record: Record = {"estimate": name}
        for n in samples:
            record[f"KL(truth ‖ estimate), {n:,}"] = there[n][name]
            record[f"KL(estimate ‖ truth), {n:,}"] = back[n][name]
        records.append(record | {"paper": PAPER.get(name)})
    more = Result.of(
        "16 bits: KL(truth ‖ estimate) against the number of samples",
        [{"samples": n, **{name: there[n][name] for name in IN_CURVE}} for n in curve],
        text("posterior-16-samples", seeds=settings.seeds),
        lambda: curve_figure({n: there[n] for n in curve}, {n: there[n] for n in samples}),
        digits=4,
    )
    return Result.of(
        "16 bits, 65,536 random joint probabilities",
        records,
        text("posterior-16", seeds=settings.seeds, epochs=schedule.epochs, most=MOST_STEPS),
        lambda: estimates_figure({n: there[n] for n in samples}, back),
        {"samples": more},
        digits=4,
        paper={"paper": None},  # the paper does not say of how many samples
    )


def lasting(schedule: Schedule, samples: int) -> Schedule:
    """Return a schedule of as many steps as with ``SAMPLES[0]`` at least, and as with ``MOST_STEPS`` at most."""
    if samples > MOST_STEPS:
        return replace(schedule, batch_size=round(schedule.batch_size * samples / MOST_STEPS))
    return stretched(schedule, samples, SAMPLES[0])


def score(trial: Trial) -> dict[str, Any]:
    """Compare all estimates of a seed's truth with it."""
    truth = random_truth(BITS, trial.seed)
    return scored(truth, estimates(truth, trial))


def estimates(truth: Joint, trial: Trial) -> dict[str, Joint]:
    """Return all estimates of a truth by name; without the surrogate's if there is no schedule."""
    rng = np.random.default_rng([trial.seed, trial.samples])
    outcomes = sample(truth, trial.samples, rng)
    counts = np.bincount(outcomes, minlength=len(truth))
    seen = frequencies(counts)
    found = {
        MARGINALS: independent_bits(seen),
        FLOOR: independent_blocks(truth, BLOCK),
        BLOCKS: independent_blocks(seen, BLOCK),
    }
    if trial.schedule is not None:
        outputs = raw_outputs(outcomes, BITS, rng)
        surrogate = fit_surrogate(outputs, trial.seed, trial.schedule)
        first, second = mean_of_blocks(surrogate, outputs)
        found |= {OF_BLOCKS: np.outer(second, first).ravel(), OF_PRODUCTS: mean_of_products(surrogate, outputs)}
    return found | {"frequencies": seen, DIRICHLET: dirichlet(counts), PRIOR: knowing_the_prior(counts)}


def estimates_figure(there: Intervals, back: Intervals) -> Figure:
    """Draw every KL, a panel for each number of samples."""
    figure, panels = new_figure(1.5 + 5 * len(there), 5, *[1] * len(there), sharey=True, sharex=True)
    for axes, (n, found) in zip(panels, there.items(), strict=True):
        interval_points(axes, found, back[n], palette(len(found)))
        places = [list(found).index(name) for name in PAPER]
        axes.plot(list(PAPER.values()), places, "*", color="black", markersize=11, label="in the paper", zorder=3)
        axes.axvline(found[FLOOR].mean, color="0.4", linestyle="--", linewidth=1, label="floor of two blocks")
        axes.set(title=f"{n:,} samples")
        axes.set_xlim(0.05, 5)
    panels[0].legend(loc="lower left", fontsize=9)
    return figure


def curve_figure(cheap: Intervals, trained: Intervals) -> Figure:
    """Draw KL against the number of samples, both logarithmic; the surrogate's for what it was trained on."""
    figure, (axes,) = new_figure(8.5, 5)
    axes.set(xscale="log", yscale="log", xlabel="samples n", ylabel="KL(truth ‖ estimate), nats")
    names = (*IN_CURVE, OF_BLOCKS, OF_PRODUCTS)
    for name, color in zip(names, palette(len(names)), strict=True):
        scores = cheap if name in IN_CURVE else trained
        style = {"linestyle": "--"} if name == FLOOR else {"marker": "s"} if name not in IN_CURVE else {}
        interval_line(axes, list(scores), [found[name] for found in scores.values()], label=name, color=color, **style)
    axes.axhline(PAPER[OF_BLOCKS], color="black", linewidth=1, linestyle=":", label="surrogate in the paper")
    axes.legend(fontsize=9)
    return figure
