"""Search for codes whose weights are all multiples of 4: how ``known_linear.csv`` got [126, 9, 60] and [165, 9, 80].

    python -m benchmarks.code_search.divisible --dimension 9 --minutes 10 --seed 0

prints such lines. Many of the best codes with a distance that is a multiple of 4 have such weights only, and few codes
near to them do, so that searches which exchange columns seldom meet them. This one stays among them: of four columns
with the sum 0 an even number is 1 in any word, so that adding a vector v to all four changes a weight by -4, 0 or 4.
A step takes four such columns at random and looks at all v. It lowers the sum over the words of (d - weight)^2, for the
weights below d, by simulated annealing: v is drawn with the probabilities of a heat bath that cools. With a group of
linear maps, the images of the columns move with them. The start is a union of flats (subspaces without 0, and affine
subspaces), each with its images: all weights of a flat with 7 columns or more are multiples of 4.

Source: divisible codes, Ward, Archiv der Mathematik 36 (1981) 485-494; prescribed automorphisms, Braun, Kohnert and
Wassermann, IEEE Trans. Inform. Theory 51 (2005) 4247-4251.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator
from math import sqrt
from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from benchmarks.code_search import columns as single
from benchmarks.code_search import linear_codes
from benchmarks.code_search.group_modules import wanted_codes
from benchmarks.code_search.permutation_groups import Permutations, closure

from lbhash.centers.constructions.known_linear import KnownCode, linear_map

Vectors = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float32]
Small = npt.NDArray[np.int16]

MOST_ELEMENTS = 63
FLATS = 100

STAGES = ((1.0, 6_000, 0.8, 0.12), (0.15, 40_000, 0.4, 0.08), (0.04, 400_000, 0.4, 0.07))
"""The share of the starts that get so far, the steps at k = 9, and the temperatures at the begin and the end.

A temperature counts words of weight d - 4, for each element of the group.
"""


def main() -> None:
    """Search, print what is found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dimension", type=int, required=True, metavar="K", help="from 4 to 12")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if not 4 <= given.dimension <= 12:
        parser.error(f"dimension is {given.dimension}; it must be from 4 to 12")
    wanted = {n: d for n, d in wanted_codes(given.dimension).items() if d % 4 == 0}
    for code in search(given.dimension, wanted, given.minutes, given.seed):
        print(",".join(map(str, code)), flush=True)


def search(k: int, wanted: dict[int, int], minutes: float, seed: int = 0) -> Iterator[KnownCode]:
    """Yield codes of dimension k with the distances that are wanted, by length.

    Args:
        k: dimension, from 4 to 12.
        wanted: least minimum distance by length, a multiple of 4; each is taken away when it is found.
        minutes: when to give up.
        seed: of the random choices.
    """
    rng = np.random.default_rng(seed)
    end = time.monotonic() + 60 * minutes
    scale = 2.0 ** (9 - k) * sqrt(max(k - 8, 1))
    products = product_table(k)
    seen: defaultdict[tuple[int, int], list[float]] = defaultdict(list)  # costs of first stages, by length and order
    while wanted and time.monotonic() < end:
        blocks, maps, group = random_group(k, rng)
        order, least = len(group.elements), group.elements.min(axis=0)
        flats = random_flats(group.elements, rng)
        for n in 4 * list(wanted):
            if n not in wanted or (columns := random_start(n, flats, rng)) is None:
                continue
            first = columns[least[columns] == columns]  # of each orbit
            starts, short = first[group.regular[first]], columns[~group.regular[columns]]
            if len(starts) < 4 or len(short) > n / 6:
                continue
            cost, costs = np.inf, seen[n, order]
            for share, steps, hot, cold in STAGES:
                if share < 1 and (len(costs) < 2 / share or cost > np.quantile(costs[-300:], share)):
                    break
                heat = hot * order, cold * order
                found, reached = moved(
                    starts, short, group, products, wanted[n], int(steps * scale), *heat, int(rng.integers(2**31))
                )
                if share == 1:
                    costs.append(reached)
                if reached < cost:
                    cost, starts = reached, found
            if cost == 0:
                text = " ".join(f"{start:x}" for start in [*starts, *first[~group.regular[first]]])
                yield KnownCode(n, k, wanted.pop(n), 2, blocks, " ".join(maps), text)


class Group(NamedTuple):
    """A group of linear maps of GF(2)^k."""

    elements: Permutations
    """``[elements, 2^k]``; the image of every vector under each element, the identity first."""
    regular: npt.NDArray[np.bool_]
    """``[2^k]``; whether the orbit of a vector has as many vectors as the group has elements."""
    words: Vectors
    """``[elements, orbits]``; the images of a word of every orbit of words but 0."""
    counts: Weights
    """``[orbits]``; how many words each has."""

    @staticmethod
    def of(elements: Permutations) -> Group:
        """Return the group with these elements."""
        every = np.arange(elements.shape[1])
        units = 1 << np.arange(len(every).bit_length() - 1)
        images = np.array([linear_codes._images(linear_codes._transpose(element[units])) for element in elements])
        first = images.min(axis=0)
        kept = np.flatnonzero(first == every)[1:]
        counts = np.bincount(first)[kept].astype(np.float32)
        return Group(elements, (elements[1:] != every).all(axis=0), np.ascontiguousarray(images[:, kept]), counts)


def random_group(k: int, rng: np.random.Generator) -> tuple[str, list[str], Group]:
    """A random group of 2 to 63 linear maps, most of prime orders, its blocks and maps as in ``known_linear.csv``."""
    while True:
        if rng.random() < 0.75:
            blocks, maps = _of_prime_order(k, int(rng.choice([2, 3, 3, 3, 3, 3, 5, 5, 7, 7, 31])), rng)
        else:
            _, blocks, maps = linear_codes.random_group(k, rng)
        images = [linear_codes._images(np.array(linear_map(blocks, text))) for text in maps]
        group = Group.of(closure(np.array(images), MOST_ELEMENTS))
        if len(group.elements) > 1 and group.regular.mean() > 0.3:
            return blocks, maps, group


def _of_prime_order(k: int, order: int, rng: np.random.Generator) -> tuple[str, list[str]]:
    """Blocks and a map of a prime order, the multiplication by x, in all blocks that fit, or all but one."""
    moduli = {2: [0b101], 3: [0b111], 5: [0b11111], 7: [0b1011, 0b1101], 31: [0b100101, 0b111101, 0b110111]}[order]
    size = moduli[0].bit_length() - 1
    moved_blocks = max(1, k // size - int(rng.integers(2)))
    fixed = k - moved_blocks * size
    blocks = [*rng.choice(moduli, moved_blocks).tolist(), *[0b11] * fixed]
    return ".".join(f"{f:x}" for f in blocks), [".".join(["2"] * moved_blocks + ["1"] * fixed)]


def random_flats(elements: Permutations, rng: np.random.Generator) -> list[Vectors]:
    """The columns of random flats, each with its images."""
    flats = [_random_flat(elements, rng) for _ in range(FLATS)]
    return [np.unique(np.sort(elements[:, flat], axis=1), axis=0).ravel() for flat in flats]


def random_start(n: int, flats: list[Vectors], rng: np.random.Generator) -> Vectors | None:
    """The columns of a random union of flats, or None if none had the length."""
    lengths = np.array([len(flat) for flat in flats])
    for _ in range(50):
        parts, left = [], n
        while left and (fits := np.flatnonzero(lengths <= left)).size:
            parts.append(flats[int(rng.choice(fits))])
            left -= len(parts[-1])
        if not left:
            return np.concatenate(parts)
    return None


def _random_flat(elements: Permutations, rng: np.random.Generator) -> Vectors:
    """A flat, as often as its weights need to be multiples of 4; many are fixed by elements of the group."""
    size = elements.shape[1]
    fixed = np.flatnonzero((elements == np.arange(size)).all(axis=0))
    one = elements[rng.integers(len(elements))]
    basis = [rng.choice(np.flatnonzero(one == np.arange(size))) if rng.random() < 0.2 else rng.integers(size)]
    dimension = int(rng.choice([1, 2, 3, 3, 3, 3, 4, 4, 5]))
    usual = rng.integers(3)
    while len(basis) < dimension:
        nexts = one[basis[-1]], rng.integers(size), rng.choice(fixed)
        basis.append(nexts[usual if rng.random() < 0.8 else rng.integers(3)])
    vectors = linear_codes._images(np.array(basis))
    if rng.random() < 0.6:
        vectors = vectors ^ (rng.choice(fixed) if rng.random() < 0.5 else rng.integers(size))
    else:
        vectors = vectors[1:]
    return np.repeat(vectors, max(1, 2 ** (3 - dimension)))


def product_table(k: int) -> Small:
    """``[2^k, 2^k]``; four times u.v for all u and v."""
    return np.array([4 * single._products(u, k) for u in range(2**k)], np.int16)


@numba.njit(cache=True, fastmath=True)
def moved(
    starts: Vectors,
    short: Vectors,
    group: Group,
    products: Small,
    d: int,
    steps: int,
    hot: float,
    cold: float,
    seed: int,
) -> tuple[Vectors, float]:
    """The best columns found, and the sum over their words of ((d - weight) / 4)^2, for the weights below d.

    Args:
        starts: to start from, a vector of each orbit.
        short: columns that stay, those of shorter orbits.
        group: that the columns keep.
        products: four times u.v for all u and v.
        d: the least weight that is wanted.
        steps: when to give up.
        hot: the temperature at the begin.
        cold: and at the end.
        seed: of the random choices.
    """
    np.random.seed(seed)  # noqa: NPY002 - numba's own generator
    (order, size), orbits = group.elements.shape, len(group.counts)
    starts = starts.copy()
    held = np.zeros(size, np.int64)  # how often each vector is a column that may move
    for start in starts:
        for g in range(order):
            held[group.elements[g, start]] += 1
    weights = np.zeros(orbits, np.int64)
    for r in range(orbits):
        row = products[group.words[0, r]]
        weights[r] = ((held * row).sum() + row[short].sum()) // 4
    lack = np.maximum(d - weights, 0)
    best, record = starts.copy(), (lack * lack * group.counts).sum() / 16
    costs, changes = np.empty(size, np.float32), np.empty((order, orbits), np.int16)
    places, four = np.empty(4, np.int64), np.empty(4, np.int64)
    step = 0
    for _ in range(1000 * steps):  # most columns that are drawn have no fourth
        if step == steps or record == 0:
            break
        places[:3] = np.random.randint(0, len(starts), 3)  # noqa: NPY002
        if places[0] == places[1] or places[0] == places[2] or places[1] == places[2]:
            continue
        for i in range(3):
            four[i] = group.elements[np.random.randint(order), starts[places[i]]]  # noqa: NPY002
        four[3] = four[0] ^ four[1] ^ four[2]
        places[3] = _place(four[3], starts, places[:3], group.elements) if held[four[3]] else -1
        if places[3] < 0:
            continue
        temperature = hot * (cold / hot) ** (step / steps)
        step += 1
        _look(four, weights, group, products, d, changes, costs)
        v = _drawn(costs, np.float32(temperature))
        if v == 0 or not group.regular[four ^ v].all():
            continue
        for r in range(orbits):
            for g in range(order):
                if products[group.words[g, r], v]:
                    weights[r] += changes[g, r]
        for i in range(4):
            starts[places[i]] = four[i] ^ v
            for g in range(order):
                held[group.elements[g, four[i]]] -= 1
                held[group.elements[g, four[i] ^ v]] += 1
        if costs[v] < record - 0.5:
            record, best[:] = round(costs[v]), starts
    return best, float(record)


@numba.njit(cache=True)
def _place(column: int, starts: Vectors, without: Vectors, elements: Permutations) -> int:
    """Where an orbit with this column is, but for three places; -1 if nowhere."""
    begin = np.random.randint(len(starts))  # noqa: NPY002
    for i in range(len(starts)):
        place = (begin + i) % len(starts)
        if place != without[0] and place != without[1] and place != without[2]:
            for g in range(len(elements)):
                if elements[g, starts[place]] == column:
                    return place
    return -1


@numba.njit(cache=True, fastmath=True)
def _look(
    four: Vectors, weights: Vectors, group: Group, products: Small, d: int, changes: Small, costs: Weights
) -> None:
    """Write the cost with each v added to four columns and their images, and what it changes the weights by if u.v = 1.

    Args:
        four: columns with the sum 0.
        weights: of the orbits of words.
        group: that the columns keep.
        products: four times u.v for all u and v.
        d: the least weight that is wanted.
        changes: ``[elements, orbits]``, written; for u an image of a word.
        costs: ``[2^k]``, written.
    """
    lacks = np.empty(len(costs), np.int16)
    costs[:] = np.float32(0)
    for r in range(len(weights)):
        lowered = 0
        for g in range(len(group.words)):
            row = products[group.words[g, r]]
            changes[g, r] = 4 - (row[four[0]] + row[four[1]] + row[four[2]] + row[four[3]]) // 2
            lowered -= min(changes[g, r], 0)
        lack = d - weights[r]
        if lack + lowered <= 0:  # it stays heavy with every v
            continue
        lacks[:] = np.int16(lack)
        for g in range(len(group.words)):
            row = products[group.words[g, r]]
            if changes[g, r] > 0:
                for v in range(len(costs)):
                    lacks[v] -= row[v]
            elif changes[g, r] < 0:
                for v in range(len(costs)):
                    lacks[v] += row[v]
        count = group.counts[r] * np.float32(1 / 16)
        for v in range(len(costs)):
            positive = max(np.float32(lacks[v]), np.float32(0))
            costs[v] += positive * positive * count


@numba.njit(cache=True, fastmath=True)
def _drawn(costs: Weights, temperature: float) -> int:
    """A vector, drawn with probabilities in proportion to exp(-cost / temperature)."""
    least, total = costs.min(), np.float32(0)
    limit = least + 16 * temperature
    for cost in costs:
        if cost < limit:
            total += np.exp((least - cost) / temperature)
    left, last = total * np.float32(np.random.random()), 0  # noqa: NPY002
    for v in range(len(costs)):
        if costs[v] < limit:
            last = v
            left -= np.exp((least - costs[v]) / temperature)
            if left <= 0:
                break
    return last


if __name__ == "__main__":
    main()
