"""Small groups of linear maps of GF(2)^k, their orbits, and what each orbit of columns adds to the weight of a word.

A [n, k, d] code is a multiset of n vectors of GF(2)^k, the columns of its generator, of which for every nonzero u at
least d have u.v = 1: this number is the weight of the word u G. Let a group of linear maps act on GF(2)^k, and take the
columns in whole orbits. Then all u of one orbit under the transposed maps give words of equal weight, and the 2^k
vectors and words shrink to a few orbits of columns, a few of words, and the matrix of the weight that each orbit of
columns adds to each orbit of words.

Here GF(2)^k is a product of rings GF(2)[x] / f(x). A cyclic group is the multiplication by x in each, f being a power
of an irreducible polynomial: every quasi-cyclic code, of one or several generators, has one. The maps of a random group
multiply in each ring, or square in each, or exchange equal ones (``lbhash.centers.constructions.known_linear``), so
that the codes are quasi-cyclic, or quasi-twisted over GF(4), GF(8), ..., of one or several generators.

Source: quasi-cyclic codes by weight matrices, Gulliver and Bhargava, IEEE Trans. Inform. Theory 37 (1991) 552-555;
prescribed automorphisms, Braun, Kohnert and Wassermann, IEEE Trans. Inform. Theory 51 (2005) 4247-4251.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from math import gcd, lcm

import numba
import numpy as np
import numpy.typing as npt

from lbhash.centers.constructions.galois_field import divide, multiply

Vectors = npt.NDArray[np.int64]
"""Vectors of GF(2)^k as integers, bit i the i-th coordinate."""

MOST_BLOCKS = 5
LARGEST_ORDER = 130


def cyclic_groups(k: int, most: int) -> Iterator[tuple[str, str]]:
    """Blocks and the multiplication by x in them, for all cyclic groups of dimension k with some ``most`` orbits."""
    for order in range(2, LARGEST_ORDER + 1):
        factors = [f for f, period in _factors(k) if order % period == 0]
        for blocks in _products(factors, k, MOST_BLOCKS) if 2**k <= most * order else ():
            if lcm(*(_period(f) for f in blocks)) == order:
                yield ".".join(f"{f:x}" for f in blocks), ".".join("2" * len(blocks))


def random_group(k: int, rng: np.random.Generator) -> tuple[int, str, list[str]]:
    """Blocks of dimension k and maps of them, and the field over which the group's codes are linear."""
    degree = int(rng.choice([e for e in (2, 2, 3, 4, 5) if k % e == 0] or [1])) if rng.random() < 0.45 else 1
    blocks: list[int] = []
    while (left := k - sum(f.bit_length() - 1 for f in blocks)) > 0:
        size = degree * int(rng.integers(1, left // degree + 1))
        moduli = [f for f, _ in _moduli(size)[1:] if degree == 1] if rng.random() < 0.2 else _primitive(size)
        copies = int(rng.integers(1, left // size + 1)) if rng.random() < 0.4 else 1
        blocks += [int(rng.choice(moduli or _primitive(size)))] * copies
    periods = [_period(f) for f in blocks]
    degrees = [f.bit_length() - 1 for f in blocks]
    ones = "1" + ".1" * (len(blocks) - 1)
    maps = []
    if degree > 1:
        maps.append(".".join(f"{_scalar(degree, f):x}" for f in blocks))
    maps.append(_random_factors(blocks, periods, rng))
    irreducible = all(f in _primitive(e) for f, e in zip(blocks, degrees, strict=True))
    if irreducible and rng.random() < 0.5:
        factors = _random_factors(blocks, periods, rng) if rng.random() < 0.3 else ones
        maps.append(f"{factors}^{rng.integers(1, max(degrees) + 1)}")
    equal = [i for i, f in enumerate(blocks) if blocks.count(f) > 1 and f == max(blocks, key=blocks.count)]
    if equal and rng.random() < 0.6:
        targets = list(range(len(blocks)))
        for i, j in zip(equal, rng.permutation(equal).tolist(), strict=True):
            targets[i] = j
        power = f"^{rng.integers(0, degrees[equal[0]])}" if irreducible and rng.random() < 0.3 else ""
        maps.append(f"{ones}{power}@{'.'.join(map(str, targets))}")
    return 2**degree, ".".join(f"{f:x}" for f in blocks), maps


def _products(factors: list[int], degree: int, most: int) -> Iterator[tuple[int, ...]]:
    """All choices of up to ``most`` polynomials, of a degree together, in their order."""
    if degree == 0:
        yield ()
    for i, f in enumerate(factors if most else ()):
        if f.bit_length() - 1 <= degree:
            for others in _products(factors[i:], degree - f.bit_length() + 1, most - 1):
                yield (f, *others)


@cache
def _factors(degree: int) -> list[tuple[int, int]]:
    """The powers of irreducible polynomials up to a degree, with periods up to 300, and their periods."""
    composite = np.zeros(2 ** (degree + 1), bool)
    result = []
    for f in range(3, 2 ** (degree + 1), 2):
        if composite[f]:
            continue
        for g in range(f, 2 ** (degree - f.bit_length() + 2), 2):
            composite[multiply(f, g)] = True
        power = f
        while power < len(composite):
            if _period(power) <= 300:
                result.append((power, _period(power)))
            power = multiply(power, f)
    return result


def _random_factors(blocks: list[int], periods: list[int], rng: np.random.Generator) -> str:
    """A power of x for every block, which together have a random order."""
    orders = [m for m in range(2, 300) if lcm(*periods) % m == 0] or [1]
    order = int(rng.choice(orders))
    powers = [period // gcd(period, order) * int(rng.integers(gcd(period, order))) for period in periods]
    return ".".join(f"{_power(e, f):x}" for e, f in zip(powers, blocks, strict=True))


@cache
def _scalar(degree: int, modulus: int) -> int:
    """A root of the first primitive polynomial of a degree modulo a primitive polynomial, the same in each block."""
    step = (2 ** (modulus.bit_length() - 1) - 1) // (2**degree - 1)
    powers = (_power(step * i, modulus) for i in range(1, 2**degree))
    return next(root for root in powers if _value(_primitive(degree)[0], root, modulus) == 0)


def _value(polynomial: int, at: int, modulus: int) -> int:
    """The value of a polynomial over GF(2) at an element, by Horner's rule."""
    result = 0
    for i in reversed(range(polynomial.bit_length())):
        result = divide(multiply(result, at), modulus)[1] ^ (polynomial >> i & 1)
    return result


def _power(exponent: int, modulus: int) -> int:
    """x^exponent modulo a polynomial."""
    result, square = 1, divide(2, modulus)[1]
    while exponent:
        if exponent & 1:
            result = divide(multiply(result, square), modulus)[1]
        square = divide(multiply(square, square), modulus)[1]
        exponent >>= 1
    return result


@cache
def _period(modulus: int) -> int:
    """The smallest e > 0 with x^e = 1 modulo a polynomial with constant term 1."""
    power, e = divide(2, modulus)[1], 1
    while power != 1:
        power, e = divide(power << 1, modulus)[1], e + 1
    return e


@cache
def _moduli(degree: int) -> list[tuple[int, int]]:
    """Up to 60 polynomials of a degree with constant term 1 and their periods, the longest period first."""
    step = max(2, 2 ** (degree - 8))
    found = [(f, _period(f)) for f in range(2**degree + 1, 2 ** (degree + 1), step | 1) if f & 1]
    return sorted(found, key=lambda pair: -pair[1])[:60]


@cache
def _primitive(degree: int) -> list[int]:
    """The first primitive polynomials of a degree."""
    candidates = range(2**degree + 1, 2 ** (degree + 1), 2)
    primitive = (f for f in candidates if _period(f) == 2**degree - 1)
    return list(islice(primitive, 6))


def all_images(matrix: Vectors) -> Vectors:
    """The image of every vector 0, 1, ..., 2^k - 1 under a matrix given by its columns, ``[k, …]``."""
    images = np.zeros((1, *matrix.shape[1:]), matrix.dtype)
    for column in matrix:
        images = np.concatenate([images, images ^ column])
    return images


def transpose(matrix: Vectors) -> Vectors:
    """The transpose of a square matrix given by its columns, by its columns."""
    return ((matrix >> np.arange(len(matrix))[:, None] & 1) << np.arange(len(matrix))).sum(axis=1)


def orbit_weights(matrices: Iterable[Vectors], vectors: Vectors, begins: Vectors) -> npt.NDArray[np.float32]:
    """``[columns, words]``: how many vectors v of an orbit of columns have u.v = 1, for one u of each orbit of words.

    The orbit of the word 0 is left out.
    """
    words, ends = orbits(np.array([all_images(transpose(matrix)) for matrix in matrices]))
    return _weight_matrix(words[ends[1:-1]], vectors, begins)


@numba.njit(cache=True)
def orbits(permutations: npt.NDArray[np.int64]) -> tuple[Vectors, Vectors]:
    """All of 0, 1, 2, ... in the orbits of the group that the rows generate, and where each begins, and the end."""
    size = permutations.shape[1]
    seen = np.zeros(size, np.bool_)
    order = np.empty(size, np.int64)
    begins = [0]
    end = 0
    for start in range(size):
        if not seen[start]:
            seen[start] = True
            order[end] = start
            end += 1
            i = begins[-1]
            while i < end:
                for p in range(len(permutations)):
                    image = permutations[p, order[i]]
                    if not seen[image]:
                        seen[image] = True
                        order[end] = image
                        end += 1
                i += 1
            begins.append(end)
    return order, np.array(begins)


@numba.njit(cache=True)
def _weight_matrix(words: Vectors, vectors: Vectors, begins: Vectors) -> npt.NDArray[np.float32]:
    """``[columns, words]``: how many vectors v of an orbit of columns have u.v = 1, for one u of an orbit of words."""
    weights = np.zeros((len(begins) - 1, len(words)), np.float32)
    for j in range(len(begins) - 1):
        for vector in vectors[begins[j] : begins[j + 1]]:
            for i in range(len(words)):
                common = vector & words[i]
                common ^= common >> 8
                common ^= common >> 4
                common ^= common >> 2
                common ^= common >> 1
                weights[j, i] += common & 1
    return weights
