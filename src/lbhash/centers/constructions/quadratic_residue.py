"""Binary quadratic-residue codes, among them the Golay code.

For a prime p ≡ ±1 (mod 8), 2 is a square modulo p, so that x^p - 1 has over GF(2) a divisor whose roots are the powers
of a p-th root of unity with the squares modulo p as exponents. The cyclic code it generates is [p, (p + 1) / 2, d]:
[7, 4, 3] is the Hamming code, [23, 12, 7] the Golay code. A parity bit makes d even.

Instead of the divisor its idempotent is used, the sum of x^r over the squares r or over the others: both generate the
code or its equivalent, of even weight or not, and with the word of ones among the generators the dimension is right.

Source: MacWilliams and Sloane (1977), chapter 16; the distances are those of its figure 16.2.
"""

from __future__ import annotations

import numpy as np

from lbhash.centers.constructions.linear import Generator, row_reduced

DISTANCES = {7: 3, 17: 5, 23: 7, 31: 7, 41: 9, 47: 11}
"""The minimum distance of the code of each length p."""


def quadratic_residue_generator(p: int) -> Generator:
    """Return the row-reduced generator matrix ``[(p + 1) / 2, p]`` of the code of length p, a key of ``DISTANCES``."""
    idempotent = np.isin(np.arange(p), np.arange(1, p) ** 2 % p).astype(np.uint8)
    return row_reduced(np.array([np.ones(p, np.uint8), *(np.roll(idempotent, shift) for shift in range(p))]))
