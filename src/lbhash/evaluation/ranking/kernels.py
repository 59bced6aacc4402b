"""The compiled loops over pairs of a query and a base code.

The base comes word by word, ``[words, n]``, so that loops over codes turn into vector instructions. Every index of a
count is unsigned, which spares Numba's test for negative ones. Neighboring codes often have the same distance, and an
addition to a count has to wait for the one before it to be stored: hence four histograms that take turns. They count a
tile at most, so 32 bits are enough. A task is a block of queries on a part of the base, and threads share the tasks. If
there are few queries, there are several parts, each with its own counts, ``[parts, queries, ...]``.

Threads are ours, as code for Numba's own (``parallel=True``) takes longer to compile.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lbhash.codes.popcount import popcount
from lbhash.utils.compiled import compiled
from lbhash.utils.threads import in_threads, thread_count

Words = npt.NDArray[np.uint64]
Task: TypeAlias = tuple[int, int, int, int, int]

_TILE_WORDS = 1 << 14  # 128 KiB: a tile of the base stays in L2 while a block of queries passes over it
_TILE_CODES = 1 << 13  # at least so many codes a tile, or the sums over its histograms would cost as much as they do
_TILE_SLOTS = 16  # and so many for every slot of a histogram, for the same reason
_STEP = 2048  # codes whose distances are written down at a time: 4 KiB, which stays in L1
_BLOCK = 16  # queries a task takes
_PAIRS = 1 << 20  # fewer are not worth a thread
_TASKS = 4  # tasks a thread, if there are enough queries or codes


def by_word(words: Words) -> Words:
    """Return the base's words as the kernels take them: ``[n, words]`` to ``[words, n]``, in C order."""
    return np.ascontiguousarray(words.T)


def split(queries: int, rows: int) -> tuple[int, int]:
    """Return how the threads share the work: queries in a block, and parts of the base."""
    if queries * rows < _PAIRS:
        return max(1, queries), 1
    wanted = _TASKS * thread_count()
    block = max(1, min(_BLOCK, queries // wanted))
    blocks = -(-queries // block)
    return block, max(1, min(-(-wanted // blocks), rows // _TILE_CODES))


def tasks(queries: int, rows: int, block: int, parts: int = 1) -> Iterator[Task]:
    """Yield the tasks of ``split``: a part of the base, the first and last of its queries, and of its rows."""
    for part in range(parts):
        for start in range(0, queries, block):
            yield part, start, min(start + block, queries), rows * part // parts, rows * (part + 1) // parts


@compiled
def _distances(query: Any, base: Any, low: int, places: Any) -> None:
    """Write the distances of base codes from ``low`` on to ``places``."""
    mine, column = query[0], base[0, low : low + places.size]
    for row in range(places.size):
        places[row] = popcount(mine ^ column[row])
    for word in range(1, query.size):
        mine, column = query[word], base[word, low : low + places.size]
        for row in range(places.size):
            places[row] += popcount(mine ^ column[row])


@compiled
def _add_places(places: Any, counts: Any, slots: int) -> None:
    """Count places in the four histograms of ``counts``, ``slots`` long each."""
    one, two, three = np.uint64(slots), np.uint64(2 * slots), np.uint64(3 * slots)
    fours = places.size // 4
    for four in range(fours):
        row = np.uint64(4 * four)
        counts[np.uint64(places[row])] += np.int32(1)
        counts[one + np.uint64(places[row + np.uint64(1)])] += np.int32(1)
        counts[two + np.uint64(places[row + np.uint64(2)])] += np.int32(1)
        counts[three + np.uint64(places[row + np.uint64(3)])] += np.int32(1)
    for rest in range(4 * fours, places.size):
        counts[np.uint64(places[rest])] += np.int32(1)


@compiled
def _add_sum(counts: Any, slots: int, into: Any) -> None:
    for place in range(slots):
        into[place] += counts[place] + counts[slots + place] + counts[2 * slots + place] + counts[3 * slots + place]


@compiled
def _add_run(query: Any, base: Any, weights: Any, first: int, last: int, places: Any, counts: Any, bins: int) -> None:
    """Add the distances of base codes ``first`` to ``last``, each by its weight if there are any, to ``counts``."""
    if weights.size:
        _add_weighted(query, base, weights, first, last, counts, bins)
        return
    for low in range(first, last, _STEP):
        part = places[: min(_STEP, last - low)]
        _distances(query, base, low, part)
        _add_places(part, counts, bins)


@compiled
def _add_weighted(query: Any, base: Any, weights: Any, first: int, last: int, counts: Any, bins: int) -> None:
    turn, turns = np.uint64(0), np.uint64(4 * bins)
    for row in range(np.uint64(first), np.uint64(last)):
        distance = popcount(query[0] ^ base[0, row])
        for word in range(1, query.size):
            distance += popcount(query[word] ^ base[word, row])
        counts[turn + distance] += weights[row]
        turn += np.uint64(bins)
        if turn == turns:
            turn = np.uint64(0)


@compiled
def count_runs(
    queries: Any, base: Any, weights: Any, first: Any, last: Any, total: Any, relevant: Any, task: Task
) -> None:
    """Do a task of counting by distance if the base codes relevant to query i are ``first[i]`` to ``last[i]``.

    ``weights`` is ``int32 [n]``, how often each base code occurs, or empty if that is once each. ``total`` and
    ``relevant`` are ``int64 [parts, queries, bins]``.
    """
    part, from_query, to_query, from_row, to_row = task
    bins = total.shape[2]
    tile = max(_TILE_WORDS // len(base), _TILE_CODES, _TILE_SLOTS * bins)
    counts = np.zeros(4 * bins, np.int32)
    places = np.empty(_STEP, np.uint16)
    for low in range(from_row, to_row, tile):
        high = min(low + tile, to_row)
        for query in range(from_query, to_query):
            start = min(max(first[query], low), high)
            stop = min(max(last[query], low), high)
            counts[:] = 0
            if start < stop:
                _add_run(queries[query], base, weights, start, stop, places, counts, bins)
                _add_sum(counts, bins, relevant[part, query])
            _add_run(queries[query], base, weights, low, start, places, counts, bins)
            _add_run(queries[query], base, weights, stop, high, places, counts, bins)
            _add_sum(counts, bins, total[part, query])


@compiled
def count_shared(queries: Any, base: Any, query_labels: Any, labels: Any, like: Any, counted: Any, task: Task) -> None:
    """Do a task of counting by grade if the grade of a base code is the number of labels that it shares with the query.

    ``query_labels`` ``[queries, words]`` and ``labels`` ``[words, n]`` are words of label bits. A place in ``counted``,
    ``int64 [parts, queries, grades, bins]``, must fit into the type of ``like``.
    """
    part, from_query, to_query, from_row, to_row = task
    _, _, levels, bins = counted.shape
    slots = levels * bins
    tile = max(_TILE_WORDS // (len(base) + len(labels)), _TILE_CODES, _TILE_SLOTS * slots)
    counts = np.zeros(4 * slots, np.int32)
    places = np.empty(_STEP, like.dtype)
    for low in range(from_row, to_row, tile):
        high = min(low + tile, to_row)
        for query in range(from_query, to_query):
            counts[:] = 0
            for step in range(low, high, _STEP):
                here = places[: min(_STEP, high - step)]
                _distances(queries[query], base, step, here)
                for word in range(len(labels)):
                    mine, column = query_labels[query, word], labels[word, step : step + here.size]
                    for row in range(here.size):
                        here[row] += bins * popcount(mine & column[row])
                _add_places(here, counts, slots)
            _add_sum(counts, slots, counted[part, query].reshape(slots))


def all_distances(queries: Words, base: Words) -> npt.NDArray[np.uint16]:
    """Return every distance, ``[queries, n]``, from words ``[queries, words]`` and ``[words, n]``."""
    found = np.empty((len(queries), base.shape[1]), np.uint16)
    in_threads(lambda query: _distances(queries[query], base, 0, found[query]), range(len(queries)))
    return found
