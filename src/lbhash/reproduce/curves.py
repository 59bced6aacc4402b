"""The paper's curves: precision against recall, precision at K, and precision within a Hamming radius of 2."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lbhash.reproduce.results import Record, Result, panels
from lbhash.reproduce.runs import Settings
from lbhash.reproduce.runs.trained import BITS, completed, grid, pairs, with_setting
from lbhash.reproduce.texts import text
from lbhash.trials.intervals import Interval

Floats = npt.NDArray[np.float64]

RADIUS = 2
RECALLS = (0.1, 0.3, 0.5, 0.7, 0.9)
PLACES = (1, 10, 100, 1000)
RECALL, K, PRECISION = "recall, %", "K", "precision, %"


def run(settings: Settings) -> Result:
    """Return precision within the radius, and both kinds of curves."""
    done = completed(settings, grid(settings, BITS, pairs(settings)))
    points: list[Record] = []
    at_recalls: list[Record] = []
    at_places: list[Record] = []
    for one in done:
        head, (ranks, *_) = one.config.head, one.values("report", "rank_curve", "rank")
        precision, recall = (100 * one.values("report", "rank_curve", name) for name in ("precision", "recall"))
        means = zip(recall.mean(axis=0), ranks, precision.mean(axis=0), strict=True)
        points += [head | {RECALL: a, K: rank, PRECISION: b} for a, rank, b in means]
        at_recalls.append(head | {f"recall {100 * x:.0f} %": at_recall(recall, precision, x) for x in RECALLS})
        at_places.append(head | {f"K = {place:,}": at_place(ranks, precision, place) for place in PLACES})
    figure = panels.lines(points, RECALL, [PRECISION], "method")
    recalls = Result.of("Precision against recall", at_recalls, text("curves-precision-recall"), figure)
    figure = panels.lines(points, K, [PRECISION], "method", xscale="log")
    places = Result.of("Precision of the first K places", at_places, text("curves-precision-at-k"), figure)
    within = [100 * one.values("report", "curve", "precision")[:, min(RADIUS, one.config.bits)] for one in done]
    records: list[Record] = []
    for one, host, guided in zip(done[::2], within[::2], within[1::2], strict=True):
        values = {"host": host, "guided": guided, "lift": guided - host}
        records.append(one.config.head | {name: Interval.of(own) for name, own in values.items()})
    radius = "P@H≤2, %"
    bars = [one.config.head | {radius: Interval.of(own)} for one, own in zip(done, within, strict=True)]
    figure = panels.points(bars, [radius], "method", "bits")
    more = {"precision-recall": recalls, "precision-at-k": places}
    about = with_setting(text("curves"), settings)
    return Result.of("Precision within a Hamming radius of 2", records, about, figure, more)


def at_recall(recall: Floats, precision: Floats, wanted: float) -> Interval | None:
    """Return the precision at a recall, interpolated; ``None`` if the recall is larger already at the first rank."""
    if (recall[:, 0] > 100 * wanted).any():
        return None
    return Interval.of(np.interp(100 * wanted, *seed) for seed in zip(recall, precision, strict=True))


def at_place(ranks: Floats, precision: Floats, place: int) -> Interval | None:
    """Return the precision of the first places, interpolated between the curve's ranks by their logarithm."""
    if place > ranks[-1]:
        return None
    return Interval.of(np.interp(np.log(place), np.log(ranks), own) for own in precision)
