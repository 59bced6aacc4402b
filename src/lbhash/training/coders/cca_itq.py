"""Y. Gong and S. Lazebnik, "Iterative quantization: a Procrustean approach to learning binary codes", CVPR 2011."""

from __future__ import annotations

import numpy as np

from lbhash.data.split import EmbeddingSplit
from lbhash.training.coders.base import Coder, LinearMap, projected
from lbhash.training.coders.itq import quantizing_rotation
from lbhash.training.coders.regression import Regression, indicators


class CCAITQ(Coder):
    """ITQ's rotation of the directions that correlate most with the labels.

    The canonical correlations ρ of the rows X and the labels' indicators Y are the singular values of
    (XᵀX + λ)^(−½) XᵀY (YᵀY)^(−½), of centered X and Y, with left singular vectors P. V = X (XᵀX + λ)^(−½) P diag(ρ) is
    rotated as in ITQ. The λ is that of the least leave-one-out error of a regression onto the labels; the paper's is
    1e-4. There are at most C − 1 directions.
    """

    def fit(self, rows: EmbeddingSplit) -> LinearMap:
        """Return the map."""
        y = indicators(rows, self.classes)
        regression = Regression(rows)
        root = np.sqrt(regression.values + regression.best_penalty(y))
        centered = (y - y.mean(axis=0)).astype(np.float64)
        shares, axes = np.linalg.eigh(centered.T @ centered)
        kept = shares > 1e-6 * shares[-1]
        cross = regression.products(y) / root[:, None] @ (axes[:, kept] / np.sqrt(shares[kept]))
        left, correlations, _ = np.linalg.svd(cross, full_matrices=False)
        directions = (regression.vectors / root @ left * correlations)[:, : self.bits] / regression.scale[:, None]
        v = projected(rows, regression.mean, directions)
        rotation = quantizing_rotation(v, self.bits, self.rng)
        return LinearMap(regression.mean, (directions @ rotation).T, np.zeros(self.bits))
