"""JMLH: Embarrassingly Simple Binary Representation Learning (Shen, Qin, Chen, Liu, Shao; ICCV Workshops 2019)."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lbhash.losses.base import Objective, Task, tuned
from lbhash.losses.classes import class_loss
from lbhash.losses.pairs import straight_through
from lbhash.utils.validation import check_float


class JMLH(Objective):
    """A classification of random codes, each bit +1 with the probability that the model gives it.

    b_k = +1 with probability p_k = σ(ℓ_k), else −1,  L = cross-entropy(W b, y) + λ mean_i Σ_k KL(p_ik ‖ ½)

    b has the gradient of its mean, 2p − 1. W is a linear classifier, trained beside the model. With several labels a
    row, the cross-entropy is binary and summed over the classes.

    Args:
        lam: λ, the weight of the divergence from fair coins.
    """

    uses_centers = False
    recommended: ClassVar = {
        "none": tuned(batch_size=256, lr=0.0026, dropout=0.54, options={"lam": 0.062}),
        "surrogate": "paper",
    }
    search_space: ClassVar = {"lam": {"low": 1e-3, "high": 1.0, "log": True}}

    def __init__(self, task: Task, *, lam: float = 0.1) -> None:
        super().__init__()
        self.lam = check_float(lam, "lam", 0)
        self.classifier = nn.Linear(task.bits, task.classes, bias=False)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar, with codes drawn anew."""
        p = logits.sigmoid()
        codes = torch.where(torch.rand_like(p) < p.detach(), 1.0, -1.0)
        scores = self.classifier(straight_through(codes, 2 * p))
        # Σ over both sides of p log 2p; logsigmoid keeps it finite where p rounds to 0.
        kl = p * F.logsigmoid(logits) + (1 - p) * F.logsigmoid(-logits) + math.log(2)
        return class_loss(scores, labels) + self.lam * kl.sum(dim=1).mean()

    def class_scores(self, signs: Tensor) -> Tensor:
        """Return W b, ``[n, C]``."""
        return self.classifier(signs)
