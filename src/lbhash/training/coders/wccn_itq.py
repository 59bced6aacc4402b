"""A. O. Hatch and A. Stolcke, "Generalized linear kernels for one-versus-all classification: application to speaker
recognition", ICASSP 2006 (within-class covariance normalization), before ITQ (Gong and Lazebnik, CVPR 2011).
"""

from __future__ import annotations

import numpy as np

from lbhash.data.split import EmbeddingSplit
from lbhash.training.coders.base import Coder, Floats, LinearMap, projected
from lbhash.training.coders.itq import quantizing_rotation
from lbhash.training.coders.regression import Regression, indicators

SHRINKAGE = 2.0
"""λ in units of the mean eigenvalue of S. A smaller one improves trained classes, and hurts new ones."""


class WCCNITQ(Coder):
    """ITQ on embeddings scaled so that the training classes vary equally in all directions.

    b = sign(Rᵀ Pᵀ A (x − mean)). S is the scatter of the standardized rows around their class means, A = (S + λ)^(−½),
    P are the first principal axes of the rows times A, and R is ITQ's rotation. Variation inside classes counts less,
    also for classes that are new after training, and nothing pulls codes onto centers. (For rows with several labels, S
    is the scatter around their least-squares fit by the labels.)
    """

    def fit(self, rows: EmbeddingSplit) -> LinearMap:
        """Return the map."""
        mean, axes = equalized_axes(rows, self.classes, self.bits)
        rotation = quantizing_rotation(projected(rows, mean, axes), self.bits, self.rng)
        return LinearMap(mean, (axes @ rotation).T, np.zeros(self.bits))


def equalized_axes(rows: EmbeddingSplit, classes: int, most: int) -> tuple[Floats, Floats]:
    """Return the rows' mean ``[dim]`` and A P ``[dim, m]``, their first principal axes after the normalization."""
    y = indicators(rows, classes)
    regression = Regression(rows)
    centered = (y - y.mean(axis=0)).astype(np.float64)
    cross = regression.products(y)
    within = np.diag(regression.values) - cross @ np.linalg.pinv(centered.T @ centered, 1e-6) @ cross.T
    shares, axes = np.linalg.eigh(within)
    shares = shares.clip(min=0)
    whitening = axes / np.sqrt(shares + SHRINKAGE * shares.mean())
    _, turns = np.linalg.eigh(whitening.T * regression.values @ whitening)
    return regression.mean, regression.vectors @ whitening @ turns[:, ::-1][:, :most] / regression.scale[:, None]
