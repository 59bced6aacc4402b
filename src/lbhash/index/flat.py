"""The exact index: every query is compared with every code."""

from __future__ import annotations

from lbhash.index.local import LocalIndex


class FlatIndex(LocalIndex):
    """Exact nearest neighbors by Hamming distance.

    It is nothing but the codes, in memory or in mapped files, and FAISS's scan over them: opening ten million codes
    reads none of them, and a search takes the memory that the codes have.

    Args:
        bits: h, the length of a code.
        model: fingerprint of the model that makes the codes.

    >>> import numpy as np
    >>> index = FlatIndex(bits=8)
    >>> index.add(np.array([[0], [3], [255]], np.uint8))
    >>> distances, ids = index.search(np.array([[1]], np.uint8), k=2)
    >>> distances.tolist(), ids.tolist()
    ([[1, 1]], [[0, 1]])
    """

    kind = "flat"
