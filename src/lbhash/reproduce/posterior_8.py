"""The paper's first test of the surrogate: 8 bits with 256 random joint probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lbhash.reproduce.distributions import (
    Joint,
    dirichlet,
    draw,
    frequencies,
    independent_bits,
    knowing_the_prior,
    random_joint,
)
from lbhash.reproduce.results.interval import Interval
from lbhash.reproduce.results.interval_drawing import interval_line, interval_points
from lbhash.reproduce.results.result import Result
from lbhash.reproduce.runs.settings import Settings
from lbhash.reproduce.scores import Scored, Trial, complete_trials, over_seeds, scored
from lbhash.reproduce.surrogate_fit import (
    PAPER_SCHEDULE,
    fit_surrogate,
    mean_of_blocks,
    mean_with_dropout,
    raw_outputs,
    stretched,
)
from lbhash.training.schedule import Schedule
from lbhash.utils.plotting import new_figure, palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BITS = 8
SAMPLES = 10_000
CURVE = (1_000, 3_000, 10_000, 30_000, 100_000)
FRESH = 100_000
PRODUCT, SURROGATE, EMPIRICAL, DIRICHLET, PRIOR = "marginals", "surrogate", "frequencies", "Dirichlet", "known prior"
DROPPED, UNSEEN = "surrogate, dropout", "surrogate, new outputs"
NAMES = (PRODUCT, SURROGATE, EMPIRICAL, DIRICHLET, PRIOR)
PAPER = {PRODUCT: 0.538, SURROGATE: 0.008}
Estimates = dict[str, Joint]

TEXT = """KL(truth ‖ estimate) in nats, mean over {seeds} seeds ± half a 95 % confidence interval (Student's t); a KL
that is infinite is counted and left out of the mean. Each seed draws a truth (softmax of 256 standard normal draws) and
{samples:,} samples of it. All estimates but the second of the surrogate's variants see these samples and nothing else.

- **{product}**: their product, those of the samples.
- **surrogate**: the paper's network (8 → 256, SiLU, dropout 0.5, 256 → 256), batch {batch}, Adam at {lr:g}, times
  {decay:g} every {decay_every} epochs, {epochs} epochs. The paper trains for 100, of which the last 70 have a rate of
  1e-6 and less. Its inputs are ℓ = b·|z| with standard normal z: outputs whose signs have the true joint distribution
  and whose sizes tell nothing. The paper does not say over how many outputs P is averaged: here over the {samples:,} of
  training, dropout off.
- **{dropped}** averages P as training computes it, each output with a draw of its own. **{unseen}** averages over
  {fresh:,} outputs that training has not seen. Their signs are further samples of the truth, so it has been told more
  than the other rows.
- **{empirical}** of the samples, the control. To second order their KL is 255 / (2n) = {expected:.4f} in both
  directions; KL(truth ‖ estimate) is infinite if one outcome was never seen.
- **{dirichlet}**: a constant added to every count, the one that makes the counts most probable.
- **{prior}**: the posterior mean under the prior that the truth was drawn from. In expectation no estimate from the
  same samples can be nearer, so a smaller mean KL (the paper's 0.008) needs more samples or another way of counting."""


CURVE_TEXT = """Mean over {seeds} seeds ± half a 95 % confidence interval, each estimate as above. From fewer than
{samples:,} samples the surrogate is trained for so many more epochs that it takes as many steps as with {samples:,}."""


def run(
    settings: Settings,
    samples: int = SAMPLES,
    curve: Sequence[int] = CURVE,
    fresh: int = FRESH,
    schedule: Schedule = PAPER_SCHEDULE,
) -> Result:
    """The table of all estimates at ``samples``, and of five of them at each number of ``curve``."""
    numbers = sorted({samples, *curve})
    trials = {
        n: [
            Trial(n, seed, stretched(schedule, n, SAMPLES), fresh if n == samples else 0)
            for seed in settings.all_seeds()
        ]
        for n in numbers
    }
    done = complete_trials("posterior-8", [trial for n in numbers for trial in trials[n]], score, settings)
    found = {n: [done[trial] for trial in trials[n]] for n in numbers}
    there = {n: over_seeds(of_seed.there for of_seed in found[n]) for n in numbers}
    back = over_seeds(of_seed.back for of_seed in found[samples])
    rows = [(name, value, back[name], PAPER.get(name)) for name, value in there[samples].items()]
    text = TEXT.format(
        seeds=settings.seeds,
        samples=samples,
        batch=schedule.batch_size,
        lr=schedule.lr,
        decay=schedule.decay,
        decay_every=schedule.decay_every,
        epochs=schedule.epochs,
        fresh=fresh,
        expected=255 / (2 * samples),
        product=PRODUCT,
        empirical=EMPIRICAL,
        dirichlet=DIRICHLET,
        prior=PRIOR,
        dropped=DROPPED,
        unseen=UNSEEN,
    )
    more = Result(
        "KL(truth ‖ estimate) against the number of samples",
        ("samples", *NAMES, "255 / (2n)"),
        [(n, *(there[n][name] for name in NAMES), 255 / (2 * n)) for n in numbers],
        CURVE_TEXT.format(seeds=settings.seeds, epochs=schedule.epochs, samples=SAMPLES),
        lambda: draw_curve(numbers, there),
    )
    return Result(
        f"8 bits, 256 random joint probabilities, {samples:,} samples",
        ("estimate", "KL(truth ‖ estimate)", "KL(estimate ‖ truth)", "paper"),
        rows,
        text,
        lambda: draw_estimates(truth_of(settings.seed), found[samples][0], there[samples], back),
        {"samples": more},
        paper={"paper": "KL(truth ‖ estimate)"},
    )


def truth_of(seed: int) -> Joint:
    """What a seed's samples are drawn from."""
    return random_joint(BITS, np.random.default_rng([seed, 0]))


def score(trial: Trial) -> dict[str, Any]:
    """All estimates of a seed's truth, held against it."""
    truth = truth_of(trial.seed)
    return scored(truth, estimates(truth, trial))


def estimates(truth: Joint, trial: Trial) -> Estimates:
    """All estimates of a truth by name; the surrogate's variants where ``trial.fresh`` is not 0."""
    seed, fresh = trial.seed, trial.fresh
    rng = np.random.default_rng([seed, trial.samples])
    outcomes = draw(truth, trial.samples, rng)
    counts = np.bincount(outcomes, minlength=len(truth))
    outputs = raw_outputs(outcomes, BITS, rng)
    assert trial.schedule is not None
    surrogate = fit_surrogate(outputs, seed, trial.schedule)
    found = {PRODUCT: independent_bits(frequencies(counts)), SURROGATE: mean_of_blocks(surrogate, outputs)[0]}
    if fresh:
        others = raw_outputs(draw(truth, fresh, rng), BITS, rng)
        found[DROPPED] = mean_with_dropout(surrogate, outputs, seed)[0]
        found[UNSEEN] = mean_of_blocks(surrogate, others)[0]
    found |= {EMPIRICAL: frequencies(counts), DIRICHLET: dirichlet(counts), PRIOR: knowing_the_prior(counts)}
    return found


def draw_estimates(truth: Joint, of: Scored, found: dict[str, Interval], back: dict[str, Interval]) -> Figure:
    """The probabilities of the first seed as bars, with two estimates as points; beside them every KL."""
    figure, (left, right) = new_figure(14, 5, 1.7, 1)
    order, colors = np.argsort(-truth), dict(zip(found, palette(len(found)), strict=True))
    places = np.arange(len(truth))
    left.bar(places, truth[order], width=1.0, color="0.78", linewidth=0, label="truth")
    for name, marker in ((PRODUCT, "x"), (SURROGATE, "o")):
        left.plot(places, of.joints[name][order], marker, markersize=3.5, color=colors[name], label=name)
    left.set(xlabel="outcome, by its true probability", ylabel="joint probability", xlim=(-1, len(truth)))
    left.set(ylim=(0, None), title="One truth and two estimates of it")
    left.legend()
    interval_points(right, list(found), list(found.values()), list(colors.values()), list(back.values()))
    for name, value in PAPER.items():
        label = "in the paper" if name == PRODUCT else None
        right.plot(value, list(found).index(name), "*", color="black", markersize=11, label=label)
    right.set(title="All estimates")
    right.legend(loc="upper center")
    return figure


def draw_curve(numbers: Sequence[int], found: dict[int, dict[str, Interval]]) -> Figure:
    """KL against the number of samples, both logarithmic."""
    figure, (axes,) = new_figure(8, 5)
    axes.set(xscale="log", yscale="log", xlabel="samples n", ylabel="KL(truth ‖ estimate), nats")
    for name, color, style in zip(NAMES, palette(len(NAMES)), ("-", "-", "--", "-", ":"), strict=True):
        interval_line(axes, numbers, [found[n][name] for n in numbers], label=name, color=color, linestyle=style)
    axes.plot(numbers, [255 / (2 * n) for n in numbers], color="0.5", linewidth=1, label="255 / (2n)")
    axes.plot([SAMPLES] * 2, list(PAPER.values()), "*", color="black", markersize=11, label="in the paper")
    axes.legend()
    return figure
