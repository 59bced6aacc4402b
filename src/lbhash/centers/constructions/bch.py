"""BCH centers: words of narrow-sense primitive binary BCH codes, shortened and punctured to length.

Let alpha generate GF(2^m) and n = 2^m - 1. The BCH code of designed distance delta is the cyclic [n, k, d >= delta]
code whose words, as polynomials over GF(2), have the roots alpha, alpha^2, ..., alpha^(delta - 1). Its generator
polynomial g has these roots and, with each, its conjugates: the powers of alpha in its cyclotomic coset; k = n - deg g.
One parity bit extends it to [n + 1, k, d + 1] for odd d.

Source: Bose and Ray-Chaudhuri (1960), Hocquenghem (1959); Lin and Costello, Error Control Coding, 2nd ed. (2004),
chapter 6; MacWilliams and Sloane (1977), chapters 7 and 9 and, for shortening and puncturing, section 1.9.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from lbhash.centers.constructions.galois_field import galois_field
from lbhash.centers.constructions.linear import MAX_GREEDY_DIMENSION, Generator, best_words, dimension_for
from lbhash.centers.distance import Centers


class BCHCode(NamedTuple):
    """A narrow-sense primitive binary [n, k] BCH code of the largest designed distance delta.

    Bit j of ``generator_poly`` is the coefficient of x^j in g(x).
    """

    n: int
    k: int
    delta: int
    generator_poly: int


def bch_centers(classes: int, bits: int, seed: int = 0) -> Centers:
    """Return the words with the largest counted minimum distance that ``_variants`` of BCH codes give."""
    return best_words(_variants(classes, bits), classes)


@cache
def bch_codes(m: int) -> list[BCHCode]:
    """Return all narrow-sense primitive binary BCH codes of length 2^m - 1, the largest dimension (all words) first.

    >>> [(code.n, code.k, code.delta) for code in bch_codes(4)]
    [(15, 15, 1), (15, 11, 3), (15, 7, 5), (15, 5, 7), (15, 1, 15)]
    """
    field = galois_field(m)
    n = field.order
    codes = []
    roots: set[int] = set()
    polynomial = np.ones(1, np.int64)  # g; the coefficient of x^j at j
    for i in range(1, n + 1):
        if i % n in roots:
            continue
        # The roots so far include alpha, ..., alpha^(i - 1) and not alpha^i.
        codes.append(BCHCode(n, n - len(roots), i, sum(1 << j for j in np.flatnonzero(polynomial).tolist())))
        root = i % n
        while root not in roots:
            roots.add(root)
            polynomial = np.append(0, polynomial) ^ np.append(field.multiply(polynomial, field.exp[root]), 0)
            root = 2 * root % n
    return codes


def generator_matrix(code: BCHCode, extended: bool = False) -> Generator:
    """Return the systematic generator matrix: k message bits, the parity bit if extended, then n - k check bits.

    The message bits are the coefficients of x^(n-k), ..., x^(n-1) and the check bits those of 1, ..., x^(n-k-1), so
    without the parity bit the columns are in cyclic order.
    """
    checks = code.n - code.k
    remainder = 1 << checks >> 1
    rows = []
    for _ in range(code.k):  # x^checks, x^(checks + 1), ... modulo g
        remainder <<= 1
        if remainder >> checks:
            remainder ^= code.generator_poly
        rows.append([remainder >> j & 1 for j in range(checks)])
    check_bits = np.array(rows, np.uint8)
    parity = (1 + check_bits.sum(axis=1, keepdims=True, dtype=np.uint8)) % 2
    return np.hstack([np.eye(code.k, dtype=np.uint8), parity[:, : int(extended)], check_bits])


def _variants(classes: int, bits: int) -> Iterator[Generator]:
    """Yield generator matrices of codes of length ``bits`` with at least ``classes`` words.

    Of every code, extended or not, and punctured only, or shortened as far as the classes allow and then punctured.
    """
    needed = dimension_for(classes)
    # 2^m reaches bits, and the largest code but the one of all words, [2^m, 2^m - 1, 2], reaches the dimension.
    m = max(2, (bits - 1).bit_length(), needed.bit_length())
    codes = [code for code in reversed(bch_codes(m)) if code.k >= needed]
    for code in codes:
        for extended in (True, False):
            surplus = code.n + extended - bits
            if surplus < 0:
                continue
            for shortened in sorted({min(code.k - needed, surplus), 0}):
                # Larger codes than can be searched are of use only if no smaller one has words for all classes.
                if code is codes[0] or code.k - shortened <= max(needed, MAX_GREEDY_DIMENSION):
                    matrix = generator_matrix(code, extended)[shortened:, shortened:]
                    yield from _punctured(matrix, surplus - shortened, code.n - code.k)


def _punctured(matrix: Generator, count: int, checks: int) -> Iterator[Generator]:
    """Drop ``count`` columns, from either end of the last ``checks`` columns.

    Message bits go last, so that the words of a code shortened to the dimension that is needed stay distinct.
    """
    kept = matrix.shape[1] - count
    yield matrix[:, :kept]
    if 0 < count <= checks:
        yield np.hstack([matrix[:, :-checks], matrix[:, count - checks + matrix.shape[1] :]])
