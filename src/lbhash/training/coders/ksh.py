"""W. Liu et al., "Supervised hashing with kernels", CVPR 2012, with the embedding itself for the kernel's features."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lbhash.data.split import EmbeddingSplit
from lbhash.training.coders.base import Coder, Floats, LinearMap, principal_axes, projected, signs
from lbhash.training.coders.regression import indicators

FEATURES, MOST_PAIRED = 300, 5_000  # as many as the paper's anchors, and rows whose pairs are fitted
STEPS = 100


class KSH(Coder):
    """Bits found one after another, each fitted to what the inner products of codes still lack of the similarity.

    min ‖h S − Σ_k b_k b_kᵀ‖² (equation 7), s_ij = 1 for rows that share a label, else −1, and b_k = sign(K a_k). Given
    the bits before, R = h S − Σ b bᵀ is what is left, and a maximizes φ(K a)ᵀ R φ(K a), φ(x) = tanh(x / 2) (equation
    14), from the eigenvector of KᵀRK with the largest eigenvalue. K are the first principal components, each scaled
    to variance 1.
    """

    def fit(self, rows: EmbeddingSplit) -> LinearMap:
        """Return the map."""
        from scipy.optimize import minimize  # which no other coder needs, and takes longest to import

        mean, axes = principal_axes(rows, FEATURES)
        rows = rows.subsample(MOST_PAIRED)
        k = projected(rows, mean, axes).astype(float)
        scale = k.std(axis=0).clip(1e-6 * k.std())
        k /= scale
        lacking = Lacking(indicators(rows, self.classes), self.bits)
        weights = np.empty((self.bits, k.shape[1]))
        for bit in range(self.bits):
            start = np.linalg.eigh(k.T @ lacking.times(k))[1][:, -1]
            best = minimize(negated, start, (k, lacking), "L-BFGS-B", jac=True, options={"maxiter": STEPS}).x
            # The relaxed maximum may be a worse code than its start.
            weights[bit] = max(start, best, key=lambda a: lacking.fit_of(signs(k @ a)))
            lacking.add(signs(k @ weights[bit]))
        return LinearMap(mean, weights / scale @ axes.T, np.zeros(self.bits))


class Lacking:
    """R = h S − Σ b bᵀ of rows with labels Y ``[n, C]``, without n² numbers: rows of the same labels are alike in S."""

    def __init__(self, y: npt.NDArray, bits: int) -> None:
        sets, self._set = np.unique(y, axis=0, return_inverse=True)
        self._between = bits * np.where(sets @ sets.T > 0, 1.0, -1.0)
        self._codes = np.empty((len(y), 0))

    def add(self, code: Floats) -> None:
        """Take away b bᵀ of a code b ``[n]``, one bit of every row."""
        self._codes = np.c_[self._codes, code]

    def times(self, v: Floats) -> Floats:
        """Return R V of V ``[n, k]``."""
        sums = np.zeros((len(self._between), v.shape[1]))
        np.add.at(sums, self._set, v)
        return (self._between @ sums)[self._set] - self._codes @ (self._codes.T @ v)

    def fit_of(self, u: Floats) -> float:
        """Return uᵀ R u of u ``[n]``."""
        return float(u @ self.times(u[:, None])[:, 0])


def negated(a: Floats, k: Floats, lacking: Lacking) -> tuple[float, Floats]:
    """Return −φ(K a)ᵀ R φ(K a) and its gradient."""
    u = np.tanh(k @ a / 2)
    product = lacking.times(u[:, None])[:, 0]
    return -float(u @ product), -k.T @ (product * (1 - u * u))
