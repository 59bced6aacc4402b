"""Group equal codes, most of a trained base, so that each distinct code is compared once."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

Compressed: TypeAlias = tuple[Words, npt.NDArray, npt.NDArray[np.int32]]
"""Words, groups and weights as ``compress`` returns them."""

_FEW = 0.8  # the largest share of distinct codes with which weights pay off


def unique_rows(rows: Words) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return positions of unique rows, and each row's place among them: ``rows[unique][inverse]`` is ``rows``.

    Like ``np.unique``, in a fraction of the time. In the rare case that keys of different rows collide, a row may come
    more than once; counts stay right.
    """
    order = np.argsort(row_keys(rows))
    new = changes(rows[order])
    inverse = np.empty(len(rows), np.int64)
    inverse[order] = np.cumsum(new) - 1
    return order[new], inverse


def compress(words: Words, groups: npt.NDArray) -> Compressed:
    """Return codes sorted by group (integers from 0), with equal codes of a group merged into one with a weight.

    The results are words, groups, and how often each occurs; the weights are empty if nearly all codes are unique.
    """
    narrow = groups.astype(np.uint16) if groups.max() < 1 << 16 else groups  # NumPy sorts 16 bits by radix
    order = np.argsort(row_keys(words))
    order = order[np.argsort(narrow[order], kind="stable")]
    words, groups = words[order], groups[order]
    first = np.flatnonzero(changes(words) | np.append(True, groups[1:] != groups[:-1]))
    if len(first) > _FEW * len(words):
        return words, groups, np.empty(0, np.int32)
    return words[first], groups[first], np.diff(np.append(first, len(words))).astype(np.int32)


def row_keys(rows: Words) -> npt.NDArray[np.uint64]:
    """Return a number for each row; equal rows share it, other rows seldom do."""
    keys = rows[:, 0]
    for word in range(1, rows.shape[1]):
        keys = (keys ^ keys >> np.uint64(29)) * np.uint64(0x9E3779B97F4A7C15) ^ rows[:, word]
    return keys


def changes(rows: Words) -> npt.NDArray[np.bool_]:
    """Return which rows differ from the row before."""
    new = np.ones(len(rows), bool)
    new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return new
