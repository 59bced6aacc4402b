"""M. S. Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002.

J. Ji et al., "Super-bit locality-sensitive hashing", NIPS 2012.
"""

from __future__ import annotations

import numpy as np

from lbhash.data.split import EmbeddingSplit
from lbhash.training.coders.base import Coder, LinearMap, mean_of, random_rotation


class LSH(Coder):
    """Sides of random hyperplanes through the mean, orthogonal to each other in groups of ``dim``.

    b = sign(W (x − mean)), the rows of W those of as many random rotations as the bits need.
    """

    needs_labels = False

    def fit(self, rows: EmbeddingSplit) -> LinearMap:
        """Return the map; of the rows only the mean matters."""
        groups = [random_rotation(rows.dim, self.rng) for _ in range(-(-self.bits // rows.dim))]
        return LinearMap(mean_of(rows), np.concatenate(groups)[: self.bits], np.zeros(self.bits))
