"""DCH: Deep Cauchy Hashing for Hamming Space Retrieval (Cao, Long, Liu, Wang; CVPR 2018)."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from lbhash.losses.base import Objective, Task, tuned
from lbhash.losses.pairs import balanced_mean, similar
from lbhash.utils.validation import check_float


class DCH(Objective):
    """The Cauchy cross-entropy of pairs and the Cauchy quantization (equations 6 to 9).

    d(x, y) = (h/2)(1 − cos(x, y))
    L = mean over pairs i ≠ j of w_ij [s_ij log(d_ij / γ) + log(1 + γ / d_ij)] + λ mean_i log(1 + d(|ℓ_i|, 1) / γ)

    i and j run over the batch; s_ij is 1 for rows that share a label, else 0; w_ij balances the two kinds of pairs
    (``balanced_mean``).

    Args:
        gamma: γ, the scale of the Cauchy distribution, in bits of distance.
        lam: λ, the weight of the quantization.
    """

    uses_centers = False
    weighs_pairs = True
    least_distance: ClassVar = 1e-3
    """Bits between two rows; a dissimilar pair at distance 0 would have an infinite loss."""
    recommended: ClassVar = {
        "none": tuned(
            batch_size=256, lr=2.5e-3, dropout=0.02, options={"gamma": lambda bits: 10 * bits / 32, "lam": 0.032}
        ),
        "surrogate": tuned(
            batch_size=128,
            lr=2.2e-3,
            dropout=0.42,
            options={"gamma": lambda bits: 41 * bits / 32, "lam": 0.0041},
            weight=0.37,
        ),
    }
    recommended_long: ClassVar = {"none": {"batch_size": 384, "lr": 2.5e-3, "dropout": 0.0}}
    search_space: ClassVar = {
        "gamma": lambda bits: {"low": 2 * bits / 32, "high": 50 * bits / 32, "log": True},
        "lam": {"low": 1e-3, "high": 1.0, "log": True},
    }

    def __init__(self, task: Task, *, gamma: float = 20.0, lam: float = 0.1) -> None:
        super().__init__()
        self.gamma = check_float(gamma, "gamma", above=0)
        self.lam = check_float(lam, "lam", 0)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar; for one row only the quantization."""
        half = logits.shape[1] / 2
        direction = F.normalize(logits, dim=1, eps=1e-3)  # eps bounds the gradient of a row of zeros
        d = (half * (1 - direction @ direction.T)).clamp(min=self.least_distance)
        # s·log(d/γ) + log(1 + γ/d), with the logarithms joined so that d → 0 stays harmless where s = 1.
        cauchy = torch.where(similar(labels, labels), torch.log1p(d / self.gamma), torch.log1p(self.gamma / d))
        cos_to_one = direction.abs().mean(dim=1) * logits.shape[1] ** 0.5
        quantization = torch.log1p(half * (1 - cos_to_one).clamp(min=0) / self.gamma)
        return balanced_mean(cauchy, labels) + self.lam * quantization.mean()
