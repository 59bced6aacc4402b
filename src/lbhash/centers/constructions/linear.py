"""Choosing class centers among the words of binary linear codes.

A binary linear [n, k, d] code is the set of the 2^k sums (XOR) of the k rows of a generator matrix ``[k, n]`` of 0 and
1; its minimum distance d is its smallest nonzero weight, and two words have as their distance the weight of their sum.

Source: MacWilliams and Sloane, The Theory of Error-Correcting Codes (1977), chapter 1; shortening and puncturing
section 1.9.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from lbhash.centers.choose import farthest_first
from lbhash.centers.distance import Centers
from lbhash.codes import PackedCodes, hamming_distances, unpack

Generator = npt.NDArray[np.uint8]  # [k, n] of 0 and 1, rows linearly independent unless said otherwise

Weights = npt.NDArray[np.int64]

MAX_GREEDY_DIMENSION = 12  # larger codes are not searched by farthest-first choice; their first words are taken


def dimension_for(classes: int) -> int:
    """Return the smallest dimension k >= 1 whose 2^k words are enough for ``classes``."""
    return max(1, (classes - 1).bit_length())


def span(generator: Generator) -> PackedCodes:
    """Return all words of a code, packed, ``uint8 [2^k, ceil(n / 8)]``; word i is the sum of the rows at i's 1 bits."""
    rows = np.packbits(generator, axis=1)
    words = np.zeros((1, rows.shape[1]), np.uint8)
    for row in rows:
        words = np.concatenate([words, words ^ row])
    return words


def choose_by_weight(weights: Weights, bits: int, count: int) -> tuple[Weights, tuple[int, int]]:
    """Choose ``count`` words of a linear code, or fewer, by the weights of all its words as in ``span``.

    Three choices are tried: farthest-first with negatives last; farthest-first; and the first words that are as far
    from all words before them. The largest minimum distance wins, then the fewest opposite pairs. If a code is too
    large to search, its first words are taken.

    Returns:
        The positions of the words; their minimum distance, and minus the number of opposite pairs.
    """
    index = np.arange(len(weights))
    ones = np.flatnonzero(weights == bits)
    opposite = index ^ ones[0] if len(ones) else np.full(len(index), -1)

    def merit(chosen: Weights) -> tuple[bool, int, int]:
        # The words pair up as {w, w + c} with c of least weight. More than half of them cannot avoid both of a pair.
        if 2 * len(chosen) > len(weights):
            distance = int(weights[1:].min())
        else:  # one word has no pair
            pairs = (weights[chosen[:i] ^ chosen[i]].min() for i in range(1, len(chosen)))
            distance = int(min(pairs, default=weights.max()))
        return len(chosen) == count, distance, -int(np.isin(opposite[chosen], chosen).sum()) // 2

    if len(weights) > 2**MAX_GREEDY_DIMENSION:
        choices = [np.argsort(index > opposite % len(index), kind="stable")[:count]]
    else:
        nearest = np.full(len(weights), weights.max() + 1)
        first = [farthest_first(lambda i: weights[index ^ i], count, nearest, last) for last in (opposite, None)]
        farthest = max(map(merit, first))[1]
        choices = [*first, _first_apart(weights, farthest, bits - 1, count)]
    best = max(choices, key=merit)
    return best, merit(best)[1:]


def _first_apart(weights: Weights, least: int, most: int, count: int) -> Weights:
    """Return the first words of a linear code whose distances are from ``least`` to ``most``, up to ``count``."""
    index = np.arange(len(weights))
    allowed = np.ones(len(weights), bool)
    chosen: list[int] = []
    while len(chosen) < count and allowed.any():
        chosen.append(int(allowed.argmax()))
        distances = weights[index ^ chosen[-1]]
        allowed &= (distances >= least) & (distances <= most)
    return np.array(chosen)


def best_words(generators: Iterable[Generator], classes: int) -> Centers:
    """Return the ``classes`` words with the largest minimum distance that any of the codes gives.

    Among equals, those with the fewest opposites, then the first. The codes are of one length and of dimension at least
    ``dimension_for(classes)``. Rows may be dependent, as puncturing can leave them, as long as one code has enough
    words.
    """
    needed = dimension_for(classes)
    best: PackedCodes | None = None
    best_merit, bits = (0, 0), 0
    for generator in generators:
        # A code that is too large to search is replaced by a subcode that is not.
        rows = generator[: max(needed, MAX_GREEDY_DIMENSION)]
        words, bits = span(rows), generator.shape[1]
        weights = hamming_distances(words, words[:1])[:, 0].astype(np.int64)
        # No choice of more than half of the words is better than the code itself.
        if 2 * classes > len(words) and int(weights[1:].min()) < best_merit[0]:
            continue
        chosen, merit = choose_by_weight(weights, bits, classes)
        if len(chosen) == classes and merit > best_merit:
            best, best_merit = words[chosen], merit
    if best is None:
        raise ValueError(f"classes is {classes}; no code here has that many words")
    return unpack(best, bits)


def row_reduced(generator: Generator) -> Generator:
    """Return the reduced row echelon form over GF(2), without zero rows."""
    matrix = generator.copy()
    rank = 0
    for column in range(matrix.shape[1]):
        pivots = np.flatnonzero(matrix[rank:, column]) + rank
        if len(pivots) > 0:
            matrix[[rank, pivots[0]]] = matrix[[pivots[0], rank]]
            others = np.flatnonzero(matrix[:, column])
            matrix[others[others != rank]] ^= matrix[rank]
            rank += 1
    return matrix[:rank]
