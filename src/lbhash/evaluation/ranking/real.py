"""Rankings of a base by the real outputs of queries (``lbhash.codes.real``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes
from lbhash.codes.real import Asked
from lbhash.evaluation.ranking.histogram import Ranking, ranking_of
from lbhash.utils.labels import Numbers, shared_labels


class Distinct(NamedTuple):
    """A base in which rows of equal code and label, frequent after training, are compared once."""

    codes: PackedCodes
    labels: Numbers
    sizes: npt.NDArray[np.int64]
    """How many rows each stands for."""


def distinct_rows(parts: Sequence[tuple[PackedCodes, Numbers]]) -> Distinct:
    """Return the distinct rows of a base in parts, whose codes and labels are checked."""
    codes, labels = (np.concatenate([np.asarray(part[one]) for part in parts]) for one in (0, 1))
    both = np.hstack([codes, np.ascontiguousarray(labels.reshape(len(labels), -1)).view(np.uint8)])
    _, first, sizes = np.unique(both, axis=0, return_index=True, return_counts=True)
    return Distinct(codes[first], labels[first], sizes)


def real_rankings(asked: Asked, query_labels: Numbers, base: Distinct) -> Iterator[Ranking]:
    """Yield rankings of consecutive blocks of queries, with a group for each distance."""
    for some, distances in asked.blocks(base.codes):
        yield ranking_of(distances, shared_labels(query_labels[some], base.labels), base.sizes)
