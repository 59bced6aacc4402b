"""Conference-matrix codes: 2 (q + 1) words of q bits, (q - 1) / 2 apart.

For q ≡ 1 (mod 4) a power of a prime, the Jacobsthal matrix Q of GF(q) is symmetric, and Q Qᵀ = q I - J. The
rows of (Q + I + J) / 2 and of (-Q + I + J) / 2, the zero word and the word of ones are a (q, 2 (q + 1), (q - 1) / 2)
code: (9, 20, 4) and (13, 28, 6) are the first.

Source: Sloane and Seidel, A new family of nonlinear codes obtained from conference matrices (1970); MacWilliams and
Sloane (1977), section 2.4.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from lbhash.centers.constructions.juxtaposition import Block
from lbhash.centers.constructions.paley import has_jacobsthal, jacobsthal
from lbhash.centers.distance import Centers


def conference_blocks(classes: int, length: int) -> Iterator[Block]:
    """Yield the codes with at least ``classes`` words of at most ``length`` bits."""
    for q in range(5, length + 1, 4):
        if 2 * (q + 1) >= classes and has_jacobsthal(q):
            yield Block(f"conference code of length {q}", q, (q - 1) // 2, partial(conference_words, q))


def conference_words(q: int) -> Centers:
    """Return the words of the code of length q, ``int8 [2 (q + 1), q]`` of -1 and +1."""
    if q % 4 != 1 or not has_jacobsthal(q):
        raise ValueError(f"q is {q}; it must be 1 modulo 4 and a power of a prime")
    core, unit, ones = jacobsthal(q), np.eye(q, dtype=np.int8), np.ones((1, q), np.int8)
    return np.concatenate([core + unit, unit - core, -ones, ones])
