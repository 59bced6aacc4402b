"""Precision against recall, by rank or by Hamming radius."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from lbhash.evaluation.metrics.common import EMPTY, Empty, Floats, all_relevant, check_rank, ratio
from lbhash.evaluation.metrics.precision import relevant_at
from lbhash.evaluation.ranking import Ranking
from lbhash.utils.validation import check_choice

POINTS = 100


class Curve(NamedTuple):
    """Precision and recall at some radii or ranks: the mean over queries, ``[points]``, or a row for each query."""

    at: npt.NDArray[np.int64]
    """The radii, in bits, or the ranks."""
    precision: Floats
    recall: Floats


def precision_recall_curve(hist: Ranking, by: Literal["radius", "rank"] = "radius", empty: Empty = "skip") -> Curve:
    """Return precision and recall by radius or by rank, each averaged over queries.

    By radius, a point is ``precision_within`` and ``recall_within`` for every radius from 0 to the length of a code.
    By rank, it is ``precision_at`` and ``recall_at`` for at most ``POINTS`` ranks, spread evenly by their logarithm,
    since the first ones matter most. ``empty`` is as for ``mean_over_queries``.
    """
    by = check_choice(by, "by", ("radius", "rank"))
    check_rank(hist, None)
    return mean_curve(*(radius_points(hist) if by == "radius" else rank_points(hist)), empty)


def radius_points(hist: Ranking) -> Curve:
    """Return precision and recall of each query within every radius, ``[queries, bits + 1]`` each."""
    found = np.cumsum(hist.relevant, axis=1)
    precision = ratio(found, np.cumsum(hist.total, axis=1), 0.0)
    return Curve(np.arange(hist.total.shape[1]), precision, ratio(found, all_relevant(hist)[:, None], np.nan))


def rank_points(hist: Ranking) -> Curve:
    """Return precision and recall of each query at ``curve_ranks``, ``[queries, points]`` each."""
    ranks = curve_ranks(hist.base)
    found = relevant_at(hist, ranks)
    return Curve(ranks, found / ranks, ratio(found, all_relevant(hist)[:, None], np.nan))


def curve_ranks(base: int) -> npt.NDArray[np.int64]:
    """Return ranks from 1 to ``base``, at most ``POINTS``, spread evenly by their logarithm."""
    return np.unique(np.geomspace(1, base, POINTS).round().astype(np.int64))


def mean_curve(at: npt.NDArray[np.int64], precision: Floats, recall: Floats, empty: Empty = "skip") -> Curve:
    """Return the mean of queries' curves, ``[queries, points]``; a NaN recall marks no relevant code."""
    empty = check_choice(empty, "empty", EMPTY)
    none = np.asarray(np.isnan(recall).any(axis=1))
    both = np.stack([precision, recall])
    both = np.where(none[:, None], 0.0, both) if empty == "zero" else both[:, ~none]
    return Curve(at, *(both.mean(axis=1) if both.shape[1] else np.full((2, len(at)), np.nan)))
