"""Which class gets which center: neighbors for those that are mistaken for each other.

Centers that are merely far apart are given to the classes in any order. But the rows that a model gets wrong are not
wrong in any order: a cat is taken for a dog more often than for a ship. Where their centers are neighbors, the code of
such a row is still nearer to its own class than to most, its own class is found next behind the wrong one, and the two
can share bits, each of which is then easier to learn.

With a_cd the share of the confusions that are between classes c and d, ā its mean and D̄ the mean distance, the centers
are moved to where

    E = mean_cd (D(c, d) − D̄ (1 − κ (a_cd / ā − 1)))²

is least: the more two classes are confused, the nearer their centers; if all are confused alike, all are to be equally
far apart. The search is simulated annealing (Kirkpatrick, Gelatt, Vecchi, "Optimization by simulated annealing",
Science 220, 1983). A move exchanges the centers of two classes, which alone would be a quadratic assignment (Koopmans,
Beckmann, Econometrica 25, 1957), or flips a bit of one where the smallest distance D_inter stays at what it must be.
"""

from __future__ import annotations

import math

import numba
import numpy as np
import numpy.typing as npt

from lbhash.centers.distance import Centers, check_centers, mean_distance, minimum_distance, pairwise_distances

SLACK = 0.125
"""The share of the smallest distance that is given up: of 8 bits one, of 6 none, of 32 four."""

PULL = 0.125
"""κ: two classes that are confused nine times as often as any two are to be at no distance, if there could be such."""

MOST_CLASSES = 4096
"""Classes beyond which the square of their number is too much."""

_STEPS = 20_000  # moves a class that are tried
_MOST_STEPS = 4_000_000
_HOT, _COLD = 3.0, 0.03  # temperatures, of which a class is one unit


def arrange_centers(
    centers: npt.ArrayLike, confusion: npt.ArrayLike, slack: float = SLACK, pull: float = PULL, seed: int = 0
) -> Centers:
    """Move centers so that classes that are mistaken for each other are neighbors.

    Args:
        centers: ``[C, bits]`` of -1 and +1.
        confusion: ``[C, C]``, at least 0: how much of class c is taken for class d. Both directions are added, and the
            diagonal is left out.
        slack: the share of D_inter, the smallest distance between two centers, that may be given up for it, from 0 to
            1; with 0 it stays what it is.
        pull: κ, at least 0.
        seed: of the search.

    Returns:
        ``int8 [C, bits]``; row c is the center of class c. They are those given where nothing is confused.

    Raises:
        ValueError: the shapes do not fit, a confusion is negative or not finite, ``slack`` or ``pull`` is out of range,
            or there are more than ``MOST_CLASSES`` classes.

    >>> from lbhash.centers import class_centers, pairwise_distances
    >>> words = [[1, 1, 1, 1], [1, 1, -1, -1], [-1, -1, -1, -1], [-1, -1, 1, 1]]
    >>> pairwise_distances(arrange_centers(words, [[0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]))[0].tolist()
    [0, 4, 2, 2]
    """
    words = check_centers(centers).copy()
    excess = excess_confusion(confusion, len(words))
    if isinstance(slack, bool) or not 0 <= slack <= 1:
        raise ValueError(f"slack is {slack!r}; it must be from 0 to 1")
    if isinstance(pull, bool) or not 0 <= pull < math.inf:
        raise ValueError(f"pull is {pull!r}; it must be at least 0 and finite")
    if not excess.any():
        return words
    least = math.ceil(round((1 - slack) * minimum_distance(words), 6))
    wanted = mean_distance(words) * (1 - pull * excess)
    steps = min(_STEPS * len(words), _MOST_STEPS)
    _anneal(words, pairwise_distances(words), wanted, least, steps, np.random.default_rng(seed))
    return words


def confused_distance(centers: npt.ArrayLike, confusion: npt.ArrayLike) -> float:
    """The mean distance of what is confused less that of any two classes, in bits: below 0 it is nearer.

    Args:
        centers: ``[C, bits]`` of -1 and +1.
        confusion: as of ``arrange_centers``.
    """
    words = check_centers(centers)
    excess = excess_confusion(confusion, len(words))
    return float((excess * pairwise_distances(words)).sum()) / max(1, len(words) * (len(words) - 1))


def excess_confusion(confusion: npt.ArrayLike, classes: int) -> npt.NDArray[np.float64]:
    """a_cd / ā − 1, ``[C, C]`` with a zero diagonal; all 0 where nothing is confused, or all alike."""
    given = np.asarray(confusion, np.float64)
    if given.shape != (classes, classes):
        raise ValueError(f"confusion has shape {given.shape}; with {classes} centers it must be {(classes, classes)}")
    if classes > MOST_CLASSES:
        raise ValueError(f"centers are {classes}; those that are arranged may be at most {MOST_CLASSES}")
    if not np.isfinite(given).all() or (given < 0).any():
        raise ValueError("confusion has a negative value or one that is not finite; all must be at least 0")
    both = given + given.T
    np.fill_diagonal(both, 0)
    if not both.any():
        return both
    excess = both * (classes * (classes - 1) / both.sum()) - 1
    np.fill_diagonal(excess, 0)
    return excess


@numba.njit(cache=True, nogil=True)
def _anneal(words, distances, wanted, least, steps, rng):  # type: ignore[no-untyped-def]
    """Move the words and their distances in place, and leave them at the best that was seen."""
    classes, bits = words.shape
    energy = best = 0.0
    kept = words.copy()
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
            kept[:] = words
    words[:] = kept
