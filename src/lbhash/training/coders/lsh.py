"""M. S. Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002.

J. Ji et al., "Super-bit locality-sensitive hashing", NIPS 2012.
"""

from __future__ import annotations

import numpy as np

from lbhash.data.split import EmbeddingSplit
from lbhash.training.coders.base import Coder, LinearMap, mean_of, random_rotation


class LSH(Coder):
    """The sides of random hyperplanes through the mean; each group of ``dim`` hyperplanes is orthogonal.

    b = sign(W (x − mean)); the rows of W come from ⌈bits / dim⌉ random rotations.
    """

    needs_labels = False

    def fit(self, rows: EmbeddingSplit) -> LinearMap:
        """Return the map; it uses only the mean of the rows."""
        groups = [random_rotation(rows.dim, self.rng) for _ in range(-(-self.bits // rows.dim))]
        return LinearMap(mean_of(rows), np.concatenate(groups)[: self.bits], np.zeros(self.bits))
