"""The codes that the searches look for, and their command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from lbhash.centers.bounds.best_linear import TABLE_BITS, best_known_linear
from lbhash.centers.constructions.known_linear import KnownCode
from lbhash.centers.constructions.linear_table import best_linear_code


def print_found(doc: str | None, search: Callable[[int, dict[int, int], float, int], Iterator[KnownCode]]) -> None:
    """Run a search as a command, with a dimension, minutes and a seed, and print the codes."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dimension", type=int, required=True, metavar="K", help="from 4 to 15")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if not 4 <= given.dimension <= 15:
        parser.error(f"dimension is {given.dimension}; it must be from 4 to 15")
    for code in search(given.dimension, wanted_codes(given.dimension), given.minutes, given.seed):
        print(",".join(map(str, code)), flush=True)


def wanted_codes(k: int) -> dict[int, int]:
    """The even distances of the best codes known that the library's codes lack, by the first length that has them."""
    wanted = {}
    for n in range(k + 2, TABLE_BITS + 1):
        d = best_known_linear(n, k) or 0
        if d % 2 == 0 and d > max(best_linear_code(n, k).d, best_known_linear(n - 1, k) or 0):  # type: ignore[union-attr]
            wanted[n] = d
    return wanted
