"""Search for binary linear codes: how the generators in ``known_linear.csv`` were found.

    python -m benchmarks.code_search.linear_codes --dimension 9 --minutes 5 --seed 0

prints a line of ``known_linear.csv`` for every code that it finds. It looks for the codes of ``best_linear.csv``, the
best known, that neither the library's table has nor a simple derivation from the others of the list gives;
``--length N --distance D`` looks for one code.

A [n, k, d] code is a multiset of n vectors of GF(2)^k, the columns of its generator, of which for every nonzero u at
least d have u.v = 1: this number is the weight of the word u G. Let a group of linear maps act on GF(2)^k, and take the
columns in whole orbits. Then all u of one orbit under the transposed maps give words of equal weight, and the 2^k
vectors and words shrink to a few orbits of columns, a few of words, and the matrix of the weight that each orbit of
columns adds to each orbit of words. Groups are drawn at random: GF(2)^k becomes a product of rings GF(2)[x] / f(x), and
the maps multiply in each, or square in each, or exchange equal ones (``lbhash.centers.constructions.known_linear``), so
that the codes are quasi-cyclic, or quasi-twisted over GF(4), GF(8), ..., of one or several generators. For every group
and length the choice of orbits is improved by tabu search: one orbit is exchanged for another of equal length so that
the sum over the words of (d - weight)^2, for the weights below d, becomes as small as the orbits not exchanged lately
allow. A group with which a few steps come nearer than with most others gets more of them.

Source: quasi-cyclic codes by weight matrices, Gulliver and Bhargava, IEEE Trans. Inform. Theory 37 (1991) 552-555;
prescribed automorphisms, Braun, Kohnert and Wassermann, IEEE Trans. Inform. Theory 51 (2005) 4247-4251.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from math import gcd, lcm

import numba
import numpy as np
import numpy.typing as npt

from lbhash.centers.bounds.best_linear import TABLE_BITS, TABLE_DIMENSION, best_known_linear
from lbhash.centers.constructions.galois_field import divide, multiply
from lbhash.centers.constructions.known_linear import KnownCode, linear_map
from lbhash.centers.constructions.linear_table import best_linear_code

Vectors = npt.NDArray[np.int64]
"""Vectors of GF(2)^k as integers, bit i the i-th coordinate."""

MAX_PARTS = 64


def main() -> None:
    """Search, print what is found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dimension", type=int, required=True, metavar="K")
    parser.add_argument("--length", type=int, metavar="N")
    parser.add_argument("--distance", type=int, metavar="D")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--orbits", type=int, default=90, help="how many orbits of columns a group may have")
    given = parser.parse_args()
    if not 2 <= given.dimension <= 16 or (given.length is None) != (given.distance is None):
        parser.error("dimension must be from 2 to 16, and length and distance be given together or not at all")
    wanted = {given.length: given.distance} if given.length else dict(wanted_codes(given.dimension))
    for code in search(given.dimension, wanted, given.minutes, given.seed, given.orbits):
        print(",".join(map(str, code)), flush=True)


def wanted_codes(k: int) -> Iterator[tuple[int, int]]:
    """The lengths and even distances of the best known codes that neither the library's table nor a derivation has."""
    for n in range(k + 1, TABLE_BITS + 1):
        d, ours = best_known_linear(n, k) or 0, best_linear_code(n, k)
        if d % 2 == 0 and d > max(ours.d if ours else 0, _derived(n, k)):
            yield n, d


def _derived(n: int, k: int) -> int:
    """The largest even distance of a [n, k] code that follows from the others of the list."""

    def known(length: int, dimension: int) -> int:
        return (best_known_linear(length, dimension) or 0) if length <= TABLE_BITS else 0

    simple = (known(n + 1, k + 1), known(n, k + 1) if k < TABLE_DIMENSION else 0, known(n - 1, k) // 2 * 2)
    beside = (known(left, k) + known(n - left, k) for left in range(k, n // 2 + 1))
    sums = (min(2 * known(n // 2, u), known(n // 2, k - u)) for u in range(1, k) if n % 2 == 0)
    return max(*simple, *beside, *sums, 0)


def search(k: int, wanted: dict[int, int], minutes: float, seed: int = 0, most: int = 90) -> Iterator[KnownCode]:
    """Yield codes of dimension k with the distances that are wanted at even distances, by length, or one bit shorter.

    Args:
        k: dimension, at most 16.
        wanted: least minimum distance by length; each is taken away when it is found.
        minutes: when to give up.
        seed: of the random choices.
        most: how many orbits of columns a group may have.
    """
    rng = np.random.default_rng(seed)
    end = time.monotonic() + 60 * minutes
    seen: defaultdict[int, list[float]] = defaultdict(list)
    while wanted and time.monotonic() < end:
        field, blocks, maps = random_group(k, rng)
        images = [np.array(linear_map(blocks, text)) for text in maps]
        vectors, begins = orbits(np.array([all_images(matrix) for matrix in images]))
        if not 6 <= len(begins) - 1 <= most:
            continue
        lengths = np.diff(begins)
        weights, counts = orbit_weights(images, vectors, begins)
        steps = np.clip(np.array([3e5, 1e7]) / weights.size, 20, 3000).astype(int).tolist()
        for n, d in list(wanted.items()):
            for bits, distance in ((n, d), (n - 1, d - 1))[: 1 + (d % 2 == 0)]:
                parts = _random_lengths(bits, lengths, rng)
                if parts is None or n not in wanted:
                    continue
                task = weights, lengths, parts, counts, distance
                chosen, cost = _tabu(*task, steps[0], int(rng.integers(2**31)))
                seen[n].append(cost)
                if cost > 0 and cost <= np.quantile(seen[n][-100:], 0.1):  # a promising group
                    chosen, _ = _tabu(*task, steps[1], int(rng.integers(2**31)))
                if len(chosen):
                    starts = " ".join(f"{vectors[begins[j]]:x}" for j in chosen)
                    yield KnownCode(bits, k, distance, field, blocks, " ".join(maps), starts)
                    del wanted[n]


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


def _random_lengths(n: int, lengths: Vectors, rng: np.random.Generator) -> Vectors | None:
    """Orbit lengths with the sum n, as many long ones as possible, or None if there are none."""
    available = sorted({length for length in lengths[1:].tolist() if length <= n}, reverse=True)
    if rng.random() < 0.3:
        available = [length for length in available if rng.random() < 0.7]
    parts: list[int] = []
    for length in available:
        most = (n - sum(parts)) // length
        fewer = int(rng.integers(0, min(2, most) + 1)) if length > available[-1] and rng.random() < 0.3 else 0
        parts += [length] * (most - fewer)
    return np.array(parts) if sum(parts) == n and len(parts) <= MAX_PARTS else None


def all_images(matrix: Vectors) -> Vectors:
    """The image of every vector 0, 1, ..., 2^k - 1 under a matrix given by its columns, ``[k, …]``."""
    images = np.zeros((1, *matrix.shape[1:]), matrix.dtype)
    for column in matrix:
        images = np.concatenate([images, images ^ column])
    return images


def transpose(matrix: Vectors) -> Vectors:
    """The transpose of a square matrix given by its columns, by its columns."""
    return ((matrix >> np.arange(len(matrix))[:, None] & 1) << np.arange(len(matrix))).sum(axis=1)


def orbit_weights(
    matrices: Iterable[Vectors], vectors: Vectors, begins: Vectors
) -> tuple[npt.NDArray[np.float32], Vectors]:
    """``[columns, words]``: how many vectors v of an orbit of columns have u.v = 1, for one u of each orbit of words.

    And how many words each of these orbits has; that of 0 is left out.
    """
    words, ends = orbits(np.array([all_images(transpose(matrix)) for matrix in matrices]))
    return _weight_matrix(words[ends[1:-1]], vectors, begins), np.diff(ends)[1:]


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


@numba.njit(cache=True, fastmath=True)
def _tabu(
    weights: npt.NDArray[np.float32],
    lengths: Vectors,
    parts: Vectors,
    counts: Vectors,
    d: int,
    steps: int,
    seed: int,
) -> tuple[Vectors, float]:
    """The orbits of columns of a code with distance d, of lengths ``parts``, and 0; or none, and the least cost."""
    np.random.seed(seed)  # noqa: NPY002 - numba's own generator
    orbits, words = weights.shape
    chosen = np.empty(len(parts), np.int64)
    total = np.zeros(words, np.float32)
    for p in range(len(parts)):
        candidates = np.flatnonzero(lengths == parts[p])
        chosen[p] = candidates[np.random.randint(len(candidates))]  # noqa: NPY002
        total += weights[chosen[p]]
    multiplicity = counts.astype(np.float32)
    free_at = np.zeros(orbits, np.int64)
    record = np.float32(1e30)
    for step in range(steps):
        if total.min() >= d:
            return chosen, 0.0
        p = np.random.randint(len(parts))  # noqa: NPY002
        out = chosen[p]
        total -= weights[out]
        missing = np.float32(d) - total
        best, least, ties = -1, np.float32(1e30), 0
        for j in range(1, orbits):
            if lengths[j] != parts[p] or free_at[j] > step or j == out:
                continue
            cost = np.float32(0)
            for begin in range(0, words, 128):  # in pieces, for speed
                for i in range(begin, min(words, begin + 128)):
                    lack = max(missing[i] - weights[j, i], np.float32(0))
                    cost += lack * lack * multiplicity[i]
                if cost > least:
                    break
            if cost < least:
                best, least, ties = j, cost, 1
            elif cost == least:
                ties += 1
                if np.random.randint(ties) == 0:  # noqa: NPY002
                    best = j
        record = min(record, least)
        if best < 0:
            best = out
        chosen[p] = best
        total += weights[best]
        free_at[out] = step + 1 + np.random.randint(len(parts) + 1)  # noqa: NPY002
    return (chosen[:0], float(record)) if total.min() < d else (chosen, 0.0)


if __name__ == "__main__":
    main()
