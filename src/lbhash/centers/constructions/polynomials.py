"""Polynomials over GF(2) as integers: bit j is the coefficient of x^j, so that a sum is XOR."""

from __future__ import annotations


def multiply(a: int, b: int) -> int:
    """The product.

    >>> bin(multiply(0b11, 0b111))  # (x + 1)(x^2 + x + 1) = x^3 + 1
    '0b1001'
    """
    product = 0
    for j in range(b.bit_length()):
        if b >> j & 1:
            product ^= a << j
    return product


def divide(dividend: int, divisor: int) -> tuple[int, int]:
    """Quotient and remainder; the divisor is not 0.

    >>> divide(0b1001, 0b11)
    (7, 0)
    """
    quotient = 0
    while (shift := dividend.bit_length() - divisor.bit_length()) >= 0:
        quotient |= 1 << shift
        dividend ^= divisor << shift
    return quotient, dividend
