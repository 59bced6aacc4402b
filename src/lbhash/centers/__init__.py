"""Class centres: ±1 codes, one a class, as far apart as possible in Hamming distance.

The lower bound of average precision grows with the smallest distance between two centres (D_inter), so that is what
the constructions are held against. Each is one file and is named in a registry; ``class_centers`` is the way in.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lbhash.centers.bch import bch_centers
from lbhash.centers.bernoulli import bernoulli_centers
from lbhash.centers.distance import (
    Centers,
    bit_balance,
    check_centers,
    describe,
    mean_distance,
    minimum_distance,
    pairwise_distances,
)
from lbhash.centers.hadamard import hadamard_centers
from lbhash.centers.reed_solomon import reed_solomon_centers
from lbhash.codes import check_bits

__all__ = [
    "Centers",
    "bit_balance",
    "center_kinds",
    "check_centers",
    "class_centers",
    "describe",
    "mean_distance",
    "minimum_distance",
    "pairwise_distances",
]

_KINDS: dict[str, Callable[[int, int, int], Centers]] = {
    "hadamard": hadamard_centers,
    "bch": bch_centers,
    "reed-solomon": reed_solomon_centers,
    "random": bernoulli_centers,
}


def center_kinds() -> list[str]:
    """Names of the constructions, in the order of the registry; ``class_centers`` takes "best" besides."""
    return list(_KINDS)


def class_centers(classes: int, bits: int, kind: str = "best", seed: int = 0) -> Centers:
    """Make class centres.

    Args:
        classes: number of classes C, from 1 to ``2**bits``.
        bits: length h of a code.
        kind: one of ``center_kinds()``, or "best" for the one of them with the largest minimum distance, then the
            largest mean distance, then the best bit balance, then the first in the registry.
        seed: of the random numbers where a construction uses any; the same seed gives the same centres.

    Returns:
        ``int8 [C, bits]`` of -1 and +1, all rows distinct; row c is the centre of class c.

    Raises:
        TypeError: ``classes``, ``bits`` or ``seed`` is not an integer.
        ValueError: ``kind`` is not known, or a number is out of its range.

    >>> centers = class_centers(10, 16)
    >>> centers.shape, minimum_distance(centers)
    ((10, 16), 8)
    """
    bits = check_bits(bits)
    classes = _check_integer(classes, "classes", f"an integer from 1 to 2^bits = 2^{bits}")
    if not 1 <= classes <= 2**bits:
        raise ValueError(f"classes is {classes}; with {bits} bits it must be from 1 to 2^{bits}{_written_out(bits)}")
    seed = _check_integer(seed, "seed", "an integer of at least 0")
    if seed < 0:
        raise ValueError(f"seed is {seed}; it must be at least 0")
    if kind == "best":
        return max((make(classes, bits, seed) for make in _KINDS.values()), key=_merit)
    if kind not in _KINDS:
        raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(['best', *_KINDS])}")
    return _KINDS[kind](classes, bits, seed)


def _merit(centers: Centers) -> tuple[int, float, float]:
    """What "best" compares, larger is better; ``max`` keeps the first of equals."""
    return minimum_distance(centers), mean_distance(centers), -bit_balance(centers)


def _check_integer(value: int, name: str, allowed: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} is {value!r}; it must be {allowed}")
    return int(value)


def _written_out(bits: int) -> str:
    return f" = {2**bits:,}" if bits <= 32 else ""
