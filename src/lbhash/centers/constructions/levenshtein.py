"""Levenshtein's codes: Hadamard codes side by side, which meet the Plotkin bound; and conference-matrix codes.

A Hadamard matrix of order m, normalized, gives three codes (length, words, distance):

    A_m   (m - 1, m, m / 2)      its rows without the first column,
    A'_m  (m - 2, m / 2, m / 2)  the rows of A_m that begin with +1, without that bit,
    C_m   (m, 2m, m / 2)         the rows and their negatives.

Side by side they have as many words as the Plotkin bound allows, 2 floor(d / (2d - n)) for even d < n < 2d, wherever
the Hadamard matrices exist; ``blocks.best_plan`` finds the numbers of copies.

For q ≡ 1 (mod 4) a power of a prime, the Jacobsthal matrix Q of GF(q) is symmetric. The rows of (Q + I + J) / 2 and of
(-Q + I + J) / 2, the zero word and the word of ones are a (q, 2 (q + 1), (q - 1) / 2) code.

Source: Levenshtein, The application of Hadamard matrices to a problem in coding (1961); Sloane and Seidel, A new family
of nonlinear codes obtained from conference matrices (1970); MacWilliams and Sloane (1977), section 2.3, theorem 8, and
section 2.4.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from lbhash.centers.constructions.blocks import Block
from lbhash.centers.constructions.hadamard_matrix import (
    hadamard_matrix,
    has_hadamard_matrix,
    has_jacobsthal,
    jacobsthal,
)
from lbhash.centers.distance import Centers


def levenshtein_blocks(classes: int, length: int) -> Iterator[Block]:
    """Yield the codes with at least ``classes`` words of at most ``length`` bits."""
    if classes <= 2:
        yield Block("repeated bit", 1, 1, partial(hadamard_code, "A", 2))
        return
    for order in (2, *range(4, length + 3, 4)):
        for kind, n, words in (("A", order - 1, order), ("A'", order - 2, order // 2), ("C", order, 2 * order)):
            if words >= classes and 1 <= n <= length and has_hadamard_matrix(order):
                yield Block(f"Hadamard {kind}_{order}", n, order // 2, partial(hadamard_code, kind, order))
    for q in range(5, length + 1, 4):
        if 2 * (q + 1) >= classes and has_jacobsthal(q):
            yield Block(f"conference code of length {q}", q, (q - 1) // 2, partial(conference_code, q))


def hadamard_code(kind: str, order: int) -> Centers:
    """Return the words of the code "A", "A'" or "C" of an order, ``int8 [words, length]`` of -1 and +1."""
    matrix = hadamard_matrix(order)
    if kind == "C":
        return np.concatenate([matrix, -matrix])
    return matrix[:, 1:] if kind == "A" else matrix[matrix[:, 1] > 0, 2:]


def conference_code(q: int) -> Centers:
    """Return the words of the code of length q, ``int8 [2 (q + 1), q]`` of -1 and +1."""
    core, unit, ones = jacobsthal(q), np.eye(q, dtype=np.int8), np.ones((1, q), np.int8)
    return np.concatenate([core + unit, unit - core, -ones, ones])
