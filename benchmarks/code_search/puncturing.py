"""Search for bits to leave out of linear codes: how ``known_puncturings.csv`` was found.

    python -m benchmarks.code_search.puncturing --dimension 9 10 --minutes 5 --seed 0

prints lines of ``known_puncturings.csv`` for codes that are better than those of the library's table, where
``best_linear.csv`` has better ones. ``--check`` finds the stored lines anew whose codes have changed, and prints the
whole file.

Leaving s bits out of a [n, k, d] code costs s of the distance at most, and s / 2 on average. Which bits they are
matters: three columns of the generator whose sum is 0 cost 2, the seven of a plane 4, as in the constructions B and B2.
A tabu search exchanges one bit that is left out for another, until every word keeps its weight. It starts from random
bits, and from those of a line, a plane or a solid that has many of the columns.

Source: Farrell, Linear binary anticodes, Electronics Letters 6 (1970) 419-421; MacWilliams and Sloane (1977), chapter
18, section 9, for constructions B and B2.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numba
import numpy as np
import numpy.typing as npt

from lbhash.centers.bounds.best_linear import TABLE_BITS, best_known_linear
from lbhash.centers.constructions import linear_table
from lbhash.centers.constructions.known_linear import KnownPuncturing, known_puncturings
from lbhash.centers.constructions.linear import Generator, span
from lbhash.centers.constructions.linear_table import LinearCode, best_linear_code
from lbhash.codes import unpack

Vectors = npt.NDArray[np.int64]

MOST_BITS = 72


def main() -> None:
    """Search, print what is found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dimension", type=int, nargs="+", default=[], metavar="K")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=3000, help="of each tabu search")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    found = checked(given.steps) if given.check else search(given.dimension, given.minutes, given.seed, given.steps)
    for line in found:
        print(f"{line.n},{line.k},{line.d},{' '.join(map(str, line.bits))}", flush=True)


def search(dimensions: list[int], minutes: float, seed: int, steps: int) -> Iterator[KnownPuncturing]:
    """Yield puncturings that give better codes than the table has, those that leave out few bits first."""
    end = time.monotonic() + 60 * minutes
    rng = np.random.default_rng(seed)
    table = linear_table._table()
    wanted = [(n, k, d) for k in dimensions for n, d in _wanted(k)]
    tasks = sorted((whole.n - n, n, k, d, whole.n) for n, k, d in wanted for whole in _wholes(n, k, d))
    for count, n, k, d, whole in tasks:
        if time.monotonic() > end:
            return
        if table[n, k].d < d:
            bits = chosen_bits(table[whole, k].generator(), count, d, steps, int(rng.integers(2**31)))
            if bits:
                yield KnownPuncturing(whole, k, d, bits)
                linear_table._offer(table, n, k, d, "chosen bits", (), lambda: None)
                linear_table._close(table)


def checked(steps: int) -> Iterator[KnownPuncturing]:
    """Yield the stored puncturings; those whose code is another now are found anew."""
    for line in known_puncturings():
        whole = linear_table._table()[line.n, line.k].generator()
        bits, seed = line.bits, 0
        while int(linear_table._weights(np.delete(whole, bits, axis=1))[1:].min()) < line.d and seed < 9:
            bits = chosen_bits(whole, len(bits), line.d, steps, seed) or bits
            seed += 1
        if seed < 9:
            yield line._replace(bits=bits)


def _wanted(k: int) -> Iterator[tuple[int, int]]:
    """Lengths where the best known code is not there, and the next odd distance; a parity bit gives the even ones."""
    for n in range(k + 1, TABLE_BITS):
        ours = best_linear_code(n, k).d
        d = ours + 1 + ours % 2
        if d <= (best_known_linear(n, k) or 0):
            yield n, d


def _wholes(n: int, k: int, d: int) -> Iterator[LinearCode]:
    """Codes of which bits can be left out: no such puncturing is in them already."""
    found = []
    for longer in range(n + 2, min(n + MOST_BITS, linear_table.MAX_LENGTH) + 1):
        code, shorter = best_linear_code(longer, k), best_linear_code(longer - 1, k)
        slack = code.d - d - (longer - n) / 2
        if code.d % 2 == 0 and shorter.d < code.d and slack >= 0.4 and not code.is_made_by("chosen bits"):
            found.append((longer - n - 4 * slack, code))
    yield from (code for _, code in sorted(found, key=lambda pair: pair[0])[:6])


def chosen_bits(generator: Generator, count: int, d: int, steps: int, seed: int) -> tuple[int, ...]:
    """Return bits without which the code has distance d; none if the search does not find them."""
    weights = linear_table._weights(generator)
    low = np.flatnonzero((weights > 0) & (weights < d + count))
    if weights[low].min(initial=d) < d:
        return ()
    ones = np.ascontiguousarray((unpack(span(generator)[low], generator.shape[1]) > 0).T.astype(np.uint8))
    rng = np.random.default_rng(seed)
    for dimension in (0, 2, 3, 4):
        flat = _flat(generator, dimension, rng)[:count] if dimension else []
        order = [*flat, *(bit for bit in rng.permutation(len(ones)).tolist() if bit not in flat)]
        bits, cost = _tabu(ones, (weights[low] - d).astype(np.int16), np.array(order), count, steps, seed)
        if cost == 0:
            return tuple(sorted(bits.tolist()))
    return ()


def _flat(generator: Generator, dimension: int, rng: np.random.Generator, tries: int = 20) -> list[int]:
    """Bits whose columns are many in a subspace of a dimension: the best of some that grow greedily."""
    columns = ((1 << np.arange(len(generator))) @ generator.astype(np.int64)).astype(np.int64)
    most = np.zeros(0, np.int64)
    for _ in range(tries):
        subspace = np.array([0, rng.choice(columns)])
        for _ in range(dimension - 1):
            others = columns[~np.isin(columns, subspace)]
            if len(others):
                hits = np.isin(others[:, None] ^ subspace, columns).sum(axis=1)
                best = rng.choice(others[hits == hits.max()])
                subspace = np.concatenate([subspace, subspace ^ best])
        bits = np.flatnonzero(np.isin(columns, subspace))
        most = bits if len(bits) > len(most) else most
    return [int(bit) for bit in most]


@numba.njit(cache=True, fastmath=True)
def _tabu(
    ones: npt.NDArray[np.uint8], most: npt.NDArray[np.int16], order: Vectors, count: int, steps: int, seed: int
) -> tuple[Vectors, int]:
    """Choose ``count`` rows of ``ones [bits, words]`` whose sums are at most ``most``; return what is missing."""
    np.random.seed(seed)  # noqa: NPY002 - numba's own generator
    bits, words = ones.shape
    chosen = order[:count].copy()
    out = np.zeros(bits, np.bool_)
    out[chosen] = True
    over = -most
    for bit in chosen:
        over += ones[bit]
    free_at = np.zeros(bits, np.int64)
    gain = np.empty(words, np.int32)
    least = np.int64(2**60)
    for step in range(steps):
        cost = np.int64(0)
        for i in range(words):
            excess = max(over[i], 0)
            cost += excess * excess
            gain[i] = 2 * over[i] - 1 if over[i] > 0 else 0
        least = min(least, cost)
        if cost == 0:
            return chosen, 0
        p, best = np.random.randint(count), np.int64(-1)  # noqa: NPY002
        if np.random.random() < 0.95:  # noqa: NPY002
            begin = np.random.randint(count)  # noqa: NPY002 - ties go to any
            for j in range(count):
                q = (begin + j) % count
                value = np.int64(0)
                if free_at[chosen[q]] <= step:
                    for i in range(words):
                        value += gain[i] * ones[chosen[q], i]
                    if value > best:
                        p, best = q, value
        old = chosen[p]
        for i in range(words):
            over[i] -= ones[old, i]
            gain[i] = 2 * over[i] + 1 if over[i] >= 0 else 0
        new, best = old, np.int64(2**60)
        begin = np.random.randint(bits)  # noqa: NPY002
        for j in range(bits):
            bit = (begin + j) % bits
            if out[bit] or free_at[bit] > step:
                continue
            value = np.int64(0)
            for i in range(words):
                value += gain[i] * ones[bit, i]
            if value < best:
                new, best = bit, value
        chosen[p] = new
        out[old], out[new] = False, True
        over += ones[new]
        free_at[old] = step + 2 + np.random.randint(6)  # noqa: NPY002
        free_at[new] = step + 1 + np.random.randint(max(1, count // 2))  # noqa: NPY002
    return chosen, least


if __name__ == "__main__":
    main()
