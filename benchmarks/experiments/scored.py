"""mAP and recall of rankings by any score, exactly; rows of equal scores count as in a random order, in expectation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lbhash.evaluation.ranking import Ranking

Scores = npt.NDArray[np.float32] | npt.NDArray[np.int32]
"""Of queries and base rows, ``[queries, base]``; lower is nearer."""


def ranking_of(scores: Scores, relevant: npt.NDArray[np.bool_]) -> Ranking:
    """The ranking by a score, in groups of equal scores, as ``lbhash.evaluation.metrics`` takes it.

    Args:
        scores: ``[queries, base]``, lower is nearer.
        relevant: ``bool [queries, base]``.
    """
    if scores.dtype.kind == "i":  # few values, and no need to sort
        hits = relevant
        groups = scores - scores.min()
    else:
        order = np.argsort(scores, axis=1)
        hits = np.take_along_axis(relevant, order, 1)
        ordered = np.take_along_axis(scores, order, 1)
        groups = np.zeros(scores.shape, np.int64)
        np.cumsum(ordered[:, 1:] != ordered[:, :-1], axis=1, out=groups[:, 1:])
    rows, count = len(scores), int(groups.max()) + 1
    cells = groups + count * np.arange(rows)[:, None]
    total = np.bincount(cells.ravel(), minlength=rows * count)
    found = np.bincount(cells[hits], minlength=rows * count)
    return Ranking(total.reshape(rows, count), found.reshape(rows, 1, count))


def expected_recall(scores: Scores, wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Share of k wanted rows among the first k of a ranking, ``float64 [queries]``.

    Of n rows that share the k-th score, m have a place among the first k; a wanted one of them counts m/n.

    Args:
        scores: ``[queries, base]``, lower is nearer.
        wanted: positions of base rows, ``int64 [queries, k]``.
    """
    k = wanted.shape[1]
    last = np.partition(scores, k - 1, axis=1)[:, k - 1 : k]
    nearer, tied = (scores < last).sum(axis=1), (scores == last).sum(axis=1)
    of_wanted = np.take_along_axis(scores, wanted, 1)
    found = (of_wanted < last).sum(axis=1) + (of_wanted == last).sum(axis=1) * (k - nearer) / tied
    return found / k
