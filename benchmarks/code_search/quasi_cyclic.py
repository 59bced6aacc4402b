"""Search for quasi-cyclic codes, one cyclic map after another: how many lines of ``known_linear.csv`` were found.

    python -m benchmarks.code_search.quasi_cyclic --dimension 9 10 --minutes 5 --seed 0

prints lines of ``known_linear.csv``, as ``benchmarks.code_search.linear_codes`` does, whose tabu search it uses. Where
that program draws groups at random, this one goes through the multiplications by x in the products of rings
GF(2)[x] / f(x), f a power of an irreducible polynomial: every quasi-cyclic code, of one or several generators, has one.
For two and three circulants all choices are tried, the first circulant being that of the vector (1, 1, ...).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from functools import cache
from math import lcm

import numba
import numpy as np
import numpy.typing as npt
from benchmarks.code_search import linear_codes

from lbhash.centers.bounds.best_linear import TABLE_BITS, best_known_linear
from lbhash.centers.constructions.galois_field import multiply
from lbhash.centers.constructions.known_linear import KnownCode, linear_map
from lbhash.centers.constructions.linear_table import best_linear_code

MOST_BLOCKS = 5
Vectors = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float32]


def main() -> None:
    """Search, print what is found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dimension", type=int, nargs="+", required=True, metavar="K")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--orbits", type=int, default=420, help="how many orbits of columns a map may have")
    parser.add_argument("--effort", type=float, default=3e6, help="of a tabu search: weights of words that it adds")
    parser.add_argument("--order", type=int, nargs=2, default=(7, 130), help="the smallest and the largest circulant")
    given = parser.parse_args()
    if not all(2 <= k <= 16 for k in given.dimension):
        parser.error("dimension must be from 2 to 16")
    orders = range(given.order[0], given.order[1] + 1)
    for code in search(given.dimension, orders, given.minutes, given.seed, given.orbits, given.effort):
        print(",".join(map(str, code)), flush=True)


def search(
    dimensions: list[int], orders: range, minutes: float, seed: int = 0, most: int = 420, effort: float = 3e6
) -> Iterator[KnownCode]:
    """Yield codes that are better than those of the library's table, where the best known are.

    Args:
        dimensions: at most 16 each.
        orders: sizes of the circulants.
        minutes: when to stop.
        seed: of the random choices.
        most: how many orbits of columns a map may have.
        effort: of a tabu search.
    """
    rng = np.random.default_rng(seed)
    end = time.monotonic() + 60 * minutes
    found: dict[tuple[int, int], int] = {}
    maps = list(_maps(dimensions, orders, most))
    for blocks, order, k in (maps[i] for i in rng.permutation(len(maps))):
        if time.monotonic() > end:
            return
        wanted = {n: d for n in range(2 * order, TABLE_BITS + 1) if (d := _missing(n, k, found))}
        text, map_text = ".".join(f"{f:x}" for f in blocks), ".".join("2" * len(blocks))
        images = np.array(linear_map(text, map_text))
        vectors, begins = linear_codes.orbits(np.array([linear_codes.all_images(images)]))
        weights, counts = linear_codes.orbit_weights([images], vectors, begins)
        lengths = np.diff(begins)
        for chosen in _choices(weights, lengths, counts, order, wanted, _first(blocks, vectors, begins), effort, rng):
            n, d = int(lengths[chosen].sum()), int(weights[chosen].sum(axis=0).min())
            if d > found.get((n, k), 0) and n <= TABLE_BITS and d > _ours(n, k):
                found[n, k] = d
                starts = " ".join(f"{vectors[begins[j]]:x}" for j in chosen)
                yield KnownCode(n, k, d, 2, text, map_text, starts)


def _choices(
    weights: Weights,
    lengths: Vectors,
    counts: Vectors,
    order: int,
    wanted: dict[int, int],
    first: int,
    effort: float,
    rng: np.random.Generator,
) -> Iterator[list[int]]:
    """Yield the best choices of orbits: of two and three circulants all are tried, of more some."""
    whole = np.flatnonzero(lengths == order)
    if lengths[first] == order and len(whole):
        if 2 * order in wanted or 2 * order + 1 in wanted:
            yield [first, int(whole[(weights[first] + weights[whole]).min(axis=1).argmax()])]
        if (3 * order in wanted or 3 * order + 1 in wanted) and len(whole) <= 330:
            yield [first, *map(int, _best_pair(weights, first, whole))]
    steps = int(np.clip(effort / weights.size, 20, 4000))
    for n, d in wanted.items():
        for bits, distance in ((n, d), (n - 1, d - 1))[: 1 + (d % 2 == 0)]:
            if bits % order < 4 and (parts := linear_codes._random_lengths(bits, lengths, rng)) is not None:
                chosen, _ = linear_codes._tabu(
                    weights, lengths, parts, counts, distance, steps, int(rng.integers(2**31))
                )
                if len(chosen):
                    yield chosen.tolist()


def _ours(n: int, k: int) -> int:
    code = best_linear_code(n, k)
    return code.d if code else 0


def _missing(n: int, k: int, found: dict[tuple[int, int], int]) -> int:
    """The best known distance, 0 where it is there."""
    d = best_known_linear(n, k) or 0
    return d if d > max(_ours(n, k), found.get((n, k), 0)) else 0


def _maps(dimensions: list[int], orders: range, most: int) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """Blocks, the order of the multiplication by x in them, and their dimension."""
    for order in orders:
        factors = [f for f, period in _factors(max(dimensions)) if order % period == 0]
        for k in dimensions:
            for blocks in _products(factors, k, MOST_BLOCKS) if 2**k <= most * order else ():
                if lcm(*(linear_codes._period(f) for f in blocks)) == order:
                    yield blocks, order, k


def _products(factors: list[int], degree: int, most: int) -> Iterator[tuple[int, ...]]:
    """All choices of up to ``most`` polynomials, of a degree together, in their order."""
    if degree == 0:
        yield ()
    for i, f in enumerate(factors if most else ()):
        if f.bit_length() - 1 <= degree:
            for others in _products(factors[i:], degree - f.bit_length() + 1, most - 1):
                yield (f, *others)


def _first(blocks: tuple[int, ...], vectors: Vectors, begins: Vectors) -> int:
    """The orbit of the vector that is 1 in each block."""
    ones = sum(1 << sum(f.bit_length() - 1 for f in blocks[:i]) for i in range(len(blocks)))
    return int(np.searchsorted(begins, np.flatnonzero(vectors == ones)[0], side="right") - 1)


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
            if linear_codes._period(power) <= 300:
                result.append((power, linear_codes._period(power)))
            power = multiply(power, f)
    return result


@numba.njit(cache=True, fastmath=True)
def _best_pair(weights: Weights, first: int, whole: Vectors) -> tuple[int, int]:
    """The two orbits that give the largest minimum weight beside the first."""
    best, left, right = np.float32(-1), whole[0], whole[0]
    for a in range(len(whole)):
        base = weights[first] + weights[whole[a]]
        for b in range(a, len(whole)):
            least = np.float32(1e9)
            for begin in range(0, len(base), 64):  # in pieces, for speed
                for i in range(begin, min(len(base), begin + 64)):
                    least = min(least, base[i] + weights[whole[b], i])
                if least <= best:
                    break
            if least > best:
                best, left, right = least, whole[a], whole[b]
    return left, right


if __name__ == "__main__":
    main()
