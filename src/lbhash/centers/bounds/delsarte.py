"""Delsarte's linear program, with a certificate in exact arithmetic.

Let C be a code of length n with even distances only, all at least d, and A_i the mean over its words of how many words
lie at distance i; A_0 = 1 and A_0 + A_d + .. + A_n = |C|. Delsarte (1973): for every k the sum of A_i K_k(i) over i is
at least 0, with the Krawtchouk polynomials K_k(x), the coefficients of z^k in (1 - z)^x (1 + z)^(n - x). The largest
sum of A_i >= 0 under these constraints bounds A(n, d).

**Certificate.** The solver computes in floats, and is not believed. Take any f_k >= 0 for which
f(x) = 1 + sum of f_k K_k(x), over k from 1 to n/2, is at most 0 at x = d, d + 2, .., n. Then

    |C| <= sum_i A_i + sum_k f_k sum_i A_i K_k(i) = sum_i A_i f(i) <= f(0).

The solver's multipliers are good f_k once they are multiplied by the one number that makes the largest of these f(x) 0.
It is a fraction, so all of it is computed in whole numbers. Beyond n/2 there is nothing to gain: at even x,
K_{n-k}(x) = K_k(x).

Source: MacWilliams and Sloane, The Theory of Error-Correcting Codes (1977), 17.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import comb
from operator import mul

from lbhash.centers.bounds.elementary import even_form

_PRECISION = 60  # multipliers are rounded to multiples of 2^-60


@lru_cache(maxsize=1024)
def delsarte(length: int, distance: int) -> int:
    """Return Delsarte's bound on A(n, d), proven in exact arithmetic.

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
    solution = linprog(-np.ones(len(distances)), A_ub=-np.array(columns).T, b_ub=np.ones(length // 2), method="highs")
    if solution.status != 0:
        return [0.0] * (length // 2)  # which prove nothing
    return [float(value) for value in -solution.ineqlin.marginals]


def certified_bound(length: int, distance: int, multipliers: Sequence[float]) -> int:
    """Return the bound on A(n, d), d even, that multipliers f_k C(n, k) for k = 1 .. n/2 prove, in exact arithmetic.

    Any finite multipliers will do; negative ones count as 0. If they prove nothing, the bound is 2^n.
    """
    # With n more binary digits than the multipliers, dividing by C(n, k) loses little.
    rounded = (max(0, int(value * 2.0**_PRECISION)) for value in multipliers)
    weights = [(value << length) // comb(length, k) for k, value in enumerate(rounded, 1)]

    def total(x: int) -> int:
        return sum(map(mul, weights, krawtchouk(length, x)[1:]))

    largest = max(total(x) for x in range(distance, length + 1, 2))
    return 1 + total(0) // -largest if largest < 0 else 1 << length


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
