"""A straight line through points, with its confidence band and correlations."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Regression:
    """The line of least squares through the finite points ``x``, ``y``; ``left_out`` is the number of the others.

    ``pearson`` is the correlation of x and y, ``spearman`` that of their ranks.
    """

    slope: float
    intercept: float
    pearson: float
    spearman: float
    x: Floats
    y: Floats
    left_out: int

    @classmethod
    def of(cls, x: npt.ArrayLike, y: npt.ArrayLike) -> Regression | None:
        """Return the line; ``None`` with fewer than three finite points, or if x or y is the same in all of them."""
        points = np.array([np.ravel(x), np.ravel(y)], np.float64)
        finite = np.isfinite(points).all(axis=0)
        a, b = points[:, finite]
        if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
            return None
        from scipy.stats import linregress, spearmanr

        line = linregress(a, b)
        rank = float(spearmanr(a, b).statistic)
        left_out = int((~finite).sum())
        return cls(float(line.slope), float(line.intercept), float(line.rvalue), rank, a, b, left_out)

    def line(self, x: Floats) -> Floats:
        """Return the line's y at these x."""
        return self.intercept + self.slope * x

    def band(self, x: Floats) -> Floats:
        """Return half the height of the line's 95 % confidence band at these x.

        t₀.₉₇₅(n − 2) s √(1/n + (x − x̄)² / Σ(x_i − x̄)²) with s² = Σ(y_i − line)² / (n − 2).
        """
        from scipy.stats import t

        n, mean = len(self.x), self.x.mean()
        s = math.sqrt(np.square(self.y - self.line(self.x)).sum() / (n - 2))
        spread = np.square(x - mean) / np.square(self.x - mean).sum()
        return t.ppf(0.975, n - 2) * s * np.sqrt(1 / n + spread)
