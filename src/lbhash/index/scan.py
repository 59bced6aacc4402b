"""Exact search: FAISS compares every query with every code of an array."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes
from lbhash.index.base import Neighbors, Within


def nearest(queries: PackedCodes, codes: PackedCodes, k: int) -> Neighbors:
    """Return the k nearest codes of each query, with their positions as ids.

    Of several codes at the k-th distance FAISS keeps those that it met first, and it orders equal distances by
    position: the result is the head of the full ranking by distance, then position.
    """
    import faiss

    return Neighbors(*faiss.knn_hamming(queries, codes, k))


def within(queries: PackedCodes, codes: PackedCodes, radius: int) -> Within:
    """Return all codes within ``radius`` bits of each query, by increasing position, with their positions as ids."""
    import faiss

    found = faiss.RangeSearchResult(len(queries))
    arguments = [faiss.swig_ptr(queries), faiss.swig_ptr(codes), len(queries), len(codes)]
    # FAISS's radius is the first distance that is too far.
    faiss.hamming_range_search(*arguments, radius + 1, codes.shape[1], found)  # type: ignore[attr-defined]
    limits = faiss.rev_swig_ptr(found.lims, len(queries) + 1).astype(np.int64)
    count = int(limits[-1])
    if not count:
        return Within(limits, np.empty(0, np.int32), np.empty(0, np.int64))
    distances = faiss.rev_swig_ptr(found.distances, count).astype(np.int32)
    return Within(limits, distances, faiss.rev_swig_ptr(found.labels, count).astype(np.int64))


def merge_nearest(parts: Sequence[Neighbors], queries: int, k: int) -> Neighbors:
    """Return the k nearest of what several searches of the same queries found, or all if there are fewer."""
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
    """Return all that several searches of the same queries found within a radius, by query, distance, then id."""
    owners = [np.repeat(np.arange(queries), np.diff(part.limits)) for part in parts]
    owner = np.concatenate([np.empty(0, np.int64), *owners])
    distances = np.concatenate([np.empty(0, np.int32), *(part.distances for part in parts)])
    ids = np.concatenate([np.empty(0, np.int64), *(part.ids for part in parts)])
    order = np.lexsort((ids, distances, owner))
    limits = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=queries))]).astype(np.int64)
    return Within(limits, distances[order], ids[order])
