"""The paper's mis-rank, and the lowest average precision that it leaves possible.

The mis-rank m of a relevant base code is the number of irrelevant ones ranked before it. At rank i its precision is
(i - m) / i, so average precision over a whole list is the mean of ``(i - m) / i`` over the ranks of relevant codes.
("A Lower Bound of Hash Codes' Performance", NeurIPS 2022, section 3.)
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from lbhash.evaluation.metrics.common import TIES, Floats, Ties, all_relevant, check_choice, check_rank, ratio
from lbhash.evaluation.metrics.sums import harmonic
from lbhash.evaluation.ranking import Ranking


def mean_misrank(hist: Ranking, ties: Ties = "expected") -> Floats:
    """Mean over a query's relevant base codes of the number of irrelevant ones before them.

    In a random order half of the ``n_d - r_d`` irrelevant codes at its own distance come before a relevant one; none of
    them in the best order, and all in the worst: ``sum_d r_d (N_d - R_d + (n_d - r_d) / 2) / sum_d r_d``.

    Returns:
        ``float64 [queries]``; NaN for a query to which no base code is relevant.

    Raises:
        ValueError: ``ties`` is not "expected", "best" or "worst"; the histogram is empty.
    """
    check_choice(ties, TIES, "ties")
    check_rank(hist, None, "k")
    relevant = hist.relevant
    wrong = hist.total - relevant
    before = np.cumsum(wrong, axis=1) - wrong * {"best": 1.0, "expected": 0.5, "worst": 0.0}[ties]
    return ratio((relevant * before).sum(axis=1), all_relevant(hist), np.nan)


def largest_misrank(hist: Ranking) -> npt.NDArray[np.int64]:
    """The largest mis-rank of a query's relevant base codes in the worst order of ties.

    That is how many irrelevant codes lie within the distance of its farthest relevant one, ``max d(q, relevant)``. It
    is 0 if every relevant code is nearer than every irrelevant one.

    Returns:
        ``int64 [queries]``; 0 for a query to which no base code is relevant.
    """
    relevant = hist.relevant
    wrong = np.cumsum(hist.total - relevant, axis=1)
    return np.where(relevant > 0, wrong, 0).max(axis=1, initial=0)


def lowest_average_precision(relevant: npt.ArrayLike, misrank: npt.ArrayLike) -> Floats:
    """The lowest AP of all lists with K relevant codes none of which has more than m irrelevant ones before it.

    ``1 - (m / K) (H_{m+K} - H_m)``, with the harmonic numbers H.

    Proof: the j-th relevant code of a list has rank i = j + m_j with m_j <= m, hence precision j / (j + m_j) >=
    j / (j + m), and AP >= (1/K) sum_j j / (j + m) = (1/K) sum_j (1 - m / (j + m)). Equality holds where all m_j are m:
    m irrelevant codes, then the K relevant ones without a gap, at the ranks m + 1 to m + K. That is the list of the
    paper's appendix, ``sum over i = m+1 ... m+K of (i - m) / i``, which is printed there without the division by K: for
    m = 0 it would read K and not 1.

    Args:
        relevant: K, at least 1.
        misrank: m, at least 0.

    Returns:
        ``float64``, in the shape to which both broadcast; NaN where K is 0.

    Raises:
        ValueError: a value is negative or not whole.

    >>> float(lowest_average_precision(2, 1))  # irrelevant, relevant, relevant: (1/2 + 2/3) / 2
    0.5833333333333333
    """
    k, m = np.broadcast_arrays(_whole(relevant, "relevant"), _whole(misrank, "misrank"))
    result = np.empty(k.shape)
    _lowest(k.ravel(), m.ravel(), result.reshape(-1))
    return result


def average_precision_floor(hist: Ranking) -> Floats:
    """What each query's AP over the whole base cannot fall below, by its largest mis-rank alone.

    ``lowest_average_precision`` of its relevant base codes and ``largest_misrank``. The AP in the worst order of ties
    is at least that.

    Returns:
        ``float64 [queries]``; NaN for a query to which no base code is relevant.
    """
    return lowest_average_precision(all_relevant(hist), largest_misrank(hist))


def _whole(values: npt.ArrayLike, name: str) -> npt.NDArray[np.int64]:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or (array < 0).any():
        raise ValueError(f"{name} is {values!r}; it must hold integers of at least 0")
    return array.astype(np.int64)


@numba.njit(nogil=True, cache=True)
def _lowest(relevant: Any, misrank: Any, result: Any) -> None:
    for place in range(len(relevant)):
        k, m = relevant[place], misrank[place]
        result[place] = 1 - m / k * harmonic(m, k) if k > 0 else np.nan
