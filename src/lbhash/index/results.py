"""The results of a search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from lbhash.index.ids import Names

By = Literal["outputs", "embeddings"]
"""The stored vectors by which candidates are re-ranked."""


@dataclass(frozen=True)
class SearchResult:
    """The nearest codes of n queries; it unpacks as ``distances, ids``.

    If fewer codes exist or pass the filter, k is their number, the same for all queries; nothing is padded.

    Attributes:
        distances: the values that order the codes, ``float32 [n, k]``, smaller is nearer: Hamming distances in bits;
            for queries given as outputs ℓ, sums of abs(ℓ) over the bits that differ; after re-ranking, its scores.
        ids: ``[n, k]``, of ``int64``, or objects of the type ``str``. Among equal distances integers increase; texts
            have a fixed order that is not alphabetical.
        hamming: the Hamming distances in bits, ``int32 [n, k]``.

    >>> found = SearchResult(np.zeros((1, 2), np.float32), np.array([[3, 5]]), np.zeros((1, 2), np.int32))
    >>> distances, ids = found
    >>> ids.tolist(), found
    ([[3, 5]], SearchResult(2 nearest of 1 query: distances, ids, hamming))
    """

    distances: npt.NDArray[np.float32]
    ids: Names
    hamming: npt.NDArray[np.int32]

    def __iter__(self) -> Iterator[npt.NDArray]:
        return iter((self.distances, self.ids))

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        queries, k = self.ids.shape
        return f"SearchResult({k} nearest of {queries} quer{'y' if queries == 1 else 'ies'}: distances, ids, hamming)"


class Neighbors(NamedTuple):
    """The k nearest codes of n queries: ``distances`` in bits, ``int32 [n, k]``, and ``ids``, ``[n, k]``."""

    distances: npt.NDArray[np.int32]
    ids: Names

    def result(self) -> SearchResult:
        """Return the public result."""
        return SearchResult(self.distances.astype(np.float32), self.ids, self.distances)


class Within(NamedTuple):
    """All codes within a radius of n queries; the slice ``limits[i]:limits[i + 1]`` belongs to query i.

    ``limits`` is ``int64 [n + 1]``; ``distances`` (in bits, ``int32``) and ``ids`` are ``[limits[n]]``. Each query's
    codes are ordered by distance, then id.
    """

    limits: npt.NDArray[np.int64]
    distances: npt.NDArray[np.int32]
    ids: Names

    def __repr__(self) -> str:
        return f"Within({len(self.ids):,} codes of {len(self.limits) - 1:,} queries: limits, distances, ids)"

    def of(self, query: int) -> tuple[npt.NDArray[np.int32], Names]:
        """Return the distances and ids of one query."""
        found = slice(self.limits[query], self.limits[query + 1])
        return self.distances[found], self.ids[found]
