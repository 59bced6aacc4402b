"""DCH: Deep Cauchy Hashing for Hamming Space Retrieval (Cao, Long, Liu, Wang; CVPR 2018)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from lbhash.losses.base import Objective, Task, check_weight
from lbhash.losses.pairs import balance_weights, distinct_pairs, similar


class DCH(Objective):
    """Cauchy cross-entropy of pairs and Cauchy quantization (equations 6 to 9).

    d(x, y) = (h/2)(1 − cos(x, y))
    L = mean over pairs i ≠ j of w_ij [s_ij log(d_ij / γ) + log(1 + γ / d_ij)] + λ mean_i log(1 + d(|ℓ_i|, 1) / γ)

    Args:
        task: what is to be learned.
        gamma: γ, the scale of the Cauchy distribution, in bits of distance.
        lam: λ, weight of the quantization.
    """

    uses_centers = False

    def __init__(self, task: Task, *, gamma: float = 20.0, lam: float = 0.1) -> None:
        super().__init__()
        self.gamma = check_weight(gamma, "gamma", above_zero=True)
        self.lam = check_weight(lam, "lam")

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """The loss of a batch, a scalar; a batch of one row has its quantization only."""
        half = logits.shape[1] / 2
        direction = F.normalize(logits, dim=1, eps=1e-3)  # which bounds the gradient of a row of zeros
        # A pair at distance 0 has an infinite loss where it is dissimilar; a thousandth of a bit keeps it finite.
        d = (half * (1 - direction @ direction.T)).clamp(min=1e-3)
        s = similar(labels, labels)
        # s·log(d/γ) + log(1 + γ/d), with the logarithms joined so that d → 0 stays harmless where s = 1.
        cauchy = torch.where(s, torch.log1p(d / self.gamma), torch.log1p(self.gamma / d))
        pairs = distinct_pairs(len(logits), logits.device)
        loss = (balance_weights(labels, pairs) * cauchy).sum() / pairs.sum().clamp(min=1)

        cos_to_one = direction.abs().mean(dim=1) * logits.shape[1] ** 0.5
        quantization = torch.log1p(half * (1 - cos_to_one).clamp(min=0) / self.gamma)
        return loss + self.lam * quantization.mean()
