"""Random small groups of permutations, for ``benchmarks.code_search.group_modules``.

They are subgroups of the affine groups of Z_m and of GF(2)^m, of PGL(2, p), of symmetric groups, and of products and
wreath products of some of these.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations_with_replacement
from math import gcd

import numpy as np
import numpy.typing as npt

Permutations = npt.NDArray[np.int64]
"""One a row: the images of the points 0, 1, 2, ..."""

MOST_ELEMENTS = 35_000


def random_subgroup(least: float, rng: np.random.Generator) -> Permutations | None:
    """Up to three permutations that generate a group of an order from ``least`` to 12 times that; None at times."""
    elements = _elements(int(rng.integers(len(_groups()))))
    aim = least * 12 ** rng.random()
    for _ in range(12):
        if len(elements) < least:
            break
        if rng.random() < 0.5:  # those that keep a set
            points = rng.permutation(elements.shape[1])[: int(rng.integers(1, 5))]
            elements = elements[np.isin(elements[:, points], points).all(axis=1)]
            continue
        generators = elements[rng.integers(len(elements), size=int(rng.integers(1, 4)))]
        smaller = closure(generators)
        if len(smaller) >= least:
            elements = smaller
            if len(elements) <= aim:
                return generators
    return None


def closure(generators: Permutations) -> Permutations:
    """The group that permutations generate, the identity first; of one with too many elements that alone."""
    begins = [tuple(range(generators.shape[1]))]
    found = set(begins)
    steps = generators.tolist()
    for begin in begins:  # it grows
        for step in steps:
            image = tuple([step[i] for i in begin])
            if image not in found:
                found.add(image)
                begins.append(image)
        if len(begins) > MOST_ELEMENTS:
            return np.array(begins[:1])
    return np.array(begins)


@cache
def _elements(which: int) -> Permutations:
    return closure(np.array(_groups()[which]))


Generators = list[list[int]]


@cache
def _groups() -> list[Generators]:
    orders = (*range(5, 36), 39, 40, 42, 45, 51, 55, 57, 60, 63, 73, 85, 89, 93, 127)
    groups = [affine(m) for m in orders] + [symmetric(n) for n in range(4, 8)]
    groups += [linear(m) for m in (3, 4)] + [projective(p) for p in (5, 7, 11, 13, 17, 19, 23, 31)]
    small = [cyclic(m) for m in (2, 3, 5, 7, 15, 31)] + [symmetric(3), symmetric(4), affine(5), affine(7)]
    small += [alternating_5(), projective(7)]
    groups += [beside(a, b) for a, b in combinations_with_replacement(small, 2)]
    return groups + [wreath(group, copies) for group in small[:9] for copies in (2, 3, 4)]


def cyclic(m: int) -> Generators:
    """The rotations of m points."""
    return [[*range(1, m), 0]]


def affine(m: int) -> Generators:
    """The maps x -> a x + b of Z_m."""
    return cyclic(m) + [[r * i % m for i in range(m)] for r in range(2, m) if gcd(r, m) == 1]


def symmetric(n: int) -> Generators:
    """All permutations of n points."""
    return [*cyclic(n), [1, 0, *range(2, n)]]


def alternating_5() -> Generators:
    """The even permutations of five points."""
    return [*cyclic(5), [1, 2, 0, 3, 4]]


def linear(m: int) -> Generators:
    """The maps x -> A x + b of GF(2)^m."""
    turned = [(x << 1) % 2**m | x >> m - 1 for x in range(2**m)]
    return [turned, [x ^ (x & 1) << 1 for x in range(2**m)], [x ^ 1 for x in range(2**m)]]


def projective(p: int) -> Generators:
    """The maps x -> (a x + b) / (c x + d) of the projective line over GF(p); the point at infinity is p."""
    root = next(g for g in range(2, p) if len({pow(g, i, p) for i in range(p)}) == p - 1)
    inverse = [p, *(-pow(x, -1, p) % p for x in range(1, p)), 0]
    return [[*cyclic(p)[0], p], [*(root * x % p for x in range(p)), p], inverse]


def beside(left: Generators, right: Generators) -> Generators:
    """The product of two groups, on the points of both."""
    m, n = len(left[0]), len(right[0])
    return [[*g, *range(m, m + n)] for g in left] + [[*range(m), *(m + i for i in g)] for g in right]


def wreath(group: Generators, copies: int) -> Generators:
    """The wreath product with the symmetric group of some copies."""
    m = len(group[0])
    size = m * copies
    turned, exchanged = [(i + m) % size for i in range(size)], [*range(m, 2 * m), *range(m), *range(2 * m, size)]
    return [*([*g, *range(m, size)] for g in group), turned, exchanged]
