"""The paper's first test of the surrogate: 8 bits with 256 random joint probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from lbhash.reproduce import scores
from lbhash.reproduce import surrogate_fit as fit
from lbhash.reproduce.distributions import Joint, independent_bits
from lbhash.reproduce.results import Record, Result, panels
from lbhash.reproduce.runs import Settings
from lbhash.reproduce.texts import text
from lbhash.training.schedule import Schedule
from lbhash.utils.plotting import new_figure

BITS = 8
SAMPLES = 10_000
CURVE = (1_000, 3_000, 10_000, 30_000, 100_000)
FRESH = (100, 1_000, 10_000, 100_000)
SURROGATE, NEW = "surrogate", "surrogate, {:,} new outputs"
IN_CURVE = (scores.MARGINALS, SURROGATE, scores.FREQUENCIES, scores.DIRICHLET, scores.PRIOR)
PAPER = {scores.MARGINALS: 0.538, NEW.format(100): 0.008}
"""The paper averages P over 100 samples that training has not seen."""


def run(
    settings: Settings,
    samples: int = SAMPLES,
    curve: Sequence[int] = CURVE,
    fresh: tuple[int, ...] = FRESH,
    schedule: Schedule = fit.PAPER_SCHEDULE,
) -> Result:
    """Return the table of all estimates at ``samples``, and of five of them at each number of ``curve``."""
    draws = {}
    for n in sorted({samples, *curve}):
        settled = fit.stretched(schedule, n, SAMPLES), fresh if n == samples else ()
        draws[n] = [scores.Draw(n, seed, *settled) for seed in settings.all_seeds()]
    there, back, found = scores.complete_draws(BITS, draws, estimates, settings)
    records: list[Record] = [
        {"estimate": name, scores.THERE: value, scores.BACK: back[samples][name], "paper": PAPER.get(name)}
        for name, value in there[samples].items()
    ]
    cells: list[Record] = [
        {"samples": n, **{name: there[n][name] for name in IN_CURVE}, "255 / (2n)": 255 / (2 * n)} for n in draws
    ]
    about = text("posterior-8-samples", seeds=settings.seeds, samples=SAMPLES)
    lines = scores.samples_figure(cells)
    more = Result.of(f"{scores.THERE} against the number of samples", cells, about, lines, digits=4)
    kls = scores.divergence_records({samples: there[samples]}, back, PAPER)
    truth, first = scores.random_truth(BITS, settings.seed), found[draws[samples][0].name(BITS)]["joints"]
    known = {"seeds": settings.seeds, "expected": 255 / (2 * samples)}
    about = text("posterior-8", samples=samples, schedule=schedule, **known)
    title = f"8 bits, 256 random joint probabilities, {samples:,} samples"
    figure = truth_figure(truth, first, kls)
    return Result.of(title, records, about, figure, {"samples": more}, digits=4)


def estimates(
    draw: scores.Draw, truth: Joint, seen: Joint, outcomes: npt.NDArray[np.int64], rng: np.random.Generator
) -> dict[str, Joint]:
    """Return the product of the marginals and the surrogate's P; its variants unless ``draw.fresh`` is empty."""
    assert draw.schedule is not None
    outputs = fit.raw_outputs(outcomes, BITS, rng)
    surrogate = fit.fit_surrogate(outputs, draw.seed, draw.schedule)
    found = {scores.MARGINALS: independent_bits(seen), SURROGATE: fit.mean_of_blocks(surrogate, outputs)[0]}
    if draw.fresh:
        others = fit.raw_outputs(rng.choice(len(truth), max(draw.fresh), p=truth), BITS, rng)
        found["surrogate, dropout"] = fit.mean_with_dropout(surrogate, outputs, draw.seed)[0]
        for count in draw.fresh:
            found[NEW.format(count)] = fit.mean_of_blocks(surrogate, others[:count])[0]
    return found


def truth_figure(truth: Joint, first: Mapping[str, Sequence[float]], kls: Sequence[Record]) -> Figure:
    """Draw the first seed's probabilities with two estimates of them, and every KL beside them."""
    figure, (left, right) = new_figure(14, 5, 1.7, 1)
    order, places = np.argsort(-truth), np.arange(len(truth))
    left.bar(places, truth[order], width=1.0, color="0.78", linewidth=0, label="truth")
    for name, marker in ((scores.MARGINALS, "x"), (SURROGATE, "o")):
        left.plot(places, np.array(first[name])[order], marker, markersize=3.5, label=name)
    left.set(xlabel="outcome, by its true probability", ylabel="joint probability", title="A truth and two estimates")
    left.legend()
    panels.draw_points(right, kls, "KL", "estimate", "direction")
    right.set(xscale="log", xlabel="nats", title="All estimates")
    right.legend()
    return figure
