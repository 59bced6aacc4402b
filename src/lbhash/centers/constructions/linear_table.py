"""The largest minimum distance of a linear code of each length and dimension that the constructions here reach.

The table begins with base codes (Reed-Muller, BCH, quadratic-residue and other cyclic codes, simplex codes without an
anticode, and those of ``known_linear``), and is closed under the standard derivations of new codes from old ones, as in
the public tables of best known codes:

    puncturing          [n, k, d]                   -> [n - 1, k, d - 1], and better at well chosen bits
    shortening          [n, k, d]                   -> [n - 1, k - 1, d]
    a parity bit        [n, k, d], d odd            -> [n + 1, k, d + 1]
    a subcode           [n, k, d]                   -> [n, k - 1, d]
    juxtaposition       [n, k, d], [n', k, d']      -> [n + n', k, d + d']
    u | u + v           [n, k, d], [n, k', d']      -> [2n, k + k', min(2d, d')]
    concatenation       (``reed_solomon.py``)
    construction X      [n, k, d] ⊃ [n, k', d'], [a, k - k', e] -> [n + a, k, min(d + e, d')]
    construction XX     the same with two such tails (``_construction_xx``)
    construction B      [n, k, d] with a dual word of weight w  -> [n - w, k - w + 1, d]
    a residue           [n, k, d] with a word of weight w < 2d  -> [n - w, k - 1, d - w / 2]
    a symbol less       of a code over GF(q) under a simplex code (``_with_fewer_symbols``)

An entry knows its parts, and its generator matrix is built when it is asked for.

Source: MacWilliams and Sloane (1977), chapter 1, section 9, and chapter 18; Brouwer, Bounds on linear codes, in
Handbook of Coding Theory (1998); Sloane, Reddy and Chen, New binary codes (1972), for construction X; Alltop (1984) for
XX; Groneick and Grosse, New binary codes (1994), for residues of codes over GF(4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import groupby, starmap
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lbhash.centers.constructions import bch
from lbhash.centers.constructions.anticode import anticode_generator, anticode_parameters, subspace_dimensions
from lbhash.centers.constructions.cyclic import CHECKS, cyclic_generator
from lbhash.centers.constructions.goppa import goppa_generator
from lbhash.centers.constructions.juxtaposition import Block, times
from lbhash.centers.constructions.known_linear import KnownCode, known_codes, known_puncturings, known_subcodes
from lbhash.centers.constructions.linear import Generator, dimension_for, row_reduced, span
from lbhash.centers.constructions.quadratic_residue import DISTANCES, quadratic_residue_generator
from lbhash.centers.constructions.reed_muller import reed_muller_dimension, reed_muller_generator
from lbhash.centers.constructions.reed_solomon import concatenated_generator
from lbhash.centers.distance import Centers
from lbhash.codes import hamming_distances, unpack

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

    def is_made_by(self, step: str) -> bool:
        """Return whether the name of this code, or of one that it was made of, has this text."""
        return step in self.name or any(part.is_made_by(step) for part in self.parts)

    def _joined(self) -> Iterator[LinearCode]:
        """Yield the parts; within a juxtaposition, the parts of a juxtaposition take its place."""
        for part in self.parts:
            if self.name == part.name == "juxtaposition":
                yield from part._joined()
            else:
                yield part


_MAX_NAME = 120  # longer names of parts say nothing to a reader
_STEPS = ("punctured", "shortened", "subcode", "parity bit")  # the derivations from one code


class Table(dict[tuple[int, int], LinearCode]):
    """Codes by length and dimension; ``distances`` has theirs as a matrix, 0 where there is no code."""

    def __init__(self) -> None:
        super().__init__()
        self.distances = np.zeros((MAX_LENGTH + 1, MAX_DIMENSION + 1), np.int64)

    def __setitem__(self, key: tuple[int, int], code: LinearCode) -> None:
        """Keep a code and its distance."""
        super().__setitem__(key, code)
        self.distances[key] = code.d


def best_linear_code(n: int, k: int) -> LinearCode | None:
    """Return the best code; None if k is 0, above n or above ``MAX_DIMENSION``. Longer ones are two side by side."""
    if n <= MAX_LENGTH:
        return _table().get((n, k))
    left, right = best_linear_code(n // 2, k), best_linear_code(n - n // 2, k)
    return None if left is None or right is None else _juxtaposed(left, right)


@cache
def _table() -> Table:
    table = Table()
    for code in _bases():
        _offer(table, *_within(code))
    _close(table)
    _construction_x(table)
    _construction_xx(table)
    _concatenate(table)
    _close(table)
    _puncture_at_chosen_bits(table)
    _close(table)
    _construction_x_over_subcodes(table)
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
    yield from _residues(_extended_bch(7, 15))
    goppa = LinearCode(240, 21, 104, "Goppa", (), partial(goppa_generator, 8, (16, 1), 6))
    yield from (LinearCode(55, 16, 19, "Goppa", (), partial(goppa_generator, 6, (9, 0))), goppa)
    for m, k, bits in _DEPENDENT:
        whole, rank = _extended_bch(m, k) if m else goppa, 5 if len(bits) == 6 else 7
        make = partial(_shortened_at, bits)
        yield LinearCode(whole.n - len(bits), k - rank, whole.d, "construction B", (whole,), make)
    for (n, k), (d, check_poly) in CHECKS.items():
        yield LinearCode(n, k, d, "cyclic", (), partial(cyclic_generator, n, check_poly))
    for known in known_codes():
        whole = LinearCode(known.n, known.k, known.d, "found by search", (), known.generator)
        yield whole
        if known.field > 2:
            for fewer in _with_fewer_symbols(whole, known.field):
                yield fewer
                if fewer.k >= 12 and fewer.n > 150 and fewer.n > whole.n - 10 * known.field:
                    # Beside the word of ones, symbols are words of a simplex code or complements, and none is 0.
                    yield from _residues(fewer, 0 if fewer.name == "with the word of ones" else known.field - 1)


_DEPENDENT = (
    (6, 16, (0, 1, 2, 9, 13, 53)),
    (8, 21, (0, 1, 2, 56, 140, 170)),
    (8, 21, (0, 1, 2, 56, 89, 140, 158, 170, 241)),
    (0, 21, (36, 70, 75, 128, 147, 150)),
)
"""Of an extended BCH code, by m and k, or of the Goppa code, by m = 0: the six bits of a word of the dual code, or the
nine of two that share three."""


def _extended_bch(m: int, k: int) -> LinearCode:
    (code,) = (code for code in bch.bch_codes(m) if code.k == k)
    return LinearCode(2**m, k, code.delta + 1, "extended BCH", (), partial(bch.generator_matrix, code, extended=True))


def _with_fewer_symbols(code: LinearCode, field: int) -> Iterator[LinearCode]:
    """Puncture and shorten a code over a field of q elements, of which each symbol is q - 1 bits of a simplex code.

    Symbols other than 0 have q / 2 of the q - 1 bits, so the word of ones is far from all words if q is not small.
    """
    bits = field - 1
    while code.k > 0:
        short = code
        while short.d > field // 2:
            yield short
            d = min(short.d, short.n // bits * (field // 2 - 1))
            yield LinearCode(short.n, short.k + 1, d, "with the word of ones", (short,), _with_ones)
            make = partial(_cut, bits)
            short = LinearCode(short.n - bits, code.k, short.d - field // 2, f"without {bits} bits", (short,), make)
        code = _shortened_by(code, bits)


def _shortened_by(code: LinearCode, bits: int) -> LinearCode:
    """Take the words that end with a symbol 0."""
    k, make = code.k - bits.bit_length(), partial(_symbol_shortened, bits)
    return LinearCode(code.n - bits, k, code.d, f"shortened by {bits}", (code,), make)


def _residues(code: LinearCode, bits: int = 0) -> Iterator[LinearCode]:
    """Puncture at the bits of a word of weight w < 2d, which leaves of another word at least d - w / 2 ones.

    Symbols of ``bits`` bits where that word is 0 stay whole, so the residue can be shortened by them.
    """
    weights = np.unique(_weights(code.generator())).tolist()[1:]
    for weight in weights:
        if weight >= 2 * code.d:
            continue
        d, make = code.d - weight // 2, partial(_residue, weight, bits)
        residue = LinearCode(code.n - weight, code.k - 1, d, f"residue of weight {weight}", (code,), make)
        yield residue
        if weight == weights[0] and 8 < residue.k < 13:
            yield from _residues(residue)
        whole = code.n // bits - weight // ((bits + 1) // 2) if bits else 0
        while whole > 0 and residue.k > bits:
            residue = _shortened_by(residue, bits)
            yield residue
            whole -= 1


def _weights(generator: Generator) -> npt.NDArray[np.int64]:
    words = span(generator)
    return hamming_distances(words, words[:1])[:, 0].astype(np.int64)


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


def _construction_x_over_subcodes(table: Table) -> None:
    """Give tails to the words outside of a subcode, of the whole code and of the codes between the two."""
    for known in known_subcodes():
        code, least = table[known.n, known.k], len(known.messages)
        make = partial(_with_tail_outside, known.messages)
        for more in range(1, known.k - least + 1):
            for length in range(more, 33):
                tail = table[length, more]
                n, k, d = code.n + length, least + more, min(code.d + tail.d, known.d)
                _offer(table, n, k, d, "construction X over a chosen subcode", (code, tail), make)


def _construction_xx(table: Table) -> None:
    """Apply construction XX to the cyclic [127, 15, 55] code, whose check polynomial has two factors of degree 7.

    Words without a part in one of them have weight 63 at least, so both parts can have tails.
    """
    tails = {length: table[length, 7] for length in range(7, 33)}
    for m, left in tails.items():
        for n, right in tails.items():
            d = min(55 + left.d + right.d, 63 + min(left.d, right.d))
            if m <= n and d % 2:
                _offer(table, 127 + m + n, 15, d, "construction XX of cyclic [127, 15, 55]", (left, right), _two_tails)


def _puncture_at_chosen_bits(table: Table) -> None:
    for known in known_puncturings():
        whole, bits = table[known.n, known.k], known.bits
        name = f"without {len(bits)} chosen bits"
        _offer(table, whole.n - len(bits), whole.k, known.d, name, (whole,), partial(np.delete, obj=bits, axis=1))


def _derive_from_one(table: Table) -> None:
    steps = (
        (0, -1, "subcode", _subcode),
        (1, 0, "parity bit", _extended),
        (-1, 0, "punctured", _punctured),
        (-1, -1, "shortened", _shortened),
    )
    better = True
    while better:
        better = False
        for longer, larger, name, make in steps:
            old = table.distances.copy()
            new = {"punctured": old - 1, "parity bit": old + old % 2}.get(name, old)
            there = np.roll(old, (-longer, -larger), (0, 1))
            for n, k in np.argwhere((old > 0) & (new > there)).tolist():
                if 1 <= n + longer <= MAX_LENGTH and k + larger >= 1:
                    code = table[n, k]
                    _offer(table, n + longer, k + larger, int(new[n, k]), name, (code,), make)
                    better = True


def _juxtapose(table: Table) -> None:
    for k, distances in enumerate(np.where(table.distances > 0, table.distances, -MAX_LENGTH).T):
        for n in range(2 * k, MAX_LENGTH + 1) if k else ():
            sums = distances[k : n - k + 1] + distances[n - k : k - 1 : -1]
            left = k + int(sums.argmax())
            if sums.max() > max(0, distances[n]):
                distances[n] = sums.max()
                table[n, k] = _juxtaposed(table[left, k], table[n - left, k])


def _juxtaposed(left: LinearCode, right: LinearCode) -> LinearCode:
    return LinearCode(left.n + right.n, left.k, left.d + right.d, "juxtaposition", (left, right), _beside)


def _add_plotkin_sums(table: Table) -> None:
    distances = table.distances
    for n in range(1, MAX_LENGTH // 2 + 1):
        sums = np.minimum(2 * distances[n][:, None], distances[n])
        for k, k_v in np.argwhere(sums > 0).tolist():
            if k + k_v <= MAX_DIMENSION and sums[k, k_v] > distances[2 * n, k + k_v]:
                _offer(
                    table, 2 * n, k + k_v, int(sums[k, k_v]), "u | u + v", (table[n, k], table[n, k_v]), _plotkin_sum
                )


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


def _with_tail_outside(messages: tuple[int, ...], generator: Generator, tail: Generator) -> Generator:
    """Give a tail to the words outside of the subcode of some messages; bit i of a message is row i.

    A tail with fewer rows than there are outside goes to the first of those; the others are left out.
    """
    k = len(generator)
    chosen = row_reduced((np.array(messages)[:, None] >> np.arange(k) & 1).astype(np.uint8))
    others = np.delete(np.eye(k, dtype=np.uint8), chosen.argmax(axis=1), axis=0)
    zeros = np.zeros((len(chosen), tail.shape[1]), np.uint8)
    return np.block([[others[: len(tail)] @ generator % 2, tail], [chosen @ generator % 2, zeros]])


def _two_tails(left: Generator, right: Generator) -> Generator:
    """Return the words of the cyclic [127, 15, 55] code with tails of the parts of degree 7."""
    generator = KnownCode(127, 15, 55, 2, "89.9d.3", "2.2.1", "4081").generator()
    zeros = np.zeros_like
    tails = np.block([[left, zeros(right)], [zeros(left), right]])
    return _beside(generator, np.concatenate([tails, np.zeros((1, tails.shape[1]), np.uint8)]))


def _with_ones(generator: Generator) -> Generator:
    return np.concatenate([generator, np.ones((1, generator.shape[1]), np.uint8)])


def _cut(bits: int, generator: Generator) -> Generator:
    return generator[:, :-bits]


def _shortened_at(bits: tuple[int, ...], generator: Generator) -> Generator:
    """Return the words that are 0 at some bits, without them."""
    first = row_reduced(np.concatenate([generator[:, bits], np.delete(generator, bits, axis=1)], axis=1))
    return first[~first[:, : len(bits)].any(axis=1), len(bits) :]


def _symbol_shortened(bits: int, generator: Generator) -> Generator:
    """Return the words that end with a symbol 0, without it; its last bits are independent, and give the others."""
    for _ in range(bits.bit_length()):
        generator = _shortened(generator)
    return generator[:, : generator.shape[1] - bits + bits.bit_length()]


def _residue(weight: int, bits: int, generator: Generator) -> Generator:
    """Leave out the bits of the first word of a weight; the symbols of ``bits`` bits where it is 0 come last."""
    word = unpack(span(generator)[_weights(generator) == weight][:1], generator.shape[1])[0]
    symbols = (word.reshape(-1, bits or 1) > 0).any(axis=1)
    order = np.argsort(np.repeat(~symbols, bits or 1), kind="stable")
    return row_reduced(generator[:, order[word[order] < 0]])


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
