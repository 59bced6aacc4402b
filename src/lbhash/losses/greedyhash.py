"""GreedyHash: Towards Fast Optimization for Accurate Hash Coding in CNN (Su, Zhang, Han, Tian; NeurIPS 2018)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lbhash.losses.base import Objective, Task, check_weight
from lbhash.losses.pairs import one_hot


class GreedyHash(Objective):
    """Classification of the codes themselves: the sign forward, the identity backward.

    b = sgn(ℓ) with ∂b/∂ℓ = 1,  L = cross-entropy(W b, y) + α mean | |ℓ| − 1 |³

    With several labels a row, the cross-entropy is binary, a label at a time.

    Args:
        task: what is to be learned.
        alpha: weight of the penalty (the authors: 0.1 on CIFAR-10, 1 on ImageNet).
    """

    uses_centers = False

    def __init__(self, task: Task, *, alpha: float = 0.1) -> None:
        super().__init__()
        self.alpha = check_weight(alpha, "alpha")
        self.classifier = nn.Linear(task.bits, task.classes, bias=False)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """The loss of a batch, a scalar."""
        signs = torch.where(logits.detach() >= 0, 1.0, -1.0)
        b = signs + (logits - logits.detach())  # exactly ±1, however large ℓ is
        scores = self.classifier(b)
        if labels.ndim == 1:
            loss = F.cross_entropy(scores, labels)
        else:
            loss = F.binary_cross_entropy_with_logits(scores, one_hot(labels, scores.shape[1]))
        return loss + self.alpha * (logits.abs() - 1).abs().pow(3).mean()

    def class_scores(self, signs: Tensor) -> Tensor:
        """W b, ``[n, C]``."""
        return self.classifier(signs)
