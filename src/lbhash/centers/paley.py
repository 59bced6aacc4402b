"""Hadamard matrices by Paley's two constructions, by Sylvester's doubling and by Kronecker products of these.

A Hadamard matrix H of order n has n rows of -1 and +1 with H Hᵀ = n I, so every two rows are n / 2 apart. Let chi be
the quadratic character of GF(q), q an odd prime power, and Q = [chi(a - b)] the Jacobsthal matrix, a row and a column
an element. With S = [[0, 1], [±1, Q]] bordered by ones, Hadamard matrices are

    I + S, of order q + 1, for q ≡ 3 (mod 4), where the lower border is -1                        (Paley I),
    S ⊗ [[1, 1], [1, -1]] + I ⊗ [[1, -1], [-1, -1]], of order 2 (q + 1), for q ≡ 1 (mod 4)        (Paley II).

Source: Paley, On orthogonal matrices (1933); MacWilliams and Sloane (1977), section 2.3.
"""

from __future__ import annotations

from functools import cache
from math import isqrt

import numpy as np
import numpy.typing as npt

from lbhash.centers.distance import Centers

_SYLVESTER = np.array([[1, 1], [1, -1]], np.int8)


@cache
def hadamard_matrix(order: int) -> Centers | None:
    """A Hadamard matrix, its first row and column +1; None where none of the constructions has the order.

    The orders up to 256 that exist and are missed are 92, 116, 156, 172, 184, 188, 232 and 236.

    Args:
        order: number of rows n; Hadamard matrices have n = 1, 2 or a multiple of 4.

    Returns:
        ``int8 [n, n]`` of -1 and +1, not to be written to, or None.
    """
    matrix = _construct(order)
    if matrix is not None:
        matrix = matrix * matrix[:1]
        matrix = matrix * matrix[:, :1]
        matrix.setflags(write=False)
    return matrix


@cache
def jacobsthal(q: int) -> Centers | None:
    """The Jacobsthal matrix of GF(q): ``int8 [q, q]`` of chi(a - b), 0 on the diagonal; None unless q = p or p², p odd.

    >>> jacobsthal(3).tolist()
    [[0, -1, 1], [1, 0, -1], [-1, 1, 0]]
    """
    root = isqrt(q)
    if q % 2 and _is_prime(q):
        chi = np.full(q, -1, np.int8)
        chi[np.arange(q) ** 2 % q] = 1
        chi[0] = 0
        a = np.arange(q)
        return chi[(a[:, None] - a) % q]
    if root * root == q and root % 2 and _is_prime(root):
        return _jacobsthal_of_square(root)
    return None


def _jacobsthal_of_square(p: int) -> Centers:
    """Of GF(p²) = GF(p)[t] / (t² - r), r not a square; the element x + y t is the number x + p y."""
    squares = set((np.arange(p) ** 2 % p).tolist())
    r = next(r for r in range(2, p) if r not in squares)
    x, y = np.arange(p * p) % p, np.arange(p * p) // p
    chi = np.full(p * p, -1, np.int8)
    chi[(x * x + r * y * y) % p + p * (2 * x * y % p)] = 1
    chi[0] = 0
    return chi[(x[:, None] - x) % p + p * ((y[:, None] - y) % p)]


def _construct(order: int) -> Centers | None:
    if order == 1:
        return np.ones((1, 1), np.int8)
    if order == 2:
        return _SYLVESTER
    if order < 1 or order % 4:
        return None
    if (order - 2) % 4 == 2 and (core := jacobsthal(order - 1)) is not None:
        return np.eye(order, dtype=np.int8) + _bordered(core, -1)
    if (order // 2 - 1) % 4 == 1 and (core := jacobsthal(order // 2 - 1)) is not None:
        turned = np.array([[1, -1], [-1, -1]], np.int8)
        return np.kron(_bordered(core, 1), _SYLVESTER) + np.kron(np.eye(order // 2, dtype=np.int8), turned)
    for factor in range(2, isqrt(order) + 1):
        if order % factor == 0:
            left, right = hadamard_matrix(factor), hadamard_matrix(order // factor)
            if left is not None and right is not None:
                return np.kron(left, right)
    return None


def _bordered(core: Centers, sign: int) -> npt.NDArray[np.int8]:
    bordered = np.ones((len(core) + 1, len(core) + 1), np.int8)
    bordered[0, 0] = 0
    bordered[1:, 0] = sign
    bordered[1:, 1:] = core
    return bordered


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % factor for factor in range(2, isqrt(number) + 1))
