"""Farthest-first choice: take words one by one, each as far as possible from the nearest of those taken.

Source: Gonzalez, Clustering to minimize the maximum intercluster distance, Theoretical Computer Science 38 (1985),
whose rule reaches at least half of the best possible minimum distance.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


def farthest_first(distances_from: Callable[[int], Numbers], count: int, nearest: Numbers) -> Numbers:
    """Choose candidates, each farthest from the nearest of those present or chosen before.

    Ties go to the largest sum of distances to the chosen, then to the first candidate.

    Args:
        distances_from: gives the distances ``[n]`` of all candidates from candidate i.
        count: how many to choose.
        nearest: ``[n]``, each candidate's distance to the nearest word already present; any constant if none is.

    Returns:
        Positions ``int64 [<= count]`` in the order of choice; fewer than ``count`` only if all remaining candidates
        equal a word that is present or chosen.
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
