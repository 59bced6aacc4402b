"""CSQ: Central Similarity Quantization for Efficient Image and Video Retrieval (Yuan et al.; CVPR 2020)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from lbhash.losses.base import Objective, Task, check_weight


class CSQ(Objective):
    """Every code is pulled onto the center of its class by a binary cross-entropy, bit by bit.

    u = tanh ℓ,  L = mean_ik BCE((u_ik + 1)/2, (c_ik + 1)/2) + λ mean (|u| − 1)²

    With several labels a row, c is the bit-wise majority of the labels' centers, its ties broken by one random code
    that is drawn once. A row without any label has no center, and is left out of the cross-entropy.

    Args:
        task: what is to be learned; its centers are the targets.
        lam: λ, weight of the quantization.

    The published λ-term is a log cosh of |u| − 1; the authors' code squares it, as here.
    """

    guidance_weight = 0.003  # its loss is a mean over bits, the guidance a sum over blocks and labels
    centers: Tensor
    tie_break: Tensor

    def __init__(self, task: Task, *, lam: float = 1e-4) -> None:
        super().__init__()
        self.lam = check_weight(lam, "lam")
        self.register_buffer("centers", task.centers.float())
        coins = torch.randint(0, 2, (task.bits,), generator=task.generator())
        self.register_buffer("tie_break", 2.0 * coins - 1)

    def targets(self, labels: Tensor) -> Tensor:
        """The center that each row is pulled to, ``float [n, bits]`` of ±1; of no meaning for a row without label."""
        if labels.ndim == 1:
            return self.centers[labels]
        votes = labels.float() @ self.centers
        return torch.where(votes == 0, self.tie_break, votes.sign())

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """The loss of a batch, a scalar."""
        ones = (self.targets(labels) + 1) / 2
        # (tanh ℓ + 1)/2 is the logistic function of 2ℓ, which gives the cross-entropy without rounding to log 0.
        if labels.ndim == 1:
            bce = F.binary_cross_entropy_with_logits(2 * logits, ones)
        else:
            labeled = labels.any(dim=1)
            of_rows = F.binary_cross_entropy_with_logits(2 * logits, ones, reduction="none").mean(dim=1)
            bce = (of_rows * labeled).sum() / labeled.sum().clamp(min=1)
        return bce + self.lam * (logits.tanh().abs() - 1).square().mean()
