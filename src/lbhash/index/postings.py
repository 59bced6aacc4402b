"""Equal codes of a segment, stored once: the distinct codes, each with its positions.

Trained codes collapse onto their class centers, so most codes of a large base occur more than once. A search compares
the query with the distinct codes only. The answer is the same; ties are ordered by position.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, as_words
from lbhash.codes.distinct import changes, row_keys
from lbhash.index import scan
from lbhash.index.results import Neighbors, Within

if TYPE_CHECKING:
    from lbhash.codes.real import Asked, Found

Counts: TypeAlias = npt.NDArray[np.int64]

SHARE = 0.5
"""Largest share of distinct codes for which equal codes are stored once."""
_MOST = 1 << 22  # positions sorted at a time (more if one query needs more)


@dataclass(frozen=True, eq=False)
class Postings:
    """The distinct codes of a segment in the order of their first positions, and the positions of each."""

    codes: PackedCodes
    """``uint8 [distinct, bytes]``."""
    sizes: Counts
    """Number of positions per code, ``int64 [distinct]``; 0 if all were removed."""
    positions: npt.NDArray[np.uint32]
    """The positions of the first code, increasing, then of the second, and so on."""

    @cached_property
    def starts(self) -> Counts:
        """Where the positions of each code begin, ``int64 [distinct]``."""
        return np.cumsum(self.sizes) - self.sizes

    @cached_property
    def owners(self) -> npt.NDArray[np.uint32]:
        """The number of the distinct code at each position; valid while no positions are removed."""
        owners = np.empty(len(self.positions), np.uint32)
        owners[self.positions] = np.repeat(np.arange(len(self.codes), dtype=np.uint32), self.sizes)
        return owners

    def held(self, codes: Counts) -> Counts:
        """Return how many positions have each of these codes; −1 stands for none."""
        return np.where(codes >= 0, self.sizes[codes], 0)

    def kept(self, keep: npt.NDArray[np.bool_]) -> Postings:
        """Return the postings of the positions where ``keep`` is true; none may have been removed before."""
        kept = keep[self.positions]
        return Postings(self.codes, np.add.reduceat(kept, self.starts, dtype=np.int64), self.positions[kept])

    def nearest(self, queries: PackedCodes, k: int) -> Neighbors:
        """Return the k nearest positions of each query by distance, then position, or all if there are fewer.

        The k distinct codes that are nearest (by distance, then first position) suffice: the first position of each
        comes before all positions of later codes.
        """
        codes, numbers = self._scanned
        found = scan.nearest(queries, codes, min(k, len(codes)))
        return self.first(found.distances, numbers[found.ids], k)

    def first(self, distances: npt.NDArray[np.int32], codes: Counts, k: int) -> Neighbors:
        """Return the first k positions of some distinct codes for each query, or all if the segment has fewer.

        The distances increase. The codes, ``int64 [queries, m]``, have at least k positions in all; −1 stands for none.
        """
        k = min(k, len(self.positions))
        held = self.held(codes)
        before = np.cumsum(held, axis=1) - held
        new = np.ones(distances.shape, bool)
        new[:, 1:] = distances[:, 1:] != distances[:, :-1]
        nearer = np.maximum.accumulate(np.where(new, before, 0), axis=1)  # number of positions at a lower distance
        taken = np.where(nearer < k, np.minimum(held, k), 0)
        found = Neighbors(np.empty((len(codes), k), np.int32), np.empty((len(codes), k), np.int64))
        step = min(scan.QUERIES, max(1, _MOST // int(taken.sum(axis=1).max(initial=1))))
        for low in range(0, len(codes), step):
            some = slice(low, low + step)
            counts = taken[some].ravel()
            at = np.repeat(np.arange(len(counts)), counts)  # each position's cell in ``codes``
            positions = self.positions[_runs(self.starts[codes[some].ravel()], counts)]
            ordered = scan.in_order(at // codes.shape[1], distances[some].ravel()[at], positions)
            ends = np.cumsum(taken[some].sum(axis=1))
            first = np.append(0, ends[:-1])[:, None] + np.arange(k)
            found.distances[some], found.ids[some] = (column[first] for column in ordered)
        return found

    def nearest_real(self, asked: Asked, k: int) -> Found:
        """Return the k nearest positions of each query by real outputs, then position, or all if there are fewer."""
        codes, numbers = self._scanned
        found = asked.nearest(codes[:, : asked.codes.shape[1]], min(k, len(codes)))
        return self.first_real(found._replace(ids=numbers[found.ids]), k)

    def first_real(self, found: Found, k: int) -> Found:
        """Return the first k positions of some distinct codes, as ``first`` does."""
        order = np.zeros(found.distances.shape, np.int32)
        np.cumsum(found.distances[:, 1:] != found.distances[:, :-1], axis=1, out=order[:, 1:])
        values = np.empty(order.shape)
        np.put_along_axis(values, order, found.distances, 1)
        ranks, positions = self.first(order, np.where(np.isfinite(found.distances), found.ids, -1), k)
        return found._replace(distances=np.take_along_axis(values, ranks, 1), ids=positions)

    def within(self, queries: PackedCodes, radius: int) -> Within:
        """Return all positions within a radius of each query."""
        codes, numbers = self._scanned
        found = scan.within(queries, codes, radius)
        near = numbers[found.ids]
        held = self.sizes[near]
        ends = np.append(0, np.cumsum(held))[found.limits]
        positions = self.positions[_runs(self.starts[near], held)].astype(np.int64)
        return scan.by_distance(ends, np.repeat(found.distances, held), positions)

    @cached_property
    def _scanned(self) -> tuple[PackedCodes, Counts]:
        """The codes with at least one position, ordered by first position and ``scan.padded``, and their numbers."""
        numbers = np.flatnonzero(self.sizes)
        numbers = numbers[np.argsort(self.positions[self.starts[numbers]], kind="stable")]
        whole = np.array_equal(numbers, np.arange(len(self.codes)))
        return scan.padded(self.codes if whole else self.codes[numbers]), numbers


def group(codes: PackedCodes) -> Postings | None:
    """Return the postings of the rows of ``codes``, or None if too few of them are equal to others."""
    words = as_words(codes)
    keys = row_keys(words)
    ordered = np.sort(keys)
    if len(codes) >= 1 << 32 or np.count_nonzero(ordered[1:] != ordered[:-1]) >= SHARE * len(codes):
        return None
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(changes(words[order]))
    sizes = np.diff(np.append(starts, len(codes)))
    by_first = np.argsort(order[starts])
    starts, sizes = starts[by_first], sizes[by_first]
    return Postings(codes[order[starts]], sizes, order[_runs(starts, sizes)].astype(np.uint32))


def _runs(starts: Counts, sizes: Counts) -> Counts:
    """Return ``size`` consecutive integers from each start on, concatenated."""
    ends = np.cumsum(sizes)
    return np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - (ends - sizes), sizes)
