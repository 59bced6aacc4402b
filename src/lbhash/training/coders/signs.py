"""The signs of an embedding's numbers, as in the binary quantization of sentence-transformers and vector databases."""

from __future__ import annotations

import numpy as np

from lbhash.data.split import EmbeddingSplit
from lbhash.training.coders.base import MOST_TRAINED, Coder, Floats, LinearMap, principal_axes, projected


class Signs(Coder):
    """For each number of an embedding, whether it is above its median over the rows.

    With fewer bits than numbers, the first principal components replace the numbers. If a median is the smallest value
    (such as 0 after a ReLU), the bit separates rows above it from rows at it.
    """

    needs_labels = False

    def fit(self, rows: EmbeddingSplit) -> LinearMap:
        """Return the map.

        Raises:
            ValueError: there are more bits than numbers, an embedding is NaN or infinite, or all rows are equal.
        """
        if self.bits > rows.dim:
            raise ValueError(
                f"bits is {self.bits}, and method 'signs' has a bit for each of the embedding's {rows.dim} numbers; "
                f"take at most {rows.dim} bits, or another method"
            )
        mean, axes = principal_axes(rows, self.bits)
        if self.bits == rows.dim:
            axes = np.eye(rows.dim)
        weight = np.zeros((self.bits, rows.dim))
        weight[: axes.shape[1]] = axes.T
        thresholds = _thresholds(projected(rows.subsample(MOST_TRAINED), mean, weight.T))
        return LinearMap(mean, weight, -thresholds)


def _thresholds(values: Floats) -> Floats:
    """Return each column's threshold: halfway from its median to the next larger value, if any, else the median."""
    median = np.median(values, axis=0)
    above = np.where(values > median, values, np.inf).min(axis=0)
    return np.where(np.isinf(above), median, (median + above) / 2)
