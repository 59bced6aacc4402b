"""What several studies share: hashers of several seeds."""

from __future__ import annotations

from collections.abc import Iterable

from sklearn.base import clone

from lbhash.data import EmbeddingSplit
from lbhash.hasher import Hasher


def fit_seeds(hasher: Hasher, split: EmbeddingSplit, classes: int, seeds: Iterable[int]) -> list[Hasher]:
    """Return a hasher of these settings a seed, each fitted to the split."""
    return [clone(hasher).set_params(seed=seed).fit_split(split, classes) for seed in seeds]
