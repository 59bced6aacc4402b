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

Elements = npt.NDArray[np.int64]

PRIMITIVE_POLYNOMIALS = dict(enumerate((0x3, 0x7, 0xB, 0x13, 0x25, 0x43, 0x89, 0x11D, 0x211, 0x409, 0x805), start=1))
"""One primitive polynomial over GF(2) of every degree m; bit j is the coefficient of x^j."""


class GaloisField:
    """GF(2^m), m from 1 to 11; ``galois_field`` builds each once.

    ``order`` is the number of nonzero elements, 2^m - 1; ``exp [2 * order]`` has alpha^i, twice around so that a sum of
    two logarithms needs no remainder; ``log [2^m]`` has the i with alpha^i = element, and ``log[0]`` has no meaning.

    >>> field = galois_field(3)
    >>> field.multiply(3, 7).item()  # (x + 1)(x^2 + x + 1) = x^3 + 1 = x
    2
    """

    def __init__(self, m: int) -> None:
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
        """Return the quotients a / b of two arrays of elements; no divisor may be 0."""
        left, right = np.asarray(a), np.asarray(b)
        return np.where(left == 0, 0, self.exp[self.log[left] - self.log[right] + self.order])


galois_field = cache(GaloisField)
