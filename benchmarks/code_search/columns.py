"""Search for codes of any columns: how ``known_linear.csv`` got those with neither blocks nor maps.

    python -m benchmarks.code_search.columns --dimension 9 10 --minutes 10 --seed 0

prints such lines. The other searches take columns in whole orbits of a group; this one exchanges single columns, so
that the code need not have any symmetry. What it lowers is the sum over the words of (d - weight)^2, for the weights
below d. A column v adds 1 to the weight of every word u with u.v = 1, so one Walsh-Hadamard transform over the words
tells the sum with each of the 2^k columns added, and another with each one left out: a step takes a few microseconds.
The start is one of the library's codes, with a few columns left out or added at random, or random columns. For d even
the search is for length n - 1 and distance d - 1, to which a parity bit is added.

Three columns a, b, a + b lengthen a code of distance d to one of distance d + 2 if no word of weight d or d + 1 has
u.a = u.b = 0 (Kohnert). What is found is lengthened so where the longer code is wanted, too.

Source: tabu search for codes, Gulliver and Bhargava, IEEE Trans. Inform. Theory 37 (1991) 552-555; Kohnert, (l, s)-
extension of linear codes, Discrete Mathematics 309 (2009) 412-417.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numba
import numpy as np
import numpy.typing as npt
from benchmarks.code_search.wanted import wanted_codes

from lbhash.centers.constructions import linear_table
from lbhash.centers.constructions.known_linear import KnownCode
from lbhash.centers.constructions.linear_table import best_linear_code

Vectors = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float32]

MOST_CHANGED = 16
"""How many columns are left out of a code, or added to it, at the start, at most."""

WORK = 5e8
"""How many additions a tabu search may take."""


def main() -> None:
    """Search, print what is found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dimension", type=int, nargs="+", required=True, metavar="K", help="from 5 to 15")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for k in given.dimension:
        if not 5 <= k <= 15:
            parser.error(f"dimension is {k}; it must be from 5 to 15")
    wanted = {(n, k): d for k in given.dimension for n, d in wanted_codes(k).items()}
    for code in search(wanted, given.minutes, given.seed):
        print(",".join(map(str, code)), flush=True)


def search(wanted: dict[tuple[int, int], int], minutes: float, seed: int = 0) -> Iterator[KnownCode]:
    """Yield codes with the distances that are wanted, by length and dimension, at even distances one bit shorter.

    Args:
        wanted: least minimum distance by length and dimension.
        minutes: when to give up.
        seed: of the random choices.
    """
    rng = np.random.default_rng(seed)
    end = time.monotonic() + 60 * minutes
    found = set()
    while len(found) < len(wanted):
        for (n, k), d in wanted.items():
            longer = n + 3, k
            lengthens = wanted.get(longer) == d + 2 and longer not in found
            if (n, k) in found and not lengthens:
                continue
            if time.monotonic() > end:
                return
            odd = 1 - d % 2
            start, steps = _start(n - odd, k, rng), int(WORK / (k * 2**k))
            columns, cost = exchanged(start, k, d - odd, steps, int(rng.integers(2**31)))
            if cost > 0:
                continue
            if (n, k) not in found:
                yield _code(columns, k, d - odd)
            found.add((n, k))
            if lengthens and (code := longer_code(columns, k, d - odd)):
                yield code
                found.add(longer)


def _code(columns: Vectors, k: int, d: int) -> KnownCode:
    return KnownCode(len(columns), k, d, 2, "", "", " ".join(f"{column:x}" for column in columns))


def _start(n: int, k: int, rng: np.random.Generator) -> Vectors:
    """Columns of the library's code of about this length, or random ones."""
    length = n + int(rng.integers(-MOST_CHANGED, MOST_CHANGED + 1))
    code = best_linear_code(length, k) if rng.random() < 0.8 else None
    columns = np.zeros(0, np.int64) if code is None else (1 << np.arange(k)) @ code.generator().astype(np.int64)
    kept = rng.permutation(columns)[:n]
    return np.concatenate([kept, rng.integers(1, 2**k, n - len(kept))])


@numba.njit(cache=True, fastmath=True)
def exchanged(columns: Vectors, k: int, d: int, steps: int, seed: int) -> tuple[Vectors, float]:
    """The best exchange of columns found, and the sum over its words of (d - weight)^2, for the weights below d.

    Args:
        columns: to start from, integers below 2^k.
        k: dimension, 4 at least.
        d: the least weight that is wanted.
        steps: when to give up.
        seed: of the random choices.
    """
    np.random.seed(seed)  # noqa: NPY002 - numba's own generator
    size, columns = 1 << k, columns.copy()
    # Short tenures are best; noise takes any column out in the place of the one that costs least.
    most_in, most_out, noise = np.random.randint(1, 4), np.random.randint(2, 6), 0.05 * np.random.random() ** 2  # noqa: NPY002
    weights, effects, other = np.zeros(size, np.float32), np.zeros(size, np.float32), np.zeros(size, np.float32)
    for column in columns:
        weights += _products(column, k)
    weights[0] = d  # the word 0 lacks nothing
    out_until = np.zeros(size, np.int64)  # a column that came in may not leave before
    left, left_until = np.zeros(4, np.int64), np.zeros(4, np.int64)  # and one that left may not come back before
    record, best = np.float32(1e30), columns.copy()
    for step in range(steps):
        place = np.random.randint(len(columns))  # noqa: NPY002
        if np.random.random() >= noise:  # noqa: NPY002
            effects[:] = np.maximum(np.float32(0), 2 * (np.float32(d) - weights) + 1)
            effects[0] = 0
            _transform(effects, k, other)
            highest, ties = np.float32(-1e30), 0
            for p in range(len(columns)):
                effect = effects[columns[p]]
                if out_until[columns[p]] <= step and effect >= highest:
                    ties = 1 if effect > highest else ties + 1
                    if np.random.randint(ties) == 0:  # noqa: NPY002
                        place, highest = p, effect
        out = columns[place]
        weights -= _products(out, k)
        lacks = np.maximum(np.float32(0), np.float32(d) - weights)
        cost = (lacks * lacks).sum()
        effects[:] = np.maximum(np.float32(0), 2 * lacks - 1)
        _transform(effects, k, other)
        none = effects[0]
        effects[0] = effects[out] = np.float32(1e30)
        for i in range(len(left)):
            if left_until[i] > step:
                effects[left[i]] = np.float32(1e30)
        lowest, ties, come = effects.min(), 0, -1
        for v in range(size):
            if effects[v] == lowest:
                ties += 1
                if np.random.randint(ties) == 0:  # noqa: NPY002
                    come = v
        cost -= (none - lowest) / 2
        columns[place] = come
        weights += _products(come, k)
        left[step % len(left)], left_until[step % len(left)] = out, step + 1 + np.random.randint(1, most_in + 1)  # noqa: NPY002
        out_until[come] = step + 1 + np.random.randint(1, most_out + 1)  # noqa: NPY002
        if cost < record - 0.5:
            record, best[:] = cost, columns
            if cost < 0.5:
                return best, 0.0
    return best, float(record)


@numba.njit(cache=True)
def _products(column: int, k: int) -> Weights:
    """u.column for all words u = 0, 1, ..., 2^k - 1, each 0 or 1."""
    products = np.zeros(1 << k, np.float32)
    for i in range(k):
        half, bit = 1 << i, column >> i & 1
        for u in range(half):
            products[half + u] = 1 - products[u] if bit else products[u]
    return products


@numba.njit(cache=True, fastmath=True)
def _transform(values: Weights, k: int, other: Weights) -> None:
    """The Walsh-Hadamard transform in place: the sum over u of values[u] (-1)^(u.v), for every v; k is 4 at least."""
    # The last four bits are transformed with all others side by side in memory, which is faster.
    rows = (1 << k) // 16
    half = 16
    while half < 1 << k:
        for begin in range(0, 1 << k, 2 * half):
            for i in range(begin, begin + half):
                a, b = values[i], values[i + half]
                values[i], values[i + half] = a + b, a - b
        half *= 2
    for row in range(rows):
        for i in range(16):
            other[i * rows + row] = values[row * 16 + i]
    for half in (1, 2, 4, 8):
        for begin in range(0, 16, 2 * half):
            for i in range(begin * rows, (begin + half) * rows):
                a, b = other[i], other[i + half * rows]
                other[i], other[i + half * rows] = a + b, a - b
    for row in range(rows):
        for i in range(16):
            values[row * 16 + i] = other[i * rows + row]


def longer_code(columns: Vectors, k: int, d: int) -> KnownCode | None:
    """The code that three columns make of one of distance d, after a parity bit where d is odd; None if none do."""
    if d % 2:
        columns, d = np.append(columns, np.bitwise_xor.reduce(columns)), d + 1
    three = lengthened(columns, k, d)
    return _code(np.append(columns, three), k, d + 2) if three else None


def lengthened(columns: Vectors, k: int, d: int) -> list[int]:
    """Three columns a, b, a + b that make the distance d + 2 of d, or none: no light word has u.a = u.b = 0."""
    weights = linear_table._weights(_code(columns, k, d).generator())
    light, other = (weights < d + 2).astype(np.float32), np.empty(2**k, np.float32)
    light[0] = 0
    for a in range(1, 2**k):
        left = light * (1 - _products(a, k))
        count = left.sum()
        _transform(left, k, other)
        b = int(left.argmin())
        if left[b] == -count:  # u.b = 1 for all that are left
            return [a, b, a ^ b]
    return []


if __name__ == "__main__":
    main()
