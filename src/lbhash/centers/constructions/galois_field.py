"""The finite fields GF(2^m), by tables of logarithms.

An element is an integer from 0 to 2^m - 1 whose bit j is the coefficient of x^j of a polynomial over GF(2), taken
modulo a primitive polynomial p(x) of degree m. Addition is XOR. The root alpha = x of p generates all 2^m - 1
nonzero elements, so a product is a sum of logarithms to base alpha.

Source: Lin and Costello, Error Control Coding, 2nd ed. (2004), sections 2.4-2.5; the primitive polynomials are those
of its Table 2.7.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from lbhash.utils.validation import check_int

Elements = npt.NDArray[np.int64]

PRIMITIVE_POLYNOMIALS = {
    1: 0b11,
    2: 0b111,
    3: 0b1011,
    4: 0b10011,
    5: 0b100101,
    6: 0b1000011,
    7: 0b10001001,
    8: 0b100011101,
    9: 0b1000010001,
    10: 0b10000001001,
    11: 0b100000000101,
}
"""One primitive polynomial over GF(2) of every degree m; bit j is the coefficient of x^j."""


class GaloisField:
    """GF(2^m), m from 1 to 11; ``galois_field`` builds each once.

    Attributes:
        m: degree over GF(2).
        order: number of nonzero elements, 2^m - 1, which is also the order of alpha.
        exp: ``int64 [2 * order]``, alpha^i, twice around so that a sum of two logarithms needs no remainder.
        log: ``int64 [2^m]``, the i with alpha^i = element; ``log[0]`` has no meaning.

    >>> field = galois_field(3)
    >>> field.multiply(3, 7).item()  # (x + 1)(x^2 + x + 1) = x^3 + 1 = x
    2
    """

    def __init__(self, m: int) -> None:
        self.m = check_int(m, "m", 1, max(PRIMITIVE_POLYNOMIALS))
        self.order = 2**m - 1
        self.exp: Elements = np.empty(2 * self.order, np.int64)
        self.log: Elements = np.zeros(2**m, np.int64)
        element = 1
        for i in range(self.order):
            self.exp[i] = self.exp[i + self.order] = element
            self.log[element] = i
            element <<= 1
            if element >> m:
                element ^= PRIMITIVE_POLYNOMIALS[m]

    def multiply(self, a: npt.ArrayLike, b: npt.ArrayLike) -> Elements:
        """Return the products a · b of two arrays of elements, broadcast against each other."""
        left, right = np.asarray(a), np.asarray(b)
        return np.where((left == 0) | (right == 0), 0, self.exp[self.log[left] + self.log[right]])

    def divide(self, a: npt.ArrayLike, b: npt.ArrayLike) -> Elements:
        """Return the quotients a / b of two arrays of elements; raises ``ZeroDivisionError`` if a divisor is 0."""
        left, right = np.asarray(a), np.asarray(b)
        if (right == 0).any():
            raise ZeroDivisionError(f"division by 0 in GF(2^{self.m})")
        return np.where(left == 0, 0, self.exp[self.log[left] - self.log[right] + self.order])


galois_field = cache(GaloisField)
