"""Bounds from coding theory that prove centers to be as far apart as any can be.

A(n, d) is the largest number of binary words of length n that pairwise differ in at least d places; every bound
returns a whole number that is at least A(n, d).

A parity bit makes every odd distance of a code larger by one and deleting a column takes at most one off, so
A(n, 2e - 1) = A(n + 1, 2e): for even d all distances of a best code are even.

Source: MacWilliams and Sloane, The Theory of Error-Correcting Codes (1977), chapters 1 and 2.
"""

from __future__ import annotations

from math import comb


def proof(classes: int, bits: int, distance: int) -> str | None:
    """Return the simplest bound by which no C words of h bits are all more than ``distance`` apart, or None.

    One word has no pair; by convention its distance is ``bits``, as in ``minimum_distance``.

    >>> proof(10, 32, 17)
    'Plotkin'
    """
    if classes == 1:
        return "one word has no pair"
    bounds = {"Singleton": singleton, "Hamming": hamming, "Plotkin": plotkin}
    return next((name for name, bound in bounds.items() if bound(bits, distance + 1) < classes), None)


def singleton(length: int, distance: int) -> int:
    """Return Singleton's bound (1964): A(n, d) <= 2^(n - d + 1), as the words still differ without d - 1 columns."""
    return 1 << max(0, length - distance + 1)


def hamming(length: int, distance: int) -> int:
    """Return Hamming's bound (1950): the balls of radius t around the words of a code with d = 2t + 1 are disjoint."""
    n, d = _even_form(length, distance)
    return 1 if d > n else (1 << n - 1) // sum(comb(n - 1, i) for i in range(d // 2))


def plotkin(length: int, distance: int) -> int:
    """Return Plotkin's bound (1960), with Levenshtein's rounding, for d even.

    A(n, d) <= 2 floor(d / (2d - n)) if 2d > n, and A(2d, d) <= 4d: the distances are counted column by column, where
    M words give at most M^2 / 4 pairs that differ. Longer words by A(n, d) <= 2 A(n - 1, d): half of the words or
    more agree in a column. MacWilliams and Sloane 2.2, Theorem 11 and its corollary.
    """
    n, d = _even_form(length, distance)
    if d > n:
        return 1
    return 2 * (d // (2 * d - n)) if 2 * d > n else 4 * d << n - 2 * d


def _even_form(length: int, distance: int) -> tuple[int, int]:
    """Return the (n, d) with d even that has the same A(n, d), by a parity bit if d is odd."""
    return (length + 1, distance + 1) if distance % 2 else (length, distance)
