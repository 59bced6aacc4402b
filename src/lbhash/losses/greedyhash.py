"""GreedyHash: Towards Fast Optimization for Accurate Hash Coding in CNN (Su, Zhang, Han, Tian; NeurIPS 2018)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from lbhash.losses.base import Objective, Task, tuned
from lbhash.losses.classes import class_loss
from lbhash.losses.pairs import straight_through
from lbhash.utils.validation import check_float


class GreedyHash(Objective):
    """A classification of the codes themselves: the sign in the forward pass, the identity in the backward pass.

    b = sgn(ℓ) with ∂b/∂ℓ = 1,  L = cross-entropy(W b, y) + α mean | |ℓ| − 1 |³

    W is a linear classifier, trained beside the model, and y the label. With several labels a row, the cross-entropy is
    binary and summed over the classes.

    Args:
        alpha: α, the weight of the penalty (the authors: 0.1 on CIFAR-10, 1 on ImageNet).
    """

    uses_centers = False
    recommended: ClassVar = {
        "none": tuned(batch_size=128, lr=4.1e-3, dropout=0.52, options={"alpha": 0.65}),
        "surrogate": "paper",
    }
    search_space: ClassVar = {"alpha": {"low": 1e-3, "high": 1.0, "log": True}}

    def __init__(self, task: Task, *, alpha: float = 0.1) -> None:
        super().__init__()
        self.alpha = check_float(alpha, "alpha", 0)
        self.classifier = nn.Linear(task.bits, task.classes, bias=False)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar."""
        scores = self.classifier(straight_through(torch.where(logits.detach() >= 0, 1.0, -1.0), logits))
        return class_loss(scores, labels) + self.alpha * (logits.abs() - 1).abs().pow(3).mean()

    def class_scores(self, signs: Tensor) -> Tensor:
        """Return W b, ``[n, C]``."""
        return self.classifier(signs)
