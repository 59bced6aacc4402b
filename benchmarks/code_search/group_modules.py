"""Search for codes with a small group of any kind: how ``known_linear.csv`` got those with maps.

    python -m benchmarks.code_search.group_modules --dimension 9 --minutes 5 --seed 0

prints such lines. The columns are taken in whole orbits of a group of linear maps (``linear_groups.py`` tells why): a
cyclic group, a random one of a product of rings, or a random module of a group of permutations (``random_modules.py``).
A tabu search lets an orbit go, the one that is missed least or any, and fills up with those that do most good, of any
length; what it lowers is the sum over the words of (d - weight)^2, for the weights below d. Every group is tried for a
moment, and those that came near are tried again and again. For d even the search is for length n - 1 and distance
d - 1, too. Most of the best codes have a group with 100 to 900 orbits, of order 5 to 30.

Source: Braun, Kohnert and Wassermann, IEEE Trans. Inform. Theory 51 (2005) 4247-4251; tabu search for codes, Gulliver
and Bhargava, IEEE Trans. Inform. Theory 37 (1991) 552-555.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from benchmarks.code_search import linear_groups
from benchmarks.code_search.random_modules import random_module

from lbhash.centers.bounds.best_linear import TABLE_BITS, best_known_linear
from lbhash.centers.constructions.known_linear import KnownCode, linear_map
from lbhash.centers.constructions.linear_table import best_linear_code

Weights = npt.NDArray[np.float32]
Vectors = npt.NDArray[np.int64]

FEWEST, MOST = 6, 900
"""Orbits of columns."""
STEPS, MORE_STEPS = 3_000, 30_000
FIRST_GROUPS = 30
"""So many groups are tried before one is tried again; then every third is a new one."""
VAIN = 1_000
"""When no more groups are drawn."""


def main() -> None:
    """Search, print what is found."""
    print_found(__doc__, search)


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


class Group(NamedTuple):
    """A group of linear maps, as ``known_linear.csv`` has it."""

    field: int
    blocks: str
    maps: tuple[str, ...]


class Orbits(NamedTuple):
    """What orbits of columns add to the weights of words, ``[words, orbits]``, their lengths, and a vector of each."""

    weights: Weights
    lengths: Vectors
    starts: Vectors


def search(k: int, wanted: dict[int, int], minutes: float, seed: int = 0) -> Iterator[KnownCode]:
    """Yield codes of dimension k with the distances that are wanted, by length, or one bit shorter where d is even.

    Args:
        k: dimension, at most 16.
        wanted: least minimum distance by length; each is taken away when it is found.
        minutes: when to give up.
        seed: of the random choices.
    """
    rng = np.random.default_rng(seed)
    end = time.monotonic() + 60 * minutes
    groups, drawn = list[Group](), random_groups(k, rng)
    goals = [(n - odd, d - odd, n) for n, d in wanted.items() for odd in range(1 + (d % 2 == 0))]
    costs: list[dict[Group, float]] = [{} for _ in goals]
    while wanted:
        for (n, d, longest), reached in zip(goals, costs, strict=True):
            if longest not in wanted:
                continue
            if time.monotonic() > end:
                return
            fresh = len(reached) < FIRST_GROUPS or rng.random() < 1 / 3
            if fresh and len(reached) == len(groups):
                groups += islice(drawn, 1)
            if fresh and len(reached) < len(groups):
                group, steps = groups[len(reached)], STEPS
            else:
                best = sorted(reached, key=reached.__getitem__)
                group, steps = best[rng.integers(max(1, len(best) // int(rng.choice([5, 20, 100]))))], MORE_STEPS
            orbits = orbits_of(group)
            chosen, cost = chosen_orbits(orbits.weights, orbits.lengths, n, d, steps, int(rng.integers(2**31)))
            reached[group] = min(cost, reached.get(group, cost))
            if len(chosen):
                starts = " ".join(f"{start:x}" for start in orbits.starts[chosen])
                yield KnownCode(int(orbits.lengths[chosen].sum()), k, d, *group[:2], " ".join(group.maps), starts)
                del wanted[longest]


def random_groups(k: int, rng: np.random.Generator) -> Iterator[Group]:
    """Yield groups of dimension k, one after another."""
    cyclic, seen, vain = list(linear_groups.cyclic_groups(k, MOST)), set[Group](), 0
    while vain < VAIN:
        kind = rng.random()
        if kind < 0.5 and cyclic:
            blocks, power = cyclic[rng.integers(len(cyclic))]
            group = Group(2, blocks, (power,))
        elif kind < 0.7:
            field, blocks, maps = linear_groups.random_group(k, rng)
            group = Group(field, blocks, tuple(maps))
        else:
            group = Group(2, "", tuple(random_module(k, int(rng.integers(100, MOST)), rng)))
        vain += 1
        if group.maps and group not in seen and FEWEST <= len(orbits_of(group).lengths) <= MOST:
            seen.add(group)
            vain = 0
            yield group


@lru_cache(maxsize=300)
def orbits_of(group: Group) -> Orbits:
    """The orbits of columns of a group and what they add; without the weights where there are too many."""
    images = [np.array(linear_map(group.blocks, text)) for text in group.maps]
    vectors, begins = linear_groups.orbits(np.array([linear_groups.all_images(matrix) for matrix in images]))
    few = len(begins) - 2 <= MOST
    weights = linear_groups.orbit_weights(images, vectors, begins)[1:].T.copy() if few else np.zeros((0, 0), np.float32)
    return Orbits(weights, np.diff(begins)[1:], vectors[begins[1:-1]])


@numba.njit(cache=True, fastmath=True)
def chosen_orbits(weights: Weights, lengths: Vectors, n: int, d: int, steps: int, seed: int) -> tuple[Vectors, float]:
    """Orbits of columns, of at most n together, that make a code of distance d, and 0; or none, and the least cost.

    The cost is the sum of (d - weight)^2 over one word of each orbit of words, for the weights below d.

    Args:
        weights: ``[words, orbits]``; what each orbit of columns adds to the weight of each word.
        lengths: of the orbits of columns.
        n: the most columns.
        d: the least weight.
        steps: when to give up.
        seed: of the random choices.
    """
    np.random.seed(seed)  # noqa: NPY002 - numba's own generator
    orbits = weights.shape[1]
    added, costs = weights.T.copy(), np.empty(orbits, np.float32)
    # Of what was tried on four codes this finds them most often: seldom any orbit goes, and what came in stays.
    chance = (0.0, 0.005, 0.02, 0.05)[np.random.randint(4)]  # noqa: NPY002
    most_out, most_in = 1 + np.random.randint(4), 4 + np.random.randint(4)  # noqa: NPY002
    chosen, size, left = np.zeros(n, np.int64), 0, n
    missing = np.full(len(weights), d, np.float32)
    free_at, may_leave = np.zeros(orbits, np.int64), np.zeros(n, np.int64)
    shortest, record = lengths.min(), np.float32(1e30)
    for step in range(steps):
        for i in range(min(size, 1 + (np.random.randint(16) == 0))):  # noqa: NPY002
            p = np.random.randint(size)  # noqa: NPY002
            if i == 0 and np.random.random() >= chance:  # noqa: NPY002
                p = _cheapest(added, missing, chosen[:size], may_leave[:size], step)
            out = chosen[p]
            missing += added[out]
            left += lengths[out]
            size -= 1
            chosen[p], may_leave[p] = chosen[size], may_leave[size]
            free_at[out] = step + 1 + np.random.randint(most_out)  # noqa: NPY002
        reached = np.float32(1e30)
        while left >= shortest:
            best = -1 if size else np.random.randint(orbits)  # noqa: NPY002
            if size:
                _costs(weights, missing, costs)
                least, ties = np.float32(1e30), 0
                for j in range(orbits):
                    if costs[j] <= least and lengths[j] <= left and free_at[j] <= step:
                        ties = 1 if costs[j] < least else ties + 1
                        if np.random.randint(ties) == 0:  # noqa: NPY002
                            best, least = j, costs[j]
                reached = least
            if best < 0 or lengths[best] > left:
                break
            chosen[size], may_leave[size] = best, step + 1 + np.random.randint(most_in)  # noqa: NPY002
            size += 1
            missing -= added[best]
            left -= lengths[best]
        if missing.max() <= 0:
            return chosen[:size], 0.0
        record = min(record, reached)
    return chosen[:0], float(record)


@numba.njit(cache=True, fastmath=True)
def _cheapest(added: Weights, missing: Weights, chosen: Vectors, may_leave: Vectors, step: int) -> int:
    """The place of the orbit without which the words lack least, squared, among those that may leave."""
    best, least, ties = np.random.randint(len(chosen)), np.float32(1e30), 0  # noqa: NPY002
    for p in range(len(chosen)):
        if may_leave[p] <= step:
            weights, cost = added[chosen[p]], np.float32(0)
            for i in range(len(missing)):
                lack = max(missing[i] + weights[i], np.float32(0))
                cost += lack * lack
            ties = 1 if cost < least else ties + (cost == least)
            if cost < least or (cost == least and np.random.randint(ties) == 0):  # noqa: NPY002
                best, least = p, cost
    return best


@numba.njit(cache=True, fastmath=True)
def _costs(weights: Weights, missing: Weights, costs: Weights) -> None:
    """With each orbit added, the sum over the words of what they lack, squared."""
    costs[:] = np.float32(0)
    for i in range(len(weights)):
        if missing[i] > np.float32(0):
            for j in range(len(costs)):
                lack = max(missing[i] - weights[i, j], np.float32(0))
                costs[j] += lack * lack


if __name__ == "__main__":
    main()
