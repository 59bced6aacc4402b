"""Delsarte's linear program, with a certificate in exact arithmetic.

Let C be a code of length n with even distances only, all at least d, and A_i the mean over its words of how many words
lie at distance i; A_0 = 1 and A_0 + A_d + .. + A_n = |C|. Delsarte (1973): for every k the sum of A_i K_k(i) over i is
at least 0, with the Krawtchouk polynomials K_k(x), the coefficients of z^k in (1 - z)^x (1 + z)^(n - x). And
0 <= A_i <= T_i, where T_i bounds A(n, d, i), as the words at distance i from a word form, once that word is shifted to
0, a code of constant weight i (Best, Brouwer, MacWilliams, Odlyzko and Sloane, IEEE Trans. Inf. Theory 24, 1978). Also
theirs: two words with zeros in a and b places differ in at most a + b, so there is at most one word of those weights
j > i with 2n - i - j < d, call them E(i), and if there is one, there is none of weight i. Hence A_i / T_i + sum of A_j
over E(i) <= 1. The largest sum of A_i under these constraints bounds A(n, d).

**Certificate.** The solver computes in floats, and is not believed. Take any f_k >= 0 and f(x) = 1 + sum f_k K_k(x)
over k from 1 to n/2. Then

    |C| <= sum_i A_i + sum_k f_k sum_i A_i K_k(i) = sum_i A_i f(i) <= f(0) + sum_{i >= d} A_i max(0, f(i)),

where the first step adds terms that are at least 0 and the second drops terms that are at most 0; ``_most`` bounds the
last sum. So every choice of f_k gives a bound, which is computed here in whole numbers; the solver's multipliers are a
good choice. Beyond n/2 there is nothing to gain: at even x, K_{n-k}(x) = K_k(x).

**Sizes that are not multiples of four** (Best and others, 1978). For a word u of weight k let a(u) be the sum of
(-1)^(u x) over the M words x of C. The sum of A_i K_k(i) over i is the sum of a(u)^2 / M over all u of weight k. If M
is odd so is a(u), and a(u)^2 >= 1. If M = 2 mod 4, then a(u) = 2 mod 4 and a(u)^2 >= 4 for the u orthogonal to s, the
sum of all words of C; there are (C(n, k) + K_k(l)) / 2 of these, l the weight of s, which is even. So the sum of
A_i K_k(i) is at least g_k / M with

    g_k = C(n, k) for odd M,  g_k = 2 (C(n, k) + K_k(l)) for some even l if M = 2 mod 4,

and no code has M words if M + sum f_k g_k / M exceeds the bound above, for every l in the second case. A code with more
words has codes with M words in it, so the largest size left is a bound too.

Source: MacWilliams and Sloane, The Theory of Error-Correcting Codes (1977), 17.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import comb
from operator import mul

from lbhash.centers.bounds.elementary import constant_weight, even_form

_PRECISION = 60  # multipliers are rounded to multiples of 2^-60
_STRETCHES = (60, 40, 30, 24, 20)  # exponents e of the factors 1 + 2^-e that the multipliers are tried with
_NO_LIMIT = 1e9  # larger T_i are not passed to the solver: they do not bind where it is of use, and spoil its scaling


@lru_cache(maxsize=1024)
def delsarte(length: int, distance: int) -> int:
    """Return Delsarte's bound on A(n, d), sharpened by constant weights and parity, and proven in exact arithmetic.

    Above a million, or 257 bits, the solver loses digits or gives up, and the bound, still a bound, is weak.

    >>> delsarte(24, 8)
    4096
    """
    n, d = even_form(length, distance)
    if d > n or d == 2:
        return 1 if d > n else 1 << n - 1
    return certified_bound(n, d, multipliers(n, d))


def multipliers(length: int, distance: int) -> list[float]:
    """Return the linear program's multipliers f_k C(n, k) for k = 1 .. n/2, in floats; ``distance`` is even.

    Without the factor C(n, k) they would span a hundred orders of magnitude.
    """
    import numpy as np
    from scipy.optimize import linprog

    distances = range(distance, length + 1, 2)
    # Both whole numbers can be too large for floats; their quotient never is.
    columns = [[value / comb(length, k) for k, value in enumerate(krawtchouk(length, i))][1:] for i in distances]
    limits = [constant_weight(length, distance, i) for i in distances]
    crowded = [
        [1 / limit if j == i else float(j in _excluded(length, distance, i)) for j in distances]
        for i, limit in zip(distances, limits, strict=True)
        if _excluded(length, distance, i)
    ]
    solution = linprog(
        -np.ones(len(distances)),
        A_ub=np.concatenate([-np.array(columns).T, np.reshape(crowded, (-1, len(distances)))]),
        b_ub=np.ones(length // 2 + len(crowded)),
        bounds=[(0, limit if limit < _NO_LIMIT else None) for limit in limits],
        method="highs",
    )
    if solution.status != 0:
        return [0.0] * (length // 2)  # the certificate will say how little that proves
    return [float(value) for value in -solution.ineqlin.marginals[: length // 2]]


def certified_bound(length: int, distance: int, multipliers: Sequence[float], *, parity: bool = True) -> int:
    """Return the bound on A(n, d), d even, that multipliers f_k C(n, k) for k = 1 .. n/2 prove, in exact arithmetic.

    Any finite multipliers will do; negative ones count as 0. Where the solver meant f(i) = 0, rounding leaves it a
    little above, and T_i may be large. So f is also tried with all f_k a little larger, which puts these f(i) below 0
    at the cost of a slightly larger f(0). Without ``parity``, sizes that are not multiples of four are not excluded.
    """
    # f_k = weights[k - 1] / unit. With n more binary digits than the multipliers, dividing by C(n, k) loses nothing.
    unit = 1 << (_PRECISION + length)
    rounded = (max(0, int(value * 2.0**_PRECISION)) for value in multipliers)
    weights = [(value << length) // comb(length, k) for k, value in enumerate(rounded, 1)]
    # f(i) - 1, in units of 1 / unit
    totals = {i: sum(map(mul, weights, krawtchouk(length, i)[1:])) for i in range(0, length + 1, 2)}
    limits = {i: constant_weight(length, distance, i) for i in range(distance, length + 1, 2)}
    best = 1 << length
    for exponent in _STRETCHES:
        one, stretch = unit << exponent, (1 << exponent) + 1
        values = {i: max(0, one + stretch * totals[i]) for i in limits}
        value = one + stretch * totals[0] + _most(length, distance, values, limits)
        bound = value // one
        if parity:
            odd = stretch * totals[0]
            twice_odd = 2 * stretch * (totals[0] + min(totals.values()))
            gains = {1: odd, 2: twice_odd, 3: odd}  # sum f_k g_k by M mod 4
            while bound % 4 and bound * bound * one + gains[bound % 4] > bound * value:
                bound -= 1
        best = min(best, bound)
    return best


def _excluded(length: int, distance: int, weight: int) -> range:
    """Return E(i), larger even weights: at most one word of a code has one, and none if a word has ``weight``."""
    first = max(weight + 2, 2 * length - weight - distance + 1)
    return range(first + first % 2, length + 1, 2)


def _most(length: int, distance: int, values: dict[int, int], limits: dict[int, int]) -> int:
    """Return a bound on the sum of A_i v_i, for v_i >= 0, by A_i / T_i + sum of A_j over E(i) <= 1.

    Take y_i >= 0 times these constraints so that each A_i gets at least v_i; then the sum of the y_i is a bound. From
    the smallest i on, y_i is what the earlier ones leave of v_i, times T_i.
    """
    covered = dict.fromkeys(values, 0)
    bound = 0
    for i, value in values.items():
        multiplier = limits[i] * max(0, value - covered[i])
        for j in _excluded(length, distance, i):
            covered[j] += multiplier
        bound += multiplier
    return bound


@lru_cache(maxsize=2048)
def krawtchouk(length: int, x: int) -> tuple[int, ...]:
    """Return K_0(x) .. K_{n/2}(x) for n = ``length``.

    By (k + 1) K_{k+1}(x) = (n - 2x) K_k(x) - (n - k + 1) K_{k-1}(x); MacWilliams and Sloane 5.7.

    >>> krawtchouk(4, 2)
    (1, 0, -2)
    """
    values = [1, length - 2 * x]
    for k in range(1, length // 2):
        values.append(((length - 2 * x) * values[k] - (length - k + 1) * values[k - 1]) // (k + 1))
    return tuple(values[: length // 2 + 1])
