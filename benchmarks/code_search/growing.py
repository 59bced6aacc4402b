"""Search for codes whose weights are all multiples of 4, 8 or 16, by adding what fits a code to it.

    python -m benchmarks.code_search.growing --dimension 11 --minutes 10 --seed 0

prints lines of ``known_linear.csv``, which has [37, 14, 12], [47, 15, 16], [72, 11, 32], [77, 12, 32], [82, 15, 32],
[93, 12, 40] and [109, 12, 48] from it.

All weights of a code are multiples of 2^r where j of its words have a multiple of 2^(r + 1 - j) ones in common, for j
from 1 to r. So what is added to a code is orthogonal to the products of r - 1 of its words, or fewer, and there is not
much of it: to a code of length 72 and dimension 9, with r = 3, 2^18 classes of words, which are all tried.

A permutation of the bits, with cycles of one length and some fixed bits, keeps the code, so that the words of an orbit
have one weight and fewer weights must be right. The code grows by irreducible modules of the permutation: a word and
its images under it, whose space is that of the polynomials modulo a factor f of x^p - 1. (x^p - 1) / f, of the
permutation, makes words of such modules of any words. The last words, two at most, may be any that fit.

Modules are added at random until those that fit the code can be listed. What fits it with one of them, too, is listed
already, and found in no time: most are refused by the first few words. So the list is searched to all depths.

Source: triply even codes, Betsumiya and Munemasa, J. London Math. Soc. 86 (2012) 1-16; prescribed automorphisms, Braun,
Kohnert and Wassermann, IEEE Trans. Inform. Theory 51 (2005) 4247-4251.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import cache, reduce
from itertools import combinations
from operator import and_
from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from benchmarks.code_search import linear_groups
from benchmarks.code_search.wanted import print_found

from lbhash.centers.constructions.galois_field import divide, multiply
from lbhash.centers.constructions.known_linear import KnownCode
from lbhash.codes.popcount import popcount

Words = npt.NDArray[np.uint64]
"""``[n, ceil(bits / 64)]``; beside it, words are integers, with bit i for position i."""

ORDERS = 3, 3, 5, 7
TRIED, LISTED = 22, 2**15
"""Of 2^22 words at random, so many that fit a code are listed."""
SECONDS = 10
"""How long what is listed for a code is searched."""


def main() -> None:
    """Search, print what is found."""
    print_found(__doc__, search)


def search(k: int, wanted: dict[int, int], minutes: float, seed: int = 0) -> Iterator[KnownCode]:
    """Yield codes of dimension k with those of the distances wanted that are multiples of 4, by length.

    Args:
        k: dimension.
        wanted: least minimum distance by length.
        minutes: when to give up.
        seed: of the random choices.
    """
    rng = np.random.default_rng(seed)
    end = time.monotonic() + 60 * minutes
    wanted = {n: d for n, d in wanted.items() if d % 4 == 0}
    while wanted and time.monotonic() < end:
        n = int(rng.choice(list(wanted)))
        r = int(rng.choice([r for r in (2, 3, 4) if wanted[n] % 2**r == 0]))
        order = int(rng.choice(ORDERS))
        cycles, loose = Cycles(n, order, n // order - int(rng.choice([0, 0, 0, 1, 1, 2]))), int(rng.integers(3))
        modules = [(cycles, factor) for factor in random_factors(k - loose, order, rng)]
        words = grown(modules + loose * [(Cycles(n, 1, n), 0b11)], wanted[n], r, end, rng)
        if words:
            columns = " ".join(f"{sum((word >> i & 1) << j for j, word in enumerate(words)):x}" for i in range(n))
            yield KnownCode(n, k, wanted.pop(n), 2, "", "", columns)


class Cycles(NamedTuple):
    """A permutation of n bits: ``count`` cycles, each of every ``count``-th of the first bits; the others are fixed."""

    n: int
    order: int
    count: int

    @property
    def images(self) -> npt.NDArray[np.int64]:
        """Where each bit goes, ``[n]``."""
        moving = self.order * self.count
        return np.where(np.arange(self.n) < moving, (np.arange(self.n) + self.count) % moving, np.arange(self.n))

    def applied(self, polynomial: int, word: int) -> int:
        """The sum of the images of a word under the powers of the permutation that a polynomial has."""
        moving, total = self.order * self.count, 0
        while polynomial:
            total ^= word if polynomial & 1 else 0
            polynomial >>= 1
            first = word & ((1 << moving) - 1)
            around = first << self.count
            word ^= first ^ (around & ((1 << moving) - 1)) ^ (around >> moving)
        return total


Module = tuple[Cycles, int]
"""A permutation, and a factor of x^p - 1."""


@cache
def factors(order: int) -> list[int]:
    """The irreducible factors of x^p - 1, for p an odd prime; x - 1 is the first."""
    left, found = divide(1 << order | 1, 0b11)[0], [0b11]
    f = 0b101
    while left > 1:
        quotient, remainder = divide(left, f)
        if remainder == 0:
            left = quotient
            found.append(f)
        else:
            f += 2
    return found


def random_factors(k: int, order: int, rng: np.random.Generator) -> list[int]:
    """Factors of x^p - 1, those of large degree first, whose degrees add up to k; x - 1 is seldom one of them."""
    chosen: list[int] = []
    while k:
        fits = [f for f in factors(order) if f.bit_length() - 1 <= k]
        shares = np.array([0.3 if f == 0b11 else 1.0 for f in fits])
        chosen.append(fits[rng.choice(len(fits), p=shares / shares.sum())])
        k -= chosen[-1].bit_length() - 1
    return sorted(chosen, reverse=True)


def grown(modules: Sequence[Module], d: int, r: int, end: float, rng: np.random.Generator) -> list[int]:
    """A basis of a code that has a module of each permutation and factor; empty if none was found."""
    words: list[int] = []
    for at, module in enumerate(modules):
        n = module[0].n
        fitting = {other: fitting_words(words, *other, d, r, rng) for other in dict.fromkeys(modules[at:])}
        if not all(fitting.values()):
            break
        if at == len(modules) - 1 or max(map(len, fitting.values())) < LISTED:
            code = linear_groups.all_images(packed(words, n))
            listed = {
                other: np.stack([packed(_sums(_basis(*other, word)), n) for word in found])
                for other, found in fitting.items()
            }
            return deepened(words, code, modules[at:], listed, d, 2**r, min(end, time.monotonic() + SECONDS), rng)
        words += _basis(*module, fitting[module][rng.integers(len(fitting[module]))])
    return []


def deepened(
    words: list[int],
    code: Words,
    modules: Sequence[Module],
    listed: dict[Module, Words],
    d: int,
    q: int,
    end: float,
    rng: np.random.Generator,
) -> list[int]:
    """A basis of a code that has a listed module of each permutation and factor beside the words, or an empty one.

    Args:
        words: a basis of the code so far.
        code: all its words.
        modules: what is to be added.
        listed: of each of these, the words but 0 of all modules that fit the code, ``[m, words, ...]``.
        d: the least weight.
        q: that all weights must be multiples of.
        end: when to give up.
        rng: of the order.
    """
    if not modules:
        return words
    module, *others = modules
    rows = rng.permutation(listed[module])
    for i, sums in enumerate(rows):
        if time.monotonic() > end:
            break
        left = {other: rows[i + 1 :] if other == module else listed[other] for other in dict.fromkeys(others)}
        left = {other: found[_fitting(sums, found, code, d, q)] for other, found in left.items()}
        if all(map(len, left.values())):
            larger = rng.permutation(np.concatenate([code, *(code ^ word for word in sums)]))
            basis = [int.from_bytes(sums[2**j - 1].tobytes(), "little") for j in range(module[1].bit_length() - 1)]
            if found := deepened([*words, *basis], larger, others, left, d, q, end, rng):
                return found
    return []


def _basis(cycles: Cycles, factor: int, word: int) -> list[int]:
    """A basis of the module that a word makes."""
    return [cycles.applied(1 << j, word) for j in range(factor.bit_length() - 1)]


def _sums(basis: Sequence[int]) -> list[int]:
    """All sums of words but 0; of the j-th alone at 2^j - 1."""
    found = [0]
    for word in basis:
        found += [word ^ other for other in found]
    return found[1:]


def fitting_words(
    words: list[int],
    cycles: Cycles,
    factor: int,
    d: int,
    r: int,
    rng: np.random.Generator,
    most: int = LISTED,
    tried: int = TRIED,
) -> list[int]:
    """Words whose modules may be added to a code: all of its weights stay multiples of 2^r, and at least d."""
    shared = {j: [reduce(and_, some) for some in combinations(words, j)] for j in range(1, r)}
    orthogonal = null_space([word for some in shared.values() for word in some], cycles.n)
    cofactor = divide(1 << cycles.order | 1, factor)[0]
    pivots: dict[int, int] = {}
    for word in words:
        _reduce(word, pivots)
    room = [
        word
        for word in (cycles.applied(cofactor, orthogonal[i]) for i in rng.permutation(len(orthogonal)))
        if _reduce(word, pivots)
    ]
    if not room:
        return []
    start, steps = 0, room
    if len(room) > tried:
        start, *steps = (_random_sum(room, rng) for _ in range(tried + 1))
    many = [(word, 2 ** (r - j)) for j in range(1, r - 1) for word in shared[j]]
    code = linear_groups.all_images(packed(words, cycles.n))[rng.permutation(2 ** len(words))]
    found = np.zeros((most, code.shape[1]), np.uint64)
    count = _tried(
        packed([start], cycles.n)[0],
        packed(steps, cycles.n),
        packed([word for word, _ in many], cycles.n),
        np.array([times for _, times in many], np.int64),
        code,
        cycles.images,
        factor.bit_length() - 1,
        orbits_of(factor),
        d,
        2**r,
        found,
    )
    return [int.from_bytes(row.tobytes(), "little") for row in found[:count]]


def null_space(words: Sequence[int], n: int) -> list[int]:
    """A basis of the words of n bits that have an even number of ones in common with each of these."""
    pivots: dict[int, int] = {}
    for word in words:
        _reduce(word, pivots)
    for i in sorted(pivots):
        for j in pivots:
            if j != i and pivots[j] >> i & 1:
                pivots[j] ^= pivots[i]
    free = [i for i in range(n) if i not in pivots]
    return [1 << i | sum(1 << j for j, row in pivots.items() if row >> i & 1) for i in free]


def _reduce(word: int, pivots: dict[int, int]) -> bool:
    """Add a word to rows by their leading bits, unless it is a sum of them; return whether it was added."""
    while word and (lead := word.bit_length() - 1) in pivots:
        word ^= pivots[lead]
    if word:
        pivots[lead] = word
    return word != 0


def _random_sum(words: Sequence[int], rng: np.random.Generator) -> int:
    total = 0
    for word, taken in zip(words, rng.integers(2, size=len(words)), strict=True):
        total ^= word if taken else 0
    return total


def packed(words: Sequence[int], n: int) -> Words:
    """The words as arrays, ``[len(words), ceil(n / 64)]``."""
    size = -(-n // 64)
    return np.frombuffer(b"".join(word.to_bytes(8 * size, "little") for word in words), np.uint64).reshape(-1, size)


@cache
def orbits_of(factor: int) -> npt.NDArray[np.int64]:
    """A polynomial of each orbit, under the multiplication by x, of those modulo an irreducible one, but 0."""
    left, found = set(range(1, 1 << factor.bit_length() - 1)), []
    while left:
        polynomial = min(left)
        found.append(polynomial)
        while polynomial in left:
            left.remove(polynomial)
            polynomial = divide(multiply(polynomial, 0b10), factor)[1]
    return np.array(found)


@numba.njit(cache=True)
def _tried(
    word: Words,
    steps: Words,
    many: Words,
    times: npt.NDArray[np.int64],
    code: Words,
    images: npt.NDArray[np.int64],
    degree: int,
    orbits: npt.NDArray[np.int64],
    d: int,
    q: int,
    found: Words,
) -> int:
    """Write those of all sums of a word and steps whose modules fit a code, and return how many there are.

    Args:
        word: the first.
        steps: ``[m, …]``; 2^m words are tried, until ``found`` is full.
        many: what must have a multiple of so many ones in common with a word.
        times: how many.
        code: all its words.
        images: the permutation of the bits.
        degree: of the module.
        orbits: sums of the images of a word whose images are all of its module, as polynomials.
        d: the least weight.
        q: that all weights must be multiples of.
        found: ``[most, …]``, written.
    """
    word, size, count = word.copy(), len(word), 0
    module, total = np.zeros((degree, size), np.uint64), np.zeros(size, np.uint64)
    for i in range(1 << len(steps)):
        if i:
            which = 0
            while not i >> which & 1:
                which += 1
            for x in range(size):
                word[x] ^= steps[which, x]
        if _common(word, word) % q:
            continue
        fits = True
        for j in range(len(many)):
            if _common(word, many[j]) % times[j]:
                fits = False
                break
        if not fits:
            continue
        module[0] = word
        for j in range(1, degree):
            _move(module[j - 1], images, module[j])
        for orbit in orbits:
            total[:] = 0
            for j in range(degree):
                if orbit >> j & 1:
                    total ^= module[j]
            if not _right(total, code, d, q):
                fits = False
                break
        if fits:
            found[count] = word
            count += 1
            if count == len(found):
                break
    return count


@numba.njit(cache=True)
def _fitting(sums: Words, listed: Words, code: Words, d: int, q: int) -> npt.NDArray[np.bool_]:
    """Return which of the modules that fit a code still fit it with another one.

    Args:
        sums: the words of the other one but 0.
        listed: those of the modules, ``[m, words, ...]``.
        code: all its words.
        d: the least weight.
        q: that all weights must be multiples of.
    """
    total, found = np.zeros(code.shape[1], np.uint64), np.ones(len(listed), np.bool_)
    for i in range(len(listed)):
        for a in range(len(sums)):
            for b in range(listed.shape[1]):
                for x in range(len(total)):
                    total[x] = sums[a, x] ^ listed[i, b, x]
                if not _right(total, code, d, q):
                    found[i] = False
                    break
            if not found[i]:
                break
    return found


@numba.njit(cache=True)
def _right(word: Words, code: Words, d: int, q: int) -> bool:
    """Whether all sums of a word and a code's words have a weight of at least d, a multiple of q."""
    for i in range(len(code)):
        weight = 0
        for x in range(len(word)):
            weight += popcount(word[x] ^ code[i, x])
        if weight < d or weight % q:
            return False
    return True


@numba.njit(cache=True)
def _common(left: Words, right: Words) -> int:
    """How many ones two words have in common."""
    ones = 0
    for x in range(len(left)):
        ones += popcount(left[x] & right[x])
    return ones


@numba.njit(cache=True)
def _move(word: Words, images: npt.NDArray[np.int64], moved: Words) -> None:
    """Write the image of a word."""
    moved[:] = 0
    for i in range(len(images)):
        if word[i >> 6] >> np.uint64(i & 63) & np.uint64(1):
            moved[images[i] >> 6] |= np.uint64(1) << np.uint64(images[i] & 63)


if __name__ == "__main__":
    main()
