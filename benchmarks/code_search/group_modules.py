"""Search for codes with a small group of any kind: how ``known_linear.csv`` got those with maps.

    python -m benchmarks.code_search.group_modules --dimension 9 --minutes 5 --seed 0

prints such lines. The columns are taken in whole orbits of a group of linear maps (``linear_groups.py`` tells why): a
cyclic group, a random one of a product of rings, or a random module of a group of permutations (``random_modules.py``).
A tabu search lets an orbit go, the one that is missed least or any, and fills up with those that do most good, of any
length; what it lowers is the sum over the words of (d - weight)^2, for the weights below d. Every group is tried for a
moment. Those that came near are tried again, and so are their subgroups, from where they came to: a subgroup has more
orbits to choose from. A quarter of the groups of ``known_linear.csv`` have more than 220 orbits.

For d even the search is for length n - 1 and distance d - 1, too; for codes of length n - 3 and distance d - 2 that
three columns lengthen (``columns.py``); and for codes that a plane, the seven vectors of a subspace that the group
keeps, lengthens to length n + 7 and distance d + 4. That asks for more, but of the tries at [148, 11, 68] only one with
a plane, on a GPU, found it: in [155, 11, 72], whose weights are all multiples of 8.

Source: Braun, Kohnert and Wassermann, IEEE Trans. Inform. Theory 51 (2005) 4247-4251; tabu search for codes, Gulliver
and Bhargava, IEEE Trans. Inform. Theory 37 (1991) 552-555.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from benchmarks.code_search import linear_groups
from benchmarks.code_search.columns import longer_code
from benchmarks.code_search.random_modules import random_module
from benchmarks.code_search.wanted import print_found

from lbhash.centers.constructions.known_linear import KnownCode, linear_map

Weights = npt.NDArray[np.float32]
Vectors = npt.NDArray[np.int64]

FEWEST, MOST = 6, 2_400
"""Orbits of columns."""
STEPS, MORE_STEPS = 3_000, 30_000
FIRST_GROUPS = 30
"""So many groups are tried before one is tried again; then every third is a new one."""
VAIN = 1_000
"""When no more groups are drawn."""


def main() -> None:
    """Search, print what is found."""
    print_found(__doc__, search)


class Group(NamedTuple):
    """A group of linear maps, as ``known_linear.csv`` has it."""

    field: int
    blocks: str
    maps: tuple[str, ...]


class Orbits(NamedTuple):
    """What orbits of columns add to the weights of words, ``[words, orbits]``, their lengths, and all their vectors."""

    weights: Weights
    lengths: Vectors
    vectors: list[Vectors]


class Reached(NamedTuple):
    """What a group came to: the cost, in units of the group that it is a subgroup of, and the columns."""

    cost: float
    unit: float
    columns: Vectors
    plane: Vectors


@dataclass
class Goal:
    """A code that is wanted, or with a plane, or a shorter one to be lengthened to it, and what groups came to."""

    n: int
    d: int
    wanted: int
    lengthens: bool
    plane: bool = False
    drawn: int = 0
    reached: dict[Group, Reached] = field(default_factory=dict)


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
    goals = [
        Goal(n - bits - odd, d - less - odd, n, bits > 0)
        for n, d in wanted.items()
        for bits, less in ((0, 0), (3, 2))
        for odd in range(1 + (d % 2 == 0))
        if n - bits - odd > k and d - less - odd > 0
    ]
    goals += [Goal(n, d, n, lengthens=False, plane=True) for n, d in wanted.items() if d % 2 == 0]
    while wanted:
        for goal in goals:
            if goal.wanted not in wanted:
                continue
            if time.monotonic() > end:
                return
            if goal.drawn == len(groups):
                groups += islice(drawn, 1)
            found = _tried(goal, groups, k, rng)
            if found:
                yield found
                del wanted[goal.wanted]


def _tried(goal: Goal, groups: list[Group], k: int, rng: np.random.Generator) -> KnownCode | None:
    """The code of a try for a goal: with the next group, or one that came near, or a subgroup of it."""
    steps, unit, start, plane = STEPS, 1.0, np.zeros(0, np.int64), np.zeros(0, np.int64)
    if goal.drawn < len(groups) and (goal.drawn < FIRST_GROUPS or rng.random() < 1 / 3):
        group = groups[goal.drawn]
        goal.drawn += 1
        if goal.plane and not len(plane := kept_plane(orbits_of(group), rng)):
            return None
    elif not goal.reached:
        return None
    else:
        near = sorted(goal.reached, key=lambda group: goal.reached[group].cost)
        group, steps = near[rng.integers(max(1, len(near) // int(rng.choice([5, 20, 100]))))], MORE_STEPS
        came_to = goal.reached[group]
        unit, plane = came_to.unit, came_to.plane
        if rng.random() < 0.5 and (smaller := subgroup(group, rng)) and len(orbits_of(smaller).lengths) <= MOST:
            unit *= len(orbits_of(group).lengths) / len(orbits_of(smaller).lengths)
            group, start = smaller, orbits_in(came_to.columns, orbits_of(smaller))
    orbits = orbits_of(group)
    seed = int(rng.integers(2**31))
    needs = goal.d + 4 * goal.plane - orbits.weights[:, orbits_in(plane, orbits)].sum(1)
    chosen, cost = chosen_orbits(start, orbits.weights, orbits.lengths, goal.n, needs, steps, seed)
    columns = np.concatenate([orbits.vectors[j] for j in chosen]) if len(chosen) else np.zeros(0, np.int64)
    if group not in goal.reached or cost * unit < goal.reached[group].cost:
        goal.reached[group] = Reached(cost * unit, unit, columns, plane)
    if cost > 0:
        return None
    if goal.lengthens:
        return longer_code(columns, k, goal.d)
    starts = " ".join(f"{orbits.vectors[j][0]:x}" for j in chosen)
    return KnownCode(len(columns), k, goal.d, *group[:2], " ".join(group.maps), starts)


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


def subgroup(group: Group, rng: np.random.Generator) -> Group | None:
    """A group without one of the maps, or with a power of it; None if that is of the identity alone."""
    maps = [np.array(linear_map(group.blocks, text)) for text in group.maps]
    one = maps.pop(rng.integers(len(maps)))
    if not maps or rng.random() < 0.5:
        images, powers = linear_groups.all_images(one), [one]
        while (powers[-1] != 1 << np.arange(len(one))).any():
            powers.append(images[powers[-1]])
        order = len(powers)
        primes = [p for p in range(2, order + 1) if order % p == 0 and all(p % q for q in range(2, p))]
        if primes and (p := int(rng.choice(primes))) < order:  # else it is the identity
            maps.append(powers[p - 1])
    texts = tuple(".".join(f"{image:x}" for image in images) for images in maps)
    return Group(2, "", texts) if maps else None


def kept_plane(orbits: Orbits, rng: np.random.Generator) -> Vectors:
    """The seven vectors of a subspace that the group of the orbits keeps, at random; none if it was not met."""
    short = [vectors for vectors in orbits.vectors if len(vectors) <= 7]
    for _ in range(20 if short else 0):
        span = np.zeros(1, np.int64)
        for i in rng.integers(len(short), size=3):
            for vector in short[i] if len(span) < 8 else []:
                if vector not in span:
                    span = np.concatenate([span, span ^ vector])
        if len(span) == 8:
            return span[1:]
    return np.zeros(0, np.int64)


def orbits_in(columns: Vectors, orbits: Orbits) -> Vectors:
    """The orbits that columns are made of, by their numbers."""
    where = np.zeros(sum(map(len, orbits.vectors)) + 1, np.int64)
    for j, vectors in enumerate(orbits.vectors):
        where[vectors] = j
    counts = np.bincount(where[columns], minlength=len(orbits.lengths)) // orbits.lengths
    return np.repeat(np.arange(len(counts)), counts)


@lru_cache(maxsize=200)
def orbits_of(group: Group) -> Orbits:
    """The orbits of columns of a group and what they add; without the weights where there are too many."""
    images = [np.array(linear_map(group.blocks, text)) for text in group.maps]
    vectors, begins = linear_groups.orbits(np.array([linear_groups.all_images(matrix) for matrix in images]))
    few = len(begins) - 2 <= MOST
    weights = linear_groups.orbit_weights(images, vectors, begins)[1:].T.copy() if few else np.zeros((0, 0), np.float32)
    return Orbits(weights, np.diff(begins)[1:], np.split(vectors, begins[1:-1])[1:])


@numba.njit(cache=True, fastmath=True)
def chosen_orbits(
    start: Vectors, weights: Weights, lengths: Vectors, n: int, needs: Weights, steps: int, seed: int
) -> tuple[Vectors, float]:
    """The best choice found of orbits of columns, of at most n together, and its cost.

    The cost is the sum over one word of each orbit of words of what it lacks, squared.

    Args:
        start: orbits to begin with, of at most n together.
        weights: ``[words, orbits]``; what each orbit of columns adds to the weight of each word.
        lengths: of the orbits of columns.
        n: the most columns.
        needs: ``[words]``; the least weight of each.
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
    missing = needs.copy()
    free_at, may_leave = np.zeros(orbits, np.int64), np.zeros(n, np.int64)
    shortest, record, best_chosen = lengths.min(), np.float32(1e30), chosen[:0]
    for j in start:
        chosen[size] = j
        size += 1
        missing -= added[j]
        left -= lengths[j]
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
        if reached < record:
            record, best_chosen = reached, chosen[:size].copy()
    return best_chosen, float(record)


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
