"""The two distances of "A Lower Bound of Hash Codes' Performance" (NeurIPS 2022), and their ratio.

The center of a class is the word with the least total Hamming distance to the codes of the class. That is the bit-wise
majority, since each bit adds to the total by itself; a tie gives +1. D_inter is the distance between the centers of two
classes, and D_intra the distance from a code to the center of its class. Codes tend to get better as classes move apart
and as codes move onto their centers. If every D_inter is above four times every D_intra, queries included, the average
precision is 1. Below that, contrary to the paper's theorem, the ratio alone bounds nothing (docs/evaluation.md has the
proof and the counterexample).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, as_packed_alike, as_words, hamming_distances, pack
from lbhash.codes.popcount import popcount
from lbhash.evaluation.parts import Classes, Part, Share, in_turn
from lbhash.evaluation.ranking import distance_counts
from lbhash.evaluation.ranking.histogram import Counts
from lbhash.utils.compiled import compiled
from lbhash.utils.labels import Labels, read_labels, rows_with_label
from lbhash.utils.memory import check_memory
from lbhash.utils.validation import check_filled, check_float, check_int, check_same_rows

_CHUNK = 1 << 16


@dataclass(frozen=True, eq=False)
class Bound:
    """The two distances of the bound, for one set of codes. Distances are in bits.

    >>> found = bound([[1, 1, 1], [1, 1, -1], [-1, -1, -1]], [0, 0, 1])
    >>> found.inter, found.intra, found.ratio
    (3.0, 1.0, 3.0)
    """

    inter: float
    """min D_inter (or its percentile); NaN with fewer than two classes."""
    intra: float
    """max D_intra (or its percentile); NaN where no row has a label."""
    intra_per_class: npt.NDArray[np.float64]
    """max D_intra (or its percentile) in each class, ``[classes]``; NaN for a class without codes."""
    centers: npt.NDArray[np.int8]
    """The center of each class, ``[classes, bits]`` of -1 and +1; +1 throughout for a class without codes."""
    present: npt.NDArray[np.bool_]
    """Which classes have codes, ``[classes]``."""
    intra_counts: npt.NDArray[np.int64]
    """How many codes of each class lie at each distance from its center, ``[classes, bits + 1]``."""
    inter_counts: npt.NDArray[np.int64]
    """How many pairs of classes have their centers at each distance, ``[bits + 1]``."""

    @property
    def ratio(self) -> float:
        """The ratio ``inter / intra``: infinite for intra = 0, or NaN if inter is 0 too."""
        return quotient(self.inter, self.intra)

    def at_percentile(self, intra: float = 99.9, inter: float = 0.1) -> Bound:
        """Return the bound at these percentiles (0 to 100) of D_intra and D_inter in place of maximum and minimum.

        The defaults are the paper's: they leave out one in a thousand codes and one in a thousand pairs of classes.
        """
        intra, inter = check_float(intra, "intra", 0, 100), check_float(inter, "inter", 0, 100)
        return replace(
            self,
            inter=_percentile(self.inter_counts, inter),
            intra=_percentile(self.intra_counts.sum(axis=0), intra),
            intra_per_class=np.array([_percentile(row, intra) for row in self.intra_counts]),
        )

    def inter_matrix(self) -> npt.NDArray[np.int32]:
        """Return D_inter of every pair of classes that have codes, ``int32 [present, present]``, in their order."""
        centers = pack(self.centers[self.present])
        return hamming_distances(centers, centers)


def quotient(inter: float | None, intra: float | None) -> float:
    """Return D_inter / D_intra: NaN if either is None; for intra = 0 infinite, or NaN if inter is 0 too."""
    if inter is None or intra is None:
        return math.nan
    if intra == 0:
        return math.inf if inter > 0 else math.nan
    return inter / intra


def bound(
    codes: npt.ArrayLike,
    labels: Any,
    percentile: float | None = None,
    *,
    inter_percentile: float | None = None,
    classes: int | None = None,
    bits: int | None = None,
) -> Bound:
    """Compute D_inter, D_intra and their ratio for codes and their labels.

    Work is O(n h + classes^2 h), memory O(classes h) beside a chunk of rows.

    Args:
        codes: packed, ``uint8 [n, bytes]``, or a column for each bit (``lbhash.codes.as_packed_alike``).
        labels: class numbers or names ``[n]``, or multi-label. A row counts in every class whose label it has. A row
            without a label counts in no class, and a line on standard error says so.
        percentile: from 0 to 100; this percentile (``np.percentile``) of D_intra over all codes replaces the maximum,
            which one stray code decides. ``at_percentile`` has the paper's percentiles of both distances.
        inter_percentile: from 0 to 100; this percentile of D_inter over the pairs of classes replaces the minimum.
        classes: the number of classes, if labels are class numbers; by default 1 + the largest. With other labels or
            negative numbers, the classes are those that occur, in their order.
        bits: the length h of a code; by default 8 * bytes, or the number of columns. Bits that pad the last byte are 0
            in every code and in every center, so they add nothing to a distance.

    Raises:
        TypeError, ValueError: codes, labels, classes or bits are not as above, their lengths differ, there are no
            codes, or a percentile is out of range.

    >>> from lbhash.codes import pack
    >>> b = bound(pack([[1, 1, 1, 1], [1, 1, 1, -1], [-1, -1, -1, -1]]), [0, 0, 1], bits=4)
    >>> b.inter, b.intra, b.ratio
    (4.0, 1.0, 4.0)
    """
    (array,), length = as_packed_alike(bits, codes=codes)
    read = _numbered(read_labels(labels), classes)
    check_filled(array, "codes")
    check_same_rows(read, "labels", array, "codes")
    if len(known := rows_with_label(read.numbers, "codes")) < len(read):
        array, read = array[known], read[known]
    percentile = 100.0 if percentile is None else check_float(percentile, "percentile", 0, 100)
    inter_percentile = 0.0 if inter_percentile is None else check_float(inter_percentile, "inter_percentile", 0, 100)
    found = bound_of_parts(in_turn([Part(array, read.numbers)]), np.arange(len(read.classes)), length)
    return found.at_percentile(percentile, inter_percentile)


def _numbered(labels: Labels, classes: int | None) -> Labels:
    """Return labels that are class numbers from 0 on as such, of all ``classes``; others as they are."""
    most = None if classes is None else check_int(classes, "classes", 1)
    first, last = (labels.classes[0], labels.classes[-1]) if len(labels.classes) else (0, 0)
    if most is not None and (isinstance(last, str) or not 0 <= first <= last < most):
        wrong = last if first == 0 else first
        raise ValueError(f"labels has the class {wrong!r}; with classes {classes} it must be from 0 to {most - 1}")
    if isinstance(first, (str, bool)) or first < 0:
        return labels
    count = most or last + 1
    what = f"labels has classes up to {last:,}, and the centers of so many"
    check_memory(8 * count, what, "number the classes from 0 without large gaps (numpy.unique)")
    return labels.ordered(range(count))


def bound_of_parts(share: Share, classes: Classes, bits: int) -> Bound:
    """Return ``bound`` of a base in parts, whose labels are those of ``Part``."""
    what = f"labels has classes up to {len(classes) - 1:,}, and the centers of so many"
    check_memory(24 * len(classes) * bits, what, "number the classes from 0 without large gaps (numpy.unique)")
    ones, sizes = (np.sum(counts, axis=0) for counts in zip(*share(partial(_count_ones, classes, bits)), strict=True))
    centers = np.where(2 * ones >= sizes[:, None], 1, -1).astype(np.int8)
    packed, present = pack(centers), sizes > 0
    intra_counts = np.sum(share(partial(_count_distances, classes, packed, bits)), axis=0)
    inter_counts = distance_counts(packed[present], packed[present], bits).sum(axis=0)
    inter_counts[0] -= present.sum()  # a center and itself
    inter_counts //= 2
    none = np.full(len(classes), np.nan)
    return Bound(np.nan, np.nan, none, centers, present, intra_counts, inter_counts).at_percentile(100, 0)


def _count_ones(classes: Classes, bits: int, part: Part) -> tuple[Counts, Counts]:
    """Return how many codes of each class have a bit set, ``[classes, bits]``, and how many there are."""
    ones, sizes = np.zeros((len(classes), 64 * -(-bits // 64)), np.int64), np.zeros(len(classes), np.int64)
    for words, members in _members(part, classes):
        _add_ones(words, members, ones)
        sizes += np.bincount(members, minlength=len(classes))
    return ones[:, :bits], sizes


def _count_distances(classes: Classes, centers: PackedCodes, bits: int, part: Part) -> Counts:
    """Return how many codes of each class lie at each distance from its center, ``[classes, bits + 1]``."""
    counts = np.zeros((len(classes), bits + 1), np.int64)
    for words, members in _members(part, classes):
        _add_distances(words, members, as_words(centers), counts)
    return counts


def _members(part: Part, classes: Classes) -> Iterator[tuple[npt.NDArray[np.uint64], Counts]]:
    """Yield chunks of codes, as words, and of their classes; a row of several labels comes once for each."""
    for codes, members in part.chunks(classes, _CHUNK):
        words = as_words(codes)
        if members.ndim == 2:
            rows, members = np.divmod(np.flatnonzero(members.view(bool)), members.shape[1])
            words = words[rows]
        yield words, members


@compiled
def _add_ones(words: Any, members: Any, ones: Any) -> None:
    for row in range(len(words)):
        for word in range(words.shape[1]):
            code, counts = words[row, word], ones[members[row], 64 * word : 64 * word + 64]
            for bit in range(64):
                counts[bit ^ 7] += (code >> np.uint64(bit)) & np.uint64(1)  # a byte has its first bit highest


@compiled
def _add_distances(words: Any, members: Any, centers: Any, counts: Any) -> None:
    for row in range(len(words)):
        distance = np.uint64(0)
        for word in range(words.shape[1]):
            distance += popcount(words[row, word] ^ centers[members[row], word])
        counts[members[row], distance] += 1


def _percentile(counts: npt.NDArray[np.int64], percentile: float) -> float:
    """Return ``np.percentile`` (linear) of values 0, 1, 2, ... that occur ``counts`` times; NaN if there are none."""
    ends = np.cumsum(counts)
    if ends[-1] == 0:
        return math.nan
    place = (int(ends[-1]) - 1) * percentile / 100
    below = int(place)
    low, high = np.searchsorted(ends, [below, min(below + 1, int(ends[-1]) - 1)], side="right")
    return float(low + (high - low) * (place - below))
