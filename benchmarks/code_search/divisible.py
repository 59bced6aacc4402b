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

import numba
import numpy as np
import numpy.typing as npt
from benchmarks.code_search import linear_codes
from benchmarks.code_search.group_modules import wanted_codes
from benchmarks.code_search.permutation_groups import closure

from lbhash.centers.constructions.known_linear import KnownCode, linear_map

Vectors = npt.NDArray[np.int64]
Elements = npt.NDArray[np.int64]
"""``[elements, 2^k]``: the image of every vector under each element of a group, the identity first."""

MOST_ELEMENTS = 63
FLATS = 100

STAGES = ((1.0, 6_000, 0.8, 0.12), (0.15, 40_000, 0.4, 0.08), (0.04, 400_000, 0.4, 0.07))
"""The share of the starts that get so far, the steps at k = 9, and the temperatures at the begin and the end.

A temperature counts the words of weight d - 4 that are lost or won, for each element of the group.
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
        k: dimension, at most 12.
        wanted: least minimum distance by length, a multiple of 4; each is taken away when it is found.
        minutes: when to give up.
        seed: of the random choices.
    """
    rng = np.random.default_rng(seed)
    end = time.monotonic() + 60 * minutes
    costs: defaultdict[int, list[float]] = defaultdict(list)
    best: defaultdict[int, list[tuple[float, Group]]] = defaultdict(list)  # the groups that came nearest
    products = _products(k)
    while wanted and time.monotonic() < end:
        lengths, near = list(wanted), [n for n in wanted if best[n]]
        if near and rng.random() < 0.5:
            lengths = [near[int(rng.integers(len(near)))]]
            at = int(min(rng.integers(0, 8, 2)))
            group = best[lengths[0]][min(at, len(best[lengths[0]]) - 1)][1]
        else:
            group = random_group(k, rng)
        flats = random_flats(group.elements, rng)
        for n in 2 * lengths:
            if n not in wanted or (columns := random_start(n, flats, rng)) is None:
                continue
            starts, short = group.split(columns)
            if len(starts) < 4 or len(short) > n / 5:
                continue
            cost = np.inf
            for share, steps, hot, cold in STAGES:
                if share < 1 and (len(costs[n]) < 2 / share or cost > np.quantile(costs[n][-300:], share)):
                    break
                task = starts, short, group.elements, group.regular, group.words, group.counts, products, wanted[n]
                heat = hot * len(group.elements), cold * len(group.elements)
                steps = int(steps * 2.0 ** (9 - k) * sqrt(max(k - 8, 1)))
                found, least = moved(*task, steps, *heat, int(rng.integers(2**31)))
                if share == 1:
                    costs[n].append(least)
                if least < cost:
                    cost, starts = least, found
                if cost == 0:
                    texts = " ".join(f"{start:x}" for start in [*starts, *group.first_of_each(short)])
                    yield KnownCode(n, k, wanted.pop(n), 2, group.blocks, " ".join(group.maps), texts)
                    break
            best[n] = sorted([*best[n], (cost, group)], key=lambda pair: pair[0])[:16]


class Group:
    """A group of linear maps of GF(2)^k, and its orbits of words.

    Args:
        blocks: as in ``known_linear.csv``, as are the maps.
        maps: that generate it.
        elements: all of them.
    """

    def __init__(self, blocks: str, maps: list[str], elements: Elements) -> None:
        self.blocks, self.maps, self.elements = blocks, maps, elements
        every = np.arange(elements.shape[1])
        self.regular = (elements[1:] != every).all(axis=0)
        """Whether the orbit of a vector has as many vectors as the group has elements."""
        units = 1 << np.arange(int(np.log2(len(every))))
        images = np.array([linear_codes._images(linear_codes._transpose(element[units])) for element in elements])
        first = images.min(axis=0)
        kept = np.flatnonzero(first == every)[1:]
        self.words = np.ascontiguousarray(images[:, kept])
        """``[elements, orbits]``; the images of a word of each orbit."""
        self.counts = np.bincount(first)[kept].astype(np.float32)

    def split(self, columns: Vectors) -> tuple[Vectors, Vectors]:
        """A vector of every orbit of as many columns as the group has elements, and the columns of the other orbits."""
        first = self.elements.min(axis=0)[columns]
        starts, counts = np.unique(first[self.regular[columns]], return_counts=True)
        return np.repeat(starts, counts // len(self.elements)), columns[~self.regular[columns]]

    def first_of_each(self, columns: Vectors) -> list[int]:
        """A vector of every orbit of these columns, as often as the orbit is among them."""
        starts = []
        for start in np.unique(self.elements.min(axis=0)[columns]).tolist():
            starts += [start] * int(np.count_nonzero(columns == start))
        return starts


def random_group(k: int, rng: np.random.Generator) -> Group:
    """A random group of 2 to 63 linear maps, three in four of a prime order."""
    while True:
        if rng.random() < 0.75:
            blocks, maps = "", [_random_map(k, int(rng.choice([2, 3, 3, 3, 3, 3, 5, 5, 7, 7, 31])), rng)]
        else:
            _, blocks, maps = linear_codes.random_group(k, rng)
        generators = [linear_codes._images(np.array(linear_map(blocks, text))) for text in maps]
        group = Group(blocks, maps, closure(np.array(generators), MOST_ELEMENTS))
        if len(group.elements) > 1 and group.regular.mean() > 0.3:
            return group


def _random_map(k: int, order: int, rng: np.random.Generator) -> str:
    """A map of a prime order, which moves most or nearly most of the unit vectors."""
    factors = {2: [0b101], 3: [0b111], 5: [0b11111], 7: [0b1011, 0b1101], 31: [0b100101, 0b111101, 0b110111]}[order]
    size = factors[0].bit_length() - 1
    images = [1 << i for i in range(k)]
    blocks = k // size
    for block in range(max(1, blocks - int(rng.integers(2)))):
        begin, factor = block * size, int(rng.choice(factors))
        for i in range(size):
            images[begin + i] = 1 << begin + i + 1 if i + 1 < size else (factor ^ 1 << size) << begin
    return ".".join(f"{image:x}" for image in images)


def random_flats(elements: Elements, rng: np.random.Generator) -> list[Vectors]:
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


def _random_flat(elements: Elements, rng: np.random.Generator) -> Vectors:
    """A flat, as often as its weights need to be multiples of 4; many are fixed by elements of the group."""
    size = elements.shape[1]
    fixed = np.flatnonzero((elements == np.arange(size)).all(axis=0))
    one = elements[rng.integers(len(elements))]
    some = rng.choice(np.flatnonzero(one == np.arange(size)), 1) if rng.random() < 0.2 else rng.integers(size, size=1)
    basis = some.tolist()
    dimension = int(rng.choice([1, 2, 3, 3, 3, 3, 4, 4, 5]))
    next_ones = int(rng.integers(3))
    for _ in range(dimension - 1):
        follows = [int(one[basis[-1]]), int(rng.integers(size)), int(rng.choice(fixed))]
        basis.append(follows[next_ones] if rng.random() < 0.8 else follows[int(rng.integers(3))])
    vectors = linear_codes._images(np.array(basis))
    if rng.random() < 0.6:
        vectors = vectors ^ (rng.choice(fixed) if rng.random() < 0.5 else rng.integers(size))
    else:
        vectors = vectors[1:]
    return np.repeat(vectors, max(1, 2 ** (3 - dimension)))


@numba.njit(cache=True)
def _products(k: int) -> npt.NDArray[np.int16]:
    """``[2^k, 2^k]``; four times u.v for all u and v."""
    products = np.zeros((1 << k, 1 << k), np.int16)
    for u in range(1 << k):
        for i in range(k):
            for v in range(1 << i):
                products[u, (1 << i) + v] = products[u, v] ^ (4 * (u >> i & 1))
    return products


@numba.njit(cache=True, fastmath=True)
def moved(
    starts: Vectors,
    short: Vectors,
    elements: Elements,
    regular: npt.NDArray[np.bool_],
    words: Vectors,
    counts: npt.NDArray[np.float32],
    products: npt.NDArray[np.int16],
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
        elements: of the group.
        regular: which vectors may come in.
        words: ``[elements, orbits]``; the images of a word of each orbit.
        counts: how many words an orbit has.
        products: four times u.v for all u and v.
        d: the least weight that is wanted.
        steps: when to give up.
        hot: the temperature at the begin.
        cold: and at the end.
        seed: of the random choices.
    """
    np.random.seed(seed)  # noqa: NPY002 - numba's own generator
    size, orders, orbits = elements.shape[1], len(elements), len(counts)
    starts = starts.copy()
    weights, held = np.zeros(orbits, np.int64), np.zeros(size, np.int64)
    for start in starts:
        for g in range(orders):
            held[elements[g, start]] += 1
    for r in range(orbits):
        row = products[words[0, r]]
        weights[r] = ((held * row).sum() + row[short].sum()) // 4
    lack = np.maximum(d - weights, 0)
    best, record = starts.copy(), (lack * lack * counts).sum() / 16
    costs, lacks = np.empty(size, np.float32), np.empty(size, np.int16)
    changes, places, four = np.empty(orders, np.int16), np.empty(4, np.int64), np.empty(4, np.int64)
    step = 0
    for _ in range(1000 * steps):
        if step == steps:
            break
        places[:3] = np.random.randint(0, len(starts), 3)  # noqa: NPY002
        if places[0] == places[1] or places[0] == places[2] or places[1] == places[2]:
            continue
        for i in range(3):
            four[i] = elements[np.random.randint(orders), starts[places[i]]]  # noqa: NPY002
        four[3] = four[0] ^ four[1] ^ four[2]
        if not held[four[3]]:
            continue
        places[3] = -1
        begin = np.random.randint(len(starts))  # noqa: NPY002
        for i in range(len(starts)):
            place = (begin + i) % len(starts)
            if place != places[0] and place != places[1] and place != places[2]:
                for g in range(orders):
                    if elements[g, starts[place]] == four[3]:
                        places[3] = place
                if places[3] >= 0:
                    break
        if places[3] < 0:
            continue
        temperature = np.float32(hot * (cold / hot) ** (step / steps))
        step += 1
        costs[:] = np.float32(0)
        unchanged = np.float32(0)
        for r in range(orbits):
            lower, any_change, lacking = 0, False, d - weights[r]
            for g in range(orders):
                u = words[g, r]
                ones = products[u, four[0]] + products[u, four[1]] + products[u, four[2]] + products[u, four[3]]
                changes[g] = 4 - ones // 2
                any_change |= changes[g] != 0
                lower += 4 if changes[g] < 0 else 0
            if lacking + lower <= 0:
                continue
            if not any_change:
                unchanged += np.float32(lacking * lacking) * counts[r]
                continue
            lacks[:] = np.int16(lacking)
            for g in range(orders):
                row = products[words[g, r]]
                if changes[g] > 0:
                    for v in range(size):
                        lacks[v] -= row[v]
                elif changes[g] < 0:
                    for v in range(size):
                        lacks[v] += row[v]
            count = counts[r]
            for v in range(size):
                positive = max(np.float32(lacks[v]), np.float32(0))
                costs[v] += positive * positive * count
        least, total, come = costs.min(), np.float32(0), 0
        scale = np.float32(1 / 16) / temperature
        for v in range(size):
            if (costs[v] - least) * scale < 16:
                total += np.exp((least - costs[v]) * scale)
        total *= np.float32(np.random.random())  # noqa: NPY002
        for v in range(size):
            if (costs[v] - least) * scale < 16:
                come = v
                total -= np.exp((least - costs[v]) * scale)
                if total <= 0:
                    break
        if come == 0 or not regular[four ^ come].all():
            continue
        for r in range(orbits):
            for g in range(orders):
                u = words[g, r]
                if products[u, come]:
                    ones = products[u, four[0]] + products[u, four[1]] + products[u, four[2]] + products[u, four[3]]
                    weights[r] += 4 - ones // 2
        for i in range(4):
            for g in range(orders):
                held[elements[g, four[i]]] -= 1
            starts[places[i]] = four[i] ^ come
            for g in range(orders):
                held[elements[g, starts[places[i]]]] += 1
        cost = (costs[come] + unchanged) / 16
        if cost < record - 0.5:
            record, best[:] = cost, starts
            if cost < 0.5:
                return best, 0.0
    return best, float(record)


if __name__ == "__main__":
    main()
