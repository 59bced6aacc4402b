"""Search for binary linear [n, k, d] codes: how the generators in ``known_linear.json`` were found.

    python -m benchmarks.code_search.linear_codes --length 48 --dimension 8 --distance 22 --order 15 --seed 0

prints the rows of a generator as hexadecimal integers, bit j of which is column j, and the seconds it took; its exit
status is 1 if none was found in ``--seconds``.

A [n, k, d] code is a multiset of n vectors of GF(2)^k, the columns of its generator, of which for every nonzero u at
least d have u.v = 1: this number is the weight of the word u G. Let T be an invertible k x k matrix of small order and
take the columns in whole orbits {v, T v, T^2 v, ...}. Then all u of one orbit under the transpose of T give words of
equal weight, and the 2^k vectors and words shrink to a few orbits of columns, a few of words, and the matrix of the
weight that each orbit of columns adds to each orbit of words.

T is drawn at random as a block diagonal of companion matrices, each of a power of an irreducible factor of x^m - 1,
so that T^m = 1; an orbit of length m is then a circulant, and the code is quasi-cyclic. With ``--frobenius`` the
orbits are also those of y -> y^2 in every block GF(2)[x] / f(x). For every T the choice of orbits, n columns in all,
is improved by tabu search: one orbit is exchanged for another of equal length so that the sum over the words of
(d - weight)^2, for the weights below d, becomes as small as the orbits not exchanged lately allow.

With ``--checks`` (d = 6 only) the columns are those of a parity-check matrix ``[n - k, n]``: orbits of vectors v with
u.v = 1 for one u that T fixes are taken greedily, in random order, as long as all sums of two columns differ. Then no
two or four columns add to 0, and no odd number does, so the words have even weights and none of 2 or 4.

Source: quasi-cyclic codes by weight matrices, Gulliver and Bhargava, IEEE Trans. Inform. Theory 37 (1991) 552-555;
prescribed automorphisms, Braun, Kohnert and Wassermann, IEEE Trans. Inform. Theory 51 (2005) 4247-4251.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import cache

import numba
import numpy as np
import numpy.typing as npt

from lbhash.centers.constructions.galois_field import divide, multiply
from lbhash.centers.constructions.linear import Generator, row_reduced

Vectors = npt.NDArray[np.int64]
"""Vectors of GF(2)^k as integers, bit i the i-th coordinate; of a matrix, its columns."""


def main() -> None:
    """Search, print the rows and the seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, required=True, metavar="N")
    parser.add_argument("--dimension", type=int, required=True, metavar="K")
    parser.add_argument("--distance", type=int, required=True, metavar="D")
    parser.add_argument("--order", type=int, required=True, metavar="M", help="T^M = 1")
    parser.add_argument("--frobenius", action="store_true", help="take orbits under y -> y^2 too; M must be odd")
    parser.add_argument("--checks", action="store_true", help="search for a parity-check matrix; D must be 6")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600.0)
    given = parser.parse_args()
    if not 1 <= given.dimension <= 16 or given.order < 1 or (given.frobenius and given.order % 2 == 0):
        parser.error("dimension must be from 1 to 16 and order at least 1, and odd with --frobenius")
    if given.checks and given.distance != 6:
        parser.error("--checks is for distance 6")
    begin = time.monotonic()
    options = given.order, given.frobenius, given.seed, given.seconds
    if given.checks:
        found = search_checks(given.length, given.dimension, *options)
    else:
        found = search(given.length, given.dimension, given.distance, *options)
    print(f"{time.monotonic() - begin:.1f} s", file=sys.stderr)
    if found is None:
        sys.exit(1)
    print(" ".join(hexadecimal_rows(found)))


def search(
    n: int, k: int, d: int, order: int, frobenius: bool = False, seed: int = 0, seconds: float = 600.0
) -> Generator | None:
    """A generator of a [n, k, d] code with an automorphism of order dividing ``order``, or None if none was found.

    Args:
        n: length.
        k: dimension, at most 16.
        d: least minimum distance.
        order: m of the module's description.
        frobenius: whether to take orbits under y -> y^2 too.
        seed: of the random choices.
        seconds: when to give up.
    """
    rng = np.random.default_rng(seed)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        maps = random_maps(k, order, frobenius, rng)
        columns = orbits([_images(matrix) for matrix in maps])
        words = orbits([_images(_transpose(matrix)) for matrix in maps])[1:]
        lengths = np.array([len(orbit) for orbit in columns])
        parts = _random_lengths(n, lengths, rng)
        if parts is None:
            continue
        weights = _weight_matrix(
            np.array([word[0] for word in words]), np.concatenate(columns), np.append(0, lengths.cumsum())
        )
        steps = int(np.clip(10**10 // (weights.size * len(parts)), 20, 4000))
        chosen = _tabu(
            weights, lengths, parts, np.array([len(word) for word in words]), d, steps, int(rng.integers(2**31))
        )
        if len(chosen):
            vectors = np.concatenate([columns[j] for j in chosen])
            return (vectors >> np.arange(k)[:, None] & 1).astype(np.uint8)
    return None


def search_checks(
    n: int, k: int, order: int, frobenius: bool = False, seed: int = 0, seconds: float = 600.0
) -> Generator | None:
    """A generator of a [n, k, 6] code by its parity-check matrix, or None if none was found; see the module."""
    rng = np.random.default_rng(seed)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        maps = random_maps(n - k, order, frobenius, rng)
        fixed = [word[0] for word in orbits([_images(_transpose(matrix)) for matrix in maps])[1:] if len(word) == 1]
        if not fixed:
            continue
        functional = int(rng.choice(fixed))
        columns = orbits([_images(matrix) for matrix in maps])[1:]
        columns = [orbit for orbit in columns if int(orbit[0] & functional).bit_count() % 2]
        for _ in range(200):
            vectors = _distinct_sums(n, sorted((columns[j] for j in rng.permutation(len(columns))), key=len)[::-1])
            checks = row_reduced((vectors >> np.arange(n - k)[:, None] & 1).astype(np.uint8))
            if len(vectors) == n and len(checks) == n - k:
                return _kernel(checks)
    return None


def _distinct_sums(n: int, columns: list[Vectors]) -> Vectors:
    """Up to n vectors, in whole orbits, the first that fit, of which all sums of two differ."""
    taken = np.zeros(0, np.int64)
    for orbit in columns:
        more = np.concatenate([taken, orbit])
        sums = (more[:, None] ^ more)[np.triu_indices(len(more), 1)]
        if len(more) <= n and len(np.unique(sums)) == len(sums):
            taken = more
    return taken


def _kernel(checks: Generator) -> Generator:
    """A generator of the words that the rows of a matrix in reduced row echelon form are orthogonal to."""
    pivots = checks.argmax(axis=1)
    free = np.setdiff1d(np.arange(checks.shape[1]), pivots)
    generator = np.zeros((len(free), checks.shape[1]), np.uint8)
    generator[np.arange(len(free)), free] = 1
    generator[:, pivots] = checks[:, free].T
    return generator


def hexadecimal_rows(generator: Generator) -> list[str]:
    """Every row as the hexadecimal integer whose bit j is column j."""
    return [f"{sum(1 << j for j in np.flatnonzero(row).tolist()):x}" for row in generator]


def random_maps(k: int, order: int, frobenius: bool, rng: np.random.Generator) -> list[Vectors]:
    """A random T with T^order = 1, and the map y -> y^2 in its blocks."""
    powers = _factor_powers(order)
    blocks: list[int] = []
    while (left := k - sum(map(_degree, blocks))) > 0:
        fitting = [power for power in powers if _degree(power) <= left]
        # Large blocks first, and more often than their number: they have the long orbits.
        degrees = sorted({_degree(power) for power in fitting})
        degree = degrees[-1] if rng.random() < 0.5 else rng.choice(degrees)
        blocks.append(int(rng.choice([power for power in fitting if _degree(power) == degree])))
    result = []
    for step, shift in [(1, 1), (2, 0)][: 1 + frobenius]:
        matrix: list[int] = []
        for block in blocks:
            # Column i is the image of x^i: x^(i + 1) or x^(2 i) modulo the block.
            matrix += [divide(1 << step * i + shift, block)[1] << len(matrix) for i in range(_degree(block))]
        result.append(np.array(matrix))
    return result


def orbits(permutations: list[Vectors]) -> list[Vectors]:
    """The orbits of 0, 1, 2, ... under the group that the permutations generate, that of 0 first."""
    seen = np.zeros(len(permutations[0]), bool)
    result = []
    for start in range(len(seen)):
        if not seen[start]:
            seen[start] = True
            orbit = [start]
            for element in orbit:
                for permutation in permutations:
                    image = int(permutation[element])
                    if not seen[image]:
                        seen[image] = True
                        orbit.append(image)
            result.append(np.array(orbit))
    return result


def _images(matrix: Vectors) -> Vectors:
    """The image of every vector 0, 1, ..., 2^k - 1 under a matrix given by its columns."""
    images = np.zeros(1, np.int64)
    for column in matrix:
        images = np.concatenate([images, images ^ column])
    return images


def _transpose(matrix: Vectors) -> Vectors:
    k = len(matrix)
    return np.array([sum(int(matrix[j] >> i & 1) << j for j in range(k)) for i in range(k)])


def _random_lengths(n: int, lengths: Vectors, rng: np.random.Generator) -> Vectors | None:
    """Orbit lengths with the sum n, as many long ones as possible, or None if there are none."""
    available = sorted(set(lengths[1:].tolist()), reverse=True)
    parts: list[int] = []
    for length in available:
        most = (n - sum(parts)) // length
        fewer = int(rng.integers(0, min(2, most) + 1)) if length > available[-1] and rng.random() < 0.3 else 0
        parts += [length] * (most - fewer)
    return np.array(parts) if sum(parts) == n else None


def _degree(polynomial: int) -> int:
    return polynomial.bit_length() - 1


@cache
def _factor_powers(order: int) -> list[int]:
    """The powers of irreducible polynomials that divide x^order - 1, of degree at most 16."""
    odd = order
    while odd % 2 == 0:
        odd //= 2
    # Irreducible are the divisors of the squarefree x^odd - 1 that no smaller one divides.
    factors: list[int] = []
    rest = 1 << odd | 1
    for candidate in range(3, 1 << 17, 2):
        if 2 * _degree(candidate) > _degree(rest):
            break
        quotient, remainder = divide(rest, candidate)
        if remainder == 0:
            factors.append(candidate)
            rest = quotient
    if 1 < rest < 1 << 17:
        factors.append(rest)
    powers = []
    for factor in factors:
        power = 1
        for _ in range(order // odd):
            power = multiply(power, factor)
            if _degree(power) <= 16:
                powers.append(power)
    return powers


@numba.njit(cache=True)
def _weight_matrix(words: Vectors, vectors: Vectors, begins: Vectors) -> npt.NDArray[np.int32]:
    """``[columns, words]``: how many vectors v of an orbit of columns have u.v = 1, for one u of an orbit of words."""
    weights = np.zeros((len(begins) - 1, len(words)), np.int32)
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


@numba.njit(cache=True)
def _tabu(
    weights: npt.NDArray[np.int32],
    lengths: Vectors,
    parts: Vectors,
    counts: Vectors,
    d: int,
    steps: int,
    seed: int,
) -> Vectors:
    """The orbits of columns of a code with distance d, of lengths ``parts``; none if the steps did not find it."""
    np.random.seed(seed)  # noqa: NPY002 - numba's own generator
    orbits, words = weights.shape
    chosen = np.empty(len(parts), np.int64)
    total = np.zeros(words, np.int64)
    for p in range(len(parts)):
        candidates = np.flatnonzero(lengths == parts[p])
        chosen[p] = candidates[np.random.randint(len(candidates))]  # noqa: NPY002
        total += weights[chosen[p]]
    free_at = np.zeros(orbits, np.int64)
    for step in range(steps):
        if total.min() >= d:
            return chosen
        p = np.random.randint(len(parts))  # noqa: NPY002
        out = chosen[p]
        total -= weights[out]
        best, least, ties = -1, np.int64(2**62), 0
        for j in range(1, orbits):
            if lengths[j] != parts[p] or free_at[j] > step or j == out:
                continue
            cost = np.int64(0)
            for i in range(words):
                missing = d - total[i] - weights[j, i]
                if missing > 0:
                    cost += missing * missing * counts[i]
                    if cost > least:
                        break
            if cost < least:
                best, least, ties = j, cost, 1
            elif cost == least:
                ties += 1
                if np.random.randint(ties) == 0:  # noqa: NPY002
                    best = j
        if best < 0:
            best = out
        chosen[p] = best
        total += weights[best]
        free_at[out] = step + 1 + np.random.randint(len(parts) + 1)  # noqa: NPY002
    return chosen[:0] if total.min() < d else chosen


if __name__ == "__main__":
    main()
