"""Precision, recall and F1 of the first places of a ranking, expected over random orders of tied codes."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from lbhash.evaluation.metrics.common import Floats, all_relevant, check_rank, ratio
from lbhash.evaluation.ranking import Ranking


def precision_at(hist: Ranking, k: int) -> Floats:
    """Precision of the first k places, P@k: ``(R_d + r_d m / n_d) / k``.

    d is the distance at rank k, and m = k - N_d the places of its group that count.

    Returns:
        ``float64 [queries]``.

    Raises:
        TypeError, ValueError: k is not an integer from 1 to the size of the base.
    """
    k = check_rank(hist, k, "k")
    return relevant_at(hist, np.array([k]))[:, 0] / k


def recall_at(hist: Ranking, k: int) -> Floats:
    """Recall of the first k places: as ``precision_at``, over the query's relevant base codes in the place of k.

    Returns:
        ``float64 [queries]``; NaN for a query to which no base code is relevant.

    Raises:
        TypeError, ValueError: k is not an integer from 1 to the size of the base.
    """
    k = check_rank(hist, k, "k")
    return ratio(relevant_at(hist, np.array([k]))[:, 0], all_relevant(hist), np.nan)


def f1_at(hist: Ranking, k: int) -> Floats:
    """F1 of the first k places, the harmonic mean of precision x/k and recall x/r: ``2x / (k + r)``.

    It is linear in x, the relevant codes found, so its expectation is that of x put into it.

    Returns:
        ``float64 [queries]``; NaN for a query to which no base code is relevant.

    Raises:
        TypeError, ValueError: k is not an integer from 1 to the size of the base.
    """
    k = check_rank(hist, k, "k")
    every = all_relevant(hist)
    f1 = 2 * relevant_at(hist, np.array([k]))[:, 0] / (k + every)
    return np.where(every > 0, f1, np.nan)


def r_precision(hist: Ranking) -> Floats:
    """Precision (and recall) of the first r places, where r is the number of the query's relevant base codes.

    (Manning, Raghavan and Schütze, "Introduction to Information Retrieval", 2008, section 8.4.)

    Returns:
        ``float64 [queries]``; NaN for a query to which no base code is relevant.
    """
    check_rank(hist, None, "k")
    every = all_relevant(hist)
    found = np.empty((hist.queries, 1))
    _interpolate(hist.total, hist.relevant, np.maximum(every, 1)[:, None], found)
    return ratio(found[:, 0], every, np.nan)


def relevant_at(hist: Ranking, ranks: npt.NDArray[np.int64]) -> Floats:
    """Expected number of relevant codes on the first places: ``[queries, ranks]``, for checked, ascending ranks."""
    found = np.empty((hist.queries, len(ranks)))
    _interpolate(hist.total, hist.relevant, np.broadcast_to(ranks, found.shape), found)
    return found


@numba.njit(nogil=True, cache=True)
def _interpolate(total: Any, values: Any, ranks: Any, result: Any) -> None:
    """The sum of ``values`` up to each of a query's ascending ranks, linear inside a group of ties."""
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
