"""DHN: Deep Hashing Network for Efficient Similarity Retrieval (Zhu, Long, Wang, Cao; AAAI 2016)."""

from __future__ import annotations

import math
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from lbhash.losses.base import Objective, Task, tuned
from lbhash.losses.pairs import likelihood_loss, pair_mean, similar
from lbhash.utils.validation import check_float


class DHN(Objective):
    """The likelihood of the pairs of a batch, and a smooth pull of the outputs to ±1.

    u = tanh ℓ,  L = mean over pairs i ≠ j of [log(1 + exp θ_ij) − s_ij θ_ij] + λ mean log cosh(|u| − 1)

    θ_ij = ⟨u_i, u_j⟩, and s_ij is 1 for rows that share a label, else 0. The constants are those of the code of the
    paper (dhn-caffe). DeepHash, the authors' later code, halves θ and squares |u| − 1 instead.

    Args:
        lam: λ, the weight of the quantization.
    """

    uses_centers = False
    recommended: ClassVar = {
        "none": tuned(batch_size=128, lr=0.0006, dropout=0.12, options={"lam": 3.2}),
        "surrogate": tuned(batch_size=512, lr=0.0061, dropout=0.53, options={"lam": 0.34}, weight=0.76),
    }
    recommended_long: ClassVar = {
        "none": {"batch_size": 256, "lr": 0.002, "dropout": 0.0},
        "surrogate": "paper",
    }
    search_space: ClassVar = {"lam": {"low": 1e-3, "high": 10.0, "log": True}}

    def __init__(self, task: Task, *, lam: float = 0.3) -> None:
        super().__init__()
        self.lam = check_float(lam, "lam", 0)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar; for one row only the quantization."""
        u = logits.tanh()
        x = 1 - u.abs()
        log_cosh = x + F.softplus(-2 * x) - math.log(2)
        pairs = pair_mean(likelihood_loss(u @ u.T, similar(labels, labels)))
        return pairs + self.lam * log_cosh.mean()
