"""Rankings by Hamming distance, kept as what they are: two histograms a query.

A ranking by Hamming distance has only ``bits + 1`` places, so all that any metric of it can depend on is how many base
codes, and how many relevant ones, lie at each distance. ``RankHistogram`` counts them over every pair of a query and a
base code, exactly, in memory that does not grow with the base.
"""

from __future__ import annotations

import threading
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from numba import types
from numba.extending import intrinsic

from lbhash.codes import PackedCodes, as_words, check_bits, check_codes, code_bytes
from lbhash.labels import Labels, check_count, check_label_pair, check_labels

Words = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]

CHUNK = 1 << 20
"""Base codes that are taken at a time: it bounds the copies, not the result."""

KERNELS = threading.Lock()
"""Held while a parallel kernel runs: Numba's fallback thread pool ends the process if two threads enter it at once."""

_TILE_WORDS = 1 << 14  # 128 KiB: a tile of the base stays in L2 while a block of queries passes over it
_TILE_CODES = 1 << 13  # at least so many codes a tile, or the sums over its histograms would cost as much as they do
_STEP = 2048  # codes whose distances are written down at a time: 4 KiB, which stays in L1
_BLOCK = 16  # queries a task takes


class RankHistogram:
    """For each query, how many base codes lie at each Hamming distance, and how many of them are relevant.

    A base code is relevant to a query when they have the same class, or, with several labels, share at least one.

    Args:
        query_codes: ``uint8 [queries, bytes]``, packed.
        query_labels: class numbers ``[queries]``, or multi-label (see ``lbhash.labels``).
        bits: the length h of a code; by default 8 * bytes.

    Attributes:
        total: ``int64 [queries, bits + 1]``, base codes at each distance.
        relevant: ``int64 [queries, bits + 1]``, relevant ones among them.

    Raises:
        TypeError, ValueError: the codes or labels are not as above, or differ in length.

    A new one is empty; ``update`` adds a part of the base, as often as there are parts. ``from_codes`` does both.

    >>> from lbhash.codes import pack
    >>> h = RankHistogram(pack([[1, 1]]), [0], bits=2)
    >>> h = h.update(pack([[1, 1], [1, -1], [-1, 1]]), [0, 0, 1])
    >>> h.total.tolist(), h.relevant.tolist()
    ([[1, 2, 0]], [[1, 1, 0]])
    """

    def __init__(self, query_codes: npt.ArrayLike, query_labels: Any, bits: int | None = None) -> None:
        codes = check_codes(query_codes, "query_codes")
        self.bits = check_width(codes, bits, "query_codes")
        self._labels = check_labels(query_labels, "query_labels")
        check_lengths(codes, self._labels, "query")
        self._words = as_words(codes)
        self.total: Counts = np.zeros((len(codes), self.bits + 1), np.int64)
        self.relevant: Counts = np.zeros_like(self.total)

    @classmethod
    def from_codes(
        cls,
        query_codes: npt.ArrayLike,
        query_labels: Any,
        base_codes: npt.ArrayLike,
        base_labels: Any,
        bits: int | None = None,
        chunk: int = CHUNK,
    ) -> RankHistogram:
        """Count a whole base.

        Args:
            query_codes: ``uint8 [queries, bytes]``, packed.
            query_labels: class numbers ``[queries]``, or multi-label.
            base_codes: ``uint8 [base, bytes]``.
            base_labels: class numbers ``[base]``, or multi-label with as many classes as the queries.
            bits: the length h of a code; by default 8 * bytes.
            chunk: base codes to take at a time.
        """
        chunk = check_count(chunk, "chunk")
        query_labels, base_labels = check_label_pair(query_labels, base_labels)
        histogram = cls(query_codes, query_labels, bits)
        codes = check_codes(base_codes, "base_codes")
        check_lengths(codes, base_labels, "base")
        for start in range(0, max(len(codes), 1), chunk):
            histogram.update(codes[start : start + chunk], base_labels[start : start + chunk])
        return histogram

    @property
    def queries(self) -> int:
        """Number of queries."""
        return len(self.total)

    @property
    def base(self) -> int:
        """Number of base codes counted so far."""
        return int(self.total[0].sum()) if self.queries else 0

    def update(self, base_codes: npt.ArrayLike, base_labels: Any) -> RankHistogram:
        """Add a part of the base, and return this histogram.

        Args:
            base_codes: ``uint8 [n, bytes]``, packed.
            base_labels: class numbers ``[n]``, or multi-label with as many classes as the queries.

        Raises:
            TypeError, ValueError: they are not as above.
        """
        codes = check_codes(base_codes, "base_codes")
        _, labels = check_label_pair(self._labels, base_labels)
        check_width(codes, self.bits, "base_codes")
        check_lengths(codes, labels, "base")
        if len(codes) == 0 or self.queries == 0:
            return self
        if labels.ndim == 1:
            # In the order of the labels, the codes relevant to a query are one run: the kernel reads no labels at all.
            narrow = labels.astype(np.uint16) if labels.max() < 1 << 16 else labels  # NumPy sorts 16 bits by radix
            order = np.argsort(narrow, kind="stable")
            ordered = labels[order]
            first = np.searchsorted(ordered, self._labels, side="left")
            last = np.searchsorted(ordered, self._labels, side="right")
            with KERNELS:
                _count_runs(self._words, by_word(as_words(codes)[order]), first, last, self.total, self.relevant)
        else:
            query_labels, label_words = _label_words(self._labels), by_word(_label_words(labels))
            with KERNELS:
                _count_shared(
                    self._words, by_word(as_words(codes)), query_labels, label_words, self.total, self.relevant
                )
        return self

    def merge(self, other: RankHistogram) -> RankHistogram:
        """The histogram over both bases: for the same queries, counted over two parts of a base.

        Raises:
            ValueError: the queries or the bits differ.
        """
        if other.bits != self.bits:
            raise ValueError(f"other has {other.bits} bits and this histogram {self.bits}; they must be equal")
        if not (np.array_equal(self._words, other._words) and np.array_equal(self._labels, other._labels)):
            raise ValueError("other was counted for other queries; both must have the same query codes and labels")
        merged = object.__new__(RankHistogram)
        merged.bits, merged._words, merged._labels = self.bits, self._words, self._labels
        merged.total, merged.relevant = self.total + other.total, self.relevant + other.relevant
        return merged


def distance_counts(query_codes: PackedCodes, base_codes: PackedCodes, bits: int) -> Counts:
    """How many base codes lie at each distance of each query: ``int64 [queries, bits + 1]``, for checked codes."""
    total = np.zeros((len(query_codes), bits + 1), np.int64)
    none = np.zeros(len(query_codes), np.int64)
    with KERNELS:
        _count_runs(as_words(query_codes), by_word(as_words(base_codes)), none, none, total, np.zeros_like(total))
    return total


def check_width(codes: PackedCodes, bits: int | None, name: str) -> int:
    """Return the length of the codes, 8 * bytes unless ``bits`` says less.

    Raises:
        TypeError, ValueError: ``bits`` is no such length, or a bit that pads the last byte is set.
    """
    if bits is None:
        return 8 * codes.shape[1]
    if codes.shape[1] != code_bytes(check_bits(bits)):
        raise ValueError(f"{name} has {codes.shape[1]} bytes a row; codes of {bits} bits have {code_bytes(bits)}")
    if bits % 8 and len(codes) and int(codes[:, -1].max()) >> (bits % 8):
        row = int(np.argmax(codes[:, -1] >> (bits % 8) > 0))
        raise ValueError(
            f"{name} has a bit beyond the first {bits} set in row {row}; the bits that pad a code must be 0"
        )
    return int(bits)


def check_lengths(codes: PackedCodes, labels: Labels, which: str) -> None:
    """Raise ``ValueError`` unless there is one row of labels a code; ``which`` is "query" or "base"."""
    if len(codes) != len(labels):
        raise ValueError(
            f"{which}_labels has {len(labels)} rows and {which}_codes has {len(codes)}; they must be equal"
        )


def by_word(words: Words) -> Words:
    """The words of the kernels' base: ``[n, words]`` to ``[words, n]``, in C order."""
    return np.ascontiguousarray(words.T)


def _label_words(labels: npt.NDArray[np.uint8]) -> Words:
    packed = np.packbits(labels, axis=1, bitorder="little")
    return np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8))).view(np.uint64)


def _popcount(typing_context: Any, word: Any) -> Any:
    if not isinstance(word, types.Integer):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return word(word), generate


popcount: Any = intrinsic(_popcount)
"""Number of ones of an integer, as one instruction; for use inside Numba kernels."""


# In the kernels the base comes word by word, ``[words, n]``, so that loops over codes turn into vector instructions.
# Every index of a count is unsigned, which spares Numba's test for negative ones. Neighbouring codes often have the
# same distance, and an addition to a count has to wait for the one before it to be stored: hence four histograms that
# take turns. They hold a tile at most, so 32 bits are enough.


@numba.njit(nogil=True, cache=True)
def _add_run(query: Any, base: Any, first: int, last: int, places: Any, counts: Any, bins: int) -> None:
    """Add the distances of base codes ``first`` to ``last`` to the four histograms in ``counts``."""
    if query.size > 1:
        for low in range(first, last, _STEP):
            part = places[: min(_STEP, last - low)]
            _distances(query, base, low, part)
            _add_places(part, counts, bins)
        return
    # One word: the distance goes straight from the register to the count.
    one, two, three = np.uint64(bins), np.uint64(2 * bins), np.uint64(3 * bins)
    mine, codes = query[0], base[0]
    fours = (last - first) // 4
    for four in range(fours):
        row = np.uint64(first + 4 * four)
        counts[popcount(mine ^ codes[row])] += np.int32(1)
        counts[one + popcount(mine ^ codes[row + np.uint64(1)])] += np.int32(1)
        counts[two + popcount(mine ^ codes[row + np.uint64(2)])] += np.int32(1)
        counts[three + popcount(mine ^ codes[row + np.uint64(3)])] += np.int32(1)
    for row in range(first + 4 * fours, last):
        counts[popcount(mine ^ codes[np.uint64(row)])] += np.int32(1)


@numba.njit(nogil=True, cache=True)
def _add_shared(
    query: Any,
    base: Any,
    mine: Any,
    labels: Any,
    first: int,
    last: int,
    places: Any,
    shared: Any,
    counts: Any,
    bins: int,
) -> None:
    """As ``_add_run``; codes that share a label with the query go to the second half of ``counts``."""
    half = np.uint16(4 * bins)
    for low in range(first, last, _STEP):
        part = places[: min(_STEP, last - low)]
        _distances(query, base, low, part)
        column = labels[0, low : low + part.size]
        if mine.size == 1:
            for row in range(part.size):
                part[row] += half * np.uint16((mine[0] & column[row]) != 0)
        else:
            for row in range(part.size):
                shared[row] = mine[0] & column[row]
            for word in range(1, mine.size):
                column = labels[word, low : low + part.size]
                for row in range(part.size):
                    shared[row] |= mine[word] & column[row]
            for row in range(part.size):
                part[row] += half * np.uint16(shared[row] != 0)
        _add_places(part, counts, bins)


@numba.njit(nogil=True, cache=True)
def _distances(query: Any, base: Any, low: int, places: Any) -> None:
    """Write the distances of base codes from ``low`` on to ``places``."""
    mine, column = query[0], base[0, low : low + places.size]
    for row in range(places.size):
        places[row] = np.uint16(popcount(mine ^ column[row]))
    for word in range(1, query.size):
        mine, column = query[word], base[word, low : low + places.size]
        for row in range(places.size):
            places[row] += np.uint16(popcount(mine ^ column[row]))


@numba.njit(nogil=True, cache=True)
def _add_places(places: Any, counts: Any, bins: int) -> None:
    one, two, three = np.uint64(bins), np.uint64(2 * bins), np.uint64(3 * bins)
    fours = places.size // 4
    for four in range(fours):
        row = np.uint64(4 * four)
        counts[np.uint64(places[row])] += np.int32(1)
        counts[one + np.uint64(places[row + np.uint64(1)])] += np.int32(1)
        counts[two + np.uint64(places[row + np.uint64(2)])] += np.int32(1)
        counts[three + np.uint64(places[row + np.uint64(3)])] += np.int32(1)
    for rest in range(4 * fours, places.size):
        counts[np.uint64(places[rest])] += np.int32(1)


@numba.njit(nogil=True, cache=True)
def _add_sum(counts: Any, bins: int, into: Any) -> None:
    for place in range(into.size):
        into[place] += counts[place] + counts[bins + place] + counts[2 * bins + place] + counts[3 * bins + place]


@numba.njit(parallel=True, nogil=True, cache=True)
def _count_runs(queries: Any, base: Any, first: Any, last: Any, total: Any, relevant: Any) -> None:
    """Count where the base codes relevant to query i are ``first[i]`` to ``last[i]``."""
    words, rows = base.shape
    bins = total.shape[1]
    tile = max(_TILE_WORDS // words, _TILE_CODES)
    for block in numba.prange((len(queries) + _BLOCK - 1) // _BLOCK):
        counts = np.zeros(4 * bins, np.int32)
        places = np.empty(_STEP, np.uint16)
        for low in range(0, rows, tile):
            high = min(low + tile, rows)
            for query in range(block * _BLOCK, min((block + 1) * _BLOCK, len(queries))):
                start = min(max(first[query], low), high)
                stop = min(max(last[query], low), high)
                counts[:] = 0
                if start < stop:
                    _add_run(queries[query], base, start, stop, places, counts, bins)
                    _add_sum(counts, bins, relevant[query])
                _add_run(queries[query], base, low, start, places, counts, bins)
                _add_run(queries[query], base, stop, high, places, counts, bins)
                _add_sum(counts, bins, total[query])


@numba.njit(parallel=True, nogil=True, cache=True)
def _count_shared(queries: Any, base: Any, query_labels: Any, labels: Any, total: Any, relevant: Any) -> None:
    """Count where a base code is relevant if its label words and the query's have a bit in common."""
    words, rows = base.shape
    bins = total.shape[1]
    tile = max(_TILE_WORDS // (words + len(labels)), _TILE_CODES)
    for block in numba.prange((len(queries) + _BLOCK - 1) // _BLOCK):
        counts = np.zeros(8 * bins, np.int32)
        places = np.empty(_STEP, np.uint16)
        shared = np.empty(_STEP, np.uint64)
        for low in range(0, rows, tile):
            high = min(low + tile, rows)
            for query in range(block * _BLOCK, min((block + 1) * _BLOCK, len(queries))):
                mine = query_labels[query]
                counts[:] = 0
                _add_shared(queries[query], base, mine, labels, low, high, places, shared, counts, bins)
                _add_sum(counts[4 * bins :], bins, relevant[query])
                _add_sum(counts[4 * bins :], bins, total[query])
                _add_sum(counts, bins, total[query])
