"""G. Hinton and S. Roweis, "Stochastic neighbor embedding", NIPS 2002, with codes for the embedding."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lbhash.data.split import EmbeddingSplit
from lbhash.models.hash_model import HashModel
from lbhash.training.coders.batches import BatchCoder
from lbhash.training.coders.itq import ITQ
from lbhash.training.neighbors import first_sharpness, neighbor_loss


class SNE(BatchCoder):
    """A linear map, of ITQ at first, whose codes have the neighbors that the embeddings have in a batch.

    The loss is ``lbhash.training.neighbors.neighbor_loss``, whose β is learned. The paper has a temperature for each
    row, and places the rows in a plane.
    """

    hidden, batch, steps, lr = 0, 512, 400, 1e-2

    def begin(self, model: HashModel, rows: EmbeddingSplit) -> list[nn.Parameter]:
        """Set the map of ITQ, scaled so that ℓ and the weights, for which the learning rate is, are about 1."""
        found = ITQ(self.bits, int(self.rng.integers(2**63))).fit(rows)
        weight = torch.from_numpy(found.weight).float()
        model.mean.copy_(torch.from_numpy(found.mean))
        model.scale.fill_(1.0)
        with torch.no_grad():
            model.head.weight.copy_(weight)  # type: ignore[operator]
            model.head.bias.zero_()  # type: ignore[operator]
            size = model(torch.from_numpy(rows.subsample(self.batch).take(slice(None)))).abs().mean()
            unit = weight.square().mean().sqrt()
            model.head.weight.div_(unit)  # type: ignore[operator]
            model.scale.fill_(size / unit)
        self.sharpness = first_sharpness()
        return [*model.parameters(), self.sharpness]

    def loss(self, model: HashModel, x: Tensor) -> Tensor:
        """Return the loss of a batch."""
        return neighbor_loss(model(x), x, self.sharpness)
