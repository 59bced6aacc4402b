"""A linear map that keeps the embedding's own neighborhoods, as a second branch of a hash model's outputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Neighborhood(nn.Module):
    """share · ℓ + W (x − mean): what the network has learned of its classes, plus the embedding's own neighborhoods.

    ``lbhash.training.heads`` fits W, and brings both terms to one scale.
    """

    share: Tensor
    mean: Tensor

    def __init__(self, dim: int, bits: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, bits, bias=False)
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("share", torch.ones(()))

    def forward(self, x: Tensor, outputs: Tensor) -> Tensor:
        """Return the sum ``[n, bits]`` of embeddings ``[n, dim]`` and the network's outputs for them ``[n, bits]``."""
        linear: Tensor = self.linear(x - self.mean)
        return self.share * outputs + linear
