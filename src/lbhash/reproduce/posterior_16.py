"""The paper's second test of the surrogate: 16 bits with 65,536 random joint probabilities, in two blocks of 8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lbhash.reproduce.distributions import (
    Joint,
    dirichlet,
    draw,
    frequencies,
    independent_bits,
    independent_blocks,
    knowing_the_prior,
    random_joint,
)
from lbhash.reproduce.results.interval import Interval
from lbhash.reproduce.results.interval_drawing import interval_line, interval_points
from lbhash.reproduce.results.result import Cell, Result
from lbhash.reproduce.runs.settings import Settings
from lbhash.reproduce.scores import Trial, complete_trials, over_seeds, scored
from lbhash.reproduce.surrogate_fit import (
    PAPER_SCHEDULE,
    fit_surrogate,
    mean_of_blocks,
    mean_of_products,
    raw_outputs,
    stretched,
)
from lbhash.training.schedule import Schedule
from lbhash.utils.plotting import new_figure, palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BITS, BLOCK = 16, 8
SAMPLES = (10_000, 30_000, 100_000, 300_000)
MOST_STEPS = 100_000
CURVE = (10_000, 30_000, 100_000, 300_000, 1_000_000)
MARGINALS, FLOOR = "marginals", "two blocks, exact"
BLOCKS, OF_BLOCKS, OF_PRODUCTS = "two blocks, frequencies", "surrogate, blocks", "surrogate, joint"
EMPIRICAL, DIRICHLET, PRIOR = "frequencies", "Dirichlet", "known prior"
PAPER = {MARGINALS: 0.4965, OF_BLOCKS: 0.1084, OF_PRODUCTS: 0.1084}
IN_CURVE = (MARGINALS, FLOOR, BLOCKS, DIRICHLET, PRIOR)
Estimates = dict[str, Joint]
Scores = dict[int, dict[str, Interval]]

TEXT = """KL(truth ‖ estimate) and KL(estimate ‖ truth) in nats, mean over {seeds} seeds ± half a 95 % confidence
interval (Student's t); what is infinite is counted and left out of the mean. Each seed draws a truth (softmax of 65,536
standard normal draws) and samples of it. The paper's test of 8 bits has 10,000; of this one the number is not known to
us. Outputs and training of the surrogate are those of `posterior-8`, {epochs} epochs; with more than {most:,} samples
in larger batches, so that it takes no more steps than with so many.

- **{marginals}**: the product of the 16 marginals of the samples.
- **{floor}**: the product of the truth's own two marginals of 8 bits, computed exactly. No product of two blocks can be
  nearer to that truth, with any number of samples: a random joint hardly differs from uniform in 8 of its 16 bits.
- **{blocks}**: the product of the samples' frequencies of the two blocks.
- **{of_blocks}**: P of each block averaged over the outputs of training, then multiplied.
- **{of_products}**: the product of both blocks' P for each output, averaged over the outputs. The blocks are
  independent given ℓ but not on average, so this is not held by the floor: what the blocks know of each other they have
  from ℓ. It comes near the frequencies of the whole 16 bits, spread over the codes that P takes for possible, and with
  enough samples stays far below every product of two blocks.
- **{empirical}** of the samples; infinite where an outcome was never seen. **{dirichlet}**: a constant added to every
  count, the one that makes the counts most probable. **{prior}**: the posterior mean under the prior that the truth was
  drawn from, below which no estimate from the same samples can stay in expectation.

The paper's 0.1084 is far below that floor, so that for a truth like this one it cannot be the KL of a product of two
blocks. It stands beside both readings of the surrogate."""


CURVE_TEXT = """The estimates that need no training, with more samples: KL(truth ‖ estimate), mean over {seeds} seeds ±
half a 95 % confidence interval. Where the last two lines meet the paper's 0.1084 is how many samples any estimate of
such a truth needs to reach it."""


def run(
    settings: Settings,
    samples: Sequence[int] = SAMPLES,
    curve: Sequence[int] = CURVE,
    schedule: Schedule = PAPER_SCHEDULE,
) -> Result:
    """The table of all estimates at each number of samples, and of those without training at more of them."""
    seeds = settings.all_seeds()
    trained = {n: [Trial(n, seed, lasting(schedule, n)) for seed in seeds] for n in samples}
    others = {n: [Trial(n, seed, None) for seed in seeds] for n in curve if n not in samples}
    trials = trained | others
    done = complete_trials("posterior-16", [trial for group in trials.values() for trial in group], score, settings)
    found = {n: over_seeds(done[trial].there for trial in group) for n, group in trials.items()}
    there: Scores = {n: found[n] for n in samples}
    back: Scores = {n: over_seeds(done[trial].back for trial in trained[n]) for n in samples}
    cheap: Scores = {n: found[n] for n in curve}
    rows: list[list[Cell]] = []
    for name in there[samples[0]]:
        values = [value for n in samples for value in (there[n][name], back[n][name])]
        rows.append([name, *values, PAPER.get(name)])
    columns = ["estimate"]
    for n in samples:
        columns += [f"KL(truth ‖ estimate), {n:,}", f"KL(estimate ‖ truth), {n:,}"]
    text = TEXT.format(
        seeds=settings.seeds,
        epochs=schedule.epochs,
        most=MOST_STEPS,
        marginals=MARGINALS,
        floor=FLOOR,
        blocks=BLOCKS,
        of_blocks=OF_BLOCKS,
        of_products=OF_PRODUCTS,
        empirical=EMPIRICAL,
        dirichlet=DIRICHLET,
        prior=PRIOR,
    )
    more = Result(
        "16 bits: KL(truth ‖ estimate) against the number of samples",
        ("samples", *IN_CURVE),
        [[n, *(cheap[n][name] for name in IN_CURVE)] for n in curve],
        CURVE_TEXT.format(seeds=settings.seeds),
        lambda: draw_curve(cheap, there),
    )
    title = "16 bits, 65,536 random joint probabilities"
    return Result(
        title,
        [*columns, "paper"],
        rows,
        text,
        lambda: draw_estimates(there, back),
        {"samples": more},
        paper={"paper": None},  # of a number of samples that is not known
    )


def lasting(schedule: Schedule, samples: int) -> Schedule:
    """In as many steps as with ``SAMPLES[0]`` where there are fewer samples, as with ``MOST_STEPS`` where more."""
    if samples > MOST_STEPS:
        return replace(schedule, batch_size=round(schedule.batch_size * samples / MOST_STEPS))
    return stretched(schedule, samples, SAMPLES[0])


def score(trial: Trial) -> dict[str, Any]:
    """All estimates of a seed's truth, held against it."""
    truth = random_joint(BITS, np.random.default_rng([trial.seed, 0]))
    return scored(truth, estimates(truth, trial))


def estimates(truth: Joint, trial: Trial) -> Estimates:
    """All estimates of a truth by name; without the surrogate's where there is no schedule."""
    rng = np.random.default_rng([trial.seed, trial.samples])
    outcomes = draw(truth, trial.samples, rng)
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
    return found | {EMPIRICAL: seen, DIRICHLET: dirichlet(counts), PRIOR: knowing_the_prior(counts)}


def draw_estimates(there: Scores, back: Scores) -> Figure:
    """Every KL, a panel for each number of samples."""
    figure, panels = new_figure(1.5 + 5 * len(there), 5, *[1] * len(there), sharey=True, sharex=True)
    for axes, (n, found) in zip(panels, there.items(), strict=True):
        names = list(found)
        interval_points(axes, names, list(found.values()), palette(len(found)), list(back[n].values()))
        places = [names.index(name) for name in PAPER]
        axes.plot(list(PAPER.values()), places, "*", color="black", markersize=11, label="in the paper", zorder=3)
        axes.axvline(found[FLOOR].mean, color="0.4", linestyle="--", linewidth=1, label="floor of two blocks")
        axes.set(title=f"{n:,} samples")
        axes.set_xlim(0.05, 5)
    panels[0].legend(loc="lower left", fontsize=9)
    return figure


def draw_curve(cheap: Scores, trained: Scores) -> Figure:
    """KL against the number of samples, both logarithmic; the surrogate where it was trained."""
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
