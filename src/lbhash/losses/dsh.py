"""DSH: Deep Supervised Hashing for Fast Image Retrieval (Liu, Wang, Shan, Chen; CVPR 2016)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from lbhash.losses.base import Objective, Task, tuned
from lbhash.losses.pairs import pair_mean, similar
from lbhash.utils.validation import check_float


class DSH(Objective):
    """The contrastive loss of the outputs themselves: similar rows together, others a margin apart.

    L = mean over pairs i ≠ j of ½ s_ij D_ij + ½ (1 − s_ij) max(m − D_ij, 0) + 2α mean_i Σ_k ||ℓ_ik| − 1|

    D_ij = ‖ℓ_i − ℓ_j‖², and s_ij is 1 for rows that share a label, else 0. i and j run over the batch. The paper adds
    the last term for both rows of each pair, hence the 2.

    Args:
        alpha: α, the weight of the quantization.
        margin: m. If None, 2·bits as in the paper, which is D of two codes that differ in half of their bits.
    """

    uses_centers = False
    recommended: ClassVar = {
        "none": tuned(
            batch_size=512, lr=0.0089, dropout=0.15, options={"alpha": 0.0068, "margin": lambda bits: 37 * bits / 32}
        ),
        "surrogate": tuned(
            batch_size=256,
            lr=0.002,
            dropout=0.51,
            options={"alpha": 0.0085, "margin": lambda bits: 1.0 * bits},
            weight=1.0,
        ),
    }
    recommended_long: ClassVar = {"surrogate": "paper"}
    search_space: ClassVar = {
        "alpha": {"low": 1e-3, "high": 1.0, "log": True},
        "margin": lambda bits: {"low": 0.5 * bits, "high": 4.0 * bits},
    }

    def __init__(self, task: Task, *, alpha: float = 0.01, margin: float | None = None) -> None:
        super().__init__()
        self.alpha = check_float(alpha, "alpha", 0)
        self.margin = 2.0 * task.bits if margin is None else check_float(margin, "margin", above=0)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar; for one row only the quantization."""
        inner = logits @ logits.T
        norms = inner.diagonal()
        d = norms[:, None] + norms - 2 * inner
        contrast = torch.where(similar(labels, labels), d, (self.margin - d).clamp(min=0)) / 2
        return pair_mean(contrast) + 2 * self.alpha * (logits.abs() - 1).abs().sum(dim=1).mean()
