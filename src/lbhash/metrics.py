"""Retrieval metrics, from the two histograms of each query and nothing else.

Codes at equal distance from a query are tied: the ranking does not order them. Metrics that depend on a rank are
therefore expectations over all orders of the tied codes, each as likely as the next, computed exactly; average
precision also gives its largest and smallest value over those orders. For one query, n_d base codes of which r_d are
relevant lie at distance d; N_d and R_d are their sums over all smaller distances.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from lbhash.labels import check_count
from lbhash.ranking import RankHistogram

Floats = npt.NDArray[np.float64]
Ties = Literal["expected", "best", "worst"]
Normalize = Literal["retrieved", "all"]
Empty = Literal["skip", "zero"]

_TIES = ("expected", "best", "worst")
_NORMALIZE = ("retrieved", "all")
_EMPTY = ("skip", "zero")


class Curve(NamedTuple):
    """A precision-recall curve, averaged over queries."""

    at: npt.NDArray[np.int64]
    """The radii, in bits, or the ranks, ``[points]``."""
    precision: Floats
    recall: Floats


def average_precision(
    hist: RankHistogram, at: int | None = None, ties: Ties = "expected", normalize: Normalize = "retrieved"
) -> Floats:
    """Average precision of each query over the first R = ``at`` places of its ranking, AP@R.

    ``AP@R = (1/Z) * sum over the ranks i <= R of relevant codes of (relevant codes up to i) / i``. Z is the number of
    relevant codes among the first R for "retrieved" (AP is 0 if there are none), which is what the evaluation code
    of HashNet and of DeepHash-pytorch (``CalcTopMap``) computes; or min(R, all relevant codes) for "all".

    With ties, take a group of n tied codes, r of them relevant, after N codes of which R0 are relevant. In a random
    order its k-th place holds a relevant code with probability r/n, and then (k-1)(r-1)/(n-1) relevant ones of the
    group are expected before it, so the group adds
    ``sum_k (r/n) (R0 + 1 + (k-1)(r-1)/(n-1)) / (N+k) = (r/n) ((R0+1) A + (r-1)/(n-1) B)``, where
    ``A = sum_k 1/(N+k)`` is a difference of harmonic numbers and ``B = sum_k (k-1)/(N+k) = n - (N+1) A``.
    Where the cut R falls inside a group, m of its n places count, and the number x of relevant codes on them is
    hypergeometric; given x the same formula holds with x for r and m for n. Since x is in Z too for "retrieved",
    each x is weighted on its own. (McSherry and Najork, "Computing Information Retrieval Performance Measures
    Efficiently in the Presence of Tied Scores", ECIR 2008, give the case without a cut.)

    Args:
        hist: the histograms.
        at: R, from 1 to the size of the base; by default the size of the base.
        ties: "expected" over random orders of tied codes, or the "best" or "worst" value that an order of them gives.
        normalize: Z, as above.

    Returns:
        ``float64 [queries]``, from 0 to 1; NaN for a query to which no base code is relevant.

    Raises:
        TypeError, ValueError: ``at``, ``ties`` or ``normalize`` is none of these.
    """
    at = _check_rank(hist, at, "at")
    check_choice(ties, _TIES, "ties")
    check_choice(normalize, _NORMALIZE, "normalize")
    result = np.empty(hist.queries, np.float64)
    _average_precision(hist.total, hist.relevant, at, _TIES.index(ties), normalize == "all", result)
    return result


def mean_average_precision(
    hist: RankHistogram,
    at: int | None = None,
    ties: Ties = "expected",
    normalize: Normalize = "retrieved",
    empty: Empty = "skip",
) -> float:
    """Mean of ``average_precision``; a query without a relevant base code is left out, or with "zero" scores 0."""
    return mean_over_queries(average_precision(hist, at, ties, normalize), empty)


def mean_over_queries(values: Floats, empty: Empty = "skip") -> float:
    """Mean of a metric that is NaN for a query without a relevant base code; "skip" leaves those out, "zero" is 0.

    NaN if no query is left.
    """
    check_choice(empty, _EMPTY, "empty")
    if empty == "zero":
        values = np.nan_to_num(values, nan=0.0)
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else float("nan")


def precision_at(hist: RankHistogram, k: int) -> Floats:
    """Precision of the first k places, P@k, expected over random orders of tied codes.

    ``(R_d + r_d m / n_d) / k``, where d is the distance at rank k and m = k - N_d the places that count of its group.

    Returns:
        ``float64 [queries]``.

    Raises:
        TypeError, ValueError: k is not an integer from 1 to the size of the base.
    """
    k = _check_rank(hist, k, "k")
    return _relevant_at(hist, np.array([k]))[:, 0] / k


def recall_at(hist: RankHistogram, k: int) -> Floats:
    """Recall of the first k places: as ``precision_at``, over the query's relevant base codes in the place of k.

    Returns:
        ``float64 [queries]``; NaN for a query to which no base code is relevant.

    Raises:
        TypeError, ValueError: k is not an integer from 1 to the size of the base.
    """
    k = _check_rank(hist, k, "k")
    return _ratio(_relevant_at(hist, np.array([k]))[:, 0], hist.relevant.sum(axis=1), np.nan)


def precision_within(hist: RankHistogram, radius: int) -> Floats:
    """Precision of a look-up in a hash table, P@H<=radius: relevant codes within the radius over all codes within it.

    A query that finds nothing has precision 0 (Liu et al., "Hashing with Graphs", ICML 2011, and most papers since).

    Returns:
        ``float64 [queries]``.

    Raises:
        TypeError, ValueError: the radius, in bits, is not an integer from 0 to the length of a code.
    """
    end = _check_radius(hist, radius) + 1
    return _ratio(hist.relevant[:, :end].sum(axis=1), hist.total[:, :end].sum(axis=1), 0.0)


def recall_within(hist: RankHistogram, radius: int) -> Floats:
    """Recall of a look-up: relevant codes within the radius over all relevant base codes.

    Returns:
        ``float64 [queries]``; NaN for a query to which no base code is relevant.

    Raises:
        TypeError, ValueError: the radius, in bits, is not an integer from 0 to the length of a code.
    """
    end = _check_radius(hist, radius) + 1
    return _ratio(hist.relevant[:, :end].sum(axis=1), hist.relevant.sum(axis=1), np.nan)


def precision_recall_curve(
    hist: RankHistogram, by: Literal["radius", "rank"] = "radius", points: int = 100, empty: Empty = "skip"
) -> Curve:
    """Precision and recall by radius or by rank, each averaged over queries.

    By radius, a point is ``precision_within`` and ``recall_within`` for every radius from 0 to the length of a code.
    By rank, it is ``precision_at`` and ``recall_at`` for ranks spread evenly from 1 to the size of the base.

    Args:
        hist: the histograms.
        by: "radius" or "rank".
        points: how many ranks at most, for "rank".
        empty: "skip" leaves out queries without a relevant base code; "zero" counts their precision and recall as 0.

    Raises:
        TypeError, ValueError: an argument is none of these, or the base is empty.
    """
    check_choice(by, ("radius", "rank"), "by")
    check_choice(empty, _EMPTY, "empty")
    relevant = hist.relevant.sum(axis=1)
    if by == "radius":
        at = np.arange(hist.bits + 1)
        found: npt.NDArray[Any] = np.cumsum(hist.relevant, axis=1)
        precision = _ratio(found, np.cumsum(hist.total, axis=1), 0.0)
    else:
        base = _check_rank(hist, None, "at")
        at = np.unique(np.linspace(1, base, check_count(points, "points")).round().astype(np.int64))
        found = _relevant_at(hist, at)
        precision = found / at
    recall = _ratio(found, relevant[:, None], 0.0)
    kept = relevant > 0 if empty == "skip" else np.ones(len(relevant), bool)
    if not kept.any():
        return Curve(at, np.full(len(at), np.nan), np.full(len(at), np.nan))
    return Curve(at, precision[kept].mean(axis=0), recall[kept].mean(axis=0))


def check_choice(value: Any, choices: tuple[str, ...], name: str) -> None:
    """Raise ``ValueError`` unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(map(repr, choices))}")


def _check_rank(hist: RankHistogram, at: int | None, name: str) -> int:
    if hist.base == 0:
        raise ValueError("hist is empty; it must have at least one query and one base code")
    return hist.base if at is None else check_count(at, name, hist.base, "the size of the base")


def _check_radius(hist: RankHistogram, radius: int) -> int:
    if isinstance(radius, bool) or not isinstance(radius, (int, np.integer)):
        raise TypeError(f"radius is {radius!r}; it must be an integer from 0 to the length of a code ({hist.bits})")
    if not 0 <= radius <= hist.bits:
        raise ValueError(f"radius is {radius}; it must be from 0 to the length of a code ({hist.bits})")
    return int(radius)


def _ratio(above: npt.NDArray[Any], below: npt.NDArray[Any], otherwise: float) -> Floats:
    shape = np.broadcast_shapes(above.shape, below.shape)
    return np.divide(above, below, out=np.full(shape, otherwise), where=below > 0)


def _relevant_at(hist: RankHistogram, ranks: npt.NDArray[np.int64]) -> Floats:
    """Expected number of relevant codes on the first places: ``[queries, ranks]``, linear inside a group of ties."""
    result = np.empty((hist.queries, len(ranks)))
    for query in range(hist.queries):
        ends = np.concatenate(([0], np.cumsum(hist.total[query])))
        found = np.concatenate(([0], np.cumsum(hist.relevant[query])))
        group = np.searchsorted(ends, ranks, side="left")  # the first end at or after the rank, so never an empty group
        part = (ranks - ends[group - 1]) / (ends[group] - ends[group - 1])
        result[query] = found[group - 1] + part * (found[group] - found[group - 1])
    return result


@numba.njit(nogil=True, cache=True)
def _harmonic(after: int, count: int) -> float:
    """``sum of 1/(after + k) for k = 1 ... count``, without the cancellation of a difference of two large sums.

    The first terms one by one, and the others by the expansion of the digamma function at n + 1/2,
    ``H_n = log x + gamma + 1/(24 x^2) - 7/(960 x^4) + 31/(8064 x^6) - ...`` with x = n + 1/2.
    """
    total = 0.0
    stop = after + count
    for k in range(after + 1, min(stop, max(after, 64) + 64) + 1):
        total += 1.0 / k
    low = max(after, 64) + 64
    if stop > low:
        x, y = low + 0.5, stop + 0.5
        p, q = 1.0 / (x * x), 1.0 / (y * y)
        total += np.log1p((stop - low) / x)
        total += (q - p) / 24 - 7 * (q * q - p * p) / 960 + 31 * (q * q * q - p * p * p) / 8064
    return total


@numba.njit(nogil=True, cache=True)
def _moment(after: int, count: int, harmonic: float) -> float:
    """``sum of (k-1)/(after + k) for k = 1 ... count``; term by term where the closed form would cancel."""
    if count > 64:
        return count - (after + 1) * harmonic
    total = 0.0
    for k in range(1, count + 1):
        total += (k - 1) / (after + k)
    return total


@numba.njit(nogil=True, cache=True)
def _expected(relevant: int, places: int, before: int, a: float, b: float) -> float:
    """Expected sum of precisions at ``relevant`` codes in a random order on ``places`` places."""
    pairs = (relevant - 1) / (places - 1) * b if places > 1 else 0.0
    return relevant / places * ((before + 1) * a + pairs)


@numba.njit(nogil=True, cache=True)
def _run(relevant: int, before: int, after: int) -> float:
    """Sum of precisions of a run of relevant codes: ``sum of (before + j)/(after + j) for j = 1 ... relevant``."""
    if relevant > 64:
        return relevant + (before - after) * _harmonic(after, relevant)
    total = 0.0
    for j in range(1, relevant + 1):
        total += (before + j) / (after + j)
    return total


@numba.njit(nogil=True, cache=True)
def _extreme_cut(low: int, high: int, places: int, before: int, after: int, summed: float, best: bool) -> float:
    """Largest (smallest) AP over the number x of relevant codes on the last ``places`` places, from low to high.

    More of them are not always better: each also counts in the denominator. They come first for the best, last for
    the worst; either sum of precisions follows from that for x - 1.
    """
    extreme = -1.0
    first = _run(low, before, after)
    harmonic = _harmonic(after + places - low, low)
    for x in range(low, high + 1):
        start = after + places - x
        if x > low:
            first += (before + x) / (after + x)
            harmonic += 1.0 / (start + 1)
        value = 0.0
        if before + x > 0:
            value = (summed + (first if best else x + (before - start) * harmonic)) / (before + x)
        if extreme < 0 or (value > extreme if best else value < extreme):
            extreme = value
    return extreme


@numba.njit(nogil=True, cache=True)
def _expected_cut(
    low: int, high: int, places: int, n: int, r: int, before: int, a: float, b: float, summed: float
) -> float:
    """Expected AP where x, the relevant codes on the last ``places`` of n places, is hypergeometric.

    The weights go outwards from the mode by the ratio of neighbours, so none of them overflows, and those that no
    longer matter are left out.
    """
    mode = min(max(int((places + 1.0) * (r + 1.0) / (n + 2.0)), low), high)
    weights = value = 0.0
    for step in (1, -1):
        x, weight = mode, 1.0
        while low <= x <= high and weight > 1e-30:
            if step == 1 or x != mode:
                weights += weight
                if before + x > 0:
                    value += weight * (summed + _expected(x, places, before, a, b)) / (before + x)
            if step == 1:
                weight *= float(r - x) * (places - x) / ((x + 1.0) * (n - r - places + x + 1.0))
            else:
                weight *= float(x) * (n - r - places + x) / ((r - x + 1.0) * (places - x + 1.0))
            x += step
    return value / weights


@numba.njit(nogil=True, cache=True)
def _average_precision(total: Any, relevant: Any, at: int, ties: int, over_all: bool, result: Any) -> None:
    for query in range(len(total)):
        every = relevant[query].sum()
        if every == 0:
            result[query] = np.nan
            continue
        summed = 0.0
        after = before = 0
        for distance in range(total.shape[1]):
            n, r = total[query, distance], relevant[query, distance]
            places = min(n, at - after)
            if places == 0:
                continue
            low, high = max(0, places - (n - r)), min(r, places)
            if over_all or low == high:
                # The denominator is fixed, so the sum alone matters; and most relevant codes is best, fewest is worst.
                if ties == 1:
                    summed += _run(high, before, after)
                elif ties == 2:
                    summed += _run(low, before, after + places - low)
                elif r > 0:
                    a = _harmonic(after, places)
                    pairs = (r - 1) / (n - 1) * _moment(after, places, a) if n > 1 else 0.0
                    summed += r / n * ((before + 1) * a + pairs)
                after, before = after + places, before + low
                if after == at:
                    break
                continue
            if ties == 0:
                a = _harmonic(after, places)
                b = _moment(after, places, a)
                result[query] = _expected_cut(low, high, places, n, r, before, a, b, summed)
            else:
                result[query] = _extreme_cut(low, high, places, before, after, summed, ties == 1)
            after = -1  # the cut is inside this group, and its AP is done
            break
        if after >= 0:
            found = min(at, every) if over_all else before
            result[query] = summed / found if found > 0 else 0.0
