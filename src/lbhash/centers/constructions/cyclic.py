"""Cyclic codes that are better than what BCH codes and the derivations from them give.

A cyclic [n, k] code, n odd, is fixed by its check polynomial h(x), a divisor of x^n - 1 of degree k; it holds the
multiples of g(x) = (x^n - 1) / h(x). ``benchmarks.code_search.cyclic_codes`` found those of the table.

Source: MacWilliams and Sloane (1977), chapter 7.
"""

from __future__ import annotations

import numpy as np

from lbhash.centers.constructions.galois_field import coefficients, divide
from lbhash.centers.constructions.linear import Generator

CHECKS: dict[tuple[int, int], tuple[int, int]] = {
    (51, 8): (24, 0x1F3),
    (51, 11): (17, 0xE6B),
    (63, 11): (26, 0xC13),
    (85, 8): (40, 0x177),
    (85, 9): (37, 0x399),
    (89, 11): (40, 0x9EF),
}
"""The minimum distance and h(x) by length and dimension; bit j of h is the coefficient of x^j."""


def cyclic_generator(n: int, check_poly: int) -> Generator:
    """Return the generator matrix ``[k, n]``; row i has the coefficients of x^i g(x)."""
    quotient, remainder = divide(1 << n | 1, check_poly)
    if remainder:
        raise ValueError(f"check_poly is {check_poly:#x}; it must divide x^{n} - 1")
    k = check_poly.bit_length() - 1
    return np.array([coefficients(quotient << i, n) for i in range(k)])
