"""Search for subcodes of large distance: how ``known_subcodes.csv`` was found.

    python -m benchmarks.code_search.subcodes --dimension 10 11

prints lines of ``known_subcodes.csv`` for the codes that construction X gives and that are better than those of the
library's table, where ``best_linear.csv`` has better ones: a [n, k, d] code with a [n, k', d'] subcode and a tail
[a, k - k', e] for the words outside of the subcode is a [n + a, k, min(d + e, d')] code. A subcode grows from a random
word of weight d' or more by words that keep all sums as heavy, until there is none. Codes that construction X gives
have such subcodes, too: the search can be repeated when its lines are stored.

Source: Sloane, Reddy and Chen, New binary codes (1972).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numba
import numpy as np
import numpy.typing as npt

from lbhash.centers.bounds.best_linear import TABLE_BITS, best_known_linear
from lbhash.centers.constructions import linear_table
from lbhash.centers.constructions.known_linear import KnownSubcode
from lbhash.centers.constructions.linear_table import LinearCode

Vectors = npt.NDArray[np.int64]

MOST_TAIL = 32


def main() -> None:
    """Search, print what is found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dimension", type=int, nargs="+", required=True, metavar="K")
    parser.add_argument("--tries", type=int, default=30, help="how many subcodes of a code grow")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for line in search(given.dimension, given.tries, given.seed):
        print(f"{line.n},{line.k},{line.d},{' '.join(f'{message:x}' for message in line.messages)}", flush=True)


def search(dimensions: list[int], tries: int, seed: int) -> Iterator[KnownSubcode]:
    """Yield subcodes whose construction X gives better codes than the table has."""
    table = linear_table._table()
    for k in dimensions:
        for n in range(2 * k, TABLE_BITS):
            code = table[n, k]
            if code.d % 2 or table[n - 1, k].d == code.d or _comes_later(code):
                continue
            weights = None
            for length, d, dimension in _wanted(code):
                if table[length, k].d < d:
                    weights = linear_table._weights(code.generator()) if weights is None else weights
                    messages = grown(weights, d, tries, seed)
                    if 0 < dimension <= len(messages):
                        yield KnownSubcode(n, k, d, tuple(messages[:dimension].tolist()))
                        linear_table._offer(table, length, k, d, "chosen subcode", (), lambda: None)


def _wanted(code: LinearCode) -> Iterator[tuple[int, int, int]]:
    """Lengths, distances, and dimensions that the subcode needs."""
    table = linear_table._table()
    for length in range(code.n + 1, min(code.n + MOST_TAIL, TABLE_BITS) + 1):
        best = best_known_linear(length, code.k) or 0
        for d in range(table[length, code.k].d // 2 * 2 + 2, best + 1, 2):
            tails = (table[length - code.n, more] for more in range(1, min(code.k - 1, length - code.n) + 1))
            more = max((tail.k for tail in tails if tail.d >= d - code.d), default=0)
            if more:
                yield length, d, code.k - more


def _comes_later(code: LinearCode) -> bool:
    """Whether a code is found just now, or derived from a code over a chosen subcode when all of these are there."""
    found = "chosen subcode" in code.name
    return not code.parts if found else code.is_made_by("chosen subcode")


@numba.njit(cache=True)
def grown(weights: Vectors, d: int, tries: int, seed: int) -> Vectors:
    """Messages that span the largest subcode found whose words have weight d at least."""
    np.random.seed(seed)  # noqa: NPY002 - numba's own generator
    heavy = weights >= d
    best = np.zeros(0, np.int64)
    for _ in range(tries):
        candidates = np.flatnonzero(heavy)
        chosen, words = [np.int64(0) for _ in range(0)], np.zeros(1, np.int64)
        while len(candidates):
            message = candidates[np.random.randint(len(candidates))]  # noqa: NPY002
            chosen.append(message)
            words = np.concatenate((words, words ^ message))
            outside = np.ones(len(weights), np.bool_)
            outside[words] = False
            keep = outside[candidates]
            for i in range(len(candidates)):
                for word in words:
                    if not keep[i]:
                        break
                    keep[i] = heavy[candidates[i] ^ word]
            candidates = candidates[keep]
        if len(chosen) > len(best):
            best = np.array(chosen)
    return best


if __name__ == "__main__":
    main()
