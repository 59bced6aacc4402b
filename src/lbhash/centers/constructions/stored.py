"""Stored codes, and the codes of other lengths that are made of them by three rules.

A stored code is the union of cosets x_1 + L, x_2 + L, .. of a linear code L; most are L alone. ``stored_codes.npz`` has
``codes [codes, 4]``: n, the number of cosets or 0 for L alone, L's dimension k, and d of each; and ``bits``: the
words x_i and then the generator matrix of L of every code in that order, row by row, packed by ``np.packbits``.

Linear codes of any length and dimension are made of the stored ones by

    puncturing     [n, k, d]  ->  [n - 1, k, d - 1]
    shortening     [n, k, d]  ->  [n - 1, k - 1, d]
    a subcode      [n, k, d]  ->  [n, k - 1, d]

The others, which have more words than any linear code, are shortened. ``blocks`` sets all of them side by side.

Commit 719e62a derived the stored codes from Reed-Muller, BCH, quadratic-residue, Goppa, Kerdock and other families, and
found the rest by search.

Source: MacWilliams and Sloane (1977), chapter 1, section 9, and chapter 2, section 8; Brouwer, Bounds on linear codes,
in Handbook of Coding Theory (1998).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib.resources import as_file, files
from typing import NamedTuple

import numpy as np

from lbhash.centers.constructions.blocks import Block
from lbhash.centers.constructions.linear import Generator, dimension_for, row_reduced, span
from lbhash.centers.distance import Centers
from lbhash.codes import unpack

MAX_DIMENSION = 20

UNION_NAMES = {
    (16, 256): "Nordstrom-Robinson code",
    (64, 4096): "Kerdock code of length 64",
    (256, 65536): "Kerdock code of length 256",
}
"""Names of the literature for codes that are not linear, by length and number of words."""


class LinearCode(NamedTuple):
    """An [n, k, d] code: a rule and the code that it is applied to, or a stored code."""

    n: int
    k: int
    d: int
    rule: Callable[[Generator], Generator] | None = None
    of: LinearCode | None = None

    def generator(self) -> Generator:
        """Return the generator matrix ``[k, n]``."""
        if self.rule is None or self.of is None:
            return _stored()[0][self.n, self.k][1]
        return self.rule(self.of.generator())


class Union(NamedTuple):
    """A stored code that is not linear: the words ``leaders [cosets, n]``, each plus all of L, ``generator [k, n]``."""

    d: int
    leaders: Generator
    generator: Generator

    def words(self) -> Centers:
        """Return all words, ``int8 [cosets 2^k, n]`` of -1 and +1."""
        words = np.packbits(self.leaders, axis=1)[:, None] ^ span(self.generator)
        return unpack(words.reshape(-1, words.shape[2]), self.leaders.shape[1])


@cache
def _stored() -> tuple[dict[tuple[int, int], tuple[int, Generator]], list[Union]]:
    """Return d and the generator matrix of the linear codes by length and dimension, and the other codes."""
    with as_file(files(__package__) / "stored_codes.npz") as path, np.load(path) as data:
        codes, bits = data["codes"].tolist(), np.unpackbits(data["bits"])
    linear, unions, start = {}, [], 0
    for n, cosets, k, d in codes:
        rows = bits[start : start + (cosets + k) * n].reshape(-1, n)
        start += rows.size
        if cosets:
            unions.append(Union(d, rows[:cosets], rows[cosets:]))
        else:
            linear[n, k] = d, rows
    return linear, unions


@cache
def linear_codes(k: int) -> dict[int, LinearCode]:
    """Return the best codes of a dimension by length, up to 288 bits; none above dimension 20."""
    codes = {n: LinearCode(n, k, d) for (n, of), (d, _) in _stored()[0].items() if of == k}

    def offer(code: LinearCode) -> None:
        if code.n not in codes or codes[code.n].d < code.d:
            codes[code.n] = code

    for n, code in linear_codes(k + 1).items() if k < MAX_DIMENSION else ():
        offer(LinearCode(n, k, code.d, _subcode, code))
        offer(LinearCode(n - 1, k, code.d, _shortened, code))
    for n in range(max(codes, default=0), k, -1):
        if n in codes and codes[n].d > 1:
            offer(LinearCode(n - 1, k, codes[n].d - 1, _punctured, codes[n]))
    return codes


def _punctured(generator: Generator) -> Generator:
    return generator[:, :-1]


def _shortened(generator: Generator) -> Generator:
    """Return the words that end with 0, without that bit."""
    first, *others = np.flatnonzero(generator[:, -1]).tolist() or [0]
    matrix = generator.copy()
    matrix[others] ^= matrix[first]
    return np.delete(matrix, first, axis=0)[:, :-1]


def _subcode(generator: Generator) -> Generator:
    """Leave the word of ones out if the code has it: then no two words are opposite."""
    solved = row_reduced(generator)
    # The word of ones begins with 1 at every row's first 1, so that it is the sum of all rows, or no word.
    return solved[1:] if (solved.sum(axis=0) % 2).all() else generator[:-1]


def stored_blocks(classes: int, length: int) -> Iterator[Block]:
    """Yield the codes with at least ``classes`` words of at most ``length`` bits that are made of stored ones.

    The linear ones have the smallest dimension with enough words, the others are shortened as often as the words allow.
    """
    k = dimension_for(classes)
    for n, code in sorted(linear_codes(k).items()):
        if n <= length:
            yield Block(f"linear [{n}, {k}, {code.d}]", n, code.d, partial(linear_words, code))
    for union in _stored()[1]:
        count, n = len(union.leaders) << len(union.generator), union.leaders.shape[1]
        name = UNION_NAMES.get((n, count), f"nonlinear ({n}, {count}, {union.d})")
        for dropped in range(n):
            if -(-count >> dropped) < max(2, classes):
                break
            if n - dropped <= length:
                suffix = f", shortened by {dropped}" if dropped else ""
                yield Block(name + suffix, n - dropped, union.d, partial(shortened_words, union, dropped))


def shortened_words(union: Union, dropped: int) -> Centers:
    """Return the words that share their most frequent first bits, without these: at least one in 2^dropped."""
    words = union.words()
    for _ in range(dropped):
        positive = words[:, 0] > 0
        words = words[positive == (2 * positive.sum() >= len(words)), 1:]
    return words


def linear_words(code: LinearCode) -> Centers:
    """Return all words of a code: ``int8 [2^k, n]`` of -1 and +1.

    Shortening can leave bits that are 0 in all words; such a bit is given a message bit, which costs no distance.
    """
    generator = code.generator().copy()
    constant = np.flatnonzero(~generator.any(axis=0))
    generator[np.arange(len(constant)) % code.k, constant] = 1
    return unpack(span(generator), code.n)
