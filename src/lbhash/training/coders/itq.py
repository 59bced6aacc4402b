"""Y. Gong and S. Lazebnik, "Iterative quantization: a Procrustean approach to learning binary codes", CVPR 2011."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lbhash.data.split import EmbeddingSplit
from lbhash.training.coders.base import Coder, LinearMap, principal_axes, projected
from lbhash.training.coders.rotation import quantizing_rotation


class ITQ(Coder):
    """Signs of the principal components, rotated so that they lie near their signs.

    b = sign(Rᵀ Pᵀ (x − mean)), with the first principal axes P ``[dim, m]``, m ≤ bits, and R ``[m, bits]`` that makes
    ‖B − V R‖² small for V = (X − mean) P.
    """

    needs_labels = False

    def fit(self, rows: EmbeddingSplit, classes: int = 0, centers: npt.NDArray[np.int8] | None = None) -> LinearMap:
        """Return the map."""
        mean, axes = principal_axes(rows, self.bits)
        rotation = quantizing_rotation(projected(rows, mean, axes), self.bits, self.rng)
        return LinearMap(mean, (axes @ rotation).T, np.zeros(self.bits))
