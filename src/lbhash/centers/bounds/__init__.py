"""Upper bounds on the minimum distance of C binary words of h bits.

Every bound on A(h, d), the largest number of words of h bits with minimum distance d, is a bound on the distance: one
less than the smallest d at which it is below C.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from lbhash.centers.bounds.delsarte import delsarte
from lbhash.centers.bounds.elementary import elias, griesmer_distance, hamming, johnson, plotkin, singleton
from lbhash.centers.bounds.published import PUBLISHED_BITS, citation, published
from lbhash.centers.bounds.semidefinite import semidefinite
from lbhash.centers.constructions.linear import dimension_for
from lbhash.centers.distance import check_size

__all__ = ["UpperBound", "bounds_table", "upper_bound"]

SizeBound = Callable[[int, int], int]  # (n, d) to a number that is at least A(n, d)


class UpperBound(NamedTuple):
    """No C words of h bits are all more than ``distance`` apart, which the bound ``source`` proves."""

    distance: int
    source: str


def _published_size(length: int, distance: int) -> int:
    """Return the published bound; at odd d for the table's longest words, the bound for d - 1 holds too."""
    bounds = published(length, distance) or published(length, max(1, distance - 1))
    return 2**length if bounds is None else bounds.upper


_PUBLISHED = "published"

# From the simplest on; a bound is named only if all before it prove less.
_SIZE_BOUNDS: dict[str, SizeBound] = {
    "Singleton": singleton,
    "Hamming": hamming,
    "Plotkin": plotkin,
    "Johnson": johnson,
    "Elias": elias,
    "Delsarte's linear program": delsarte,
    "Schrijver's semidefinite program": semidefinite,
    _PUBLISHED: _published_size,
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
            excluded = least
            source = citation(bits, excluded) if name == _PUBLISHED else name
    return UpperBound(excluded - 1, source)


def bounds_table(classes: int, bits: int) -> dict[str, int]:
    """Return the largest minimum distance that each bound by itself leaves possible, by the bound's name.

    "published" is missing above 28 bits, where the table ends. "Griesmer (linear codes only)" holds for all words of a
    linear code of the smallest dimension that has C words; C of them, or other words, can be further apart.
    """
    classes, bits = check_size(classes, bits)
    table = {name: _least_excluded(bound, classes, bits, bits + 1) - 1 for name, bound in _SIZE_BOUNDS.items()}
    if bits > PUBLISHED_BITS:
        del table[_PUBLISHED]
    table["Griesmer (linear codes only)"] = griesmer_distance(bits, dimension_for(classes))
    return table if classes > 1 else dict.fromkeys(table, bits)


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
