"""HyP²: HyP² Loss: Beyond Hypersphere Metric Space for Multi-label Image Retrieval (Xu et al.; ACM MM 2022)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from lbhash.losses.base import Objective, Task, tuned
from lbhash.losses.classes import cosines, one_hot
from lbhash.losses.pairs import pair_mean, similar
from lbhash.utils.validation import check_float


class HyP2(Objective):
    """Cosines with learned class proxies, and cosines of rows with several labels that share none.

    u = tanh ℓ,  L = mean_{k ∈ y_i} (1 − cos(u_i, p_k)) + mean_{k ∉ y_i} max(cos(u_i, p_k) − ζ, 0)
                   + β mean_{(i, j)} max(cos(u_i, u_j) − ζ, 0)

    p_k are the proxies. The pairs (i, j) are the rows of the batch that have several labels each, and none in common.

    Args:
        beta: β, the weight of the pairs.
        zeta: ζ, the cosine above which others repel each other. If None, the cosine of the two nearest class centers;
            the authors use that of the best known linear code, from a table.
    """

    recommended: ClassVar = {
        "none": "paper",
        "surrogate": tuned(batch_size=512, lr=0.0038, dropout=0.49, options={"beta": 0.12}, weight=2.4),
    }
    recommended_long: ClassVar = {"surrogate": "paper"}
    search_space: ClassVar = {"beta": {"low": 0.05, "high": 5.0, "log": True}}

    def __init__(self, task: Task, *, beta: float = 0.5, zeta: float | None = None) -> None:
        super().__init__()
        self.beta = check_float(beta, "beta", 0)
        nearest = (cosines(task.centers, task.centers) - 2 * torch.eye(task.classes)).max().item()
        self.zeta = nearest if zeta is None else check_float(zeta, "zeta", -1, 1)
        self.proxies = nn.Parameter(torch.randn(task.classes, task.bits))

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar."""
        u, y = logits.tanh(), one_hot(labels, len(self.proxies))
        cos = cosines(u, self.proxies)
        own = ((1 - cos) * y).sum() / y.sum().clamp(min=1)
        foreign = ((cos - self.zeta).clamp(min=0) * (1 - y)).sum() / (1 - y).sum().clamp(min=1)
        several = y.sum(dim=1) > 1
        apart = several[:, None] & several & ~similar(labels, labels)
        return own + foreign + self.beta * pair_mean((cosines(u, u) - self.zeta).clamp(min=0), apart)
