"""Reed-Muller codes RM(r, m): the polynomials of degree at most r in m binary variables, written as their values.

RM(r, m) is [2^m, sum of C(m, i) for i <= r, 2^(m - r)].

Source: Muller (1954), Reed (1954); MacWilliams and Sloane (1977), chapter 13.
"""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np

from lbhash.centers.constructions.linear import Generator


def reed_muller_dimension(r: int, m: int) -> int:
    """Return the dimension of RM(r, m).

    >>> [reed_muller_dimension(1, m) for m in range(1, 6)]
    [2, 3, 4, 5, 6]
    """
    return sum(comb(m, i) for i in range(r + 1))


def reed_muller_generator(r: int, m: int) -> Generator:
    """Return the generator matrix: one row per monomial, by rising degree, so the first is all ones."""
    variables = np.arange(2**m) >> np.arange(m)[:, None] & 1
    rows = [variables[list(chosen)].all(axis=0) for degree in range(r + 1) for chosen in combinations(range(m), degree)]
    return np.array(rows, np.uint8)
