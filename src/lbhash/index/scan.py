"""Exact search: FAISS compares every query with every code of an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes
from lbhash.index.ids import Ids
from lbhash.index.results import Neighbors, Within

Hits: TypeAlias = tuple[npt.NDArray[np.int32], Ids]
"""Distances and ids of the codes found."""

_FAST = (4, 8, 16, 20, 32, 64)  # bytes
QUERIES = 1 << 16
"""The most queries that ``in_order`` takes."""
_POSITION, _QUERY = 37, 48  # first bit of the distance (at most 1,024) and of the query in a key


def padded(codes: PackedCodes) -> PackedCodes:
    """Append zero bytes to each code, so that FAISS is fastest; return the same array if none are needed.

    FAISS has a special loop for each of a few lengths. Its general loop takes up to four times as long. Codes longer
    than 64 bytes are not padded: it would not help.
    """
    width = codes.shape[1]
    wide = next((fast for fast in _FAST if width <= fast), width)
    if wide == width:
        return codes
    found = np.zeros((len(codes), wide), np.uint8)
    found[:, :width] = codes
    return found


def nearest(queries: PackedCodes, codes: PackedCodes, k: int) -> Neighbors:
    """Return the k nearest codes of each query, with their positions as ids; the codes may be ``padded``.

    Among codes at the k-th distance FAISS keeps those it met first, and it orders equal distances by position. So the
    result is the head of the full ranking by distance, then position.
    """
    import faiss

    return Neighbors(*faiss.knn_hamming(_alike(queries, codes), codes, k))


def _alike(queries: PackedCodes, codes: PackedCodes) -> PackedCodes:
    return queries if queries.shape[1] == codes.shape[1] else padded(queries)


def within(queries: PackedCodes, codes: PackedCodes, radius: int) -> Within:
    """Return all codes within ``radius`` bits of each query, with their positions as ids.

    The codes may be ``padded``.
    """
    import faiss

    queries = _alike(queries, codes)
    found = faiss.RangeSearchResult(len(queries))
    arguments = [faiss.swig_ptr(queries), faiss.swig_ptr(codes), len(queries), len(codes)]
    # FAISS's radius is the first distance that is too far.
    faiss.hamming_range_search(*arguments, radius + 1, codes.shape[1], found)  # type: ignore[attr-defined]
    limits = faiss.rev_swig_ptr(found.lims, len(queries) + 1).astype(np.int64)
    count = int(limits[-1])
    if not count:
        return Within(limits, np.empty(0, np.int32), np.empty(0, np.int64))
    distances = faiss.rev_swig_ptr(found.distances, count).astype(np.int32)
    return by_distance(limits, distances, faiss.rev_swig_ptr(found.labels, count).astype(np.int64))


def by_distance(limits: Ids, distances: npt.NDArray[np.int32], positions: Ids) -> Within:
    """Return each query's results in the order of distance, then position."""
    found = Within(limits, np.empty_like(distances), np.empty_like(positions))
    queries = len(limits) - 1
    for low in range(0, queries, QUERIES):
        ends = limits[low : low + QUERIES + 1]
        some = slice(ends[0], ends[-1])
        query = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
        found.distances[some], found.ids[some] = in_order(query, distances[some], positions[some])
    return found


def in_order(
    query: Ids, distances: npt.NDArray[np.int32], positions: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int32], Ids]:
    """Return distances and positions by query (a number below ``QUERIES``), then distance, then position.

    All three are packed into one integer: sorting it is many times faster than sorting three columns.
    """
    keys = query.astype(np.uint64) << np.uint64(_QUERY) | distances.astype(np.uint64) << np.uint64(_POSITION)
    keys |= positions.astype(np.uint64)
    keys.sort(kind="stable")  # the fastest sort here: positions come in increasing runs
    near = keys >> np.uint64(_POSITION) & np.uint64((1 << _QUERY - _POSITION) - 1)
    return near.astype(np.int32), (keys & np.uint64((1 << _POSITION) - 1)).astype(np.int64)


def merge_nearest(parts: Sequence[Neighbors], queries: int, k: int) -> Neighbors:
    """Merge the results of several searches of the same queries: the k nearest, or all if there are fewer."""
    if len(parts) == 1:
        return parts[0]
    distances = np.concatenate([np.empty((queries, 0), np.int32), *(part.distances for part in parts)], axis=1)
    ids = np.concatenate([np.empty((queries, 0), np.int64), *(part.ids for part in parts)], axis=1)
    return ranked(distances, ids, k)


def ranked(distances: npt.NDArray[np.int32], ids: npt.NDArray[np.int64], k: int) -> Neighbors:
    """Return the first k of each row by distance, then id."""
    order = np.lexsort((ids, distances), axis=1)[:, :k]
    return Neighbors(np.take_along_axis(distances, order, 1), np.take_along_axis(ids, order, 1))


def merge_within(parts: Sequence[Within], queries: int) -> Within:
    """Merge the results of several range searches of the same queries, ordered by query, distance, then id."""
    if len(parts) == 1:
        return parts[0]
    hits = [(part.distances, part.ids) for part in parts]
    owners = [np.repeat(np.arange(queries), np.diff(part.limits)) for part in parts]
    return ordered(hits, np.concatenate([np.empty(0, np.int64), *owners]), queries)


def joined(hits: Sequence[Hits]) -> Hits:
    """Merge the results of several searches."""
    distances = np.concatenate([np.empty(0, np.int32), *(distances for distances, _ in hits)])
    return distances, np.concatenate([np.empty(0, np.int64), *(ids for _, ids in hits)])


def ordered(hits: Sequence[Hits], owner: Ids, queries: int) -> Within:
    """Return hits ordered by query, distance, then id; ``owner`` is the query of each hit."""
    distances, ids = joined(hits)
    order = np.lexsort((ids, distances, owner))
    limits = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=queries))]).astype(np.int64)
    return Within(limits, distances[order], ids[order])
