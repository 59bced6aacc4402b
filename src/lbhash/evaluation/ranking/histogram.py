"""The histograms of a ranking by Hamming distance, which has only ``bits + 1`` groups of tied codes.

A metric can only depend on how many base codes, and how many relevant ones of each grade, lie at each distance.
``RankHistogram`` counts them over every pair, exactly, in memory that does not grow with the base.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, as_words, check_codes, check_width
from lbhash.codes.distinct import compress, unique_rows
from lbhash.evaluation.ranking import kernels
from lbhash.evaluation.ranking.kernels import Words, by_word, split, tasks
from lbhash.utils.arrays import as_array
from lbhash.utils.labels import Numbers, check_numbers
from lbhash.utils.threads import in_threads
from lbhash.utils.validation import check_same_rows

Counts = npt.NDArray[np.int64]
Relevance = Callable[[Any, Any], npt.ArrayLike]
"""A function of the labels of some queries and of some base codes that returns their grades ``[queries, base]``."""

CHUNK = 1 << 20
"""The number of base codes that are counted at a time; it bounds the memory."""

_PAIRS = 1 << 22  # pairs whose grades a relevance function is asked for at a time
_LARGEST_GRADE = 1 << 12
_SORTED = 1 << 16  # base codes for each query up to which it pays to sort them by class


@dataclass(eq=False)
class Ranking:
    """A ranking for each query: groups of base codes in the order in which they are found, tied inside a group."""

    total: Counts
    """``int64 [queries, groups]``, base codes in each group."""
    graded: Counts
    """``int64 [queries, grades, groups]``, how many of them have grade 1, 2, … of relevance. A base code that is not
    relevant has grade 0; single-label data have grade 1 only."""

    @property
    def relevant(self) -> Counts:
        """The number of relevant base codes (of any grade from 1) in each group, ``int64 [queries, groups]``."""
        return self.graded[:, 0] if self.graded.shape[1] == 1 else self.graded.sum(axis=1)

    @property
    def queries(self) -> int:
        """The number of queries."""
        return len(self.total)

    @property
    def base(self) -> int:
        """The number of base codes counted so far."""
        return int(self.total[0].sum()) if self.queries else 0


def ranking_of(scores: npt.NDArray, grades: npt.NDArray[Any], sizes: npt.NDArray[np.int64] | None = None) -> Ranking:
    """Return the ranking by a score, in groups of equal scores, as ``lbhash.evaluation.metrics`` takes it.

    Args:
        scores: floats or integers ``[queries, base]``, lower is nearer.
        grades: of relevance, whole numbers or Booleans ``[queries, base]``.
        sizes: how many equal rows each of the base stands for, ``[base]``; 1 if None.
    """
    weights = None if sizes is None else np.broadcast_to(sizes, scores.shape)
    if scores.dtype.kind == "i":  # few values, and no need to sort
        groups = scores - scores.min()
    else:
        order = np.argsort(scores, axis=1)
        grades = np.take_along_axis(grades, order, 1)
        weights = None if sizes is None else sizes[order]
        ordered = np.take_along_axis(scores, order, 1)
        groups = np.zeros(scores.shape, np.int64)
        np.cumsum(ordered[:, 1:] != ordered[:, :-1], axis=1, out=groups[:, 1:])
    rows, count = len(scores), int(groups.max()) + 1
    cells = groups + count * np.arange(rows)[:, None]

    def counted(some: Any) -> Counts:
        weighed = None if weights is None else weights[some].ravel()
        found = np.bincount(cells[some].ravel(), weighed, rows * count).reshape(rows, count)
        return found.astype(np.int64, copy=False)  # sums of weights are of float64

    levels = range(1, 1 + int(grades.max(initial=1)))
    return Ranking(counted(...), np.stack([counted(grades == level) for level in levels], axis=1))


class RankHistogram(Ranking):
    """Counts, for each query, the base codes at each Hamming distance, and the relevant ones among them.

    With class numbers, a base code is relevant (grade 1) to a query of the same class. With several labels a row, its
    grade is the number of labels that it shares with the query, and it is relevant if that is at least one. With a
    relevance function, labels are whatever it takes.

    Args:
        query_codes: ``uint8 [queries, bytes]``, packed.
        query_labels: class numbers from 0 ``[queries]``, or ``[queries, C]`` of 0 and 1; or with ``relevance``,
            anything with a length and slices, one item a query.
        bits: the length h of a code; by default 8 * bytes.
        relevance: a function of a slice of the query labels and a slice of the base labels that returns their grades,
            booleans or integers from 0 to 4,095, ``[queries, base]``. It is called for blocks of pairs.

    Attributes:
        total, graded: the counts, with a group for each distance, ``bits + 1`` groups.
        unique: positions of queries with unique codes and labels; equal queries have equal rows.
        inverse: which of ``unique`` has a query's code and labels, ``int64 [queries]``.

    A new histogram is empty, and ``update`` adds a chunk of the base to it. ``from_codes`` counts a whole base. Codes
    or labels that are not as above, or differ in length, are a ``TypeError`` or ``ValueError``.

    >>> from lbhash.codes import pack
    >>> h = RankHistogram(pack([[1, 1]]), [0], bits=2)
    >>> h = h.update(pack([[1, 1], [1, -1], [-1, 1]]), [0, 0, 1])
    >>> h.total.tolist(), h.relevant.tolist()
    ([[1, 2, 0]], [[1, 1, 0]])
    """

    def __init__(
        self, query_codes: npt.ArrayLike, query_labels: Any, bits: int | None = None, relevance: Relevance | None = None
    ) -> None:
        codes = check_codes(query_codes, "query_codes")
        self.bits = check_width(codes, bits, "query_codes")
        self._relevance = relevance
        self._labels = check_numbers(query_labels, name="query_labels") if relevance is None else query_labels
        check_lengths(codes, self._labels, "query")
        self._words = as_words(codes)
        self.unique = self.inverse = np.arange(len(codes))
        grades = 1
        if relevance is None:
            self.unique, self.inverse = unique_rows(np.concatenate([self._words, label_words(self._labels)], axis=1))
            if self._labels.ndim == 2:  # no base code shares more labels than the query has
                grades = int(self._labels.sum(axis=1, dtype=np.int64).max(initial=1))
        shape = len(codes), grades, self.bits + 1
        super().__init__(np.zeros(shape[::2], np.int64), np.zeros(shape, np.int64))

    @classmethod
    def from_codes(
        cls,
        query_codes: npt.ArrayLike,
        query_labels: Any,
        base_codes: npt.ArrayLike,
        base_labels: Any,
        bits: int | None = None,
        relevance: Relevance | None = None,
    ) -> RankHistogram:
        """Count a whole base, in memory or memory-mapped, ``CHUNK`` codes at a time; see the class and ``update``."""
        histogram = cls(query_codes, query_labels, bits, relevance)
        codes = check_codes(base_codes, "base_codes")
        check_lengths(codes, base_labels, "base")
        for start in range(0, max(len(codes), 1), CHUNK):
            histogram.update(codes[start : start + CHUNK], base_labels[start : start + CHUNK])
        return histogram

    def update(self, base_codes: npt.ArrayLike, base_labels: Any) -> RankHistogram:
        """Add a chunk of the base, and return this histogram.

        The codes are ``uint8 [n, bytes]``, packed, and the labels of the same kind and classes as those of the queries;
        anything else is a ``TypeError`` or ``ValueError``.
        """
        codes = check_codes(base_codes, "base_codes")
        check_width(codes, self.bits, "base_codes")
        if self._relevance is None:
            base_labels = check_numbers(base_labels, name="base_labels")
            if base_labels.shape[1:] != self._labels.shape[1:]:
                said = f"base_labels has shape {base_labels.shape} and query_labels {self._labels.shape}"
                raise ValueError(f"{said}; both must be [n], or have the same classes as columns")
        check_lengths(codes, base_labels, "base")
        if len(codes) == 0 or self.queries == 0:
            return self
        if self._relevance is not None:
            self._count_given(codes, base_labels, self._relevance)
        elif base_labels.ndim == 2:
            self._count_shared(codes, base_labels)
        elif len(codes) > _SORTED * self.queries:
            self._count_given(codes, base_labels, lambda wanted, labels: wanted[:, None] == labels)
        else:
            self._count_classes(*compress(as_words(codes), base_labels))
        return self

    def merge(self, other: RankHistogram) -> RankHistogram:
        """Return the sum of two histograms of the same queries (or raise ``ValueError``) over two parts of a base."""
        ours, theirs = ((one.bits, one._words, one._labels) for one in (self, other))
        if not all(map(np.array_equal, ours, theirs)):
            raise ValueError("other was counted for other queries; both must have the same query codes and labels")
        merged = copy.copy(self)
        merged.total = self.total + other.total
        small, large = sorted((self.graded, other.graded), key=lambda graded: graded.shape[1])
        merged.graded = large.copy()
        merged.graded[:, : small.shape[1]] += small
        return merged

    def _count_classes(self, words: Words, ordered: Numbers, weights: npt.NDArray[np.int32]) -> None:
        """Add codes in the order of their class numbers, so that those relevant to a query are one run."""
        wanted = self._labels[self.unique]
        first, last = (np.searchsorted(ordered, wanted, side=side) for side in ("left", "right"))
        total, relevant = self._runs(words, weights, first, last)
        self.total += total
        self.graded[:, 0] += relevant

    def _runs(self, words: Words, weights: npt.NDArray[np.int32], first: Counts, last: Counts) -> Counts:
        """Return the counts of all codes, and of those from ``first`` to ``last``, ``int64 [2, queries, bits + 1]``."""
        block, parts = split(len(self.unique), len(words))
        counted = np.zeros((2, parts, len(self.unique), self.bits + 1), np.int64)
        count = partial(kernels.count_runs, self._words[self.unique], by_word(words), weights, first, last)
        in_threads(partial(count, *counted), tasks(len(self.unique), len(words), block, parts))
        return counted.sum(axis=1)[:, self.inverse]

    def _count_shared(self, codes: PackedCodes, labels: Numbers) -> None:
        block, parts = split(self.queries, len(codes))
        counted = np.zeros((parts, self.queries, self.graded.shape[1] + 1, self.bits + 1), np.int64)
        like = np.empty(0, np.uint16 if counted[0, 0].size <= 1 << 16 else np.uint32)
        base, base_labels = by_word(as_words(codes)), by_word(label_words(labels))
        count = partial(kernels.count_shared, self._words, base, label_words(self._labels), base_labels)
        in_threads(partial(count, like, counted), tasks(self.queries, len(codes), block, parts))
        self._add(counted.sum(axis=0))

    def _count_given(self, codes: PackedCodes, labels: Any, relevance: Relevance) -> None:
        base = by_word(as_words(codes))
        step = max(1, _PAIRS // len(codes))
        for start in range(0, self.queries, step):
            some = slice(start, start + step)
            grades = check_grades(relevance(self._labels[some], labels), len(self.total[some]), len(codes))
            more = max(0, int(grades.max(initial=1)) - self.graded.shape[1])
            self.graded = np.pad(self.graded, ((0, 0), (0, more), (0, 0))) if more else self.graded
            distances = kernels.all_distances(self._words[some], base)
            shape = len(grades), self.graded.shape[1] + 1, self.bits + 1
            places = np.ravel_multi_index((np.arange(len(grades))[:, None], grades, distances), shape)
            self._add(np.bincount(places.ravel(), minlength=math.prod(shape)).reshape(shape), some)

    def _add(self, counted: Counts, queries: slice = slice(None)) -> None:
        """Add counts by grade, ``[queries, 1 + grades, bits + 1]``, grade 0 first."""
        self.total[queries] += counted.sum(axis=1)
        self.graded[queries] += counted[:, 1:]


def distance_counts(query_codes: PackedCodes, base_codes: PackedCodes, bits: int) -> Counts:
    """Count the base codes at each distance of each query, ``int64 [queries, bits + 1]``, for checked codes."""
    histogram = RankHistogram(query_codes, np.zeros(len(query_codes), np.int64), bits)
    if len(base_codes):
        none = np.zeros(len(histogram.unique), np.int64)
        histogram.total += histogram._runs(as_words(base_codes), np.empty(0, np.int32), none, none)[0]
    return histogram.total


def check_lengths(codes: PackedCodes, labels: Any, which: str) -> None:
    """Raise ``ValueError`` unless every code has a row of labels; ``which`` is "query" or "base"."""
    check_same_rows(labels, f"{which}_labels", codes, f"{which}_codes")


def check_grades(grades: npt.ArrayLike, queries: int, base: int) -> npt.NDArray[np.uint16]:
    """Return the result of a relevance function as ``uint16 [queries, base]``; raise an error for anything else."""
    array = as_array(grades, "relevance")
    if array.dtype.kind not in "biu" or array.shape != (queries, base):
        shape = f"{array.dtype} {list(array.shape)}"
        raise ValueError(f"relevance returned {shape}; it must return Booleans or integers {[queries, base]}")
    if array.size and not 0 <= int(array.min()) <= int(array.max()) < _LARGEST_GRADE:
        grades = f"from {array.min()} to {array.max()}"
        raise ValueError(f"relevance returned grades {grades}; they must be from 0 to {_LARGEST_GRADE - 1:,}")
    return array.astype(np.uint16)


def label_words(labels: Numbers) -> Words:
    """Return labels as words, ``uint64 [n, words]``: a class number as it is, multi-hot ones as a bit a class."""
    if labels.ndim == 1:
        return labels.view(np.uint64)[:, None]
    packed = np.packbits(labels, axis=1)
    return np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8))).view(np.uint64)
