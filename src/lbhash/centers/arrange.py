"""Arranging class centers so that frequently confused classes are neighbors.

A model takes a cat for a dog more often than for a ship. If the centers of cats and dogs are neighbors, the code of
such a cat is still nearer to its class than to most others, and a search finds its class right after the wrong class.
The two classes can also share bits, which are then easier to learn.

With a_cd the share of the confusions that are between classes c and d, ā its mean and D̄ the mean distance, the centers
are moved to minimize

    E = mean_cd (D(c, d) − D̄ (1 − κ (a_cd / ā − 1)))²

by simulated annealing (Kirkpatrick, Gelatt, Vecchi, Science 220, 1983). A move exchanges the centers of two classes, as
in quadratic assignment (Koopmans, Beckmann, Econometrica 25, 1957), or flips a bit of a center if the smallest distance
D_inter stays large enough.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from lbhash.centers.distance import Centers, check_centers, mean_distance, minimum_distance, pairwise_distances
from lbhash.utils.arrays import as_array
from lbhash.utils.compiled import compiled

SLACK = 0.125  # the share of the smallest distance that may be given up: one bit of 8, none of 6, four of 32
PULL = 0.125  # κ: two classes that are confused nine times as often as average are pulled towards distance 0
MOST_CLASSES = 4096  # that are arranged; the search takes memory for the square of their number

_STEPS = 20_000  # tried moves per class
_MOST_STEPS = 4_000_000
_HOT, _COLD = 3.0, 0.03  # first and last temperature per class


def arrange_centers(centers: npt.ArrayLike, confusion: npt.ArrayLike, seed: int = 0) -> Centers:
    """Move centers so that frequently confused classes are neighbors, with the constants ``SLACK`` and ``PULL``.

    Args:
        centers: ``[C, bits]`` of -1 and +1.
        confusion: confusion matrix ``[C, C]``, at least 0: how much of class c is taken for class d. Both directions
            are added, and the diagonal is left out.
        seed: of the search.

    Returns:
        ``int8 [C, bits]``; row c is the center of class c. If nothing is confused, the centers stay the same.

    Raises:
        ValueError: the shapes do not fit, a confusion is negative or not finite, or there are more than
            ``MOST_CLASSES`` classes.

    >>> from lbhash.centers.distance import pairwise_distances
    >>> words = [[1, 1, 1, 1], [1, 1, -1, -1], [-1, -1, -1, -1], [-1, -1, 1, 1]]
    >>> confusion = [[0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    >>> [int(pairwise_distances(codes)[0, 2]) for codes in (words, arrange_centers(words, confusion))]
    [4, 2]
    """
    words = check_centers(centers).copy()
    excess = excess_confusion(confusion, len(words))
    if not excess.any():
        return words
    least = math.ceil(round((1 - SLACK) * minimum_distance(words), 6))
    wanted = mean_distance(words) * (1 - PULL * excess)
    steps = min(_STEPS * len(words), _MOST_STEPS)
    _anneal(words, pairwise_distances(words), wanted, least, steps, np.random.default_rng(seed))
    return words


def confused_distance(centers: npt.ArrayLike, confusion: npt.ArrayLike) -> float:
    """Return the mean distance of confused classes minus that of all, in bits; below 0 confused classes are nearer.

    The arguments are those of ``arrange_centers``; each pair of classes counts as often as it is confused.
    """
    words = check_centers(centers)
    excess = excess_confusion(confusion, len(words))
    return float((excess * pairwise_distances(words)).sum()) / max(1, len(words) * (len(words) - 1))


def excess_confusion(confusion: npt.ArrayLike, classes: int) -> npt.NDArray[np.float64]:
    """Return a_cd / ā − 1, ``[C, C]`` with a zero diagonal; all 0 if all pairs are confused equally often, or never."""
    given = as_array(confusion, "confusion").astype(np.float64)
    if given.shape != (classes, classes):
        raise ValueError(f"confusion has shape {given.shape}; with {classes} centers it must be {(classes, classes)}")
    if classes > MOST_CLASSES:
        raise ValueError(f"centers has {classes} rows; at most {MOST_CLASSES} can be arranged")
    if not np.isfinite(given).all() or (given < 0).any():
        raise ValueError("confusion has a negative value or one that is not finite; all must be at least 0")
    both = given + given.T
    np.fill_diagonal(both, 0)
    if not both.any():
        return both
    excess = both * (classes * (classes - 1) / both.sum()) - 1
    np.fill_diagonal(excess, 0)
    return excess


@compiled
def _copy(source, target):  # type: ignore[no-untyped-def]
    """Copy a matrix; ``target[:] = source`` takes six seconds to compile."""
    for row in range(len(source)):
        for column in range(source.shape[1]):
            target[row, column] = source[row, column]


@compiled
def _anneal(words, distances, wanted, least, steps, rng):  # type: ignore[no-untyped-def]
    """Move the words and their distances in place, and leave the words at the best that was seen."""
    classes, bits = words.shape
    energy = best = 0.0
    best_words = words.copy()
    for step in range(steps):
        temperature = classes * _HOT * (_COLD / _HOT) ** (step / steps)
        i = rng.integers(0, classes)
        if rng.random() < 0.5:
            j = rng.integers(0, classes)
            if i == j:
                continue
            change = 0.0
            for other in range(classes):
                if other not in (i, j):
                    farther = distances[j, other] - distances[i, other]  # of i; j comes as much nearer
                    change += 2 * farther * (wanted[j, other] - wanted[i, other])
            if change > 0 and rng.random() >= math.exp(-change / temperature):
                continue
            for bit in range(bits):
                words[i, bit], words[j, bit] = words[j, bit], words[i, bit]
            for other in range(classes):
                if other not in (i, j):
                    distances[i, other], distances[j, other] = distances[j, other], distances[i, other]
                    distances[other, i], distances[other, j] = distances[i, other], distances[j, other]
        else:
            bit = rng.integers(0, bits)
            change = 0.0
            allowed = True
            for other in range(classes):
                if other != i:
                    farther = 1 if words[other, bit] == words[i, bit] else -1
                    if distances[i, other] + farther < least:
                        allowed = False
                        break
                    change += 2 * farther * (distances[i, other] - wanted[i, other]) + 1
            if not allowed or (change > 0 and rng.random() >= math.exp(-change / temperature)):
                continue
            for other in range(classes):
                if other != i:
                    distances[i, other] += 1 if words[other, bit] == words[i, bit] else -1
                    distances[other, i] = distances[i, other]
            words[i, bit] = -words[i, bit]
        energy += change
        if energy < best - 1e-9:
            best = energy
            _copy(words, best_words)
    _copy(best_words, words)
