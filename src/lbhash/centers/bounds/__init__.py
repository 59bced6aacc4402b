"""Upper bounds on the minimum distance of C binary words of h bits.

Every bound on A(h, d), the largest number of words of h bits with minimum distance d, is a bound on the distance: one
less than the smallest d at which it is below C.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

from lbhash.centers.bounds.delsarte import delsarte
from lbhash.centers.bounds.elementary import even_form, hamming, plotkin, singleton
from lbhash.centers.distance import check_size

__all__ = ["UpperBound", "bounds_table", "upper_bound"]

SizeBound = Callable[[int, int], int]  # (n, d) to a number that is at least A(n, d)


class UpperBound(NamedTuple):
    """No C words of h bits are all more than ``distance`` apart, which the bound ``source`` proves."""

    distance: int
    source: str


class StoredBound(NamedTuple):
    """A(n, d) <= ``upper``, which ``source`` proves."""

    n: int
    d: int
    upper: int
    source: str


@cache
def stored_bounds() -> list[StoredBound]:
    """Return the bounds of ``stored.csv``; d is even."""
    lines = files(__package__).joinpath("stored.csv").read_text(encoding="utf-8").splitlines()
    rows = [line.split(",") for line in lines if line[0].isdigit()]
    return [StoredBound(int(n), int(d), int(upper), source) for n, d, upper, source in rows]


def stored_bound(length: int, distance: int) -> StoredBound:
    """Return the least stored bound on A(n, d): those for longer words or smaller distances hold, too."""
    forms = ((length, distance), even_form(length, distance))
    fitting = [bound for bound in stored_bounds() for n, d in forms if bound.n >= n and bound.d <= d]
    return min(fitting, key=lambda bound: bound.upper, default=StoredBound(length, distance, 1 << length, "all words"))


# From the simplest on; a bound is named only if all before it prove less.
_SIZE_BOUNDS: dict[str, SizeBound] = {
    "Singleton": singleton,
    "Hamming": hamming,
    "Plotkin": plotkin,
    "Delsarte's linear program": delsarte,
    "stored": lambda length, distance: stored_bound(length, distance).upper,
}


@lru_cache(maxsize=4096)
def upper_bound(classes: int, bits: int) -> UpperBound:
    """Return the least of all upper bounds on the minimum distance, and the simplest bound that proves it.

    One word has no pair; by convention its distance is ``bits``, as in ``minimum_distance``.

    >>> upper_bound(10, 32)
    UpperBound(distance=17, source='Plotkin')
    """
    classes, bits = check_size(classes, bits)
    if classes == 1:
        return UpperBound(bits, "one word has no pair")
    excluded, source = bits + 1, "Singleton"
    for name, bound in _SIZE_BOUNDS.items():
        least = _least_excluded(bound, classes, bits, excluded)
        if least < excluded:
            excluded, source = least, name
    if source == "stored":
        proof = stored_bound(bits, excluded)
        source = f"A({proof.n}, {proof.d}) ≤ {proof.upper:,}, {proof.source}"
    return UpperBound(excluded - 1, source)


def bounds_table(classes: int, bits: int) -> dict[str, int]:
    """Return the largest minimum distance that each bound by itself leaves possible, by the bound's name."""
    classes, bits = check_size(classes, bits)
    if classes == 1:
        return dict.fromkeys(_SIZE_BOUNDS, bits)
    return {name: _least_excluded(bound, classes, bits, bits + 1) - 1 for name, bound in _SIZE_BOUNDS.items()}


def _least_excluded(bound: SizeBound, classes: int, bits: int, excluded: int) -> int:
    """Return the smallest d at which the bound is below ``classes``; ``excluded`` must be such a d.

    Looks 1, 2, 4 .. below until the bound fails, then halves the gap, so that linear programs are few. That a bound
    falls as d grows only finds d: A(h, d) does fall, so any d with a bound below C excludes all larger distances.
    """
    step = 1
    while excluded > 1 and bound(bits, max(1, excluded - step)) < classes:
        excluded = max(1, excluded - step)
        step *= 2
    possible = max(0, excluded - step)
    while excluded - possible > 1:
        middle = (excluded + possible) // 2
        if bound(bits, middle) < classes:
            excluded = middle
        else:
            possible = middle
    return excluded
