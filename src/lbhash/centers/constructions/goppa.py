"""Binary Goppa codes of the powers of a polynomial over GF(2).

Let G be a polynomial over GF(2^m) and x_1, ..., x_n the elements that are not its roots. The words c of the Goppa code
are those with c_1 x_1^j / G(x_1) + ... + c_n x_n^j / G(x_n) = 0 for all j below the degree of G. The dimension is at
least n - m deg G, and much larger for powers of x^(2^(m/2)) + x, whose roots are a subfield.

Source: MacWilliams and Sloane (1977), chapter 12; Loeloeian and Conan, A [55, 16, 19] binary Goppa code (1984);
Bezzateev and Shekhunova, Subclass of binary Goppa codes with minimal distance equal to the design distance (1995);
M. Grassl, http://www.codetables.de, which has the [240, 21, 104] code.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lbhash.centers.constructions.galois_field import galois_field
from lbhash.centers.constructions.linear import Generator, row_reduced


def goppa_generator(m: int, exponents: tuple[int, ...], power: int = 1) -> Generator:
    """Return the generator matrix of the code of G = g^power over GF(2^m), g the sum of x^e over ``exponents``.

    The bits are in the order of the elements that are not roots of g, as integers.
    """
    field = galois_field(m)

    def raised(elements: npt.NDArray[np.int64], exponent: int) -> npt.NDArray[np.int64]:
        logarithms = field.log[elements] * exponent % field.order
        return np.where(elements == 0, exponent == 0, field.exp[logarithms])

    elements = np.arange(2**m)
    values = np.bitwise_xor.reduce([raised(elements, exponent) for exponent in exponents])
    elements, values = elements[values != 0], values[values != 0]
    powers = np.array([raised(elements, j) for j in range(power * max(exponents))])
    checks = field.divide(powers, raised(values, power))
    bits = (checks[:, None] >> np.arange(m)[:, None] & 1).astype(np.uint8)
    parity = row_reduced(bits.reshape(-1, len(elements)))
    pivots = parity.argmax(axis=1)
    free = np.delete(np.arange(len(elements)), pivots)
    generator = np.zeros((len(free), len(elements)), np.uint8)
    generator[np.arange(len(free)), free] = 1
    generator[:, pivots] = parity[:, free].T
    return generator
