"""Which class gets which centre: neighbours for those that are mistaken for each other.

Centres that are merely far apart are given to the classes in any order. But the rows that a model gets wrong are not
wrong in any order: a cat is taken for a dog more often than for a ship. Where their centres are neighbours, the code of
such a row is still nearer to its own class than to most, its own class is found next behind the wrong one, and the two
can share bits, each of which is then easier to learn.

With a_cd the share of the confusions that are between classes c and d, the centres are moved to where

    E = Σ_cd a_cd D(c, d) − mean D,

the distance of what is confused less the distance of any two classes, in bits, is least: by simulated annealing
(Kirkpatrick, Gelatt, Vecchi, "Optimization by simulated annealing", Science 220, 1983). A move exchanges the centres of
two classes, which is a quadratic assignment (Koopmans, Beckmann, Econometrica 25, 1957), or flips a bit of one where
the smallest distance D_inter stays at what it must be.
"""

from __future__ import annotations

import math

import numba
import numpy as np
import numpy.typing as npt

from lbhash.centers.distance import Centers, check_centers, minimum_distance, pairwise_distances

MOST_CLASSES = 4096
"""Classes beyond which the square of their number is too much."""

_STEPS = 20_000  # moves a class that are tried
_MOST_STEPS = 4_000_000
_HOT, _COLD = 1.0, 0.01  # temperatures, in bits of a class's mean confusion


def arrange_centers(centers: npt.ArrayLike, confusion: npt.ArrayLike, slack: float = 0.1, seed: int = 0) -> Centers:
    """Move centres so that classes that are mistaken for each other are neighbours.

    Args:
        centers: ``[C, bits]`` of -1 and +1.
        confusion: ``[C, C]``, at least 0: how much of class c is taken for class d. Both directions are added, and the
            diagonal is left out.
        slack: the share of D_inter, the smallest distance between two centres, that may be given up for it, from 0 to
            1; with 0 it stays what it is.
        seed: of the search.

    Returns:
        ``int8 [C, bits]``; row c is the centre of class c. They are those given where nothing is confused.

    Raises:
        ValueError: the shapes do not fit, a confusion is negative or not finite, ``slack`` is out of range, or there
            are more than ``MOST_CLASSES`` classes.

    >>> from lbhash.centers import class_centers, pairwise_distances
    >>> words = [[1, 1, 1, 1], [1, 1, -1, -1], [-1, -1, -1, -1], [-1, -1, 1, 1]]
    >>> pairwise_distances(arrange_centers(words, [[0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]))[0].tolist()
    [0, 4, 2, 2]
    """
    words = check_centers(centers).copy()
    weights = _weights(confusion, len(words))
    if isinstance(slack, bool) or not 0 <= slack <= 1:
        raise ValueError(f"slack is {slack!r}; it must be from 0 to 1")
    if not weights.any():
        return words
    least = math.ceil(round((1 - slack) * minimum_distance(words), 6))
    steps = min(_STEPS * len(words), _MOST_STEPS)
    _anneal(words, pairwise_distances(words), weights, least, steps, np.random.default_rng(seed))
    return words


def confused_distance(centers: npt.ArrayLike, confusion: npt.ArrayLike) -> float:
    """E of the module: by how many bits what is confused is farther apart than any two classes; below 0 it is nearer.

    Args:
        centers: ``[C, bits]`` of -1 and +1.
        confusion: as of ``arrange_centers``.
    """
    words = check_centers(centers)
    return float((_weights(confusion, len(words)) * pairwise_distances(words)).sum()) / len(words)


def _weights(confusion: npt.ArrayLike, classes: int) -> npt.NDArray[np.float64]:
    """C (a_cd − 1/(C (C − 1))), ``[C, C]`` with a zero diagonal; all 0 where nothing is confused."""
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
    weights = classes * (both / both.sum() - 1 / (classes * (classes - 1)))
    np.fill_diagonal(weights, 0)
    return weights


@numba.njit(cache=True)
def _anneal(words, distances, weights, least, steps, rng):  # type: ignore[no-untyped-def]
    """Move the words and their distances in place, and leave them at the best that was seen."""
    classes, bits = words.shape
    energy = best = 0.0
    kept = words.copy()
    for step in range(steps):
        temperature = _HOT * (_COLD / _HOT) ** (step / steps)
        i = rng.integers(0, classes)
        if rng.random() < 0.5:
            j = rng.integers(0, classes)
            if i == j:
                continue
            change = 0.0
            for other in range(classes):
                if other not in (i, j):
                    apart = distances[j, other] - distances[i, other]
                    change += 2 * (weights[i, other] - weights[j, other]) * apart
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
                    step_apart = 1 if words[other, bit] == words[i, bit] else -1
                    if distances[i, other] + step_apart < least:
                        allowed = False
                        break
                    change += 2 * weights[i, other] * step_apart
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
