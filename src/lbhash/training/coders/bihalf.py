"""Y. Li and J. van Gemert, "Deep unsupervised image hashing by maximizing bit entropy", AAAI 2021."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lbhash.models.hash_model import HashModel
from lbhash.training.coders.batches import BatchCoder, half_cosines

GAMMA = 6.0  # γ of the authors' code


class BiHalf(BatchCoder):
    """A linear map whose bits split every batch in half, with the cosines of the embeddings.

    L = mean of (cos(b_i, b_j) − cos(x_i, x_j))² over the pairs of row i of a batch's first half with row j of its
    second. b_k is +1 for the larger half of the batch's ℓ_k, else −1, and its gradient goes to ℓ with γ (ℓ − b) / (n h)
    added. In the end the rows' medians are subtracted from ℓ, so that its signs split all rows as they did a batch; the
    authors leave ℓ as it is.
    """

    hidden = 0

    def loss(self, model: HashModel, x: Tensor) -> Tensor:
        """Return the loss of a batch."""
        return (half_cosines(_Halved.apply(model(x))) - half_cosines(x)).square().mean()

    def finish(self, model: HashModel, x: Tensor) -> None:
        """Subtract the medians."""
        model.head.bias.sub_(model(x).median(dim=0).values)  # type: ignore[operator]


class _Halved(torch.autograd.Function):
    """The bi-half layer."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> Tensor:
        places = logits.argsort(dim=0, descending=True, stable=True).argsort(dim=0)
        b = torch.where(places < (len(logits) + 1) // 2, 1.0, -1.0)
        ctx.save_for_backward(logits, b)
        return b

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        logits, b = ctx.saved_tensors
        return gradients[0] + GAMMA * (logits - b) / b.numel()
