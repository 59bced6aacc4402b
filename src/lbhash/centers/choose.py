"""Choosing class centers among more words than are needed: far apart, or with every bit +1 in half of them.

``farthest_first`` is the rule of Gonzalez, Clustering to minimize the maximum intercluster distance, Theoretical
Computer Science 38 (1985), which reaches at least half of the best possible minimum distance.

A bit that is +1 in p of C centers differs in p (C - p) of their pairs, so the balance of the bits and the mean distance
are one aim. With S the sum of the chosen ±1 words, both are best where |S|² is least. A code that holds the negative of
each of its words reaches that least value by pairs {w, -w}; of others, words are exchanged as long as |S|² falls.
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


def choose_balanced(words: Centers, count: int) -> Centers:
    """Choose ``count`` of the distinct words ``[n, bits]`` so that their bits are balanced, tried in a random order."""
    if count == len(words):
        return words.copy()
    rng = np.random.default_rng(0)
    opposite = _opposites(words)
    if opposite is None:
        return words[_exchange(words, rng.permutation(len(words)), count)]
    # One word of each pair, in random order, followed by its negative; an odd count leaves one half of a pair over.
    first = rng.permutation(np.flatnonzero(np.arange(len(words)) < opposite))
    return words[np.stack([first, opposite[first]], axis=1).ravel()[:count]]


def choose_one_sided(words: Centers, count: int) -> Centers:
    """Choose balanced words of which no two are opposite, if there are enough: one of every pair {w, -w}.

    The best of several random choices is the one with the least |S|², and among equals, as all are for orthogonal
    words, the one whose worst bit is best balanced.
    """
    opposite = _opposites(words)
    if opposite is None or 2 * count > len(words):
        return choose_balanced(words, count)
    rng = np.random.default_rng(0)
    one = words[rng.permutation(np.flatnonzero(np.arange(len(words)) < opposite))[:count]]
    signs = rng.choice(np.array([-1, 1], np.int8), (_SAMPLES, count))
    totals = signs.astype(np.float32) @ one.astype(np.float32)
    least = np.lexsort([np.abs(totals).max(axis=1), np.square(totals).sum(axis=1)])[0]
    return one * signs[least][:, None]


def _opposites(words: Centers) -> Numbers | None:
    """Return the position of the negative of every word, or None if a word has none."""
    kind = np.dtype((np.void, -(-words.shape[1] // 8)))
    mine, negatives = (np.ascontiguousarray(pack(side)).view(kind)[:, 0] for side in (words, -words))
    order, other = np.argsort(mine), np.argsort(negatives)
    if (mine[order] != negatives[other]).any():
        return None
    opposite = np.empty(len(words), np.int64)
    opposite[other] = order
    return opposite


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


def farthest_first(distances_from: Callable[[int], Numbers], count: int, nearest: Numbers) -> Numbers:
    """Choose up to ``count`` different candidates, each farthest from the nearest of those present or chosen before.

    Ties go to the largest sum of distances to the chosen, then to the first candidate. ``distances_from(i)`` gives the
    distances ``[n]`` of all candidates from candidate i, ``nearest [n]`` those to the nearest word already present (any
    constant if none is).
    """
    nearest = nearest.astype(np.int64)
    total = np.zeros_like(nearest)
    chosen: list[int] = []
    while len(chosen) < count:
        candidate = int(np.argmax((nearest << 32) + total))
        if nearest[candidate] <= 0:
            break
        chosen.append(candidate)
        distances = distances_from(candidate)
        np.minimum(nearest, distances, out=nearest)
        total += distances
    return np.asarray(chosen, np.int64)
