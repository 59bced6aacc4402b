"""G. Hinton and S. Roweis, "Stochastic neighbor embedding", NIPS 2002, with codes as the embedding."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lbhash.data.split import EmbeddingSplit
from lbhash.evaluation.neighbors import nearest_by_cosine
from lbhash.losses.pairs import other_rows, straight_through
from lbhash.models.hash_model import HashModel
from lbhash.training.coders.batches import BatchCoder
from lbhash.training.coders.itq import ITQ

WIDTH = 0.2
"""τ of ``neighbor_loss`` in standard deviations of a batch's cosines."""


GROUP = 16
"""Size of a group of near rows in a batch: a row and its nearest."""
MOST_GROUPS = 2_000
"""The most groups; a batch takes some of them."""


class SNE(BatchCoder):
    """A linear map, initialized by ITQ, whose outputs find the embeddings' neighbors in a batch.

    The loss is ``neighbor_loss`` with a learned β. The paper instead has a temperature for each row, and embeds the
    rows in two dimensions.
    """

    hidden, batch, steps, lr = 0, 512, 1000, 3e-2

    def picks(self, x: Tensor, size: int, steps: int) -> Iterator[Tensor]:
        """Yield the row positions of each step's batch: alternate random rows, and a few rows with their nearest.

        If rows have near copies, neighbors among random rows are far apart: codes trained on random rows only separate
        far rows, not near ones. Codes trained on near rows only find fewer of the ten nearest among their first
        hundred.
        """
        first = torch.randperm(len(x))[:MOST_GROUPS]
        groups = torch.from_numpy(nearest_by_cosine(x[first].numpy(), x.numpy(), min(GROUP, len(x))))
        for step, rows in enumerate(super().picks(x, size, steps)):
            near = groups[torch.randperm(len(groups))[: max(1, size // GROUP)]]
            yield near.unique() if step % 2 else rows  # a repeated row would be its own neighbor

    def begin(self, model: HashModel, rows: EmbeddingSplit) -> list[nn.Parameter]:
        """Start from ITQ's map, scaled so that ℓ and the weights are about 1, as the learning rate expects."""
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
        """Return the loss of a batch; its queries are real outputs, as in a search."""
        logits = model(x)
        return neighbor_loss(logits, bits_of(logits), x, self.sharpness)


def first_sharpness() -> nn.Parameter:
    """Return the initial log β of ``neighbor_loss``."""
    return nn.Parameter(torch.tensor(15.0).log())


def bits_of(logits: Tensor) -> Tensor:
    """Return b = sign ℓ with the gradient of tanh ℓ."""
    return straight_through(torch.where(logits >= 0, 1.0, -1.0), logits.tanh())


def neighbor_loss(queries: Tensor, bits: Tensor, rows: Tensor, sharpness: Tensor) -> Tensor:
    """Return the difference between the neighbors in a batch by code and those by cosine; labels are not used.

    L = −mean_i Σ_j p_ij log q_ij over i ≠ j, with p_i = softmax_j(cos(x_i, x_j) / τ), q_i = softmax_j(β ⟨a_i, b_j⟩ /
    h), and τ = ``WIDTH`` standard deviations of the batch's cosines: stochastic neighbor embedding (Hinton and Roweis,
    NIPS 2002), with codes as the embedding.

    Args:
        queries: a, ``[n, bits]``: real outputs ℓ, or the codes.
        bits: the codes b (``bits_of``), ``[n, bits]``.
        rows: the embeddings x, ``[n, dim]``.
        sharpness: log β, a scalar.
    """
    others = other_rows(rows)
    cosines = F.normalize(rows) @ F.normalize(rows).T
    tau = WIDTH * cosines[others].std().clamp(min=1e-6)
    p = (cosines / tau).masked_fill(~others, -torch.inf).softmax(dim=1)
    products = sharpness.exp() * (queries @ bits.T) / bits.shape[1]
    log_q = products.masked_fill(~others, -torch.inf).log_softmax(dim=1)
    return -(p * log_q.masked_fill(~others, 0)).sum(dim=1).mean()
