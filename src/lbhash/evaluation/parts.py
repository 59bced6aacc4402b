"""A base in parts, in one place or several: the counts of the parts add up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, as_words
from lbhash.codes.distinct import Compressed, compress
from lbhash.evaluation.ranking import CHUNK
from lbhash.utils.labels import Numbers

Classes = npt.NDArray[np.int64]
"""The class numbers that a base has, in order, or the columns of multi-hot labels."""


class Part(NamedTuple):
    """Checked codes and labels of a base, or of a part of it; class numbers are read as positions in ``classes``."""

    codes: PackedCodes
    labels: Numbers

    def chunks(self, classes: Classes, rows: int | None = None) -> Iterator[tuple[PackedCodes, Numbers]]:
        """Yield codes and labels of so many rows at a time, ``CHUNK`` by default."""
        rows = rows or CHUNK
        for start in range(0, len(self.codes), rows):
            some = slice(start, start + rows)
            yield self.codes[some], positions(self.labels[some], classes)

    def compressed(self, classes: Classes) -> Iterator[Compressed]:
        """Return the result of ``compress`` for each chunk."""
        return (compress(as_words(codes), labels) for codes, labels in self.chunks(classes))


Share = Callable[[Callable[[Part], Any]], list[Any]]
"""Calls a function on each part of a base, here or elsewhere, and returns the results."""


def positions(labels: Numbers, classes: Classes) -> Numbers:
    """Return the positions of class numbers in ``classes``, and multi-hot labels as they are."""
    return labels if labels.ndim == 2 or classes[-1] < len(classes) else np.searchsorted(classes, labels)


def in_turn(parts: Sequence[Part]) -> Share:
    """Return a ``Share`` that handles the parts in this process, one after the other."""
    return lambda function: [function(part) for part in parts]


def class_numbers(share: Share) -> Classes:
    """Return the class numbers of a base: all up to the largest, or those that occur if they are far apart."""
    rows, largest = zip(*share(lambda part: (len(part.labels), int(part.labels.max(initial=0)))), strict=True)
    if max(largest) < max(sum(rows), 1 << 16):
        return np.arange(max(largest) + 1)
    return np.unique(np.concatenate(share(lambda part: np.unique(part.labels))))
