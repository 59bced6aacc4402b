"""Lexicodes: all words, in the order of their numbers, that are far enough from the words taken before.

The lexicode of a length and a distance is linear, so that a basis is enough: its next vector is the first word far
enough from the span of those before. The Hamming and the Golay code are among them.

Source: Conway and Sloane, Lexicographic codes: error-correcting codes from game theory (1986).
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from lbhash.centers.constructions.linear import dimension_for
from lbhash.centers.constructions.random import words_of
from lbhash.centers.distance import Centers
from lbhash.codes.popcount import popcount

MAX_BITS = 20  # longer words are too many to look through


def lexicode_centers(classes: int, bits: int, seed: int = 0) -> Centers:
    """Return the first words of the lexicode with the largest distance that has enough words."""
    if bits > MAX_BITS:
        raise ValueError(f"bits is {bits}; a lexicode is searched for up to {MAX_BITS} bits")
    dimension = dimension_for(classes)
    for distance in range(bits, 0, -1):
        basis = lexicode_basis(bits, distance, dimension)
        if len(basis) == dimension:
            words = np.zeros(1, np.int64)
            for vector in basis:
                words = np.concatenate([words, words ^ vector])
            return words_of(words[:classes], bits)
    raise AssertionError("all words are a lexicode of distance 1")


def lexicode_basis(bits: int, distance: int, dimension: int) -> list[int]:
    """Return the first ``dimension`` vectors of the basis as numbers, or all if there are fewer.

    >>> lexicode_basis(7, 3, 4)
    [7, 25, 42, 75]
    """
    span = np.zeros(1, np.uint64)
    basis: list[int] = []
    found = 0
    while len(basis) < dimension and (found := _first_far(span, found + 1, 1 << bits, distance)) > 0:
        basis.append(int(found))
        span = np.concatenate([span, span ^ np.uint64(found)])
    return basis


@numba.njit(cache=True)
def _first_far(span: Any, start: int, stop: int, distance: int) -> int:
    """Return the first number from ``start`` on that is at least ``distance`` from the whole span, or -1."""
    for number in range(start, stop):
        for other in span:
            if popcount(np.uint64(number) ^ other) < distance:
                break
        else:
            return number
    return -1
