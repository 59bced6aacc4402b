"""What a look-up in a hash table finds: everything within a Hamming radius. Ties make no difference to it."""

from __future__ import annotations

import numpy as np

from lbhash.evaluation.metrics.common import Floats, all_relevant, ratio
from lbhash.evaluation.ranking import Ranking
from lbhash.evaluation.ranking.histogram import Counts
from lbhash.utils.validation import check_int


def precision_within(hist: Ranking, radius: int) -> Floats:
    """Return the precision of a look-up, P@H<=radius: relevant codes within the radius over all codes within it.

    A query that finds nothing has precision 0 (Liu et al., "Hashing with Graphs", ICML 2011, and most papers since).
    """
    found, relevant = _within(hist, radius)
    return ratio(relevant, found, 0.0)


def recall_within(hist: Ranking, radius: int) -> Floats:
    """Return the recall of a look-up; NaN for a query to which no base code is relevant."""
    return ratio(_within(hist, radius)[1], all_relevant(hist), np.nan)


def empty_within(hist: Ranking, radius: int) -> Floats:
    """Return 1 for a query whose look-up finds no code at all, else 0; the mean is the share of empty results."""
    return (_within(hist, radius)[0] == 0).astype(np.float64)


def _within(hist: Ranking, radius: int) -> tuple[Counts, Counts]:
    """Return the number of codes within the radius, and of relevant ones, ``[queries]`` each."""
    end = check_int(radius, "radius", 0, hist.total.shape[1] - 1, "the length of a code") + 1
    return hist.total[:, :end].sum(axis=1), hist.relevant[:, :end].sum(axis=1)
