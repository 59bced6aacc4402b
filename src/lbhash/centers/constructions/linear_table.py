"""The largest minimum distance of a linear code of each length and dimension that the constructions here reach.

The table begins with base codes (Reed-Muller, BCH, quadratic-residue and other cyclic codes, simplex codes without an
anticode, and those of ``known_linear``), and is closed under the standard derivations of new codes from old ones, as in
the public tables of best known codes:

    puncturing          [n, k, d]                   -> [n - 1, k, d - 1]
    shortening          [n, k, d]                   -> [n - 1, k - 1, d]
    a parity bit        [n, k, d], d odd            -> [n + 1, k, d + 1]
    a subcode           [n, k, d]                   -> [n, k - 1, d]
    juxtaposition       [n, k, d], [n', k, d']      -> [n + n', k, d + d']
    u | u + v           [n, k, d], [n, k', d']      -> [2n, k + k', min(2d, d')]
    concatenation       (``reed_solomon.py``)
    construction X      [n, k, d] ⊃ [n, k', d'], [a, k - k', e] -> [n + a, k, min(d + e, d')]

An entry knows its parts, and its generator matrix is built when it is asked for.

Source: MacWilliams and Sloane (1977), chapter 1, section 9, and chapter 18; Brouwer, Bounds on linear codes, in
Handbook of Coding Theory (1998); Sloane, Reddy and Chen, New binary codes (1972), for construction X.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import groupby, starmap
from typing import NamedTuple

import numpy as np

from lbhash.centers.constructions import bch
from lbhash.centers.constructions.anticode import anticode_generator, anticode_parameters, subspace_dimensions
from lbhash.centers.constructions.cyclic import CHECKS, cyclic_generator
from lbhash.centers.constructions.juxtaposition import Block, times
from lbhash.centers.constructions.known_linear import known_codes
from lbhash.centers.constructions.linear import Generator, dimension_for, row_reduced, span
from lbhash.centers.constructions.quadratic_residue import DISTANCES, quadratic_residue_generator
from lbhash.centers.constructions.reed_muller import reed_muller_dimension, reed_muller_generator
from lbhash.centers.constructions.reed_solomon import concatenated_generator
from lbhash.centers.distance import Centers
from lbhash.codes import unpack

MAX_LENGTH = 288  # up to 256 bits are wanted; slightly longer codes are there to be punctured or shortened
MAX_DIMENSION = 20


class LinearCode(NamedTuple):
    """An [n, k, d] code, the codes that it was made of, and the function that makes its generator matrix of theirs."""

    n: int
    k: int
    d: int
    name: str
    parts: tuple[LinearCode, ...]
    make: Callable[..., Generator]

    def generator(self) -> Generator:
        """Return the generator matrix ``[k, n]``."""
        return self.make(*(part.generator() for part in self.parts))

    def __str__(self) -> str:
        """Return the name from the base code on, "BCH [31, 11, 11], subcode, parity bit"; parts are in parentheses."""
        steps: list[str] = []
        code = self
        while len(code.parts) == 1 and code.name in _STEPS:
            useless = code.name == "parity bit" and code.d == code.parts[0].d
            steps.insert(0, "free bit" if useless else code.name)
            code = code.parts[0]
        start = f"{code.name} [{code.n}, {code.k}, {code.d}]"
        if code.parts:
            inside = " | ".join(starmap(times, Counter(f"({part})" for part in code._joined()).items()))
            start += f" of {inside if len(inside) <= _MAX_NAME else 'codes joined in turn'}"
        return ", ".join([start, *(times(step, len(list(same))) for step, same in groupby(steps))])

    def _joined(self) -> Iterator[LinearCode]:
        """Yield the parts; within a juxtaposition, the parts of a juxtaposition take its place."""
        for part in self.parts:
            if self.name == part.name == "juxtaposition":
                yield from part._joined()
            else:
                yield part


_MAX_NAME = 120  # longer names of parts say nothing to a reader
_STEPS = ("punctured", "shortened", "subcode", "parity bit")  # the derivations from one code

Table = dict[tuple[int, int], LinearCode]  # by length and dimension


def best_linear_code(n: int, k: int) -> LinearCode | None:
    """Return the best code; None if k is 0, above n or above ``MAX_DIMENSION``. Longer ones are two side by side."""
    if n <= MAX_LENGTH:
        return _table().get((n, k))
    left, right = best_linear_code(n // 2, k), best_linear_code(n - n // 2, k)
    return None if left is None or right is None else _juxtaposed(left, right)


@cache
def _table() -> Table:
    table: Table = {}
    for code in _bases():
        _offer(table, *_within(code))
    _close(table)
    _construction_x(table)
    _concatenate(table)
    _close(table)
    return table


def _close(table: Table) -> None:
    """Derive codes from codes until none is better."""
    total = -1
    while total != (total := sum(code.d for code in table.values())):
        _derive_from_one(table)
        _juxtapose(table)
        _add_plotkin_sums(table)


def _offer(
    table: Table, n: int, k: int, d: int, name: str, parts: tuple[LinearCode, ...], make: Callable[..., Generator]
) -> None:
    """Put a code into the table if that has none as good."""
    if 1 <= k <= min(n, MAX_DIMENSION) and n <= MAX_LENGTH and d > 0:
        present = table.get((n, k))
        if present is None or d > present.d:
            table[n, k] = LinearCode(n, k, d, name, parts, make)


def _within(code: LinearCode) -> LinearCode:
    """Return the code, shortened until its dimension is at most ``MAX_DIMENSION``."""
    while code.k > MAX_DIMENSION and code.n > code.k:
        code = LinearCode(code.n - 1, code.k - 1, code.d, "shortened", (code,), _shortened)
    return code


def _bases() -> Iterator[LinearCode]:
    for k in range(1, MAX_DIMENSION + 1):
        yield LinearCode(k, k, 1, "all words", (), np.eye(k, dtype=np.uint8).copy)
    for m in range(1, 9):
        for r in range(m):
            n, k, d = 2**m, reed_muller_dimension(r, m), 2 ** (m - r)
            yield LinearCode(n, k, d, f"Reed-Muller RM({r}, {m})", (), partial(reed_muller_generator, r, m))
    for p, distance in DISTANCES.items():
        name = "Golay" if p == 23 else "quadratic residue"
        yield LinearCode(p, (p + 1) // 2, distance, name, (), partial(quadratic_residue_generator, p))
    for k in range(2, 10):
        for removed in subspace_dimensions(k):
            n, d = anticode_parameters(k, removed)
            name = "simplex without an anticode" if removed else "simplex"
            yield LinearCode(n, k, d, name, (), partial(anticode_generator, k, removed))
    for m in range(3, 9):
        for code in bch.bch_codes(m):
            yield LinearCode(code.n, code.k, code.delta, "BCH", (), partial(bch.generator_matrix, code))
    for (n, k), (d, check_poly) in CHECKS.items():
        yield LinearCode(n, k, d, "cyclic", (), partial(cyclic_generator, n, check_poly))
    for known in known_codes():
        yield LinearCode(known.n, known.k, known.d, "found by search", (), known.generator)


def _construction_x(table: Table) -> None:
    """Apply construction X to pairs of nested BCH codes, with the best tail that the table has."""
    for m in range(4, 9):
        codes = [code for code in bch.bch_codes(m) if code.k <= MAX_DIMENSION]
        for i, large in enumerate(codes):
            for small in codes[i + 1 :]:
                for extended in (False, True):
                    # A parity bit makes the odd distance of a narrow-sense BCH code even.
                    d, d_small = (code.delta + (extended and code.delta % 2) for code in (large, small))
                    for length in range(1, 33):
                        if (tail := table.get((length, large.k - small.k))) and d + tail.d <= d_small:
                            make = partial(_with_tail, large, small, extended)
                            name = f"construction X of BCH {large.k} over {small.k}"
                            _offer(table, large.n + extended + length, large.k, d + tail.d, name, (tail,), make)


def _derive_from_one(table: Table) -> None:
    for n in range(MAX_LENGTH, 0, -1):
        for k in range(MAX_DIMENSION, 0, -1):
            if code := table.get((n, k)):
                _offer(table, n - 1, k, code.d - 1, "punctured", (code,), _punctured)
                _offer(table, n - 1, k - 1, code.d, "shortened", (code,), _shortened)
                _offer(table, n, k - 1, code.d, "subcode", (code,), _subcode)
                _offer(table, n + 1, k, code.d + code.d % 2, "parity bit", (code,), _extended)


def _juxtapose(table: Table) -> None:
    for k in range(1, MAX_DIMENSION + 1):
        distances = np.array([table[n, k].d if (n, k) in table else -MAX_LENGTH for n in range(MAX_LENGTH + 1)])
        for n in range(2 * k, MAX_LENGTH + 1):
            sums = distances[k : n - k + 1] + distances[n - k : k - 1 : -1]
            left = k + int(sums.argmax())
            if sums.max() > max(0, distances[n]):
                distances[n] = sums.max()
                table[n, k] = _juxtaposed(table[left, k], table[n - left, k])


def _juxtaposed(left: LinearCode, right: LinearCode) -> LinearCode:
    return LinearCode(left.n + right.n, left.k, left.d + right.d, "juxtaposition", (left, right), _beside)


def _add_plotkin_sums(table: Table) -> None:
    for (n, k), u in [(key, code) for key, code in table.items() if 2 * key[0] <= MAX_LENGTH]:
        for k_v in range(1, MAX_DIMENSION - k + 1):
            if v := table.get((n, k_v)):
                d = min(2 * u.d, v.d)
                present = table.get((2 * n, k + k_v))
                if present is None or d > present.d:  # asked here too, for speed: this is the innermost loop
                    _offer(table, 2 * n, k + k_v, d, "u | u + v", (u, v), _plotkin_sum)


def _concatenate(table: Table) -> None:
    for m in range(2, 11):
        for dimension in range(1, MAX_DIMENSION // m + 1):
            for symbols in range(dimension + 1, min(2**m, MAX_LENGTH // m) + 1):
                name = f"concatenation under Reed-Solomon [{symbols}, {dimension}] over GF({2**m})"
                make = partial(concatenated_generator, m, symbols, dimension)
                for n in range(m, MAX_LENGTH // symbols + 1):
                    if inner := table.get((n, m)):
                        d = (symbols - dimension + 1) * inner.d
                        _offer(table, symbols * n, dimension * m, d, name, (inner,), make)


def _punctured(generator: Generator) -> Generator:
    return generator[:, :-1]


def _shortened(generator: Generator) -> Generator:
    """Return the words that end with 0, without that bit."""
    first, *others = np.flatnonzero(generator[:, -1]).tolist() or [0]
    matrix = generator.copy()
    matrix[others] ^= matrix[first]
    return np.delete(matrix, first, axis=0)[:, :-1]


def _subcode(generator: Generator) -> Generator:
    """Keep the word of ones if the code has it: then words come in opposite pairs, which balance the bits."""
    ones = np.ones((1, generator.shape[1]), np.uint8)
    if len(row_reduced(np.concatenate([ones, generator]))) > len(generator):
        return generator[:-1]
    # The word of ones is a sum of rows; it can stand in the place of the first of them.
    solved = row_reduced(generator)
    return np.concatenate([ones, solved[1:-1]]) if len(solved) > 1 else ones


def _extended(generator: Generator) -> Generator:
    return _beside(generator, generator.sum(axis=1, keepdims=True, dtype=np.uint8) % 2)


def _beside(*generators: Generator) -> Generator:
    return np.concatenate(generators, axis=1)


def _plotkin_sum(u: Generator, v: Generator) -> Generator:
    return np.block([[u, u], [np.zeros_like(v), v]])


def _with_tail(large: bch.BCHCode, small: bch.BCHCode, extended: bool, tail: Generator) -> Generator:
    """Return the words of the small code without a tail, and those that complete it to the large code with a tail."""
    inner, outer = (_cyclic_order(bch.generator_matrix(code, extended), code) for code in (small, large))
    # Of the large code's message bits the last are the small one's, so its first rows complete the small code.
    completing = outer[: large.k - small.k]
    return np.block([[completing, tail], [inner, np.zeros((len(inner), tail.shape[1]), np.uint8)]])


def _cyclic_order(generator: Generator, code: bch.BCHCode) -> Generator:
    """Reorder the columns of ``bch.generator_matrix`` by the powers of x, with the parity bit last."""
    message, parity, checks = np.split(generator, [code.k, generator.shape[1] - (code.n - code.k)], axis=1)
    return _beside(checks, message, parity)


def linear_blocks(classes: int, length: int) -> Iterator[Block]:
    """Yield the best code of every length up to ``length``; the dimension is the smallest that has enough words."""
    k = dimension_for(classes)
    for n in range(k, length + 1):
        if code := best_linear_code(n, k):
            yield Block(str(code), n, code.d, partial(linear_words, code))


def linear_words(code: LinearCode) -> Centers:
    """Return all words of a code: ``int8 [2^k, n]`` of -1 and +1.

    Shortening can leave bits that are 0 in all words; such a bit is given a message bit, which costs no distance.
    """
    generator = code.generator().copy()
    constant = np.flatnonzero(~generator.any(axis=0))
    generator[np.arange(len(constant)) % code.k, constant] = 1
    return unpack(span(generator), code.n)
