"""F. Shen et al., "Supervised discrete hashing", CVPR 2015, with the embedding itself for the kernel's features."""

from __future__ import annotations

import numpy as np

from lbhash.data.split import EmbeddingSplit
from lbhash.training.coders.base import Coder, Floats, LinearMap, signs
from lbhash.training.coders.regression import Regression, indicators

PENALTY, FIT_WEIGHT = 1.0, 1e-5  # λ and ν of the paper
ROUNDS, SWEEPS = 5, 10


class SDH(Coder):
    """Codes from which the labels can be told linearly, found a bit at a time, and a regression onto them.

    min ‖Y − B W‖² + λ‖W‖² + ν‖B − F(X)‖² over B of ±1, W and the ridge regression F, in turn. Given the others,
    W = (BᵀB + λ)⁻¹ BᵀY, and bit k of all rows is sign(q − B'W'w), with Q = Y Wᵀ + ν F(X), w the row of W for that bit,
    B' and W' what is left without it. The code is the sign of F(x).
    """

    def fit(self, rows: EmbeddingSplit) -> LinearMap:
        """Return the map."""
        y = indicators(rows, self.classes)
        regression = Regression(rows)
        penalty = regression.best_penalty(y)
        b = signs(self.rng.standard_normal((len(y), self.bits)))
        fitted = regression.fit(b, penalty)
        for _ in range(ROUNDS):
            w = np.linalg.solve(b.T @ b + PENALTY * np.eye(self.bits), b.T @ y).astype(np.float32)
            outputs = np.concatenate([fitted.outputs(chunk) for chunk in rows.chunks()])
            discrete_descent(b, w, y @ w.T + FIT_WEIGHT * outputs)
            fitted = regression.fit(b, penalty)
        return fitted


def discrete_descent(b: Floats, w: Floats, q: Floats, sweeps: int = SWEEPS) -> None:
    """Minimize ‖B W‖² − 2 tr(BᵀQ) over B ``[n, bits]`` of ±1, in place, a bit of all rows at a time."""
    gram = w @ w.T
    for _ in range(sweeps):
        before = b.copy()
        for bit in range(b.shape[1]):
            others = b @ gram[:, bit] - b[:, bit] * gram[bit, bit]
            b[:, bit] = signs(q[:, bit] - others)
        if (b == before).all():
            return
