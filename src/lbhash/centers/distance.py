"""Hamming distances between class centers, counted over all pairs.

For ±1 words a, b of h bits the Hamming distance is (h - <a, b>) / 2, so all pairs come from a matrix product, which is
exact in float32 (all values are whole and at most h <= 1,024) and is taken in blocks of rows to save memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.codes import check_bits
from lbhash.utils.arrays import as_array
from lbhash.utils.validation import check_int

Centers = npt.NDArray[np.int8]
"""Class centers: ``int8 [C, bits]`` of -1 and +1."""

_BLOCK_VALUES = 2**23


def check_size(classes: int, bits: int) -> tuple[int, int]:
    """Return the number and the length of words as ``int``; raises an error unless there are so many words."""
    bits = check_bits(bits)
    classes = check_int(classes, "classes", 1)
    if classes > 2**bits:
        plural = "bit" if bits == 1 else "bits"
        raise ValueError(f"classes is {classes}; with {bits} {plural} it must be from 1 to 2^{bits} = {2**bits:,}")
    return classes, bits


def check_centers(centers: npt.ArrayLike) -> Centers:
    """Return centers as ``int8 [C, bits]``; raises ``ValueError`` if they are not a matrix of -1 and +1."""
    array = as_array(centers, "centers")
    if array.ndim != 2 or len(array) == 0:
        raise ValueError(f"centers has shape {array.shape}; it must be [classes, bits] with at least one class")
    check_bits(array.shape[1], "the number of columns of centers")
    if not ((array == 1) | (array == -1)).all():
        raise ValueError("centers holds values other than -1 and +1; centers are ±1 codes (see lbhash.codes.unpack)")
    return array.astype(np.int8, copy=False)


def pairwise_distances(centers: npt.ArrayLike) -> npt.NDArray[np.int16]:
    """Return the Hamming distances between all centers ``[C, bits]``: ``int16 [C, C]``, in bits.

    >>> pairwise_distances([[1, 1, 1], [1, -1, -1]]).tolist()
    [[0, 2], [2, 0]]
    """
    words = check_centers(centers)
    distances = np.empty((len(words), len(words)), np.int16)
    for rows, block in _distance_blocks(words):
        distances[rows] = block
    return distances


def minimum_distance(centers: npt.ArrayLike) -> int:
    """Return the smallest Hamming distance between two centers ``[C, bits]``; ``bits`` for one, which has no pair.

    >>> minimum_distance([[1, 1, 1], [1, -1, -1], [-1, 1, -1]])
    2
    """
    words = check_centers(centers)
    smallest = words.shape[1]
    for rows, block in _distance_blocks(words):
        np.fill_diagonal(block[:, rows.start :], words.shape[1])
        smallest = min(smallest, int(block.min()))
    return smallest


def maximum_distance(centers: npt.ArrayLike) -> int:
    """Return the largest Hamming distance between two centers ``[C, bits]``; 0 for one center, which has no pair."""
    return max(int(block.max()) for _, block in _distance_blocks(check_centers(centers)))


def mean_distance(centers: npt.ArrayLike) -> float:
    """Return the mean Hamming distance over all pairs of centers ``[C, bits]``; ``bits`` for one center."""
    words = check_centers(centers)
    classes, bits = words.shape
    if classes == 1:
        return float(bits)
    # A bit that is +1 in p of the C centers differs in p (C - p) pairs.
    positive = (words > 0).sum(axis=0, dtype=np.int64)
    return float((positive * (classes - positive)).sum() / (classes * (classes - 1) / 2))


def bit_balance(centers: npt.ArrayLike) -> float:
    """Return the largest |mean of a bit over the centers|: 0 if all bits are balanced, 1 if one is constant."""
    return float(np.abs(check_centers(centers).mean(axis=0, dtype=np.float64)).max())


def describe(centers: npt.ArrayLike) -> dict[str, Any]:
    """Return a dict that describes centers ``[C, bits]``.

    It has ``classes``, ``bits``, ``minimum_distance``, ``mean_distance``, ``bit_balance`` (0 is best) and ``histogram``
    (a dict from each distance that occurs to its number of pairs, by rising distance; empty for one center).

    >>> describe([[1, 1, 1], [1, -1, -1], [-1, 1, 1]])["histogram"]
    {1: 1, 2: 1, 3: 1}
    """
    words = check_centers(centers)
    classes, bits = words.shape
    blocks = [np.bincount(block.ravel().astype(int), minlength=bits + 1) for _, block in _distance_blocks(words)]
    counts = np.sum(blocks, axis=0)
    counts[0] -= classes  # the diagonal
    return {
        "classes": classes,
        "bits": bits,
        "minimum_distance": minimum_distance(words),
        "mean_distance": mean_distance(words),
        "bit_balance": bit_balance(words),
        "histogram": {int(distance): int(counts[distance] // 2) for distance in np.flatnonzero(counts)},
    }


def _distance_blocks(words: Centers) -> Iterator[tuple[slice, npt.NDArray[np.float32]]]:
    """Yield (rows, distances of these rows to all), ``float32 [rows, C]``; the caller may write to the block."""
    signs = words.astype(np.float32)
    size = max(1, _BLOCK_VALUES // len(words))
    for start in range(0, len(words), size):
        rows = slice(start, min(start + size, len(words)))
        block = signs[rows] @ signs.T
        block -= words.shape[1]
        block *= -0.5
        yield rows, block
