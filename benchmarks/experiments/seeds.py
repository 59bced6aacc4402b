"""What several studies share: hashers of several seeds, and the precision of their codes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from lbhash.data import EmbeddingSplit
from lbhash.evaluation.metrics import average_precision
from lbhash.evaluation.ranking import RankHistogram
from lbhash.hasher import Hasher
from lbhash.reproduce.runs.sources import Source


def fit_seeds(hasher: Hasher, split: EmbeddingSplit, classes: int, seeds: Iterable[int]) -> list[Hasher]:
    """Return a hasher of these settings a seed, each fitted to the split."""
    return [clone(hasher).set_params(seed=seed).fit_split(split, classes) for seed in seeds]


def precision_of(hasher: Hasher, source: Source, seeds: Iterable[int]) -> npt.NDArray[np.float64]:
    """Return the average precision of every query of the data for every seed, ``[seeds, queries]``.

    It is NaN for a query without a relevant code.
    """
    split, classes = source.training()
    data, found = source.dataset(), []
    for trained in fit_seeds(hasher, split, len(classes), seeds):
        query, base = trained.encode_split(data.query), trained.encode_split(data.base)
        histogram = RankHistogram.from_codes(query, data.query.labels, base, data.base.labels, hasher.bits)
        found.append(average_precision(histogram, source.top_k()))
    return np.array(found)
