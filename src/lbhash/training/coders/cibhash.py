"""Z. Qiu et al., "Unsupervised hashing with contrastive information bottleneck", IJCAI 2021."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from lbhash.data.split import EmbeddingSplit
from lbhash.losses.pairs import straight_through
from lbhash.models.hash_model import HashModel
from lbhash.training.coders.batches import BatchCoder

TEMPERATURE, WEIGHT = 0.3, 1e-3  # τ and β of the authors' code
DROPPED = 0.3  # share of an embedding that a view lacks


class CIBHash(BatchCoder):
    """A network that gives two views of a row the same bits, and those of other rows others.

    L = NT-Xent(z, z') + β mean ½ [KL(p ‖ p') + KL(p' ‖ p)], with p = σ(ℓ) of one view and p' of the other. z is +1
    where p ≥ ½, otherwise −1, with the gradient of p. NT-Xent is the cross-entropy of finding the other view among the
    2n − 1 other codes of the batch by cosine / τ. KL sums over bits and has no gradient for its second argument. The
    views of an image are two of its ``views``; those of an embedding are the standardized embedding with random numbers
    dropped.
    """

    network = True
    takes_images = True

    def inputs(self, rows: EmbeddingSplit) -> Tensor:
        """Return the views of images, ``[n, views, dim]``, or the embeddings ``[n, dim]``."""
        return super().inputs(rows) if self.views is None else torch.from_numpy(self.views)

    def loss(self, model: HashModel, x: Tensor) -> Tensor:
        """Return the loss of a batch, drawing new views."""
        both = torch.cat([x, x]) if x.ndim == 2 else two_views(x)
        standardized = (both - model.mean) / model.scale
        logits = model.head(F.dropout(standardized, DROPPED) if x.ndim == 2 else standardized)
        p = logits.sigmoid()
        z = straight_through(torch.where(logits >= 0, 1.0, -1.0), p)
        return contrast(z) + WEIGHT * divergence(logits)


def two_views(x: Tensor) -> Tensor:
    """Draw two different views of each row from ``[n, views, dim]``: ``[2n, dim]``, all second views last."""
    chosen = torch.rand(x.shape[:2]).argsort(dim=1)[:, :2]
    return x[torch.arange(len(x))[:, None], chosen].transpose(0, 1).flatten(0, 1)


def contrast(z: Tensor) -> Tensor:
    """Return NT-Xent of codes ``[2n, bits]``, all second views last."""
    cosines = F.normalize(z) @ F.normalize(z).T / TEMPERATURE
    others = cosines.masked_fill(torch.eye(len(z), dtype=torch.bool), -torch.inf)
    return F.cross_entropy(others, torch.arange(len(z)).roll(len(z) // 2))


def divergence(logits: Tensor) -> Tensor:
    """Return the mean of ½ [KL(p ‖ p') + KL(p' ‖ p)] of p = σ(ℓ), ℓ ``[2n, bits]`` as for ``contrast``."""
    other = logits.roll(len(logits) // 2, dims=0).detach()
    p = logits.sigmoid()
    each = p * (F.logsigmoid(logits) - F.logsigmoid(other))
    each = each + (1 - p) * (F.logsigmoid(-logits) - F.logsigmoid(-other))
    return each.sum(dim=1).mean()
