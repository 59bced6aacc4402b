"""Y. Weiss, A. Torralba, R. Fergus, "Spectral hashing", NIPS 2008."""

from __future__ import annotations

import numpy as np
import torch

from lbhash.data.split import EmbeddingSplit
from lbhash.models.posterior import ClassPosterior
from lbhash.training.coders.base import MOST_TRAINED, Coder, mean_of, principal_axes


class SpectralHashing(Coder):
    """Signs of the slowest waves along the principal axes, as if the rows were spread evenly along each.

    b = sign cos(k π (v − a) / (z − a)), with v the coordinate along an axis, from a to z over the rows, and the waves
    of one axis and k = 1, 2 … half periods with the smallest k / (z − a): the eigenfunctions of section 3. The paper's
    rows are here the directions of the embeddings from their mean. A wave goes on beyond a and z.
    """

    needs_labels = False

    def fit(self, rows: EmbeddingSplit) -> ClassPosterior:
        """Return a branch without classes, whose dithers are triangle waves with the signs of these cosines."""
        branch = ClassPosterior(rows.dim, self.bits, classes=1)
        branch.requires_grad_(False)
        branch.mean.copy_(torch.from_numpy(mean_of(rows)))
        x = rows.subsample(MOST_TRAINED).take(slice(None))
        directions = branch.directed(torch.from_numpy(x)).numpy()
        _, axes = principal_axes(EmbeddingSplit(directions, np.arange(len(directions)), None), self.bits)
        v = directions @ axes
        least, spread = v.min(axis=0), np.ptp(v, axis=0)
        frequency = np.arange(1, self.bits + 1)[:, None] / spread
        wave, axis = np.unravel_index(np.argsort(frequency, axis=None, kind="stable")[: self.bits], frequency.shape)
        turns = frequency[wave, axis] / 2  # a half period is half a turn
        branch.directions.copy_(torch.from_numpy(turns[:, None] * axes.T[axis]))
        branch.phases.copy_(torch.from_numpy(-turns * least[axis]))
        branch.strength.fill_(1)
        branch.linear.weight.zero_()
        branch.linear.bias.zero_()
        return branch
