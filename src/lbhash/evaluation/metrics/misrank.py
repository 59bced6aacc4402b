"""The paper's mis-rank, and the lowest average precision that it leaves possible.

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

    That is how many irrelevant codes lie within the distance of its farthest relevant one; 0 if none is relevant.
    """
    relevant = hist.relevant
    wrong = np.cumsum(hist.total - relevant, axis=1)
    return np.where(relevant > 0, wrong, 0).max(axis=1, initial=0)


def lowest_average_precision(relevant: npt.ArrayLike, misrank: npt.ArrayLike) -> Floats:
    """Return the lowest AP of all lists with K relevant codes none of which has more than m irrelevant ones before it.

    ``1 - (m / K) (H_{m+K} - H_m)``, with the harmonic numbers H.

    Proof: the j-th relevant code of a list has rank i = j + m_j with m_j <= m, hence precision j / (j + m_j) >=
    j / (j + m), and AP >= (1/K) sum_j j / (j + m) = (1/K) sum_j (1 - m / (j + m)). Equality holds where all m_j are m:
    m irrelevant codes, then the K relevant ones without a gap, at the ranks m + 1 to m + K. That is the list of the
    paper's appendix, ``sum over i = m+1 ... m+K of (i - m) / i``, which is printed there without the division by K: for
    m = 0 it would read K and not 1.

    K (``relevant``) and m (``misrank``) are integers of at least 0 that broadcast, or else it is a ``ValueError``; the
    result is NaN where K is 0.

    >>> float(lowest_average_precision(2, 1))  # irrelevant, relevant, relevant: (1/2 + 2/3) / 2
    0.5833333333333334
    """
    k, m = np.broadcast_arrays(_integers(relevant, "relevant"), _integers(misrank, "misrank"))
    lowest = 1 - m / np.maximum(k, 1) * (_harmonic(m, k) if k.size else 0.0)
    return np.where(k > 0, lowest, np.nan)


def average_precision_floor(hist: Ranking) -> Floats:
    """Return the value that each query's AP over the whole base cannot fall below, by its largest mis-rank alone.

    The AP in the worst order of ties is at least that. It is NaN for a query to which no base code is relevant.
    """
    return lowest_average_precision(all_relevant(hist), largest_misrank(hist))


def _integers(values: npt.ArrayLike, name: str) -> npt.NDArray[np.int64]:
    array = as_array(values, name)
    if array.dtype.kind not in "iu" or (array < 0).any():
        raise ValueError(f"{name} is {values!r}; it must hold integers of at least 0")
    return array.astype(np.int64)
