"""Generators of binary linear codes that no simple construction gives, found by search.

They reach the lower bounds on linear codes in Brouwer's tables as of May 2006, read in GUAVA, a package of GAP.
``benchmarks.code_search.linear_codes`` tells the method and its sources;

    python -m benchmarks.code_search.linear_codes --length N --dimension K --distance D OPTIONS

with the options of a code in ``known_linear.json`` finds its rows again.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from lbhash.centers.constructions.galois_field import coefficients
from lbhash.centers.constructions.linear import Generator


class KnownCode(NamedTuple):
    """A linear [n, k, d] code, the options of the search that found it, and the hexadecimal rows of its generator."""

    n: int
    k: int
    d: int
    options: str
    rows: str

    def generator(self) -> Generator:
        """Return the generator matrix ``[k, n]``; bit j of a row is column j."""
        return np.array([coefficients(int(row, 16), self.n) for row in self.rows.split()])


@cache
def known_codes() -> tuple[KnownCode, ...]:
    """Return all stored codes, at most one of each length and dimension."""
    stored = json.loads(files(__package__).joinpath("known_linear.json").read_text(encoding="utf-8"))
    return tuple(KnownCode(**code) for code in stored["codes"])
