"""The largest minimum distance of a linear code of each length and dimension that can be made here.

``linear_codes.npz`` stores generator matrices of good codes: ``parameters [codes, 3]``, n, k and d of each, and
``bits``, all their matrices in that order, row by row, packed by ``np.packbits``. Every other code is made of these by

    puncturing          [n, k, d]                   -> [n - 1, k, d - 1]
    shortening          [n, k, d]                   -> [n - 1, k - 1, d]
    a subcode           [n, k, d]                   -> [n, k - 1, d]
    juxtaposition       [n, k, d], [n', k, d']      -> [n + n', k, d + d']

Commit 719e62a derived the stored codes from Reed-Muller, BCH, quadratic-residue, Goppa and other families, and found
the rest by search.

Source: MacWilliams and Sloane (1977), chapter 1, section 9; Brouwer, Bounds on linear codes, in Handbook of Coding
Theory (1998).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib.resources import as_file, files
from itertools import starmap
from typing import NamedTuple

import numpy as np

from lbhash.centers.constructions.juxtaposition import Block, times
from lbhash.centers.constructions.linear import Generator, dimension_for, row_reduced, span
from lbhash.centers.distance import Centers
from lbhash.codes import unpack

MAX_LENGTH = 288  # up to 256 bits are wanted; slightly longer codes are there to be punctured or shortened
MAX_DIMENSION = 20


class LinearCode(NamedTuple):
    """An [n, k, d] code: a rule and the codes that it is applied to, or a stored code, which has no parts."""

    n: int
    k: int
    d: int
    rule: str
    parts: tuple[LinearCode, ...] = ()

    def generator(self) -> Generator:
        """Return the generator matrix ``[k, n]``."""
        if not self.parts:
            return stored_generators()[self.n, self.k]
        return _RULES[self.rule](*(part.generator() for part in self.parts))

    def __str__(self) -> str:
        """Return how it is made of stored codes: "linear [32, 11, 12], subcode"."""
        if not self.parts:
            return f"linear [{self.n}, {self.k}, {self.d}]"
        if self.rule == "juxtaposition":
            return " | ".join(starmap(times, Counter(map(str, self._joined())).items()))
        steps = Counter[str]()
        code = self
        while len(code.parts) == 1:
            steps[code.rule] += 1
            code = code.parts[0]
        start = f"({code})" if code.parts else str(code)
        return ", ".join([start, *starmap(times, steps.items())])

    def _joined(self) -> Iterator[LinearCode]:
        """Yield the codes side by side."""
        for part in self.parts:
            if part.rule == "juxtaposition":
                yield from part._joined()
            else:
                yield part


@cache
def stored_generators() -> dict[tuple[int, int], Generator]:
    """Return the stored generator matrices by length and dimension."""
    parameters, bits = _stored()
    sizes = parameters[:, 0] * parameters[:, 1]
    matrices = np.split(np.unpackbits(bits)[: sizes.sum()], np.cumsum(sizes)[:-1])
    return {(n, k): matrix.reshape(k, n) for (n, k, _), matrix in zip(parameters.tolist(), matrices, strict=True)}


@cache
def _stored() -> tuple[np.ndarray, np.ndarray]:
    with as_file(files(__package__) / "linear_codes.npz") as path, np.load(path) as data:
        return data["parameters"].astype(np.int64), data["bits"]


def best_linear_code(n: int, k: int) -> LinearCode | None:
    """Return the best code; None if k is 0, above n or above ``MAX_DIMENSION``. Longer ones are two side by side."""
    if not 1 <= k <= min(n, MAX_DIMENSION):
        return None
    if n <= MAX_LENGTH:
        return _codes(k)[n]
    left, right = best_linear_code(n // 2, k), best_linear_code(n - n // 2, k)
    return None if left is None or right is None else _juxtaposed(left, right)


@cache
def _codes(k: int) -> dict[int, LinearCode]:
    """Return the best codes of a dimension by length, from k to ``MAX_LENGTH``."""
    codes = {n: LinearCode(n, k, d, "stored") for n, dimension, d in _stored()[0].tolist() if dimension == k}

    def offer(code: LinearCode) -> bool:
        better = code.n not in codes or codes[code.n].d < code.d
        if better:
            codes[code.n] = code
        return better

    for n, code in _codes(k + 1).items() if k < MAX_DIMENSION else ():
        offer(LinearCode(n, k, code.d, "subcode", (code,)))
        offer(LinearCode(n - 1, k, code.d, "shortened", (code,)))
    improved = True
    while improved:
        improved = False
        for n in range(MAX_LENGTH, k, -1):
            if n in codes and codes[n].d > 1:
                improved |= offer(LinearCode(n - 1, k, codes[n].d - 1, "punctured", (codes[n],)))
        distances = np.array([codes[n].d if n in codes else -MAX_LENGTH for n in range(MAX_LENGTH + 1)])
        for n in range(2 * k, MAX_LENGTH + 1):
            sums = distances[k : n - k + 1] + distances[n - k : k - 1 : -1]
            left = k + int(sums.argmax())
            if sums[left - k] > distances[n]:
                improved |= offer(_juxtaposed(codes[left], codes[n - left]))
                distances[n] = codes[n].d
    return codes


def _juxtaposed(left: LinearCode, right: LinearCode) -> LinearCode:
    return LinearCode(left.n + right.n, left.k, left.d + right.d, "juxtaposition", (left, right))


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


def _beside(*generators: Generator) -> Generator:
    return np.concatenate(generators, axis=1)


_RULES: dict[str, Callable[..., Generator]] = {
    "punctured": _punctured,
    "shortened": _shortened,
    "subcode": _subcode,
    "juxtaposition": _beside,
}


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
