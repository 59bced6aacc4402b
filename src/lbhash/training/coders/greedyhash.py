"""S. Su et al., "Greedy Hash", NeurIPS 2018, without labels."""

from __future__ import annotations

import torch
from torch import Tensor

from lbhash.losses.pairs import straight_through
from lbhash.models.hash_model import HashModel
from lbhash.training.coders.batches import BatchCoder, half_cosines

ALPHA = 0.1  # α, as with labels


class UnsupervisedGreedyHash(BatchCoder):
    """A linear map whose codes have the cosines of the embeddings; the gradient of a sign is the identity.

    L = mean of (cos(b_i, b_j) − cos(x_i, x_j))² + α mean | |ℓ| − 1 |³, b = sgn(ℓ) with ∂b/∂ℓ = 1, the first over the
    pairs of row i of a batch's first half with row j of its second.
    """

    hidden = 0

    def loss(self, model: HashModel, x: Tensor) -> Tensor:
        """Return the loss of a batch."""
        logits = model(x)
        b = straight_through(torch.where(logits.detach() >= 0, 1.0, -1.0), logits)
        kept = (half_cosines(b) - half_cosines(x)).square().mean()
        return kept + ALPHA * (logits.abs() - 1).abs().pow(3).mean()
