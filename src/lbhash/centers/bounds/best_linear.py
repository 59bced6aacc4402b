"""The best linear codes known, as the public tables have them: not a bound, but what there is to reach.

Sources: see ``best_linear.csv``.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from importlib.resources import files

TABLE_BITS, TABLE_DIMENSION = 256, 16  # the last of the table


@cache
def _first_lengths(of_2006: bool) -> dict[int, list[int]]:
    """Return by dimension the smallest length with distance 2, 4, 6, ..."""
    lines = files(__package__).joinpath("best_linear.csv").read_text(encoding="utf-8").splitlines()
    rows = [line.split(",") for line in lines if line[0].isdigit()]
    column = -1 if of_2006 else 0
    return {int(k): [int(n.split("/")[column]) for n in lengths.split()] for k, lengths in rows}


def best_known_linear(n: int, k: int, of_2006: bool = False) -> int | None:
    """Return the largest minimum distance known, now or in May 2006, of a linear [n, k] code; None outside the table.

    >>> best_known_linear(24, 12), best_known_linear(23, 12)
    (8, 7)
    """
    if not 1 <= k <= min(n, TABLE_DIMENSION) or n > TABLE_BITS:
        return None
    lengths = _first_lengths(of_2006)[k]
    return max(1, 2 * bisect_right(lengths, n), 2 * bisect_right(lengths, n + 1) - 1)
