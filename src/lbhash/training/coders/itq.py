"""Y. Gong and S. Lazebnik, "Iterative quantization: a Procrustean approach to learning binary codes", CVPR 2011."""

from __future__ import annotations

import numpy as np

from lbhash.data.split import EmbeddingSplit
from lbhash.training.coders.base import (
    MOST_TRAINED,
    Coder,
    Floats,
    LinearMap,
    principal_axes,
    projected,
    random_rotation,
    signs,
)

ROUNDS = 50


class ITQ(Coder):
    """Signs of the principal components, rotated so that they lie near their signs.

    b = sign(Rᵀ Pᵀ (x − mean)), with the first principal axes P ``[dim, m]``, m ≤ bits, and R ``[m, bits]`` that makes
    ‖B − V R‖² small for V = (X − mean) P.
    """

    needs_labels = False

    def fit(self, rows: EmbeddingSplit) -> LinearMap:
        """Return the map."""
        mean, axes = principal_axes(rows, self.bits)
        rotation = quantizing_rotation(projected(rows, mean, axes), self.bits, self.rng)
        return LinearMap(mean, (axes @ rotation).T, np.zeros(self.bits))


def quantizing_rotation(v: Floats, bits: int, rng: np.random.Generator, rounds: int = ROUNDS) -> Floats:
    """Return R ``[m, bits]`` with R Rᵀ = 1 that rotates rows V ``[n, m]``, m ≤ bits, close to their signs.

    Minimizes ‖B − V R‖² over B = sign(V R) and R in turn, from a random R. Given B, R = P Qᵀ from the SVD Vᵀ B = P Σ
    Qᵀ. With more bits than columns, this rotates V padded with columns of zeros.
    """
    if len(v) > MOST_TRAINED:
        v = v[rng.permutation(len(v))[:MOST_TRAINED]]
    v = v.astype(np.float32)
    r = random_rotation(bits, rng)[: v.shape[1]].astype(np.float32)
    for _ in range(rounds):
        p, _, q = np.linalg.svd(v.T @ signs(v @ r), full_matrices=False)
        r = p @ q
    return r
