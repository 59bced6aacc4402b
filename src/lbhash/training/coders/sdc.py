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

    L = mean_r |cos(v_i, v_j) − t_r| + λ mean (1 − cos(v, sign v)), over m pairs of a row i in a batch's first half and
    a row j in its second half. The pair with the r-th smallest cosine of embeddings has the target t_r = 2 F⁻¹((2r − 1)
    / 2m) − 1, with the quantile function F⁻¹ of Beta(α, α). v is ℓ after batch normalization, which is merged into the
    last layer after training. The hidden layer is that of all our heads (in the authors' code: as wide as the
    embedding, with GELU).
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
        """Merge the normalization, with mean and variance of all rows, into the last layer."""
        outputs = model(x)
        last = model.head[2]  # type: ignore[index]
        slope = self.norm.weight / (outputs.var(dim=0, correction=0) + self.norm.eps).sqrt()
        last.weight.copy_(last.weight * slope[:, None])
        last.bias.copy_((last.bias - outputs.mean(dim=0)) * slope + self.norm.bias)


@cache
def targets(pairs: int) -> Tensor:
    """Return t_r for r = 1, 2 … ``pairs``."""
    from scipy.stats import beta  # slow to import

    share = (torch.arange(1, pairs + 1) - 0.5) / pairs
    return torch.from_numpy(2 * beta.ppf(share.numpy(), SHAPE, SHAPE) - 1).float()
