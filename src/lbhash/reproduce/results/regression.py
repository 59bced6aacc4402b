"""The line of least squares and the correlations of points."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Regression(NamedTuple):
    """A line through ``points`` points: its ``slope``, the correlation ``pearson``, and that of ranks, ``spearman``."""

    points: int
    slope: float
    pearson: float
    spearman: float

    @classmethod
    def of(cls, x: npt.ArrayLike, y: npt.ArrayLike) -> Regression | None:
        """Return the line of the finite points; ``None`` if there are fewer than three, or x or y is constant."""
        points = np.array([np.ravel(x), np.ravel(y)], np.float64)
        a, b = points[:, np.isfinite(points).all(axis=0)]
        if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
            return None
        from scipy.stats import linregress, spearmanr

        line = linregress(a, b)
        return cls(len(a), float(line.slope), float(line.rvalue), float(spearmanr(a, b).statistic))
