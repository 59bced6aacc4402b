"""Precision, recall and F1: of the first k places of a ranking, and of a look-up within a Hamming radius.

Figures of the first k places are expectations over random orders of tied codes. Ties do not affect a look-up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.evaluation.metrics.common import Floats, all_relevant, check_rank, ratio
from lbhash.evaluation.ranking import Ranking
from lbhash.evaluation.ranking.histogram import Counts
from lbhash.utils.compiled import compiled
from lbhash.utils.validation import check_int


def precision_at(hist: Ranking, k: int) -> Floats:
    """Return the precision of the first k places, ``(R_d + r_d m / n_d) / k``, d being the distance at rank k.

    m = k - N_d is the number of places of its group that count.
    """
    return _found(hist, k) / k


def recall_at(hist: Ranking, k: int) -> Floats:
    """Return the relevant codes on the first k places over all relevant base codes; NaN for a query without any."""
    return ratio(_found(hist, k), all_relevant(hist), np.nan)


def f1_at(hist: Ranking, k: int) -> Floats:
    """Return F1 of the first k places, the harmonic mean of precision x/k and recall x/r: ``2x / (k + r)``.

    F1 is linear in x, the relevant codes found, so its expectation is F1 at the expected x. It is NaN for a query to
    which no base code is relevant.
    """
    every = all_relevant(hist)
    return np.where(every > 0, 2 * _found(hist, k) / (k + every), np.nan)


def r_precision(hist: Ranking) -> Floats:
    """Return the precision (and recall) of the first r places, r being the number of the query's relevant base codes.

    (Manning, Raghavan and Schütze, "Introduction to Information Retrieval", 2008, section 8.4.) It is NaN for a query
    to which no base code is relevant.
    """
    check_rank(hist, None)
    every = all_relevant(hist)
    return ratio(relevant_at(hist, np.maximum(every, 1)[:, None])[:, 0], every, np.nan)


def relevant_at(hist: Ranking, ranks: npt.NDArray[np.int64]) -> Floats:
    """Return the expected number of relevant codes on the first places, ``[queries, ranks]``, for ascending ranks.

    The ranks are ``[ranks]``, or ``[queries, ranks]``.
    """
    ranks = np.broadcast_to(ranks, (hist.queries, ranks.shape[-1]))
    found = np.empty(ranks.shape)
    _interpolate(hist.total, hist.relevant, ranks, found)
    return found


def _found(hist: Ranking, k: int) -> Floats:
    return relevant_at(hist, np.array([check_rank(hist, k)]))[:, 0]


def precision_within(hist: Ranking, radius: int) -> Floats:
    """Return the precision of a look-up, P@H<=radius: relevant codes within the radius over all codes within it.

    A query that finds nothing has precision 0 (Liu et al., "Hashing with Graphs", ICML 2011, and most papers since).
    """
    found, relevant = _within(hist, radius)
    return ratio(relevant, found, 0.0)


def recall_within(hist: Ranking, radius: int) -> Floats:
    """Return the relevant codes within the radius over all relevant base codes; NaN for a query without any."""
    return ratio(_within(hist, radius)[1], all_relevant(hist), np.nan)


def empty_within(hist: Ranking, radius: int) -> Floats:
    """Return 1 for a query whose look-up finds no code at all, else 0; the mean is the share of empty results."""
    return (_within(hist, radius)[0] == 0).astype(np.float64)


def _within(hist: Ranking, radius: int) -> tuple[Counts, Counts]:
    """Return the number of codes within the radius, and of relevant ones, ``[queries]`` each."""
    end = check_int(radius, "radius", 0, hist.total.shape[1] - 1, "the length of a code") + 1
    return hist.total[:, :end].sum(axis=1), hist.relevant[:, :end].sum(axis=1)


@compiled
def _interpolate(total: Any, values: Any, ranks: Any, result: Any) -> None:
    """Sum ``values`` up to each of a query's ascending ranks, linearly inside a group of ties."""
    for query in range(len(total)):
        group, after, summed = 0, 0, 0.0
        for place in range(ranks.shape[1]):
            rank = ranks[query, place]
            while after + total[query, group] < rank:
                after += total[query, group]
                summed += values[query, group]
                group += 1
            n = total[query, group]
            result[query, place] = summed + (values[query, group] * (rank - after) / n if n > 0 else 0.0)
