"""Published bounds on A(n, d) for words of up to 28 bits, and the sizes of the best codes known.

Sources, as stored copies of the pages tell them:

- A. E. Brouwer, Bounds for binary codes, http://www.win.tue.nl/~aeb/codes/binary-1.html, an updated version of the
  table of Best, Brouwer, MacWilliams, Odlyzko and Sloane, IEEE Trans. Inf. Theory 24 (1978). All entries are its.
- E. Agrell, Bounds for unrestricted binary codes, https://codes.se/bounds/unr.html, compared up to n = 22. No upper
  bound of it is smaller than Brouwer's; three are larger, at (18, 8), (19, 8) and (22, 4). Its lower bounds are older.
- D. Gijswijt, H. Mittelmann and A. Schrijver, Semidefinite code bounds based on quadruple distances, IEEE Trans. Inf.
  Theory 58 (2012): the bounds of its abstract are those of the table, but for A(19, 8), which has been settled since.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple

from lbhash.centers.bounds.elementary import even_form


class PublishedBounds(NamedTuple):
    """Bounds on A(n, d): a code of ``lower`` words is known, and no code has more than ``upper``."""

    lower: int
    upper: int


PUBLISHED_BITS = 28  # the last of the table


@cache
def _table() -> dict[tuple[int, int], PublishedBounds]:
    """Return the bounds by n and even d, d >= 4."""
    lines = files(__package__).joinpath("published.csv").read_text(encoding="utf-8").splitlines()
    rows = [map(int, line.split(",")) for line in lines if line[0].isdigit()]
    return {(n, d): PublishedBounds(lower, upper) for n, d, lower, upper in rows}


def published(length: int, distance: int) -> PublishedBounds | None:
    """Return published bounds on A(n, d); None from n = 29 on (28 if d is odd), where the table ends.

    >>> published(17, 6)
    PublishedBounds(lower=258, upper=340)
    """
    n, d = even_form(length, distance)
    if d > n:
        return PublishedBounds(1, 1)
    if d == 2:
        return PublishedBounds(2 ** (n - 1), 2 ** (n - 1))
    # Three words differ pairwise in 2n/3 places on average at most.
    if 3 * d > 2 * n:
        return PublishedBounds(2, 2)
    return _table().get((n, d))


def citation(length: int, distance: int) -> str:
    """Return the table's bound in words, "A(9, 4) = 20, Brouwer's table"; only if ``published`` has one."""
    bounds = published(length, distance)
    if bounds is None:
        raise ValueError(f"length is {length} and distance is {distance}; the table does not have them")
    n, d = even_form(length, distance)
    relation = "=" if bounds.lower == bounds.upper else "≤"
    return f"A({n}, {d}) {relation} {bounds.upper:,}, Brouwer's table"
