"""G. Koutaki et al., "Fast supervised discrete hashing and its analysis", arXiv 1611.10017, for any class centers."""

from __future__ import annotations

import numpy as np

from lbhash.data.split import EmbeddingSplit
from lbhash.training.coders.base import Coder, LinearMap
from lbhash.training.coders.regression import Regression, indicators


class Ridge(Coder):
    """Ridge regression from embeddings onto the class centers.

    b = sign(W x + t̄), W = (XᵀX + λ)⁻¹ Xᵀ(T − t̄). A row's target t is its class center (the mean center for several
    labels), and λ minimizes the leave-one-out error.
    """

    settings = Coder.settings | {"centers"}

    def fit(self, rows: EmbeddingSplit) -> LinearMap:
        """Return the map."""
        assert self.centers is not None
        y = indicators(rows, self.classes)
        targets = y @ self.centers.astype(np.float32) / np.maximum(y.sum(axis=1, keepdims=True), 1)
        regression = Regression(rows)
        return regression.fit(targets, regression.best_penalty(targets))
