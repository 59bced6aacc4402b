"""H. Jégou et al., "Aggregating local descriptors into a compact image representation", CVPR 2010 (the rotation)."""

from __future__ import annotations

import numpy as np

from lbhash.data.split import EmbeddingSplit
from lbhash.training.coders.base import Coder, LinearMap, principal_axes, random_rotation


class PCA(Coder):
    """Signs of the principal components after a random rotation, which makes the bits equally telling.

    b = sign(Rᵀ Pᵀ (x − mean)), with the first m principal axes P ``[dim, m]`` and m rows of a random rotation R
    ``[m, bits]``; m is ``bits``, or the number of directions in which the rows vary.
    """

    needs_labels = False

    def fit(self, rows: EmbeddingSplit) -> LinearMap:
        """Return the map."""
        mean, axes = principal_axes(rows, self.bits)
        rotation = random_rotation(self.bits, self.rng)[: axes.shape[1]]
        return LinearMap(mean, (axes @ rotation).T, np.zeros(self.bits))
