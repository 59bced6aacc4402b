"""Schrijver's semidefinite bound on A(n, d), where it is below that of the linear program.

``benchmarks/code_search/semidefinite.py`` of commit 719e62a found the numbers and proves them in exact arithmetic.

Source: A. Schrijver, New code upper bounds from the Terwilliger algebra and semidefinite programming, IEEE Trans. Inf.
Theory 51 (2005) 2859-2866.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from lbhash.centers.bounds.delsarte import delsarte
from lbhash.centers.bounds.elementary import even_form


@cache
def semidefinite_table() -> dict[tuple[int, int], int]:
    """Return the bounds that were computed, by n and even d."""
    lines = files(__package__).joinpath("semidefinite.csv").read_text(encoding="utf-8").splitlines()
    rows = [tuple(map(int, line.split(","))) for line in lines if line[0].isdigit()]
    return {(n, d): upper for n, d, upper in rows}


def semidefinite(length: int, distance: int) -> int:
    """Return Schrijver's bound on A(n, d) if it was computed, and Delsarte's otherwise.

    >>> semidefinite(32, 15), delsarte(32, 15)
    (74, 88)
    """
    found = semidefinite_table().get(even_form(length, distance))
    return delsarte(length, distance) if found is None else found
