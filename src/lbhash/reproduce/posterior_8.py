"""The paper's first test of the surrogate: 8 bits with 256 random joint probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from lbhash.reproduce.distributions import (
    Joint,
    dirichlet,
    frequencies,
    independent_bits,
    knowing_the_prior,
    sample,
)
from lbhash.reproduce.results import Interval, Record, Result
from lbhash.reproduce.results.plots import interval_line, interval_points
from lbhash.reproduce.runs import Settings
from lbhash.reproduce.scores import Scored, Trial, complete_trials, random_truth, scored
from lbhash.reproduce.surrogate_fit import (
    PAPER_SCHEDULE,
    fit_surrogate,
    mean_of_blocks,
    mean_with_dropout,
    raw_outputs,
    stretched,
)
from lbhash.reproduce.texts import text
from lbhash.training.schedule import Schedule
from lbhash.utils.plotting import new_figure, palette

BITS = 8
SAMPLES = 10_000
CURVE = (1_000, 3_000, 10_000, 30_000, 100_000)
FRESH = 100_000
PRODUCT, SURROGATE, EMPIRICAL, DIRICHLET, PRIOR = "marginals", "surrogate", "frequencies", "Dirichlet", "known prior"
STYLES = {PRODUCT: "-", SURROGATE: "-", EMPIRICAL: "--", DIRICHLET: "-", PRIOR: ":"}
"""The estimates of the curve, and their lines."""
PAPER = {PRODUCT: 0.538, SURROGATE: 0.008}


def run(
    settings: Settings,
    samples: int = SAMPLES,
    curve: Sequence[int] = CURVE,
    fresh: int = FRESH,
    schedule: Schedule = PAPER_SCHEDULE,
) -> Result:
    """Return the table of all estimates at ``samples``, and of five of them at each number of ``curve``."""
    trials = {
        n: [
            Trial(n, seed, stretched(schedule, n, SAMPLES), fresh if n == samples else 0)
            for seed in settings.all_seeds()
        ]
        for n in sorted({samples, *curve})
    }
    there, backward, found = complete_trials("posterior-8", trials, score, settings)
    back = backward[samples]
    records: list[Record] = [
        {"estimate": name, "KL(truth ‖ estimate)": value, "KL(estimate ‖ truth)": back[name], "paper": PAPER.get(name)}
        for name, value in there[samples].items()
    ]
    expected = 255 / (2 * samples)
    more = Result.of(
        "KL(truth ‖ estimate) against the number of samples",
        [{"samples": n, **{name: there[n][name] for name in STYLES}, "255 / (2n)": 255 / (2 * n)} for n in trials],
        text("posterior-8-samples", seeds=settings.seeds, samples=SAMPLES),
        lambda: curve_figure(there),
        digits=4,
    )
    return Result.of(
        f"8 bits, 256 random joint probabilities, {samples:,} samples",
        records,
        text("posterior-8", seeds=settings.seeds, samples=samples, schedule=schedule, fresh=fresh, expected=expected),
        lambda: estimates_figure(random_truth(BITS, settings.seed), found[trials[samples][0]], there[samples], back),
        {"samples": more},
        digits=4,
        paper={"paper": "KL(truth ‖ estimate)"},
    )


def score(trial: Trial) -> dict[str, Any]:
    """Compare all estimates of a seed's truth with it."""
    truth = random_truth(BITS, trial.seed)
    return scored(truth, estimates(truth, trial))


def estimates(truth: Joint, trial: Trial) -> dict[str, Joint]:
    """Return all estimates of a truth by name; the surrogate's variants unless ``trial.fresh`` is 0."""
    assert trial.schedule is not None
    rng = np.random.default_rng([trial.seed, trial.samples])
    outcomes = sample(truth, trial.samples, rng)
    counts = np.bincount(outcomes, minlength=len(truth))
    outputs = raw_outputs(outcomes, BITS, rng)
    surrogate = fit_surrogate(outputs, trial.seed, trial.schedule)
    found = {PRODUCT: independent_bits(frequencies(counts)), SURROGATE: mean_of_blocks(surrogate, outputs)[0]}
    if trial.fresh:
        others = raw_outputs(sample(truth, trial.fresh, rng), BITS, rng)
        found["surrogate, dropout"] = mean_with_dropout(surrogate, outputs, trial.seed)[0]
        found["surrogate, new outputs"] = mean_of_blocks(surrogate, others)[0]
    return found | {EMPIRICAL: frequencies(counts), DIRICHLET: dirichlet(counts), PRIOR: knowing_the_prior(counts)}


def estimates_figure(
    truth: Joint, first: Scored, found: Mapping[str, Interval], back: Mapping[str, Interval]
) -> Figure:
    """Draw the first seed's probabilities as bars, two estimates of them as points, and every KL beside them."""
    figure, (left, right) = new_figure(14, 5, 1.7, 1)
    order, colors = np.argsort(-truth), dict(zip(found, palette(len(found)), strict=True))
    places = np.arange(len(truth))
    left.bar(places, truth[order], width=1.0, color="0.78", linewidth=0, label="truth")
    for name, marker in ((PRODUCT, "x"), (SURROGATE, "o")):
        left.plot(places, first.joints[name][order], marker, markersize=3.5, color=colors[name], label=name)
    left.set(xlabel="outcome, by its true probability", ylabel="joint probability", xlim=(-1, len(truth)))
    left.set(ylim=(0, None), title="One truth and two estimates of it")
    left.legend()
    interval_points(right, found, back, list(colors.values()))
    for name, value in PAPER.items():
        label = "in the paper" if name == PRODUCT else None
        right.plot(value, list(found).index(name), "*", color="black", markersize=11, label=label)
    right.set(title="All estimates")
    right.legend(loc="upper center")
    return figure


def curve_figure(found: Mapping[int, Mapping[str, Interval]]) -> Figure:
    """Draw KL against the number of samples, both logarithmic."""
    figure, (axes,) = new_figure(8, 5)
    numbers = list(found)
    axes.set(xscale="log", yscale="log", xlabel="samples n", ylabel="KL(truth ‖ estimate), nats")
    for (name, line), color in zip(STYLES.items(), palette(len(STYLES)), strict=True):
        interval_line(axes, numbers, [of_n[name] for of_n in found.values()], label=name, color=color, linestyle=line)
    axes.plot(numbers, [255 / (2 * n) for n in numbers], color="0.5", linewidth=1, label="255 / (2n)")
    axes.plot([SAMPLES] * 2, list(PAPER.values()), "*", color="black", markersize=11, label="in the paper")
    axes.legend()
    return figure
