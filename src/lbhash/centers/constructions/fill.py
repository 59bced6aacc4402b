"""Filling up a set of centers with random words that are far from those present.

Source: Yuan et al., Central Similarity Quantization for Efficient Image and Video Retrieval (CVPR 2020), algorithm 1,
which draws centers at random where the Hadamard matrix has too few rows. Public implementations of it draw the whole
rest anew, a few times, until the smallest distance exceeds bits / 4; here every word is the farthest of several draws.
"""

from __future__ import annotations

import numpy as np

from lbhash.centers.constructions.farthest import farthest_first
from lbhash.centers.constructions.random import random_words, words_of
from lbhash.centers.distance import Centers

_MAX_DRAWS = 32
_BATCH = 64


def fill_up(words: Centers, classes: int, rng: np.random.Generator) -> Centers:
    """Add random words until there are ``classes``.

    Words are added in batches of up to 64, chosen farthest-first among up to 32 times as many draws. The number of
    draws falls as 2^15 / ``classes``, which keeps the time nearly linear in the classes.

    Args:
        words: ``int8 [n, bits]`` of -1 and +1, distinct, n <= ``classes``.
        classes: number of words wanted, at most ``2**bits``.
        rng: source of the draws.

    Returns:
        ``int8 [classes, bits]``, distinct, with ``words`` first.
    """
    bits = words.shape[1]
    if 2 * classes > 2**bits:
        # More than half of all words have minimum distance 1 in whatever way they are chosen.
        present = (words > 0) @ (1 << np.arange(bits))
        missing = np.setdiff1d(np.arange(2**bits), present)
        return np.concatenate([words, words_of(rng.permutation(missing)[: classes - len(words)], bits)])
    draws = min(max(1, 2**15 // classes), _MAX_DRAWS)
    while len(words) < classes:
        batch = min(classes - len(words), _BATCH)
        pool = random_words(batch * draws, bits, rng)
        signs = pool.astype(np.float32)
        nearest = ((bits - (signs @ words.astype(np.float32).T).max(axis=1)) / 2).astype(np.int64)
        among = ((bits - signs @ signs.T) / 2).astype(np.int64)
        words = np.concatenate([words, pool[farthest_first(among.__getitem__, batch, nearest)]])
    return words
