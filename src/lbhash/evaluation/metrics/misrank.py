"""The paper's mis-rank, and the lowest average precision that it permits.

The mis-rank m of a relevant base code is the number of irrelevant ones ranked before it. At rank i its precision is
(i - m) / i, so average precision over a whole list is the mean of ``(i - m) / i`` over the ranks of relevant codes.
("A Lower Bound of Hash Codes' Performance", NeurIPS 2022, section 3.)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lbhash.evaluation.metrics.common import Floats, all_relevant, check_rank, ratio
from lbhash.evaluation.metrics.sums import harmonic
from lbhash.evaluation.ranking import Ranking
from lbhash.utils.arrays import as_array

_harmonic = np.vectorize(harmonic, otypes=[np.float64])


def mean_misrank(hist: Ranking) -> Floats:
    """Return the mean over a query's relevant base codes of the number of irrelevant ones before them, expected.

    In a random order half of the ``n_d - r_d`` irrelevant codes at its own distance come before a relevant one:
    ``sum_d r_d (N_d - R_d + (n_d - r_d) / 2) / sum_d r_d``. It is NaN for a query to which no base code is relevant.
    """
    check_rank(hist, None)
    relevant = hist.relevant
    wrong = hist.total - relevant
    before = np.cumsum(wrong, axis=1) - wrong / 2
    return ratio((relevant * before).sum(axis=1), all_relevant(hist), np.nan)


def largest_misrank(hist: Ranking) -> npt.NDArray[np.int64]:
    """Return the largest mis-rank of a query's relevant base codes in the worst order of ties, ``int64 [queries]``.

    It is the number of irrelevant codes within the distance of the farthest relevant code; 0 if none is relevant.
    """
    relevant = hist.relevant
    wrong = np.cumsum(hist.total - relevant, axis=1)
    return np.where(relevant > 0, wrong, 0).max(axis=1, initial=0)


def lowest_average_precision(relevant: npt.ArrayLike, misrank: npt.ArrayLike, head: npt.ArrayLike = 0) -> Floats:
    """Return the lowest AP of all lists of K relevant codes that begin with f of them and have mis-ranks up to m.

    ``1 - (m / K) (H_{m+K} - H_{m+f})``, with the harmonic numbers H.

    Proof: the first f have precision 1. The j-th has rank j + m_j with m_j <= m, hence precision j / (j + m_j) >=
    j / (j + m), and AP >= (1/K) (f + sum over j = f+1 ... K of j / (j + m)). Equality holds for f relevant codes, m
    irrelevant ones, then the other K - f relevant ones.

    The paper's appendix has the sum ``min d(q, fp) - 1 + sum over i = min d(q, fp) ... K of i / (max d(q, tp) - min
    d(q, fp) + i)``. That is the same if d counts places in the list: the first irrelevant code fp is at place f + 1,
    and the first relevant code behind the irrelevant ones, tp, at place f + 1 + m. It lacks the division by K: for m =
    0 it is K, not 1. Hamming distances are not places, as many codes share one distance.

    Args:
        relevant: K.
        misrank: m.
        head: f, at most K.

    All are integers of at least 0 that broadcast, or else it is a ``ValueError``; the result is NaN where K is 0.

    >>> float(lowest_average_precision(2, 1))  # irrelevant, relevant, relevant: (1/2 + 2/3) / 2
    0.5833333333333334
    >>> float(lowest_average_precision(2, 1, 1))  # relevant, irrelevant, relevant: (1 + 2/3) / 2
    0.8333333333333334
    """
    given = (_integers(relevant, "relevant"), _integers(misrank, "misrank"), _integers(head, "head"))
    k, m, f = np.broadcast_arrays(*given)
    if (f > k).any():
        raise ValueError(f"head is {head!r}; it must be at most relevant, {relevant!r}")
    lowest = 1 - m / np.maximum(k, 1) * (_harmonic(m + f, k - f) if k.size else 0.0)
    return np.where(k > 0, lowest, np.nan)


def average_precision_floor(hist: Ranking) -> Floats:
    """Return the value that each query's AP over the whole base cannot fall below.

    It follows from the query's largest mis-rank, and from the number of relevant codes nearer than any irrelevant code.
    The AP in the worst order of ties is at least this value. It is NaN for a query to which no base code is relevant.
    """
    relevant = hist.relevant
    wrong = np.cumsum(hist.total - relevant, axis=1)
    head = np.where(wrong == 0, relevant, 0).sum(axis=1)
    return lowest_average_precision(all_relevant(hist), largest_misrank(hist), head)


def _integers(values: npt.ArrayLike, name: str) -> npt.NDArray[np.int64]:
    array = as_array(values, name)
    if array.dtype.kind not in "iu" or (array < 0).any():
        raise ValueError(f"{name} is {values!r}; it must hold integers of at least 0")
    return array.astype(np.int64)
