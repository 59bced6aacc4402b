"""scikit-learn's handwritten digits: real, small, and there without a network."""

from __future__ import annotations

import numpy as np

from lbhash.data.table import EmbeddingTable


def digits() -> EmbeddingTable:
    """1,797 images of 8 × 8 gray values from 0 to 16, as ``uint8 [1797, 64]``, with their digits as labels.

    Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI 1998, as scikit-learn ships it.
    """
    from sklearn.datasets import load_digits

    data, target = load_digits(return_X_y=True)
    return EmbeddingTable(data.astype(np.uint8), target.astype(np.int64), "digits", protocol="digits")
