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


def hadamard_matrix(order: int) -> Centers:
    """A Hadamard matrix, its first row and column +1.

    Args:
        order: number of rows n, for which ``has_hadamard_matrix``.

    Returns:
        ``int8 [n, n]`` of -1 and +1.

    Raises:
        ValueError: none of the constructions has the order.
    """
    if not has_hadamard_matrix(order):
        raise ValueError(f"order is {order}; there is no construction of a Hadamard matrix of that order here")
    matrix = _construct(order)
    matrix = matrix * matrix[:1]
    return matrix * matrix[:, :1]


@cache
def has_hadamard_matrix(order: int) -> bool:
    """Whether one of the constructions has the order.

    Orders are 1, 2 and multiples of 4; those up to 256 that exist and are missed are 92, 116, 156, 172, 184, 188, 232
    and 236.
    """
    if order in (1, 2):
        return True
    if order < 1 or order % 4:
        return False
    return _is_first(order) or _is_second(order) or _factor(order) is not None


def jacobsthal(q: int) -> Centers:
    """The Jacobsthal matrix of GF(q): ``int8 [q, q]`` of chi(a - b), 0 on the diagonal.

    Raises:
        ValueError: q is neither an odd prime nor the square of one.

    >>> jacobsthal(3).tolist()
    [[0, -1, 1], [1, 0, -1], [-1, 1, 0]]
    """
    if not has_jacobsthal(q):
        raise ValueError(f"q is {q}; it must be an odd prime or the square of one")
    if not _is_prime(q):
        return _jacobsthal_of_square(isqrt(q))
    chi = np.full(q, -1, np.int8)
    chi[np.arange(q) ** 2 % q] = 1
    chi[0] = 0
    a = np.arange(q)
    return chi[(a[:, None] - a) % q]


@cache
def has_jacobsthal(q: int) -> bool:
    """Whether q is an odd prime or the square of one, the fields that are built here."""
    root = isqrt(max(q, 0))
    return q % 2 == 1 and (_is_prime(q) or (root * root == q and _is_prime(root)))


def _jacobsthal_of_square(p: int) -> Centers:
    """Of GF(p²) = GF(p)[t] / (t² - r), r not a square; the element x + y t is the number x + p y."""
    squares = set((np.arange(p) ** 2 % p).tolist())
    r = next(r for r in range(2, p) if r not in squares)
    x, y = np.arange(p * p) % p, np.arange(p * p) // p
    chi = np.full(p * p, -1, np.int8)
    chi[(x * x + r * y * y) % p + p * (2 * x * y % p)] = 1
    chi[0] = 0
    return chi[(x[:, None] - x) % p + p * ((y[:, None] - y) % p)]


def _construct(order: int) -> Centers:
    if order == 1:
        return np.ones((1, 1), np.int8)
    if order == 2:
        return _SYLVESTER
    if _is_first(order):
        return np.eye(order, dtype=np.int8) + _bordered(jacobsthal(order - 1), -1)
    if _is_second(order):
        turned = np.array([[1, -1], [-1, -1]], np.int8)
        core = _bordered(jacobsthal(order // 2 - 1), 1)
        return np.kron(core, _SYLVESTER) + np.kron(np.eye(order // 2, dtype=np.int8), turned)
    factor = _factor(order)
    assert factor is not None
    return np.kron(hadamard_matrix(factor), hadamard_matrix(order // factor))


def _is_first(order: int) -> bool:
    """Of Paley's first construction."""
    return (order - 1) % 4 == 3 and has_jacobsthal(order - 1)


def _is_second(order: int) -> bool:
    """Of Paley's second construction."""
    return (order // 2 - 1) % 4 == 1 and has_jacobsthal(order // 2 - 1)


def _factor(order: int) -> int | None:
    """The smallest factor that leaves two orders that are had."""
    for factor in range(2, isqrt(order) + 1):
        if order % factor == 0 and has_hadamard_matrix(factor) and has_hadamard_matrix(order // factor):
            return factor
    return None


def _bordered(core: Centers, sign: int) -> npt.NDArray[np.int8]:
    bordered = np.ones((len(core) + 1, len(core) + 1), np.int8)
    bordered[0, 0] = 0
    bordered[1:, 0] = sign
    bordered[1:, 1:] = core
    return bordered


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % factor for factor in range(2, isqrt(number) + 1))
