"""Simplex codes without an anticode, many of which meet the Griesmer bound.

The simplex code [2^k - 1, k, 2^(k-1)] has as columns all nonzero vectors of k bits. Without those of disjoint subspaces
of dimensions u_1 > u_2 > ..., which an anticode is made of, it is [2^k - 1 - Σ(2^u - 1), k, 2^(k-1) - Σ 2^(u-1)].

Source: Solomon and Stiffler, Algebraically punctured cyclic codes (1965); MacWilliams and Sloane (1977), section 17.6.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

import numpy as np

from lbhash.centers.constructions.linear import Generator


def subspace_dimensions(k: int) -> Iterator[tuple[int, ...]]:
    """Yield falling dimensions of up to three disjoint subspaces, spanned by different unit vectors."""
    yield ()
    for u in range(1, k):
        yield (u,)
        for v in range(1, min(u, k - u + 1)):
            yield (u, v)
            for w in range(1, min(v, k - u - v + 1)):
                yield (u, v, w)


def anticode_parameters(k: int, removed: tuple[int, ...]) -> tuple[int, int]:
    """Return the length and the minimum distance of the code.

    >>> anticode_parameters(4, (2,))
    (12, 6)
    """
    return 2**k - 1 - sum(2**u - 1 for u in removed), 2 ** (k - 1) - sum(2 ** (u - 1) for u in removed)


def anticode_generator(k: int, removed: tuple[int, ...]) -> Generator:
    """Return the generator matrix ``[k, length]``; a column is the binary digits of its number."""
    columns = np.arange(1, 2**k)
    for u, end in zip(removed, accumulate(removed), strict=True):
        columns = columns[columns & ~((2**u - 1) << end - u) != 0]
    return (columns >> np.arange(k)[:, None] & 1).astype(np.uint8)
