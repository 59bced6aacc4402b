"""What several studies measure: hashers of several seeds, and the exact recall of rankings by any score."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from lbhash.data import EmbeddingSplit
from lbhash.hasher import Hasher

Scores = npt.NDArray[np.float32] | npt.NDArray[np.int32]
"""Of queries and base rows, ``[queries, base]``; lower is nearer."""


def fit_seeds(hasher: Hasher, split: EmbeddingSplit, classes: int, seeds: Iterable[int]) -> list[Hasher]:
    """Return a hasher of these settings a seed, each fitted to the split."""
    return [clone(hasher).set_params(seed=seed).fit_split(split, classes) for seed in seeds]


def expected_recall(scores: Scores, wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Share of k wanted rows among the first k of a ranking, ``float64 [queries]``.

    Rows of equal scores count as in a random order, in expectation: of n rows that share the k-th score, m have a place
    among the first k, and a wanted one of them counts m/n.

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
