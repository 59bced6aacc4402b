"""Search for codes whose weights are all multiples of 4, or of 2, and that a linear map keeps.

    python -m benchmarks.code_search.divisible --dimension 9 --minutes 10 --seed 0

prints lines of ``known_linear.csv``, which has [41, 11, 16], [126, 9, 60], [155, 9, 74] and [165, 9, 80] from it. Many
of the best codes with a distance that is a multiple of 4 have such weights only, and few codes near to them do, so that
searches which exchange columns seldom meet them. This one stays among them: of four columns with the sum 0 an even
number is 1 in any word, so that adding a vector v to all four changes a weight by -4, 0 or 4. For other even distances
it adds v to any two columns, which changes a weight by -2, 0 or 2.

A step takes such columns at random and looks at all v. It lowers the sum over the words of (d - weight)^2, for the
weights below d, by simulated annealing: v is drawn with the probabilities of a heat bath that cools. The images of the
columns under the group that the map generates move with them. The start is a union of flats (subspaces without 0, and
affine subspaces), each with its images: all weights of a flat with 7 columns or more are multiples of 4.

Source: divisible codes, Ward, Archiv der Mathematik 36 (1981) 485-494; prescribed automorphisms, Braun, Kohnert and
Wassermann, IEEE Trans. Inform. Theory 51 (2005) 4247-4251.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from benchmarks.code_search import columns as single
from benchmarks.code_search import linear_groups
from benchmarks.code_search.permutation_groups import Permutations, closure
from benchmarks.code_search.wanted import print_found

from lbhash.centers.constructions.known_linear import KnownCode, linear_map

Vectors = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float32]
Small = npt.NDArray[np.int16]

ORDERS = 1, 2, 3, 3, 3, 3, 5, 5, 7, 7
"""Of the maps; as many columns move together, and a step takes 2^order additions for some of the words."""
FLATS = 100

STAGES = ((1.0, 6_000, 0.8, 0.12), (0.15, 40_000, 0.5, 0.1), (0.04, 400_000, 0.5, 0.1))
"""The share of the starts that get so far, the steps, and the temperatures at the begin and the end.

A temperature counts words of the weight that is next below d, for each element of the group.
"""


def main() -> None:
    """Search, print what is found."""
    print_found(__doc__, search)


def search(k: int, wanted: dict[int, int], minutes: float, seed: int = 0) -> Iterator[KnownCode]:
    """Yield codes of dimension k with the distances that are wanted, by length.

    Args:
        k: dimension, from 4 to 15.
        wanted: least minimum distance by length, even; each is taken away when it is found.
        minutes: when to give up.
        seed: of the random choices.
    """
    rng = np.random.default_rng(seed)
    end = time.monotonic() + 60 * minutes
    seen: defaultdict[tuple[int, int], list[float]] = defaultdict(list)  # costs of first stages, by length and order
    while wanted and time.monotonic() < end:
        blocks, text, group = random_group(k, rng)
        order = len(group.elements)
        flats = random_flats(group.elements, rng)
        for n in 4 * list(wanted):
            if n not in wanted or (columns := random_start(n, flats, rng)) is None:
                continue
            starts, firsts, short = group.split(columns)
            if len(starts) < 4 or len(short) > n / 6:
                continue
            cost, costs = np.inf, seen[n, order]
            for share, steps, hot, cold in STAGES:
                if share < 1 and (len(costs) < 2 / share or cost > np.quantile(costs[-300:], share)):
                    break
                heat = hot * order, cold * order
                found, reached = moved(starts, short, group, wanted[n], steps, *heat, int(rng.integers(2**31)))
                if share == 1:
                    costs.append(reached)
                if reached < cost:
                    cost, starts = reached, found
            if cost == 0:
                columns = " ".join(f"{column:x}" for column in [*starts, *firsts])
                yield KnownCode(n, k, wanted.pop(n), 2, blocks, text, columns)


class Group(NamedTuple):
    """A group of linear maps of GF(2)^k."""

    elements: Permutations
    """``[elements, 2^k]``; the image of every vector under each element, the identity first."""
    regular: npt.NDArray[np.bool_]
    """``[2^k]``; whether the orbit of a vector has as many vectors as the group has elements."""
    words: Small
    """``[elements, orbits]``; the images of a word of every orbit of words but 0."""
    counts: Weights
    """``[orbits]``; how many words each has."""

    @staticmethod
    def of(elements: Permutations) -> Group:
        """Return the group with these elements."""
        every = np.arange(elements.shape[1])
        units = 1 << np.arange(len(every).bit_length() - 1)
        images = np.array([linear_groups.all_images(linear_groups.transpose(element[units])) for element in elements])
        first = images.min(axis=0)
        kept = np.flatnonzero(first == every)[1:]
        counts = np.bincount(first)[kept].astype(np.float32)
        return Group(elements, (elements[1:] != every).all(axis=0), images[:, kept].astype(np.int16), counts)

    def split(self, columns: Vectors) -> tuple[Vectors, Vectors, Vectors]:
        """Return a column of each regular orbit, one of each shorter orbit, and all columns of the shorter ones."""
        first, regular = self.elements[:, columns].min(axis=0) == columns, self.regular[columns]
        return columns[first & regular], columns[first & ~regular], columns[~regular]


def random_group(k: int, rng: np.random.Generator) -> tuple[str, str, Group]:
    """A linear map of one of the orders, as blocks and factors in ``known_linear.csv``, and the group of its powers.

    It is the multiplication by x in all blocks that fit, or in all but one.
    """
    order = int(rng.choice(ORDERS))
    moduli = {1: [0b11], 2: [0b101], 3: [0b111], 5: [0b11111], 7: [0b1011, 0b1101]}[order]
    size = moduli[0].bit_length() - 1
    moving = 0 if order == 1 else max(1, k // size - int(rng.integers(2)))
    fixed = k - moving * size
    blocks = ".".join(f"{f:x}" for f in [*rng.choice(moduli, moving).tolist(), *[0b11] * fixed])
    text = ".".join(["2"] * moving + ["1"] * fixed)
    images = linear_groups.all_images(np.array(linear_map(blocks, text)))
    return blocks, text, Group.of(closure(images[None]))


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
    vectors = linear_groups.all_images(np.array(basis))
    if rng.random() < 0.6:
        vectors = vectors ^ (rng.choice(fixed) if rng.random() < 0.5 else rng.integers(size))
    else:
        vectors = vectors[1:]
    return np.repeat(vectors, max(1, 2 ** (3 - dimension)))


@numba.njit(cache=True, fastmath=True)
def moved(
    starts: Vectors, short: Vectors, group: Group, d: int, steps: int, hot: float, cold: float, seed: int
) -> tuple[Vectors, float]:
    """The best columns found, and the sum over their words of ((d - weight) / q)^2, for the weights below d.

    Here q is 4 if d is a multiple of 4, else 2; all weights must be multiples of q.

    Args:
        starts: to start from, a vector of each orbit.
        short: columns that stay, those of shorter orbits.
        group: that the columns keep.
        d: the least weight that is wanted, even.
        steps: when to give up.
        hot: the temperature at the begin.
        cold: and at the end.
        seed: of the random choices.
    """
    np.random.seed(seed)  # noqa: NPY002 - numba's own generator
    (order, size), orbits = group.elements.shape, len(group.counts)
    starts = starts.copy()
    held = np.zeros(size, np.int64)  # how often each vector is a column that may move
    weights = np.zeros(orbits, np.int64)
    for start in starts:
        for g in range(order):
            column = group.elements[g, start]
            held[column] += 1
            weights += _parity(group.words[0] & column)
    for column in short:
        weights += _parity(group.words[0] & column)
    best, record = starts.copy(), _cost(weights, group.counts, d)
    costs, other, changes = np.empty(size, np.float32), np.empty(size, np.float32), np.empty((order, orbits), np.int16)
    together = 4 if d % 4 == 0 else 2
    places, columns = np.zeros(together, np.int64), np.zeros(together, np.int64)
    step = 0
    for _ in range(1000 * steps):  # most columns that are drawn have no fourth
        if step == steps or record == 0:
            break
        if not _draw(places, columns, starts, held, group.elements):
            continue
        temperature = hot * (cold / hot) ** (step / steps)
        step += 1
        _look(columns, weights, group, d, changes, costs, other)
        v = _drawn(costs, np.float32(temperature))
        if v == 0 or not group.regular[columns ^ v].all():
            continue
        for g in range(order):
            for r in range(orbits):
                weights[r] += changes[g, r] * _parity(group.words[g, r] & v)
        for i in range(together):
            starts[places[i]] = columns[i] ^ v
            for g in range(order):
                held[group.elements[g, columns[i]]] -= 1
                held[group.elements[g, columns[i] ^ v]] += 1
        cost = _cost(weights, group.counts, d)
        if cost < record:
            record, best[:] = cost, starts
    return best, record / together**2


@numba.njit(cache=True)
def _cost(weights: Vectors, counts: Weights, d: int) -> float:
    """The sum over the words of (d - weight)^2, for the weights below d."""
    cost = 0.0
    for r in range(len(weights)):
        cost += max(d - weights[r], 0) ** 2 * counts[r]
    return cost


@numba.njit(cache=True)
def _draw(places: Vectors, columns: Vectors, starts: Vectors, held: Vectors, elements: Permutations) -> bool:
    """Draw two columns of different orbits, or four with the sum 0, and where they are; False if there were none."""
    free = min(len(columns), 3)
    for i in range(free):
        places[i] = np.random.randint(len(starts))  # noqa: NPY002
        columns[i] = elements[np.random.randint(len(elements)), starts[places[i]]]  # noqa: NPY002
        if (places[:i] == places[i]).any():
            return False
    if free == 3:
        columns[3] = columns[0] ^ columns[1] ^ columns[2]
        places[3] = _place(columns[3], starts, places[:3], elements) if held[columns[3]] else -1
        return places[3] >= 0
    return True


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
    columns: Vectors, weights: Vectors, group: Group, d: int, changes: Small, costs: Weights, other: Weights
) -> None:
    """Write the cost with each v added to the columns and their images, and what it changes the weights by if u.v = 1.

    What a word lacks depends on its m products u_i.v only, those that change its weight. It is a sum of the 2^m signs
    (-1)^(u.v), u the sum of some of the u_i, so that one transform of all words' coefficients gives the costs of all v.

    Args:
        columns: those to move.
        weights: of the orbits of words.
        group: that the columns keep.
        d: the least weight that is wanted.
        changes: ``[elements, orbits]``, written; for u an image of a word.
        costs: ``[2^k]``, written.
        other: ``[2^k]``, written.
    """
    lacks, sums = np.empty(2 ** len(changes), np.float32), np.empty(2 ** len(changes), np.int64)
    changes[:] = len(columns)
    for g in range(len(changes)):
        for column in columns:
            for r in range(len(weights)):
                changes[g, r] -= 2 * _parity(group.words[g, r] & column)
    costs[:] = np.float32(0)
    for r in range(len(weights)):
        lacks[0], sums[0], many, lowered = d - weights[r], 0, 1, 0
        for g in range(len(changes)):
            lowered -= min(changes[g, r], 0)
        if d - weights[r] + lowered <= 0:  # it stays heavy with every v
            continue
        for g in range(len(changes)):
            if changes[g, r]:
                for i in range(many):
                    lacks[many + i], sums[many + i] = lacks[i] - changes[g, r], sums[i] ^ group.words[g, r]
                many *= 2
        factor = group.counts[r] / np.float32(len(columns) ** 2 * many)
        for i in range(many):
            lack = max(lacks[i], np.float32(0))
            lacks[i] = factor * lack * lack
        half = 1
        while half < many:
            for i in range(many):
                if not i & half:
                    lacks[i], lacks[i | half] = lacks[i] + lacks[i | half], lacks[i] - lacks[i | half]
            half *= 2
        for i in range(many):
            costs[sums[i]] += lacks[i]
    single._transform(costs, int(np.log2(len(costs)) + 0.5), other)


@numba.njit(cache=True)
def _parity(vector: Any) -> Any:
    """How many bits of a vector below 2^16 are 1, modulo 2."""
    vector ^= vector >> 8
    vector ^= vector >> 4
    vector ^= vector >> 2
    return (vector ^ (vector >> 1)) & 1


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
