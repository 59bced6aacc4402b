"""K. W. Ng et al., "Unsupervised hashing with similarity distribution calibration", BMVC 2023."""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lbhash.data.split import EmbeddingSplit
from lbhash.models.hash_model import HashModel
from lbhash.training.coders.batches import BatchCoder, half_cosines

SHAPE, WEIGHT = 5.0, 1.0  # α = β of the distribution, and λ, of the authors' code


class SDC(BatchCoder):
    """A network whose codes rank pairs as the embeddings do, over the whole range of distances.

    L = mean_r |cos(v_i, v_j) − t_r| + λ mean (1 − cos(v, sign v)), over the pairs of row i of a batch's first half with
    row j of its second: of m pairs, the one with the r-th smallest cosine of embeddings gets
    t_r = 2 F⁻¹((2r − 1) / 2m) − 1, with the quantiles F⁻¹ of the distribution Beta(α, α). v is ℓ after batch
    normalization, which becomes part of the last layer in the end. The hidden layer is that of every head (the
    authors': one as wide as the embedding, with GELU).
    """

    network = True

    def begin(self, model: HashModel, rows: EmbeddingSplit) -> list[nn.Parameter]:
        """Return the parameters of the head and of the normalization."""
        self.norm = nn.BatchNorm1d(self.bits)
        return [*model.parameters(), *self.norm.parameters()]

    def loss(self, model: HashModel, x: Tensor) -> Tensor:
        """Return the loss of a batch."""
        v = self.norm(model(x))
        by_rank = half_cosines(v)[half_cosines(x).argsort(stable=True)]
        return (by_rank - targets(len(by_rank))).abs().mean() + WEIGHT * (1 - F.cosine_similarity(v, v.sign())).mean()

    def finish(self, model: HashModel, x: Tensor) -> None:
        """Make the normalization, by mean and variance of all rows, part of the last layer."""
        outputs = model(x)
        last = model.head[2]  # type: ignore[index]
        slope = self.norm.weight / (outputs.var(dim=0, correction=0) + self.norm.eps).sqrt()
        last.weight.copy_(last.weight * slope[:, None])
        last.bias.copy_((last.bias - outputs.mean(dim=0)) * slope + self.norm.bias)


@cache
def targets(pairs: int) -> Tensor:
    """Return t_r of r = 1, 2 … ``pairs``."""
    from scipy.stats import beta  # which takes longer to import than all else here

    share = (torch.arange(1, pairs + 1) - 0.5) / pairs
    return torch.from_numpy(2 * beta.ppf(share.numpy(), SHAPE, SHAPE) - 1).float()
