"""Random centers, and random words that fill up a set of centers.

Source: Yuan et al., Central Similarity Quantization for Efficient Image and Video Retrieval (CVPR 2020), algorithm 1,
which uses random centers, with as many -1 as +1, where the Hadamard matrix has too few rows. ``fill_up`` takes the
farthest of several random words instead.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lbhash.centers.choose import farthest_first
from lbhash.centers.distance import Centers
from lbhash.codes import pack

_MAX_CANDIDATES = 32  # per word that is added
_BATCH = 64


def bernoulli_centers(classes: int, bits: int, seed: int = 0) -> Centers:
    """Return distinct uniformly random words, opposites only if there are too few others."""
    rng = np.random.default_rng(seed)
    if 4 * classes > 2**bits:
        # Numbers below half of all are one word of each pair; the complement is the other.
        numbers = rng.permutation(2 ** (bits - 1))
        numbers ^= (2**bits - 1) * rng.integers(0, 2, len(numbers))
        return words_of(np.concatenate([numbers, numbers ^ (2**bits - 1)])[:classes], bits)
    words = np.empty((0, bits), np.int8)
    while len(words) < classes:  # a random word is new, and its negative too, with probability at least 1/2
        words = np.concatenate([words, _random_words(classes - len(words), bits, rng)])
        first = np.unique(pack(words * words[:, :1]), axis=0, return_index=True)[1]
        words = words[np.sort(first)]
    return words


def fill_up(words: Centers, classes: int, rng: np.random.Generator) -> Centers:
    """Add random words that are far from those present until there are ``classes`` distinct words.

    Words are added in batches of up to 64, chosen farthest-first among up to 32 times as many random words. The
    factor falls as 2^15 / ``classes``, which keeps the time nearly linear in the classes.
    """
    bits = words.shape[1]
    if 2 * classes > 2**bits:
        # More than half of all words have minimum distance 1 in whatever way they are chosen.
        present = (words > 0) @ (1 << np.arange(bits))
        missing = np.setdiff1d(np.arange(2**bits), present)
        return np.concatenate([words, words_of(rng.permutation(missing)[: classes - len(words)], bits)])
    factor = min(max(1, 2**15 // classes), _MAX_CANDIDATES)
    while len(words) < classes:
        batch = min(classes - len(words), _BATCH)
        pool = _random_words(batch * factor, bits, rng)
        signs = pool.astype(np.float32)
        nearest = ((bits - (signs @ words.astype(np.float32).T).max(axis=1)) / 2).astype(np.int64)
        among = ((bits - signs @ signs.T) / 2).astype(np.int64)
        words = np.concatenate([words, pool[farthest_first(among.__getitem__, batch, nearest)]])
    return words


def words_of(numbers: npt.NDArray[np.int64], bits: int) -> Centers:
    """Return the words ``int8 [n, bits]`` whose bits are the binary digits of numbers, the lowest digit first."""
    return (2 * (numbers[:, None] >> np.arange(bits) & 1) - 1).astype(np.int8)


def _random_words(count: int, bits: int, rng: np.random.Generator) -> Centers:
    """Return random words, not always distinct."""
    return 2 * rng.integers(0, 2, (count, bits), np.int8) - 1
