"""Fits the branch by which a hash model keeps the embedding's own neighborhoods, for classes that come later."""

from __future__ import annotations

import numpy as np
import torch

from lbhash.data.split import EmbeddingSplit
from lbhash.models.hash_model import HashModel
from lbhash.models.neighborhood import Neighborhood
from lbhash.training.coders.base import MOST_ROWS, projected
from lbhash.training.coders.wccn_itq import equalized_axes


def neighborhood(model: HashModel, rows: EmbeddingSplit, classes: int, unseen: float) -> Neighborhood:
    """Return the branch of a trained model: (1 − u) ℓ / |ℓ| + u V R / |V|.

    V are the principal coordinates of the rows after within-class covariance normalization (the coder ``wccn-itq``),
    R is the rotation that brings them nearest to ℓ, so that both agree on what a bit says where they can
    (P. Schönemann, Psychometrika 1966), and |·| is the root mean square over the rows.

    Args:
        model: with the weights that training has found.
        rows: what it was trained on, with labels from 0 to ``classes`` − 1 or multi-hot.
        classes: C.
        unseen: u, from 0 to 1.
    """
    rows = rows.subsample(MOST_ROWS)
    with torch.inference_mode():
        outputs = np.concatenate([model(torch.from_numpy(chunk)).numpy() for chunk in rows.chunks()])
    mean, axes = equalized_axes(rows, classes, model.bits)
    v = projected(rows, mean, axes)
    p, _, q = np.linalg.svd(v.T @ outputs, full_matrices=False)
    branch = Neighborhood(model.dim, model.bits)
    branch.requires_grad_(False)
    branch.share.fill_((1 - unseen) / (_size(outputs) or 1.0))
    branch.mean.copy_(torch.from_numpy(mean))
    branch.linear.weight.copy_(torch.from_numpy(unseen / _size(v) * (axes @ (p @ q)).T))
    return branch


def _size(values: np.ndarray) -> float:
    return float(np.sqrt(np.square(values).mean()))
