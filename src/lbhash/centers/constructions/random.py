"""Random centers: distinct words, each bit an independent fair coin.

In expectation two words of h bits differ in h / 2 bits, with standard deviation sqrt(h) / 2; the minimum over many
pairs is well below. CSQ falls back on random centers, there with as many -1 as +1, where a Hadamard matrix does not
serve.

Source: Yuan et al., Central Similarity Quantization for Efficient Image and Video Retrieval (CVPR 2020), algorithm 1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lbhash.centers.distance import Centers
from lbhash.codes import pack


def bernoulli_centers(classes: int, bits: int, seed: int = 0) -> Centers:
    """Distinct uniformly random words.

    Args:
        classes: number of words C, at most ``2**bits``.
        bits: length h of a word.
        seed: of the random numbers.

    Returns:
        ``int8 [C, bits]`` of -1 and +1.
    """
    return distinct_words(classes, bits, np.random.default_rng(seed))


def distinct_words(count: int, bits: int, rng: np.random.Generator) -> Centers:
    """Draw ``count <= 2**bits`` distinct words, all sets equally likely: ``int8 [count, bits]`` of -1 and +1."""
    if 2 * count > 2**bits:
        return words_of(rng.permutation(2**bits)[:count], bits)
    words = np.empty((0, bits), np.int8)
    while len(words) < count:  # a draw is new with probability at least 1/2
        words = np.concatenate([words, random_words(count - len(words), bits, rng)])
        first = np.unique(pack(words), axis=0, return_index=True)[1]
        words = words[np.sort(first)]
    return words


def random_words(count: int, bits: int, rng: np.random.Generator) -> Centers:
    """Draw words, not always distinct: ``int8 [count, bits]`` of -1 and +1."""
    return 2 * rng.integers(0, 2, (count, bits), np.int8) - 1


def words_of(numbers: npt.NDArray[np.int64], bits: int) -> Centers:
    """The words whose bits are the binary digits of numbers, lowest first: ``int8 [n, bits]`` of -1 and +1."""
    return (2 * (numbers[:, None] >> np.arange(bits) & 1) - 1).astype(np.int8)
