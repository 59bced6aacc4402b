"""IDHN: Improved Deep Hashing with Soft Pairwise Similarity for Multi-Label Retrieval (Zhang et al.; TMM 2019)."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from lbhash.losses.base import Objective, Task, tuned
from lbhash.losses.classes import one_hot
from lbhash.losses.pairs import likelihood_loss, pair_mean
from lbhash.utils.validation import check_float


class IDHN(Objective):
    """The likelihood of pairs that share all labels or none, and a squared error of those that share some.

    L = mean over pairs i ≠ j of L_ij + α mean ||u| − 1|,  u = ℓ / (1 + |ℓ|),  s_ij = cos(y_i, y_j)
    L_ij = log(1 + exp Ω_ij) − s_ij Ω_ij  if s_ij is 0 or 1,  γ h ((⟨u_i, u_j⟩ + h)/(2h) − s_ij)²  else

    Ω_ij = β⟨u_i, u_j⟩/h, where h are the bits, and y are the labels, multi-hot. (DeepHash-pytorch halves ⟨,⟩ in the
    squared error, whose target cannot be reached then.)

    Args:
        alpha: α, the weight of the quantization.
        beta: β, the largest exponent.
        gamma: γ, the weight of the squared error.
    """

    uses_centers = False
    recommended: ClassVar = {
        "none": tuned(batch_size=128, lr=0.0016, dropout=0.092, options={"alpha": 0.005, "beta": 2.5, "gamma": 0.044}),
        "surrogate": tuned(
            batch_size=128, lr=0.0016, dropout=0.55, options={"alpha": 0.071, "beta": 3.5, "gamma": 0.24}, weight=0.014
        ),
    }
    recommended_long: ClassVar = {"none": {"options": {}}, "surrogate": "paper"}
    search_space: ClassVar = {
        "alpha": {"low": 1e-3, "high": 1.0, "log": True},
        "beta": {"low": 1.0, "high": 50.0, "log": True},
        "gamma": {"low": 1e-2, "high": 1.0, "log": True},
    }

    def __init__(self, task: Task, *, alpha: float = 0.1, beta: float = 5.0, gamma: float = 0.1) -> None:
        super().__init__()
        self.classes = task.classes
        self.alpha = check_float(alpha, "alpha", 0)
        self.beta = check_float(beta, "beta", above=0)
        self.gamma = check_float(gamma, "gamma", 0)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar; for one row only the quantization."""
        h, y = logits.shape[1], one_hot(labels, self.classes)
        u, direction = F.softsign(logits), F.normalize(y, dim=1)
        inner, s = u @ u.T, direction @ direction.T
        sure = (s < 1e-6) | (s > 1 - 1e-6)  # rounding leaves 1 ± 1e-7 of equal labels
        likelihood = likelihood_loss(self.beta * inner / h, s.round())
        squares = self.gamma * h * ((inner + h) / (2 * h) - s).square()
        return pair_mean(torch.where(sure, likelihood, squares)) + self.alpha * (u.abs() - 1).abs().mean()
