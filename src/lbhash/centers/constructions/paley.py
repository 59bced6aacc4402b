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
from math import isqrt, log

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
        ValueError: q is not the power of an odd prime.

    >>> jacobsthal(3).tolist()
    [[0, -1, 1], [1, 0, -1], [-1, 1, 0]]
    """
    if not has_jacobsthal(q):
        raise ValueError(f"q is {q}; it must be the power of an odd prime")
    p, k = _prime_power(q)
    digits = np.arange(q)[:, None] // p ** np.arange(k) % p
    chi = np.full(q, -1, np.int8)
    chi[_squares(digits, p)] = 1
    chi[0] = 0
    differences = np.zeros((q, q), np.int64)
    for i in range(k):
        differences += (digits[:, None, i] - digits[:, i]) % p * p**i
    return chi[differences]


@cache
def has_jacobsthal(q: int) -> bool:
    """Whether q is the power of an odd prime."""
    return q > 2 and q % 2 == 1 and _prime_power(q)[1] > 0


def _prime_power(q: int) -> tuple[int, int]:
    """p and k of q = p^k; k = 0 for no power of a prime."""
    p = next((factor for factor in range(2, isqrt(q) + 1) if q % factor == 0), q)
    k = round(log(q, p))
    return p, k if p**k == q else 0


def _squares(digits: npt.NDArray[np.int64], p: int) -> npt.NDArray[np.int64]:
    """The numbers of the squares of all elements of GF(p^k) = GF(p)[t] / f(t); an element's number has p-ary digits.

    The first f = t^k - Σ a_i t^i is taken that makes a field: then 0 alone has the square 0, and there are (q + 1) / 2
    squares. A ring that is no field has fewer, or more elements with the square 0.
    """
    q, k = digits.shape
    for reduction in digits:
        product = np.zeros((q, 2 * k - 1), np.int64)
        for i in range(k):
            for j in range(k):
                product[:, i + j] += digits[:, i] * digits[:, j]
        for high in range(2 * k - 2, k - 1, -1):
            product[:, high - k : high] += product[:, high : high + 1] % p * reduction
        squares = product[:, :k] % p @ p ** np.arange(k)
        if (squares == 0).sum() == 1 and len(np.unique(squares)) == (q + 1) // 2:
            return squares
    raise AssertionError(f"there is an irreducible polynomial of degree {k} over GF({p})")


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
