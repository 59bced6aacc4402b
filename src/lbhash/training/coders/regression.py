"""Ridge regression of many targets at once, with the penalty that minimizes the leave-one-out error."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lbhash.data.split import EmbeddingSplit
from lbhash.training.coders.base import Floats, LinearMap, finite_standardization
from lbhash.utils.labels import one_hot

PENALTIES = tuple(float(10 ** (k / 2)) for k in range(-4, 7))
"""λ in units of ``dim``, a standardized row's mean squared length."""

_SAMPLE = 20_000  # rows for choosing λ


class Regression:
    """Ridge regressions on one set of rows, using eigenvectors U and eigenvalues s of XᵀX; X is standardized.

    W = (XᵀX + λ)⁻¹ Xᵀ(T − t̄). The prediction for row i by a fit without this row is tᵢ − (tᵢ − t̂ᵢ) / (1 − Hᵢᵢ), with
    Hᵢᵢ = 1/n + Σⱼ (Uᵀxᵢ)ⱼ² / (sⱼ + λ).

    Raises:
        ValueError: an embedding is NaN or infinite.
    """

    def __init__(self, rows: EmbeddingSplit) -> None:
        self.rows = rows
        self.mean, deviation = finite_standardization(rows)
        self.scale = np.where(deviation > 0, deviation, 1.0)
        gram = np.zeros((rows.dim, rows.dim))
        for chunk in rows.chunks():
            x = self._standardized(chunk)
            gram += x.T @ x
        values, self.vectors = np.linalg.eigh(gram)
        self.values = values.clip(min=0)

    def _standardized(self, x: npt.NDArray) -> npt.NDArray[np.float32]:
        return ((x - self.mean) / self.scale).astype(np.float32)

    def products(self, targets: Floats) -> Floats:
        """Return Uᵀ Xᵀ (T − t̄), ``[dim, k]``, for targets ``[n, k]``."""
        total, start = np.zeros((self.rows.dim, targets.shape[1])), 0
        targets = (targets - targets.mean(axis=0)).astype(np.float32)
        for chunk in self.rows.chunks():
            total += self._standardized(chunk).T @ targets[start : start + len(chunk)]
            start += len(chunk)
        return self.vectors.T @ total

    def best_penalty(self, targets: Floats) -> float:
        """Return the λ of ``PENALTIES`` with the smallest squared leave-one-out error for targets ``[n, k]``."""
        products = self.products(targets).astype(np.float32)
        chosen = np.sort(np.random.default_rng(0).permutation(len(self.rows))[:_SAMPLE])
        z = self._standardized(self.rows.take(chosen)) @ self.vectors.astype(np.float32)
        known = (targets[chosen] - targets.mean(axis=0)).astype(np.float32)

        def error(penalty: float) -> float:
            inverse = (1 / (self.values + penalty)).astype(np.float32)
            leverage = np.square(z) @ inverse + 1 / len(self.rows)
            residual = known - z @ (inverse[:, None] * products)
            return float(np.square(residual / np.maximum(1 - leverage, 1e-6)[:, None]).mean())

        return min((penalty * self.rows.dim for penalty in PENALTIES), key=error)

    def fit(self, targets: Floats, penalty: float) -> LinearMap:
        """Return the regression onto targets ``[n, k]`` as a map of unstandardized rows."""
        weights = self.vectors @ (self.products(targets) / (self.values + penalty)[:, None])
        return LinearMap(self.mean, (weights / self.scale[:, None]).T, targets.mean(axis=0))


def indicators(rows: EmbeddingSplit, classes: int) -> npt.NDArray[np.float32]:
    """Return the labels of rows as 0 and 1, ``[n, C]``."""
    assert rows.labels is not None
    return one_hot(rows.labels, classes).astype(np.float32)
