"""Class centers: ±1 codes, one a class, as far apart as possible in Hamming distance.

The lower bound of average precision grows with the smallest distance between two centers (D_inter), so that is what
the constructions are held against. Each is one file; ``class_centers`` is the way in, ``design_centers`` says besides
how far from the best possible they are (``bounds``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lbhash.centers.arrange import arrange_centers, confused_distance
from lbhash.centers.design import KINDS, CenterDesign, certified, compared, make_centers
from lbhash.centers.distance import (
    Centers,
    bit_balance,
    check_centers,
    describe,
    mean_distance,
    minimum_distance,
    pairwise_distances,
)
from lbhash.codes import check_bits

__all__ = [
    "CenterDesign",
    "Centers",
    "arrange_centers",
    "bit_balance",
    "center_kinds",
    "check_centers",
    "class_centers",
    "compare_centers",
    "confused_distance",
    "describe",
    "design_centers",
    "mean_distance",
    "minimum_distance",
    "pairwise_distances",
]


def center_kinds() -> list[str]:
    """Names of the kinds that ``class_centers`` takes; the last four are the paper's."""
    return list(KINDS)


def class_centers(classes: int, bits: int, kind: str = "best", seed: int = 0) -> Centers:
    """Make class centers.

    Args:
        classes: number of classes C, from 1 to ``2**bits``.
        bits: length h of a code.
        kind: one of ``center_kinds()``. "best" has the largest minimum distance that any of them has or a bounded
            search finds, then the largest mean distance, then the best bit balance; "best-ratio" the largest minimum
            distance, then the smallest maximum distance. What these two make is kept in the user's cache folder
            (``LBHASH_CACHE`` names another).
        seed: of the random numbers where a construction uses any ("hadamard" when it fills up, and "random").

    Returns:
        ``int8 [C, bits]`` of -1 and +1, all rows distinct; row c is the center of class c. The same arguments give the
        same centers.

    Raises:
        TypeError: ``classes``, ``bits`` or ``seed`` is not an integer.
        ValueError: ``kind`` is not known or has not as many words, or a number is out of its range.

    >>> centers = class_centers(10, 32)
    >>> centers.shape, minimum_distance(centers)
    ((10, 32), 17)
    """
    classes, bits, seed = _checked(classes, bits, kind, seed)
    return make_centers(classes, bits, kind, seed)[0].copy()


def design_centers(classes: int, bits: int, kind: str = "best", seed: int = 0) -> CenterDesign:
    """Make class centers with a certificate; arguments and errors are those of ``class_centers``.

    >>> design = design_centers(21, 48)
    >>> design.minimum_distance, design.upper_bound, design.optimal
    (24, 24, True)
    """
    classes, bits, seed = _checked(classes, bits, kind, seed)
    return certified(classes, bits, kind, seed)


def compare_centers(classes: int, bits: int, seed: int = 0) -> dict[str, Any]:
    """All kinds of centers and all upper bounds side by side; arguments and errors are those of ``class_centers``.

    Returns:
        ``kinds``, of each kind a dict with ``kind``, ``minimum_distance``, ``mean_distance``, ``bit_balance`` and
        ``construction``, or, where it has no such words, None in their places and the reason as ``why_not``; and
        ``bounds``, the largest distance that each bound leaves, by its name.
    """
    classes, bits, seed = _checked(classes, bits, "best", seed)
    return compared(classes, bits, seed)


def _checked(classes: int, bits: int, kind: str, seed: int) -> tuple[int, int, int]:
    bits = check_bits(bits)
    classes = _check_integer(classes, "classes", f"an integer from 1 to 2^bits = 2^{bits}")
    if not 1 <= classes <= 2**bits:
        plural = "bit" if bits == 1 else "bits"
        largest = f"2^{bits}{_written_out(bits)}"
        raise ValueError(f"classes is {classes}; with {bits} {plural} it must be from 1 to {largest}")
    seed = _check_integer(seed, "seed", "an integer of at least 0")
    if seed < 0:
        raise ValueError(f"seed is {seed}; it must be at least 0")
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(KINDS)}")
    return classes, bits, seed


def _check_integer(value: int, name: str, allowed: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} is {value!r}; it must be {allowed}")
    return int(value)


def _written_out(bits: int) -> str:
    return f" = {2**bits:,}" if bits <= 32 else ""
