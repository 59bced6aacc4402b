"""What has been published about A(n, d) for words of up to 28 bits.

Bounds that need semidefinite programs or exhaustive search, which are not repeated here, and the sizes of the best
codes known, which tell how close to the truth a bound is.

Sources, as stored copies of the pages tell them:

- A. E. Brouwer, Bounds for binary codes, http://www.win.tue.nl/~aeb/codes/binary-1.html, an updated version of the
  table of Best, Brouwer, MacWilliams, Odlyzko and Sloane, IEEE Trans. Inf. Theory 24 (1978). All entries are its.
- E. Agrell, Bounds for unrestricted binary codes, https://codes.se/bounds/unr.html, compared up to n = 22. No upper
  bound of it is smaller than Brouwer's; three are larger, at (18, 8), (19, 8) and (22, 4). Its lower bounds are older.
- D. Gijswijt, H. Mittelmann and A. Schrijver, Semidefinite code bounds based on quadruple distances, IEEE Trans. Inf.
  Theory 58 (2012): the bounds of its abstract are those of the table, but for A(19, 8), which has been settled since.
"""

from __future__ import annotations

from typing import NamedTuple

from lbhash.centers.bounds.elementary import even_form


class PublishedBounds(NamedTuple):
    """Bounds on A(n, d)."""

    lower: int
    """A code of so many words is known."""
    upper: int
    """No code has more."""


PUBLISHED_BITS = 28
"""The table ends with words of 28 bits."""

_DISTANCES = range(4, 17, 2)

# Rows n = 6 .. 28, columns d = 4, 6 .. 16; "a-b" where the largest size is known to lie from a to b.
_TABLE = """
4 2 1 1 1 1 1
8 2 1 1 1 1 1
16 2 2 1 1 1 1
20 4 2 1 1 1 1
40 6 2 2 1 1 1
72 12 2 2 1 1 1
144 24 4 2 2 1 1
256 32 4 2 2 1 1
512 64 8 2 2 2 1
1024 128 16 4 2 2 1
2048 256 32 4 2 2 2
2816-3276 258-340 36 6 2 2 2
5632-6552 512-673 64 10 4 2 2
10496-13104 1024-1237 128 20 4 2 2
20480-26168 2048-2279 256 40 6 2 2
40960-43688 2560-4096 512 42-47 8 4 2
81920-87333 4096-6941 1024 64-84 12 4 2
163840-172361 8192-13674 2048 80-150 24 4 2
327680-344308 16384-24106 4096 136-268 48 6 4
524288-599184 17920-47538 4096-5421 192-466 52-55 8 4
1048576-1198368 32768-84260 4104-9275 384-836 64-96 14 4
2097152-2396736 65536-157285 8192-17099 512-1585 128-169 28 6
4194304-4792950 131072-291269 16384-32151 1024-2817 178-288 56 8
"""


def _read(table: str) -> dict[tuple[int, int], PublishedBounds]:
    entries = {}
    for length, line in enumerate(table.split("\n")[1:-1], 6):
        for distance, entry in zip(_DISTANCES, line.split(), strict=True):
            lower, _, upper = entry.partition("-")
            entries[length, distance] = PublishedBounds(int(lower), int(upper or lower))
    return entries


_BOUNDS = _read(_TABLE)
# The table ends at d = 16. Four words 000.., 110.., 101.., 011.. are all that Plotkin's bound allows here.
_BOUNDS[27, 18] = _BOUNDS[28, 18] = PublishedBounds(4, 4)


def published(length: int, distance: int) -> PublishedBounds | None:
    """Published bounds on A(n, d); None where the table does not reach, from n = 29 on (28 if d is odd).

    Raises:
        ValueError: ``length`` or ``distance`` is below 1.

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
    return _BOUNDS.get((n, d))


def citation(length: int, distance: int) -> str:
    """How the table says it: "A(9, 4) = 20, Brouwer's table"; only where ``published`` has something."""
    bounds = published(length, distance)
    if bounds is None:
        raise ValueError(f"length is {length} and distance is {distance}; the table does not have them")
    n, d = even_form(length, distance)
    relation = "=" if bounds.lower == bounds.upper else "≤"
    return f"A({n}, {d}) {relation} {bounds.upper:,}, Brouwer's table"
