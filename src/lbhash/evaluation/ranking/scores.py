"""Rankings by any score."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lbhash.evaluation.ranking.histogram import Ranking


def ranking_of(scores: npt.NDArray, relevant: npt.NDArray[np.bool_]) -> Ranking:
    """Return the ranking by a score, in groups of equal scores, as ``lbhash.evaluation.metrics`` takes it.

    Args:
        scores: floats or integers ``[queries, base]``, lower is nearer.
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
