"""Reed-Solomon centers: symbols of GF(2^m) written as m bits.

A word of the Reed-Solomon code [n, k, n - k + 1] over GF(2^m) holds the values of a polynomial of degree < k at n
distinct points of the field, n <= 2^m. Written in bits it is a binary linear [nm, km] code. Two words differ in at
least n - k + 1 symbols, hence in as many bits; how many more is counted.

Source: Reed and Solomon, Polynomial codes over certain finite fields (1960); MacWilliams and Sloane (1977), chapter 10,
section 10.5 for the binary image.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lbhash.centers.constructions.galois_field import PRIMITIVE_POLYNOMIALS, galois_field
from lbhash.centers.constructions.linear import MAX_GREEDY_DIMENSION, Generator, best_words, dimension_for
from lbhash.centers.distance import Centers


def reed_solomon_centers(classes: int, bits: int, seed: int = 0) -> Centers:
    """Return the words with the largest counted minimum distance that ``_variants`` of Reed-Solomon codes give."""
    return best_words(_variants(classes, bits), classes)


def generator_matrix(m: int, n: int, k: int) -> Generator:
    """Return the systematic binary generator matrix ``[k m, n m]``; the first km bits are the message, k <= n <= 2^m.

    A message of k symbols of m bits becomes a word of n symbols. The points are 0, alpha^0, alpha^1, ...; bit j of a
    symbol is the coefficient of x^j. Row im + j belongs to the polynomial that is x^j at point i and 0 at the other
    points below k.
    """
    field = galois_field(m)
    points = np.append(0, field.exp[: field.order])[:n]
    matrix = np.empty((k, m, n, m), np.uint8)
    for i in range(k):
        # The Lagrange polynomial of point i; minus is XOR.
        values = np.ones(n, np.int64)
        for other in np.delete(points[:k], i):
            values = field.divide(field.multiply(values, points ^ other), points[i] ^ other)
        for j in range(m):
            symbols = field.multiply(values, 1 << j)
            matrix[i, j] = symbols[:, None] >> np.arange(m) & 1
    return matrix.reshape(k * m, n * m)


def _variants(classes: int, bits: int) -> Iterator[Generator]:
    """Yield generator matrices of codes of length ``bits`` with at least ``classes`` words.

    Tried are all m whose field has n = ceil(``bits`` / m) points, with the smallest k that has words for all classes
    and every larger k whose code is small enough to be searched. Surplus bits of the last symbol are cut off.
    """
    needed = dimension_for(classes)
    for m in PRIMITIVE_POLYNOMIALS:
        n = -(-bits // m)
        if n > 2**m:
            continue
        smallest = -(-needed // m)
        largest = max(smallest, MAX_GREEDY_DIMENSION // m)
        for k in range(smallest, min(largest, n) + 1):
            rows = k * m if k * m <= MAX_GREEDY_DIMENSION else needed
            yield generator_matrix(m, n, k)[:rows, :bits]
