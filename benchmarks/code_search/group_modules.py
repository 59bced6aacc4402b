"""Search for codes with a small group of any kind: how ``known_linear.csv`` got those with maps and no blocks.

    python -m benchmarks.code_search.group_modules --dimension 9 --minutes 5 --seed 0

prints such lines. As ``linear_codes``, it takes columns in whole orbits of a group of linear maps. The groups are
random modules of groups of permutations (``random_modules.py``), and three in ten those of ``linear_codes``. The choice
of orbits has at most n columns, and a tabu search takes one or two out and fills up with others, of any length.

Source: Braun, Kohnert and Wassermann, IEEE Trans. Inform. Theory 51 (2005) 4247-4251.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator

import numba
import numpy as np
import numpy.typing as npt
from benchmarks.code_search import linear_codes
from benchmarks.code_search.random_modules import random_module

from lbhash.centers.bounds.best_linear import TABLE_BITS, best_known_linear
from lbhash.centers.constructions.known_linear import KnownCode, linear_map
from lbhash.centers.constructions.linear_table import best_linear_code

Weights = npt.NDArray[np.float32]
Vectors = npt.NDArray[np.int64]

STEPS, MORE_STEPS = 3_000, 60_000


def main() -> None:
    """Search, print what is found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dimension", type=int, required=True, metavar="K", help="from 2 to 16")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--orbits", type=int, default=130, help="how many orbits of columns a group may have")
    given = parser.parse_args()
    if not 2 <= given.dimension <= 16:
        parser.error("dimension must be from 2 to 16")
    for code in search(given.dimension, wanted_codes(given.dimension), given.minutes, given.seed, given.orbits):
        print(",".join(map(str, code)), flush=True)


def print_found(doc: str | None, search: Callable[[int, dict[int, int], float, int], Iterator[KnownCode]]) -> None:
    """Run a search as a command, with a dimension, minutes and a seed, and print the codes."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dimension", type=int, required=True, metavar="K", help="from 4 to 15")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if not 4 <= given.dimension <= 15:
        parser.error(f"dimension is {given.dimension}; it must be from 4 to 15")
    for code in search(given.dimension, wanted_codes(given.dimension), given.minutes, given.seed):
        print(",".join(map(str, code)), flush=True)


def wanted_codes(k: int) -> dict[int, int]:
    """The even distances of the best codes known that the library's codes lack, by the first length that has them."""
    wanted = {}
    for n in range(k + 2, TABLE_BITS + 1):
        d = best_known_linear(n, k) or 0
        if d % 2 == 0 and d > max(best_linear_code(n, k).d, best_known_linear(n - 1, k) or 0):  # type: ignore[union-attr]
            wanted[n] = d
    return wanted


def search(k: int, wanted: dict[int, int], minutes: float, seed: int = 0, most: int = 130) -> Iterator[KnownCode]:
    """Yield codes of dimension k with the distances that are wanted, by length.

    Args:
        k: dimension, at most 16.
        wanted: least minimum distance by length; each is taken away when it is found.
        minutes: when to give up.
        seed: of the random choices.
        most: how many orbits of columns a group may have.
    """
    rng = np.random.default_rng(seed)
    end = time.monotonic() + 60 * minutes
    costs: defaultdict[int, list[float]] = defaultdict(list)
    while wanted and time.monotonic() < end:
        rings = rng.random() < 0.3
        field, blocks, texts = linear_codes.random_group(k, rng) if rings else (2, "", random_module(k, most, rng))
        images = [np.array(linear_map(blocks, text)) for text in texts]
        if not images:
            continue
        vectors, begins = linear_codes.orbits(np.array([linear_codes.all_images(matrix) for matrix in images]))
        if not 6 <= len(begins) - 2 <= most:
            continue
        weights, counts = linear_codes.orbit_weights(images, vectors, begins)
        weights, lengths, counts = weights[1:].T.copy(), np.diff(begins)[1:], counts.astype(np.float32)
        for n, d in list(wanted.items()):
            task = weights, lengths, counts, n, d
            chosen, cost = chosen_orbits(*task, STEPS, int(rng.integers(2**31)))
            costs[n].append(cost)
            if cost > 0 and cost <= np.quantile(costs[n][-200:], 0.05):  # a promising group
                chosen, _ = chosen_orbits(*task, MORE_STEPS, int(rng.integers(2**31)))
            if len(chosen):
                starts = " ".join(f"{vectors[begins[j + 1]]:x}" for j in chosen)
                yield KnownCode(int(lengths[chosen].sum()), k, d, field, blocks, " ".join(texts), starts)
                del wanted[n]


@numba.njit(cache=True)
def chosen_orbits(
    weights: Weights, lengths: Vectors, counts: Weights, n: int, d: int, steps: int, seed: int
) -> tuple[Vectors, float]:
    """Orbits of columns, of at most n together, that make a code of distance d, and 0; or none, and the least cost.

    Args:
        weights: ``[words, orbits]``; what each orbit of columns adds to the weight of each word.
        lengths: of the orbits of columns.
        counts: how many words there are of each kind.
        n: the most columns.
        d: the least weight.
        steps: when to give up.
        seed: of the random choices.
    """
    np.random.seed(seed)  # noqa: NPY002 - numba's own generator
    words, orbits = weights.shape
    costs = np.empty(orbits, np.float32)
    chosen, size, left = np.zeros(n, np.int64), 0, n
    missing = np.full(words, d, np.float32)
    free_at = np.zeros(orbits, np.int64)
    shortest, reached, record = lengths.min(), np.float32(1e30), np.float32(1e30)
    for step in range(steps):
        for _ in range(min(size, 1 + (np.random.randint(4) == 0))):  # noqa: NPY002
            p = np.random.randint(size)  # noqa: NPY002
            out = chosen[p]
            missing += weights[:, out]
            left += lengths[out]
            size -= 1
            chosen[p] = chosen[size]
            free_at[out] = step + 1 + np.random.randint(size + 3)  # noqa: NPY002
        while left >= shortest:
            _costs(weights, missing, counts, costs)
            best, least, ties = -1, np.float32(1e30), 0
            for j in range(orbits):
                if costs[j] <= least and lengths[j] <= left and free_at[j] <= step:
                    ties = 1 if costs[j] < least else ties + 1
                    if np.random.randint(ties) == 0:  # noqa: NPY002
                        best, least = j, costs[j]
            if best < 0:
                break
            chosen[size], reached = best, least
            size += 1
            missing -= weights[:, best]
            left -= lengths[best]
        if missing.max() <= 0:
            return chosen[:size], 0.0
        record = min(record, reached)
    return chosen[:0], float(record)


@numba.njit(cache=True, fastmath=True)
def _costs(weights: Weights, missing: Weights, counts: Weights, costs: Weights) -> None:
    """With each orbit added, the sum over the words of what they lack, squared."""
    costs[:] = np.float32(0)
    for i in range(len(weights)):
        if missing[i] > np.float32(0):
            for j in range(len(costs)):
                lack = max(missing[i] - weights[i, j], np.float32(0))
                costs[j] += lack * lack * counts[i]


if __name__ == "__main__":
    main()
