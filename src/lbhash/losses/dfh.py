"""DFH: Push for Quantization: Deep Fisher Hashing (Li, Pei, Zha, van Gemert; BMVC 2019)."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lbhash.losses.base import Objective, Task, tuned
from lbhash.losses.classes import one_hot
from lbhash.losses.pairs import pair_mean, similar
from lbhash.utils.validation import check_float


class DFH(Objective):
    """The likelihood of pairs with a margin, and learned class vectors V that pull the codes of a class together.

    L = mean over pairs i ≠ j of s_ij log(1 + exp(m − θ_ij)) + (1 − s_ij) log(1 + exp(m + θ_ij)) + η mean (b − ℓ)²
      + mean (V y − b)² + mean (VᵀV − h(2I − 11ᵀ))² + mean (V − bin V)²,   b = bin(μ V y + ℓ)

    θ_ij = ½⟨ℓ_i, ℓ_j⟩; s_ij is 1 for rows that share a label, else 0; y are the labels, multi-hot, and h the bits. V
    takes its gradient from the second line, which pushes the class vectors apart, and ℓ from the first. The authors
    alternate between the two; here one step of the optimizer moves both.

    Args:
        margin: m.
        mu: μ, the weight of the class vectors in b.
        eta: η, the weight of the quantization.
    """

    uses_centers = False
    recommended: ClassVar = {
        "none": tuned(batch_size=512, lr=0.003, dropout=0.14, options={"margin": 1.6, "mu": 0.99, "eta": 4.4}),
        "surrogate": tuned(
            batch_size=128, lr=0.0025, dropout=0.51, options={"margin": 0.3, "mu": 0.017, "eta": 3.7}, weight=0.41
        ),
    }
    recommended_long: ClassVar = {
        "none": {"batch_size": 128, "lr": 0.0015, "dropout": 0.0},
        "surrogate": {"options": {}, "guidance": {"weight": 1.0}},
    }
    search_space: ClassVar = {
        "margin": {"low": 0.1, "high": 10.0, "log": True},
        "mu": {"low": 1e-2, "high": 10.0, "log": True},
        "eta": {"low": 1e-2, "high": 10.0, "log": True},
    }

    def __init__(self, task: Task, *, margin: float = 3.0, mu: float = 0.1, eta: float = 0.5) -> None:
        super().__init__()
        self.margin = check_float(margin, "margin", 0)
        self.mu = check_float(mu, "mu", 0)
        self.eta = check_float(eta, "eta", 0)
        self.vectors = nn.Parameter(torch.randn(task.classes, task.bits))

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar; a batch of one row has no pair."""
        v, h = self.vectors, logits.shape[1]
        y = one_hot(labels, len(v)).to(v.dtype)
        theta = logits @ logits.T / 2
        pairs = F.softplus(self.margin + torch.where(similar(labels, labels), -theta, theta))
        b = torch.where(self.mu * y @ v.detach() + logits.detach() >= 0, 1.0, -1.0)
        signs = torch.where(v.detach() >= 0, 1.0, -1.0)
        target = h * (2 * torch.eye(len(v), device=v.device) - 1)
        own = (y @ v - b).square().mean() + (v @ v.T - target).square().mean() + (v - signs).square().mean()
        return pair_mean(pairs) + self.eta * (b - logits).square().mean() + own
