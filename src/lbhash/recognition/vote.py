"""The class of a query, by a vote of the base codes nearest to it."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, as_words, check_codes, check_same_width
from lbhash.labels import Labels, check_count, check_single
from lbhash.ranking import check_lengths, distance_counts
from lbhash.ranking.histogram import Counts
from lbhash.ranking.kernels import KERNELS, by_word, popcount


def knn_predict(
    query_codes: npt.ArrayLike, base_codes: npt.ArrayLike, base_labels: Any, k: int = 100
) -> npt.NDArray[np.int64]:
    """Class of each query: the one with most votes among the k base codes nearest in Hamming distance.

    If the codes at the k-th distance are more than the places left, each of them counts as ``places / codes`` of a
    vote: what it would have on average if as many were drawn at random. Of classes with equal votes the lowest wins.
    Votes are counted in whole numbers, so equal is equal.

    Args:
        query_codes: ``uint8 [queries, bytes]``, packed.
        base_codes: ``uint8 [base, bytes]``.
        base_labels: class numbers ``[base]``.
        k: how many codes vote, from 1 to the size of the base.

    Returns:
        ``int64 [queries]``, class numbers.

    Raises:
        TypeError, ValueError: codes, labels or k are not as above; labels are multi-label; the widths differ.

    >>> from lbhash.codes import pack
    >>> knn_predict(pack([[1, 1, 1]]), pack([[1, 1, -1], [1, 1, 1], [-1, -1, -1]]), [5, 5, 2], k=3).tolist()
    [5]
    """
    queries, base = check_codes(query_codes, "query_codes"), check_codes(base_codes, "base_codes")
    check_same_width(queries, base, "query_codes", "base_codes")
    labels = check_single(base_labels, "base_labels")
    check_lengths(base, labels, "base")
    if len(base) == 0:
        raise ValueError("base_codes is empty; it must have at least one row")
    k = check_count(k, "k", len(base), "the size of the base")
    return predict_from_counts(queries, base, labels, distance_counts(queries, base, 8 * base.shape[1]), k)


def knn_accuracy(
    query_codes: npt.ArrayLike,
    query_labels: Any,
    base_codes: npt.ArrayLike,
    base_labels: Any,
    k: int = 100,
) -> float:
    """Share of the queries whose class ``knn_predict`` gets right, from 0 to 1.

    Args:
        query_codes: ``uint8 [queries, bytes]``, packed; at least one.
        query_labels: class numbers ``[queries]``.
        base_codes: ``uint8 [base, bytes]``.
        base_labels: class numbers ``[base]``.
        k: how many codes vote, from 1 to the size of the base.

    Raises:
        TypeError, ValueError: as ``knn_predict``; or there are no queries.
    """
    codes, labels = check_codes(query_codes, "query_codes"), check_single(query_labels, "query_labels")
    check_lengths(codes, labels, "query")
    if len(codes) == 0:
        raise ValueError("query_codes is empty; it must have at least one row")
    return float(np.mean(knn_predict(codes, base_codes, base_labels, k) == labels))


def predict_from_counts(
    queries: PackedCodes, base: PackedCodes, labels: Labels, total: Counts, k: int
) -> npt.NDArray[np.int64]:
    """``knn_predict`` for checked arguments, where ``total`` already says how many codes lie at each distance."""
    ends = np.cumsum(total, axis=1)
    radius = np.argmax(ends >= k, axis=1)
    each = np.arange(len(queries))
    tied = total[each, radius]
    left = k - (ends[each, radius] - tied)
    classes, members = np.unique(labels, return_inverse=True)
    winners = np.empty(len(queries), np.int64)
    with KERNELS:
        _vote(
            as_words(queries),
            by_word(as_words(base)),
            members.astype(np.int64),
            len(classes),
            radius,
            tied,
            left,
            winners,
        )
    return classes[winners]


@numba.njit(nogil=True, cache=True)
def _add_votes(query: Any, base: Any, members: Any, limit: Any, near: int, far: int, votes: Any) -> None:
    """Add ``near`` votes for each code nearer than ``limit`` and ``far`` for each one at it."""
    mine, column = query[0], base[0]
    for row in range(column.size):
        distance = popcount(mine ^ column[np.uint64(row)])  # the first word alone rejects most codes
        if distance <= limit:
            for word in range(1, query.size):
                distance += popcount(query[word] ^ base[word, row])
            if distance <= limit:
                votes[members[row]] += near if distance < limit else far


@numba.njit(parallel=True, nogil=True, cache=True)
def _vote(queries: Any, base: Any, members: Any, classes: int, radius: Any, tied: Any, left: Any, winners: Any) -> None:
    """A code nearer than the radius has ``tied`` votes and one at the radius has ``left``, of which tied makes one."""
    for query in numba.prange(len(queries)):
        votes = np.zeros(classes, np.int64)
        _add_votes(queries[query], base, members, np.uint64(radius[query]), tied[query], left[query], votes)
        winners[query] = np.argmax(votes)
