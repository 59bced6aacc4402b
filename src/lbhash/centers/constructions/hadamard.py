"""Hadamard centers: rows of a Sylvester matrix and of its negative.

H is the Hadamard matrix of order n = 2^m: n rows of -1 and +1, every two at distance n / 2. With the rows of -H they
are the first-order Reed-Muller code, [n, m + 1, n / 2]: 2n words at least n / 2 apart, which is as far apart as so many
can be (the Plotkin bound).

Source: Yuan et al., Central Similarity Quantization for Efficient Image and Video Retrieval (CVPR 2020), algorithm
1; Sylvester's doubling in MacWilliams and Sloane (1977), section 2.3.
"""

from __future__ import annotations

import numpy as np

from lbhash.centers.constructions.galois_field import galois_field
from lbhash.centers.constructions.linear import choose_by_weight
from lbhash.centers.constructions.random import fill_up
from lbhash.centers.distance import Centers


def hadamard_centers(classes: int, bits: int, seed: int = 0) -> Centers:
    """Return rows of H, and of -H for more classes than H has rows; n is the smallest power of two >= ``bits``.

    For ``bits`` = n they are CSQ's: the rows in their order, then their negatives. Two classes are an exception: they
    get a row and its negative, twice as far apart. For other lengths, where CSQ takes random words, n - ``bits``
    columns are dropped, which costs at most as much distance, and the rows are chosen farthest-first. More than 2n
    classes are filled up with random words far from those present; only these depend on the seed.

    The first column of H is constant, so CSQ's words waste a bit. Any two rows are n / 2 apart with either sign, so
    other signs would balance the bits at the same distance. Here they stay CSQ's, to compare with; "levenshtein" and
    "best" choose them.
    """
    from scipy.linalg import hadamard

    rows = hadamard(2 ** (bits - 1).bit_length(), dtype=np.int8)[:, _kept_columns(bits)]
    words = np.concatenate([rows, -rows])
    # Rows multiply as their numbers XOR, so H and -H are a linear code in the order of linear.span.
    weights = (words < 0).sum(axis=1, dtype=np.int64)
    chosen, _ = choose_by_weight(weights, bits, min(classes, len(words)))
    return fill_up(words[chosen], classes, np.random.default_rng(seed))


def _kept_columns(bits: int) -> list[int]:
    """Return the columns of H that a shorter word keeps: 0 and then alpha^0, alpha^1, ... in GF(2^m), sorted.

    In that order rows are maximum-length sequences, whose every stretch looks random; the first ``bits`` columns would
    leave some rows at distance ``bits - n/2``, down to 1. The first m powers are the columns 1, 2, 4, ..., which
    together with column 0 tell all rows of H and -H apart, so centers stay distinct.
    """
    if bits <= 2:
        return list(range(bits))
    powers = galois_field((bits - 1).bit_length()).exp
    return sorted([0, *powers[: bits - 1].tolist()])
