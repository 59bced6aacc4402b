"""The rotation of iterative quantization."""

from __future__ import annotations

import numpy as np

from lbhash.training.coders.base import MOST_TRAINED, Floats, random_rotation, signs

ROUNDS = 50


def quantizing_rotation(v: Floats, bits: int, rng: np.random.Generator, rounds: int = ROUNDS) -> Floats:
    """Return the R ``[m, bits]`` with R Rᵀ = 1 that brings rows V ``[n, m]``, m ≤ bits, near their signs.

    min ‖B − V R‖² over B = sign(V R) and R in turn, from a random R; given B, R = P Qᵀ of the SVD Vᵀ B = P Σ Qᵀ. If
    there are more bits than columns, this is the rotation of V with columns of zeros beside it.
    """
    if len(v) > MOST_TRAINED:
        v = v[rng.permutation(len(v))[:MOST_TRAINED]]
    v = v.astype(np.float32)
    r = random_rotation(bits, rng)[: v.shape[1]].astype(np.float32)
    for _ in range(rounds):
        p, _, q = np.linalg.svd(v.T @ signs(v @ r), full_matrices=False)
        r = p @ q
    return r
