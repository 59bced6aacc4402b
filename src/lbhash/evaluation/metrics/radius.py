"""What a look-up in a hash table finds: everything within a Hamming radius. Ties do not matter to it."""

from __future__ import annotations

import numpy as np

from lbhash.evaluation.metrics.common import Floats, all_relevant, check_radius, ratio
from lbhash.evaluation.ranking import Ranking


def precision_within(hist: Ranking, radius: int) -> Floats:
    """Precision of a look-up in a hash table, P@H<=radius: relevant codes within the radius over all codes within it.

    A query that finds nothing has precision 0 (Liu et al., "Hashing with Graphs", ICML 2011, and most papers since).

    Returns:
        ``float64 [queries]``.

    Raises:
        TypeError, ValueError: the radius, in bits, is not an integer from 0 to the length of a code.
    """
    end = check_radius(radius, hist.total.shape[1] - 1) + 1
    return ratio(hist.relevant[:, :end].sum(axis=1), hist.total[:, :end].sum(axis=1), 0.0)


def recall_within(hist: Ranking, radius: int) -> Floats:
    """Recall of a look-up: relevant codes within the radius over all relevant base codes.

    Returns:
        ``float64 [queries]``; NaN for a query to which no base code is relevant.

    Raises:
        TypeError, ValueError: the radius, in bits, is not an integer from 0 to the length of a code.
    """
    end = check_radius(radius, hist.total.shape[1] - 1) + 1
    return ratio(hist.relevant[:, :end].sum(axis=1), all_relevant(hist), np.nan)


def empty_within(hist: Ranking, radius: int) -> Floats:
    """1 for a query whose look-up finds no code at all, else 0; its mean is the share of empty results.

    Returns:
        ``float64 [queries]``.

    Raises:
        TypeError, ValueError: the radius, in bits, is not an integer from 0 to the length of a code.
    """
    end = check_radius(radius, hist.total.shape[1] - 1) + 1
    return (hist.total[:, :end].sum(axis=1) == 0).astype(np.float64)
