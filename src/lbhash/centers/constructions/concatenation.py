"""Concatenated codes: the symbols of a Reed-Solomon code written as words of a binary code.

The outer code [N, K, N - K + 1] over GF(2^m) and the inner binary code [n, m, d] give a binary code
[N n, K m, (N - K + 1) d]. With all words of m bits as the inner code it is the Reed-Solomon code in bits.

Source: Forney, Concatenated Codes (1966); MacWilliams and Sloane (1977), section 10.11.
"""

from __future__ import annotations

from lbhash.centers.constructions.linear import Generator
from lbhash.centers.constructions.reed_solomon import generator_matrix


def concatenated_generator(m: int, symbols: int, dimension: int, inner: Generator) -> Generator:
    """Return the generator matrix ``[K m, N n]`` of a concatenated code.

    Args:
        m: bits of a symbol of the outer code.
        symbols: length N of the outer code, at most 2^m.
        dimension: K of the outer code.
        inner: generator matrix ``[m, n]`` of the inner code.
    """
    outer = generator_matrix(m, symbols, dimension).reshape(dimension * m, symbols, m)
    return (outer @ inner % 2).reshape(dimension * m, -1)
