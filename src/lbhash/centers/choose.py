"""Choosing class centers among more words than are needed: far apart, without opposites, with balanced bits.

``farthest_first`` is the rule of Gonzalez, Clustering to minimize the maximum intercluster distance, Theoretical
Computer Science 38 (1985), which reaches at least half of the best possible minimum distance.

A code that is taken for the opposite class is as far from its own center as can be. So the negative of a chosen word is
chosen only when all other words are in use.

A bit that is +1 in p of C centers differs in p (C - p) of their pairs, so the balance of the bits and the mean distance
are one aim. With S the sum of the chosen ±1 words, both are best where |S|² is least.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from lbhash.centers.distance import Centers
from lbhash.codes import pack

Numbers = npt.NDArray[np.int64]

_POOL = 4096
_EXCHANGES = 2000
_SAMPLES = 1000


def choose(words: Centers, count: int) -> Centers:
    """Choose ``count`` of the distinct words ``[n, bits]``, with the fewest opposites, then the most balanced bits.

    If every word has its negative, its sign is free: the distances of a code with w and -w are those of the code. Then
    the best of several random choices of signs is taken: the one with the least |S|², then the one whose worst bit is
    best balanced (for orthogonal words, all |S|² are equal). Otherwise words are exchanged while |S|² falls.
    """
    if count == len(words):
        return words.copy()
    rng = np.random.default_rng(0)
    opposite = _opposites(words)
    if (opposite < 0).any():
        order = rng.permutation(len(words))
        place = np.argsort(order)
        second = (opposite >= 0) & (place[opposite] < place)  # the other half of a pair
        alone = order[~second[order]]
        if count < len(alone):
            return words[_exchange(words, alone, count)]
        return words[np.concatenate([alone, order[second[order]]])[:count]]
    first = rng.permutation(np.flatnonzero(np.arange(len(words)) < opposite))
    pairs = max(0, count - len(first))
    one, both = words[first[pairs:count]], words[first[:pairs]]
    signs = rng.choice(np.array([-1, 1], np.int8), (_SAMPLES, len(one)))
    totals = signs.astype(np.float32) @ one.astype(np.float32)
    least = np.lexsort([np.abs(totals).max(axis=1), np.square(totals).sum(axis=1)])[0]
    return np.concatenate([one * signs[least][:, None], both, -both])


def opposite_pairs(words: Centers) -> int:
    """Return how many pairs of the distinct words ``[n, bits]`` are opposite, {w, -w}."""
    return int((_opposites(words) >= 0).sum()) // 2


def _opposites(words: Centers) -> Numbers:
    """Return the position of the negative of every word, or -1 if there is none."""
    kind = np.dtype((np.void, -(-words.shape[1] // 8)))
    mine, negatives = (np.ascontiguousarray(pack(side)).view(kind)[:, 0] for side in (words, -words))
    order = np.argsort(mine)
    found = order[np.searchsorted(mine[order], negatives).clip(max=len(words) - 1)]
    return np.where(mine[found] == negatives, found, -1)


def _exchange(words: Centers, order: Numbers, count: int) -> Numbers:
    """Exchange chosen words for others while |S|² falls, steepest first among up to ``_POOL`` others."""
    chosen, others = order[:count].copy(), order[count : count + _POOL].copy()
    values = words[np.concatenate([chosen, others])].astype(np.float32)
    inside, outside = values[:count], values[count:]
    total = inside.sum(axis=0)
    for _ in range(_EXCHANGES):
        # |S - a + b|² - |S|² = 2 <S, b - a> + |b - a|², and |b - a|² = 2 bits - 2 <a, b>.
        a = int((inside @ total).argmax())
        without = total - inside[a]
        b = int((outside @ without).argmin())
        changed = without + outside[b]
        if changed @ changed >= total @ total:
            break
        total = changed
        chosen[a], others[b] = others[b], chosen[a]
        inside[[a]], outside[[b]] = outside[[b]], inside[[a]].copy()
    return chosen


def farthest_first(
    distances_from: Callable[[int], Numbers], count: int, nearest: Numbers, opposite: Numbers | None = None
) -> Numbers:
    """Choose up to ``count`` different candidates, each farthest from the nearest of those present or chosen before.

    Ties go to the largest sum of distances to the chosen, then to the first candidate. ``distances_from(i)`` gives the
    distances ``[n]`` of all candidates from candidate i, ``nearest [n]`` those to the nearest word already present (any
    constant if none is). With ``opposite [n]``, the position of each negative or -1, the negative of a chosen one is
    chosen only if no other is left.
    """
    nearest = nearest.astype(np.int64)
    total = np.zeros_like(nearest)
    last = np.zeros(len(nearest), bool)
    chosen: list[int] = []
    while len(chosen) < count:
        candidate = int(np.argmax(((nearest > 0) & ~last) * 2**48 + (nearest << 32) + total))
        if nearest[candidate] <= 0:
            break
        chosen.append(candidate)
        distances = distances_from(candidate)
        np.minimum(nearest, distances, out=nearest)
        total += distances
        if opposite is not None and opposite[candidate] >= 0:
            last[opposite[candidate]] = True
    return np.asarray(chosen, np.int64)
