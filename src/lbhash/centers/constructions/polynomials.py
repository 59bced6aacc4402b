"""Polynomials over GF(2) as integers: bit j is the coefficient of x^j, so that a sum is XOR."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def multiply(a: int, b: int) -> int:
    """Return the product of two polynomials.

    >>> bin(multiply(0b11, 0b111))  # (x + 1)(x^2 + x + 1) = x^3 + 1
    '0b1001'
    """
    product = 0
    for j in range(b.bit_length()):
        if b >> j & 1:
            product ^= a << j
    return product


def divide(dividend: int, divisor: int) -> tuple[int, int]:
    """Return the quotient and the remainder of a division by a polynomial that is not 0.

    >>> divide(0b1001, 0b11)
    (7, 0)
    """
    quotient = 0
    while (shift := dividend.bit_length() - divisor.bit_length()) >= 0:
        quotient |= 1 << shift
        dividend ^= divisor << shift
    return quotient, dividend


def coefficients(polynomial: int, count: int) -> npt.NDArray[np.uint8]:
    """Return the coefficients of 1, x, ..., x^(count - 1)."""
    return np.array([polynomial >> j & 1 for j in range(count)], np.uint8)
