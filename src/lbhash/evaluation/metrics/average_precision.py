"""Average precision: its expectation over random orders of tied codes, its best and its worst value."""

from __future__ import annotations

from typing import Any

import numpy as np

from lbhash.evaluation.metrics import common
from lbhash.evaluation.metrics.common import Floats, Normalize, Ties
from lbhash.evaluation.metrics.sums import harmonic, moment, run
from lbhash.evaluation.ranking import Ranking
from lbhash.utils.compiled import compiled
from lbhash.utils.validation import check_choice


def average_precision(
    hist: Ranking, top_k: int | None = None, ties: Ties = "expected", normalize: Normalize = "retrieved"
) -> Floats:
    """Return the average precision of each query over the first R = ``top_k`` places of its ranking, AP@R.

    ``AP@R = (1/Z) * sum over the ranks i <= R of relevant codes of (relevant codes up to i) / i``. For "retrieved", Z
    is the number of relevant codes among the first R (AP is 0 if there are none), as in the evaluation code of HashNet
    and of DeepHash-pytorch (``CalcTopMap``). For "all", Z is min(R, all relevant codes).

    With ties, take a group of n tied codes, r of them relevant, after N codes of which R0 are relevant. In a random
    order its k-th place holds a relevant code with probability r/n, and then (k-1)(r-1)/(n-1) relevant ones of the
    group are expected before it, so the group adds
    ``sum_k (r/n) (R0 + 1 + (k-1)(r-1)/(n-1)) / (N+k) = (r/n) ((R0+1) A + (r-1)/(n-1) B)``, where
    ``A = sum_k 1/(N+k)`` is a difference of harmonic numbers and ``B = sum_k (k-1)/(N+k) = n - (N+1) A``.
    Where the cut R falls inside a group, m of its n places count, and the number x of relevant codes on them is
    hypergeometric; given x the same formula holds with x for r and m for n. Since x is in Z too for "retrieved",
    each x is weighted on its own. (McSherry and Najork, "Computing Information Retrieval Performance Measures
    Efficiently in the Presence of Tied Scores", ECIR 2008, give the case without a cut.)

    ``ties`` may also be "best" or "worst", the extremes over the orders of tied codes. The result is from 0 to 1, and
    NaN for a query to which no base code is relevant.

    >>> from lbhash.evaluation.ranking.histogram import RankHistogram
    >>> from lbhash import pack
    >>> hist = RankHistogram.from_codes(pack([[1, 1]]), [0], pack([[1, 1], [1, -1], [-1, -1]]), [0, 1, 0])
    >>> average_precision(hist).round(3).tolist()
    [0.833]
    """
    return average_of_grades(hist, hist.relevant, top_k, ties, normalize)


def average_of_grades(hist: Ranking, grades: Any, top_k: int | None, ties: Ties, normalize: Normalize) -> Floats:
    """Return ``(1/Z) * sum over the ranks i <= R of relevant codes of (grades up to i) / i`` of each query.

    ``grades`` ``[queries, groups]`` is the sum of the grades in a group. It is ``hist.relevant`` for average precision.
    For other grades, which must be "expected", the formula of ``average_precision`` holds with the sum of the grades
    before for R0 and the mean grade g of the group's relevant codes for 1: ``(r/n) ((G0 + g) A + g (r-1)/(n-1) B)``.
    How many relevant codes come before a cut tells nothing of their grades, so it holds for each x too.
    """
    top_k = common.check_rank(hist, top_k, "top_k")
    ties = check_choice(ties, "ties", common.TIES)
    normalize = check_choice(normalize, "normalize", common.NORMALIZE)
    result, over_all = np.empty(hist.queries, np.float64), normalize == "all"
    _average(hist.total, hist.relevant, grades, top_k, ties == "expected", ties == "best", over_all, result)
    return result


@compiled
def _average(
    total: Any, relevant: Any, grades: Any, top_k: int, expected: bool, best: bool, over_all: bool, result: Any
) -> None:
    """Write the expected average of each query, or the best or worst over the orders of ties."""
    for query in range(len(total)):
        every = relevant[query].sum()
        if every == 0:
            result[query] = np.nan
            continue
        summed = before = 0.0
        after: Any = np.int64(0)  # not the literal 0, a type for which Numba would compile all once more
        found: Any = after
        done = False
        for group in range(total.shape[1]):
            n, r = total[query, group], relevant[query, group]
            places = min(n, top_k - after)
            if places == 0:
                continue
            low, high = max(0, places - (n - r)), min(r, places)
            grade = a = b = 0.0
            if expected and r > 0:
                grade, a = grades[query, group] / r, harmonic(after, places)
                b = moment(after, places, a)
            if low < high and not over_all:  # the cut is inside this group, and so is the denominator
                if expected:
                    result[query] = _expected_cut(places, n, r, found, before, grade, a, b, summed)
                else:
                    result[query] = _extreme_cut(low, high, places, found, after, summed, best)
                done = True
                break
            # If the denominator is fixed, most relevant codes are best and fewest are worst.
            if expected:
                summed += _expected_sum(r, n, before, grade, a, b)
            elif best:
                summed += run(high, found, after)
            else:
                summed += run(low, found, after + places - low)
            after, found, before = after + places, found + low, before + grades[query, group]
            if after == top_k:
                break
        if not done:
            below = min(top_k, every) if over_all else found
            result[query] = summed / below if below > 0 else 0.0


@compiled
def _expected_sum(relevant: int, places: int, before: float, grade: float, a: float, b: float) -> float:
    """Return the expected sum at ``relevant`` codes of that mean grade in a random order on ``places`` places."""
    pairs = (relevant - 1) / (places - 1) * b if places > 1 else 0.0
    return relevant / places * ((before + grade) * a + grade * pairs)


@compiled
def _expected_cut(
    places: int, n: int, r: int, found: int, before: float, grade: float, a: float, b: float, summed: float
) -> float:
    """Return the expected average where x, the relevant codes on the last ``places`` of n places, is hypergeometric.

    The weights go outwards from the mode by the ratio of neighbors, so none of them overflows, and those that no
    longer matter are left out.
    """
    low, high = max(0, places - (n - r)), min(r, places)
    mode = min(max(int((places + 1.0) * (r + 1.0) / (n + 2.0)), low), high)
    weights = value = 0.0
    for step in (1, -1):
        x, weight = mode, 1.0
        while low <= x <= high and weight > 1e-30:
            if step == 1 or x != mode:
                weights += weight
                if found + x > 0:
                    value += weight * (summed + _expected_sum(x, places, before, grade, a, b)) / (found + x)
            if step == 1:
                weight *= float(r - x) * (places - x) / ((x + 1.0) * (n - r - places + x + 1.0))
            else:
                weight *= float(x) * (n - r - places + x) / ((r - x + 1.0) * (places - x + 1.0))
            x += step
    return value / weights


@compiled
def _extreme_cut(low: int, high: int, places: int, before: int, after: int, summed: float, best: bool) -> float:
    """Return the largest (smallest) AP over the number x of relevant codes on the last ``places`` places.

    x is from low to high. More of them are not always better: each also counts in the denominator. They come first for
    the best, last for the worst; either sum of precisions follows from that for x - 1.
    """
    extreme = -1.0
    first = run(low, before, after)
    sum_last = harmonic(after + places - low, low)
    for x in range(low, high + 1):
        start = after + places - x
        if x > low:
            first += (before + x) / (after + x)
            sum_last += 1.0 / (start + 1)
        value = 0.0
        if before + x > 0:
            value = (summed + (first if best else x + (before - start) * sum_last)) / (before + x)
        if extreme < 0 or (value > extreme if best else value < extreme):
            extreme = value
    return extreme
