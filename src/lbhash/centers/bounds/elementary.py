"""Bounds on the size of binary codes that follow from a line or two of counting.

A(n, d) is the largest number of binary words of length n that pairwise differ in at least d places, A(n, d, w) the
same for words with w ones each. Every function returns a whole number that is at least A(n, d); ``griesmer`` is the
one for linear codes only.

A parity bit makes every odd distance of a code larger by one and deleting a column takes at most one off, so
A(n, 2e - 1) = A(n + 1, 2e) (MacWilliams and Sloane, 2.2, Theorem 1): for even d all distances of a best code are even.

Source: MacWilliams and Sloane, The Theory of Error-Correcting Codes (1977), chapters 1, 2 and 17.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb
from threading import Lock

from lbhash.utils.validation import check_int


def even_form(length: int, distance: int) -> tuple[int, int]:
    """Return the (n, d) with d even that has the same A(n, d), by a parity bit if d is odd."""
    if length < 1 or distance < 1:
        raise ValueError(f"length is {length} and distance is {distance}; both must be at least 1")
    return (length + 1, distance + 1) if distance % 2 else (length, distance)


def singleton(length: int, distance: int) -> int:
    """Return Singleton's bound (1964): A(n, d) <= 2^(n - d + 1), as the words still differ without d - 1 columns."""
    even_form(length, distance)
    return 1 << max(0, length - distance + 1)


def hamming(length: int, distance: int) -> int:
    """Return Hamming's bound (1950): the balls of radius t around the words of a code with d = 2t + 1 are disjoint."""
    n, d = even_form(length, distance)
    if d > n:
        return 1
    return (1 << n - 1) // sum(comb(n - 1, i) for i in range(d // 2))


def plotkin(length: int, distance: int) -> int:
    """Return Plotkin's bound (1960), with Levenshtein's rounding, for d even.

    A(n, d) <= 2 floor(d / (2d - n)) if 2d > n, and A(2d, d) <= 4d: the distances are counted column by column, where
    M words give at most M^2 / 4 pairs that differ. Longer words by A(n, d) <= 2 A(n - 1, d): half of the words or
    more agree in a column. MacWilliams and Sloane 2.2, Theorem 11 and its corollary.
    """
    n, d = even_form(length, distance)
    if d > n:
        return 1
    if 2 * d > n:
        return 2 * (d // (2 * d - n))
    return 4 * d << n - 2 * d


def johnson(length: int, distance: int) -> int:
    """Return Johnson's bound (1962): sphere packing that also counts words just outside the balls.

    For d = 2t + 1,
    A(n, d) (C(n, 0) + .. + C(n, t) + (C(n, t + 1) - C(d, t) A(n, d + 1, d)) / floor(n / (t + 1))) <= 2^n.
    Of the C(n, t + 1) words at distance t + 1 from a word of the code, at most C(d, t) A(n, d + 1, d) lie in the ball
    of another, and the others are so far from at most floor(n / (t + 1)) words each. MacWilliams and Sloane 17.3,
    Theorem 13.
    """
    n, d = even_form(length, distance)
    if d > n:
        return 1
    n, d = n - 1, d - 1
    t = d // 2
    ball = sum(comb(n, i) for i in range(t + 1))
    outside = max(0, comb(n, t + 1) - comb(d, t) * constant_weight(n, d + 1, d))
    shared_by = n // (t + 1)
    return (shared_by << n) // (ball * shared_by + outside)


def elias(length: int, distance: int) -> int:
    """Return the bound of Elias and Bassalygo (1965), the least of 2^(n - 1) A(n, d, w) / C(n, w) over w, for d even.

    Shift an even code by each of the 2^(n - 1) words of the parity of w: every word of the code gets weight w in
    C(n, w) of the shifts, and no shift has more than A(n, d, w) words of weight w. MacWilliams and Sloane 17.7,
    Theorem 33; here with Johnson's bound for A(n, d, w).
    """
    n, d = even_form(length, distance)
    if d > n:
        return 1
    return min((constant_weight(n, d, w) << n - 1) // comb(n, w) for w in range(n // 2 + 1))


def constant_weight(length: int, distance: int, weight: int) -> int:
    """Return Johnson's upper bound on A(n, d, w), the number of words with w ones each; 0 if there is no such word.

    It is the least of n / w A(n - 1, d, w - 1) (words that share a one), n / (n - w) A(n - 1, d, w) (words that share a
    zero) and what counting the ones column by column gives. MacWilliams and Sloane 17.2, Theorems 1 to 4.
    """
    even_form(length, distance)
    if not 0 <= weight <= length:
        return 0
    weight = min(weight, length - weight)
    # Two words of one weight differ in an even number of places.
    distance += distance % 2
    if distance > 2 * weight:
        return 1
    if distance == 2:
        return comb(length, weight)
    rows = _constant_weight_rows(distance)
    # Row after row instead of a recursion, which would be as deep as the words are long.
    with _LOCK:
        while len(rows) <= length - distance:
            rows.append(_next_row(rows[-1], distance + len(rows), distance))
    return rows[length - distance][weight - distance // 2]


_LOCK = Lock()  # of the rows of _constant_weight_rows, which grow as they are asked for


@lru_cache(maxsize=64)
def _constant_weight_rows(distance: int) -> list[list[int]]:
    """Return the bounds on A(n, d, w) computed so far: row n - d has those for w = d/2 .. n/2."""
    return [[2]]  # A(d, d, d/2): a word and its complement


def _next_row(previous: list[int], length: int, distance: int) -> list[int]:
    """Return the bounds for words of ``length`` from those for words that are one bit shorter."""
    half = distance // 2
    row = []
    for weight in range(half, length // 2 + 1):
        # Below weight d/2 there is one word. Above n/2 the complement is meant, which is the end of the row.
        sharing_one = previous[weight - 1 - half] if weight > half else 1
        sharing_zero = previous[min(weight, length - 1 - weight) - half] if length - 1 - weight >= half else 1
        bound = min(length * sharing_one // weight, length * sharing_zero // (length - weight))
        row.append(_by_columns(length, half, weight, bound))
    return row


def _by_columns(length: int, half: int, weight: int, bound: int) -> int:
    """Return the lesser of ``bound`` and what the number of ones in each column allows.

    Two of M words share at most w - d/2 ones, so the sum over the columns of c (c - 1), c the ones in a column, is at
    most (w - d/2) M (M - 1). It is least when the w M ones are spread evenly: q or q + 1 a column.
    """
    excess = weight * weight - weight * length + half * length
    if excess <= 0:
        return bound
    for size in range(min(bound, half * length // excess), 0, -1):
        per_column, over = divmod(weight * size, length)
        shared = length * per_column * (per_column - 1) + 2 * per_column * over
        if shared <= (weight - half) * size * (size - 1):
            return size
    return 0


def griesmer(dimension: int, distance: int) -> int:
    """Return the least length that a linear [n, k, d] code can have: d + ceil(d / 2) + .. + ceil(d / 2^(k - 1)).

    Griesmer (1960); MacWilliams and Sloane 17.5, Theorem 24.
    """
    check_int(dimension, "dimension")
    check_int(distance, "distance", 1)
    return sum(-(-distance // 2**i) for i in range(dimension))


def griesmer_distance(length: int, dimension: int) -> int:
    """Return the largest d for which ``griesmer`` allows a linear [n, k, d] code."""
    check_int(dimension, "dimension", 1, length, "the length")
    return next(distance for distance in range(length, 0, -1) if griesmer(dimension, distance) <= length)
