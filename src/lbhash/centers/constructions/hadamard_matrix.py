"""Hadamard matrices by Paley's two constructions, by Sylvester's doubling and by Kronecker products of these.

A Hadamard matrix of order n has n rows of -1 and +1, every two n / 2 apart. Let chi be the quadratic character of
GF(q), q an odd prime power, and Q = [chi(a - b)] the Jacobsthal matrix. With S = [[0, 1], [±1, Q]], they are

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
    """Return a Hadamard matrix ``int8 [order, order]`` whose first row and column are +1, if there is one here."""
    if order <= 2:
        matrix = _SYLVESTER[:order, :order]
    elif has_jacobsthal(order - 1):
        matrix = np.eye(order, dtype=np.int8) + _bordered(jacobsthal(order - 1), -1)
    elif _has_paley_2(order):
        turned = np.array([[1, -1], [-1, -1]], np.int8)
        core = _bordered(jacobsthal(order // 2 - 1), 1)
        matrix = np.kron(core, _SYLVESTER) + np.kron(np.eye(order // 2, dtype=np.int8), turned)
    else:
        factor = _factor(order)
        matrix = np.kron(hadamard_matrix(factor), hadamard_matrix(order // factor))
    matrix = matrix * matrix[:1]
    return matrix * matrix[:, :1]


@cache
def has_hadamard_matrix(order: int) -> bool:
    """Return whether one of the constructions has the order; up to 256, eight that exist are missed, the first 92."""
    if order < 4 or order % 4:
        return order in (1, 2)
    return has_jacobsthal(order - 1) or _has_paley_2(order) or _factor(order) > 0


def jacobsthal(q: int) -> Centers:
    """Return the Jacobsthal matrix of GF(q), q the power of an odd prime: ``int8 [q, q]`` of chi(a - b).

    >>> jacobsthal(3).tolist()
    [[0, -1, 1], [1, 0, -1], [-1, 1, 0]]
    """
    p, k = _prime_power(q)
    digits = np.arange(q)[:, None] // p ** np.arange(k) % p
    chi = np.full(q, -1, np.int8)
    chi[_squares(digits, p)] = 1
    chi[0] = 0
    differences = (digits[:, None] - digits) % p @ p ** np.arange(k)
    return chi[differences]


@cache
def has_jacobsthal(q: int) -> bool:
    """Return whether q is the power of an odd prime."""
    return q > 2 and q % 2 == 1 and _prime_power(q)[1] > 0


def _prime_power(q: int) -> tuple[int, int]:
    """Return p and k of q = p^k, or k = 0 if q is no power of a prime."""
    p = next((factor for factor in range(2, isqrt(q) + 1) if q % factor == 0), q)
    k = round(log(q, p))
    return p, k if p**k == q else 0


def _squares(digits: npt.NDArray[np.int64], p: int) -> npt.NDArray[np.int64]:
    """Return the numbers of the squares of all elements of GF(p^k) = GF(p)[t] / f(t).

    An element's number has the p-ary ``digits [q, k]``. The first f = t^k - Σ a_i t^i is taken that makes a field: only
    then 0 alone has the square 0, and there are (q + 1) / 2 squares.
    """
    q, k = digits.shape
    for reduction in digits:
        product = np.zeros((q, 2 * k - 1), np.int64)
        for i in range(k):
            product[:, i : i + k] += digits[:, i : i + 1] * digits
        for high in range(2 * k - 2, k - 1, -1):
            product[:, high - k : high] += product[:, high : high + 1] % p * reduction
        squares = product[:, :k] % p @ p ** np.arange(k)
        if (squares == 0).sum() == 1 and len(np.unique(squares)) == (q + 1) // 2:
            return squares
    raise AssertionError(f"there is an irreducible polynomial of degree {k} over GF({p})")


def _has_paley_2(order: int) -> bool:
    return (order // 2 - 1) % 4 == 1 and has_jacobsthal(order // 2 - 1)


def _factor(order: int) -> int:
    """Return the smallest factor of the order for which both factors have Hadamard matrices; 0 if there is none."""
    for factor in range(2, isqrt(order) + 1):
        if order % factor == 0 and has_hadamard_matrix(factor) and has_hadamard_matrix(order // factor):
            return factor
    return 0


def _bordered(core: Centers, sign: int) -> npt.NDArray[np.int8]:
    bordered = np.pad(core, ((1, 0), (1, 0)), constant_values=1)
    bordered[0, 0] = 0
    bordered[1:, 0] = sign
    return bordered
