"""Binary linear codes that no simple construction gives, found by search and stored by their symmetry.

``benchmarks.code_search.group_modules`` finds them, prints the lines of ``known_linear.csv`` and tells the method. The
columns of a generator ``[k, n]`` are vectors of GF(2)^k, and here they come in whole orbits of a group of linear maps,
so that a code is stored as the maps and one vector of each orbit. GF(2)^k is a product of rings GF(2)[x] / f(x), its
``blocks``; a map takes the element y of block b to s_b y^(2^j) in block t_b, and is written ``s_1.s_2...^j@t_1.t_2...``
with hexadecimal polynomials; without ``^j`` j is 0, and without ``@`` every block stays. Quasi-cyclic codes of one
and of several generators have one map; the multiplication by an element of GF(4) or GF(8) as the first map makes the
code linear over that field, under the simplex code [3, 2, 2] or [7, 3, 4]. Without blocks a map is the images of the
unit vectors, ``v_1.v_2...``. Without maps, as for the codes of ``benchmarks.code_search.columns`` and ``growing``, all
columns are stored.
"""

from __future__ import annotations

from functools import cache, reduce
from importlib.resources import files
from operator import xor
from typing import NamedTuple

import numpy as np

from lbhash.centers.constructions.galois_field import divide, multiply
from lbhash.centers.constructions.linear import Generator


class KnownPuncturing(NamedTuple):
    """Bits to leave out of the best [n, k] code but for later ones, so that a code of distance d is left."""

    n: int
    k: int
    d: int
    bits: tuple[int, ...]


class KnownSubcode(NamedTuple):
    """Words of the best [n, k] code but for later ones, by their messages, that span a code of distance d at least."""

    n: int
    k: int
    d: int
    messages: tuple[int, ...]


class KnownCode(NamedTuple):
    """A linear [n, k, d] code over GF(2), also linear over the field of ``field`` elements, and its symmetry."""

    n: int
    k: int
    d: int
    field: int
    blocks: str
    maps: str
    columns: str

    def generator(self) -> Generator:
        """Return the generator matrix ``[k, n]``; bit i of a vector is row i."""
        maps = [linear_map(self.blocks, text) for text in self.maps.split()]
        vectors = [vector for start in self.columns.split() for vector in orbit(int(start, 16), maps)]
        return (np.array(vectors) >> np.arange(self.k)[:, None] & 1).astype(np.uint8)


def linear_map(blocks: str, text: str) -> list[int]:
    """Return the images of the unit vectors 1, 2, 4, ... of GF(2)^k under a map of the module's form."""
    if not blocks:
        return [int(vector, 16) for vector in text.split(".")]
    moduli = [int(f, 16) for f in blocks.split(".")]
    text, _, targets = text.partition("@")
    factors, _, power = text.partition("^")
    offsets = np.cumsum([0, *(f.bit_length() - 1 for f in moduli)]).tolist()
    order = [int(t) for t in targets.split(".")] if targets else range(len(moduli))
    images = []
    for modulus, factor, target in zip(moduli, factors.split("."), order, strict=True):
        for i in range(modulus.bit_length() - 1):
            product = multiply(int(factor, 16), 1 << (i << int(power or 0)))
            images.append(divide(product, modulus)[1] << offsets[target])
    return images


def orbit(start: int, maps: list[list[int]]) -> list[int]:
    """Return the images of a vector under the group that the maps generate, in cycles of the first map."""
    found: dict[int, None] = {}
    begins = [start]
    for vector in begins:  # it grows
        while vector not in found:
            found[vector] = None
            begins += [_image(other, vector) for other in maps[1:]]
            vector = _image(maps[0], vector) if maps else vector
    return list(found)


def _image(images: list[int], vector: int) -> int:
    return reduce(xor, (image for i, image in enumerate(images) if vector >> i & 1), 0)


@cache
def known_codes() -> tuple[KnownCode, ...]:
    """Return all stored codes, at most one of each length and dimension."""
    return tuple(
        KnownCode(int(n), int(k), int(d), int(field), *texts) for n, k, d, field, *texts in _rows("known_linear.csv")
    )


@cache
def known_puncturings() -> tuple[KnownPuncturing, ...]:
    """Return all stored puncturings; ``benchmarks.code_search.puncturing`` finds them."""
    return tuple(
        KnownPuncturing(int(n), int(k), int(d), tuple(map(int, bits.split())))
        for n, k, d, bits in _rows("known_puncturings.csv")
    )


@cache
def known_subcodes() -> tuple[KnownSubcode, ...]:
    """Return all stored subcodes of large distance; ``benchmarks.code_search.subcodes`` finds them."""
    return tuple(
        KnownSubcode(int(n), int(k), int(d), tuple(int(message, 16) for message in messages.split()))
        for n, k, d, messages in _rows("known_subcodes.csv")
    )


def _rows(name: str) -> list[list[str]]:
    lines = files(__package__).joinpath(name).read_text(encoding="utf-8").splitlines()
    return [line.split(",") for line in lines if line[0].isdigit()]
