"""Metrics for grades of relevance: how many labels a base code shares with the query, not only whether it does.

NDCG and ACG are linear in the gains at each rank. So their expectation over random orders of tied codes is the value of
a list in which every code has its group's mean gain. WAP is not linear, and has its own formula. If codes are only
relevant or irrelevant, ACG is precision and WAP is average precision.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from lbhash.evaluation.metrics.average_precision import average_of_grades
from lbhash.evaluation.metrics.common import Floats, Normalize, check_rank, ratio
from lbhash.evaluation.ranking import Ranking
from lbhash.utils.validation import check_choice

Gain = Literal["exponential", "linear"]

_BLOCK = 1 << 18  # ranks whose discounts are in memory at a time


def ndcg_at(hist: Ranking, k: int | None = None, gain: Gain = "exponential") -> Floats:
    """Return the normalized discounted cumulative gain of the first k places, NDCG@k, expected.

    ``DCG@k = sum over the ranks i <= k of gain(grade_i) / log2(i + 1)``, divided by the DCG@k of the base in descending
    order of grade. The gain is ``2^grade - 1`` for "exponential" (Burges et al., "Learning to rank using gradient
    descent", ICML 2005; the papers on multi-label hashing since Zhao et al., CVPR 2015), or the grade itself for
    "linear" (Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", TOIS 2002). NDCG is from 0 to
    1, and NaN for a query to which no base code is relevant.
    """
    k = check_rank(hist, k)
    gain = check_choice(gain, "gain", get_args(Gain))
    grades = np.arange(1, hist.graded.shape[1] + 1, dtype=np.float64)
    gains = np.exp2(np.minimum(grades, 1000.0)) - 1 if gain == "exponential" else grades
    ends, best_first = np.cumsum(hist.total, axis=1), hist.graded.sum(axis=2)[:, ::-1]
    best_ends = np.cumsum(best_first, axis=1)
    places = ends, ends - hist.total, best_ends, best_ends - best_first
    upto, before, best_upto, best_before = _discounts([np.minimum(place, k) for place in places], k)

    of_group = upto - before
    summed = np.einsum("qgd,g->qd", hist.graded, gains)
    found = (ratio(summed, hist.total, 0.0) * of_group).sum(axis=1)

    return ratio(found, (best_upto - best_before) @ gains[::-1], np.nan)


def _discounts(places: list[npt.NDArray[np.int64]], k: int) -> list[Floats]:
    """Return ``sum of 1 / log2(i + 1) for i = 1 ... n`` of each n of some arrays, which are from 0 to k."""
    sums, total = [np.zeros(place.shape) for place in places], 0.0
    for low in range(0, k, _BLOCK):
        ranks = np.arange(low + 1, min(low + _BLOCK, k) + 1)
        block = np.append(total, total + np.cumsum(1 / np.log2(ranks + 1)))
        sums = [
            np.where(place >= low, block[np.clip(place - low, 0, len(ranks))], old)
            for place, old in zip(places, sums, strict=True)
        ]
        total = block[-1]
    return sums


def acg_at(hist: Ranking, k: int | None = None) -> Floats:
    """Return the average cumulative gain, ACG@k: the mean grade of the first k places, expected.

    (Järvelin and Kekäläinen, "IR evaluation methods for retrieving highly relevant documents", SIGIR 2000.)
    """
    k = check_rank(hist, k)
    ends = np.cumsum(hist.total, axis=1)
    places = np.minimum(ends, k) - np.minimum(ends - hist.total, k)
    return (ratio(sum_of_grades(hist), hist.total, 0.0) * places).sum(axis=1) / k


def weighted_average_precision(hist: Ranking, top_k: int | None = None, normalize: Normalize = "retrieved") -> Floats:
    """Return the weighted average precision, WAP@R: the mean ACG@i over the ranks i <= R of relevant codes, expected.

    ``WAP@R = (1/Z) * sum over the ranks i <= R of relevant codes of ACG@i`` (Zhao, Huang, Wang and Tan, "Deep semantic
    ranking based hashing for multi-label image retrieval", CVPR 2015). R is ``top_k``; Z and the formula under ties are
    those of ``average_precision``. WAP may be above 1, as grades are, and is NaN for a query to which no base code is
    relevant.
    """
    return average_of_grades(hist, sum_of_grades(hist), top_k, "expected", normalize)


def sum_of_grades(hist: Ranking) -> npt.NDArray[np.int64]:
    """Return the sum of the grades of each query's base codes in each group, ``int64 [queries, groups]``."""
    return np.einsum("qgd,g->qd", hist.graded, np.arange(1, hist.graded.shape[1] + 1))
