"""Kerdock codes, of which the first is the Nordstrom-Robinson code: nonlinear, and larger than any linear code.

The Kerdock code of length 2^m, m even, has 4^m words at least 2^(m-1) - 2^((m-2)/2) apart. It is the Gray image of a
linear code over the integers modulo 4. Let r = m - 1 (odd), and let xi be a root of order 2^r - 1 in the Galois ring
GR(4^r). The words of the quaternary code are the sums, modulo 4, of the rows of

    [ 1  1  1   1    ...  1          ]
    [ 0  1  xi  xi^2 ...  xi^(2^r - 2) ]    (an element of the ring as a column of its r coefficients)

with coefficients 0 to 3, and the Gray map writes the digits 0, 1, 2, 3 as 00, 01, 11, 10.

Source: Hammons, Kumar, Calderbank, Sloane and Solé, The Z4-linearity of Kerdock, Preparata, Goethals, and related
codes (1994); Kerdock (1972); Nordstrom and Robinson (1967); MacWilliams and Sloane (1977), chapter 15.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from lbhash.centers.constructions.galois_field import PRIMITIVE_POLYNOMIALS, coefficients
from lbhash.centers.constructions.juxtaposition import Block
from lbhash.centers.distance import Centers
from lbhash.utils.validation import check_choice

DISTANCES = {16: 6, 64: 28, 256: 120}
"""The minimum distance of the code of each length 2^m that is built; the next length, 1,024, has a million words."""


def kerdock_blocks(classes: int, length: int) -> Iterator[Block]:
    """Yield the codes, whole and shortened, with at least ``classes`` words of at most ``length`` bits."""
    for full, distance in DISTANCES.items():
        name = "Nordstrom-Robinson code" if full == 16 else f"Kerdock code of length {full}"
        for dropped in range(2 * full.bit_length() - 2):
            if full * full >> dropped >= classes and full - dropped <= length:
                suffix = f", shortened by {dropped}" if dropped else ""
                yield Block(name + suffix, full - dropped, distance, partial(shortened_kerdock, full, dropped))


def shortened_kerdock(bits: int, dropped: int) -> Centers:
    """Return the words that share their most frequent first bits, without these: at least bits² / 2^dropped words."""
    words = kerdock_words(bits)
    for _ in range(dropped):
        positive = words[:, 0] > 0
        words = words[positive == (2 * positive.sum() >= len(words)), 1:]
    return words


def kerdock_words(bits: int) -> Centers:
    """Return all words of the Kerdock code of a length of ``DISTANCES``: ``int8 [bits², bits]`` of -1 and +1."""
    check_choice(bits, "bits", DISTANCES)
    words = np.zeros((1, bits // 2), np.uint8)
    for row in quaternary_generator(bits.bit_length() - 2):
        multiples = np.arange(4, dtype=np.uint8)[:, None] * row
        words = ((multiples[:, None] + words) % 4).reshape(-1, bits // 2)
    gray = np.array([[-1, -1], [-1, 1], [1, 1], [1, -1]], np.int8)
    return gray[words].reshape(len(words), bits)


def quaternary_generator(r: int) -> npt.NDArray[np.uint8]:
    """Return the generator matrix over the integers modulo 4 of the quaternary Kerdock code: ``uint8 [r + 1, 2^r]``."""
    lifted = hensel_lift(PRIMITIVE_POLYNOMIALS[r], r)
    matrix = np.zeros((r + 1, 2**r), np.uint8)
    matrix[0] = 1
    element = np.eye(r, dtype=np.int64)[0]
    for column in range(1, 2**r):
        matrix[1:, column] = element
        # Times xi; the lifted polynomial is monic, so xi^r is minus its lower coefficients.
        element = (np.append(0, element[:-1]) - element[-1] * lifted[:r]) % 4
    return matrix


def hensel_lift(polynomial: int, degree: int) -> npt.NDArray[np.int64]:
    """Return the monic divisor of x^(2^r - 1) - 1 modulo 4 that equals a given primitive polynomial modulo 2.

    Graeffe's method: with f = e - o, its even and its odd powers, the lift g is g(x²) = ±(e(x)² - o(x)²). The result
    is ``int64 [r + 1]``, the coefficient of x^j at j.
    """
    given, is_odd = coefficients(polynomial, degree + 1).astype(np.int64), np.arange(degree + 1) % 2
    even, odd = given * (1 - is_odd), given * is_odd
    lifted = (np.convolve(even, even) - np.convolve(odd, odd))[::2]
    return lifted * lifted[-1] % 4
