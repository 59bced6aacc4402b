"""What several studies share: hashers of several seeds, and scores of a ranking."""

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
