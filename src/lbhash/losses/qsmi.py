"""QSMI: Deep Supervised Hashing using Quadratic Spherical Mutual Information (Passalis, Tefas; 2020)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from lbhash.losses.base import Objective, Task, tuned
from lbhash.losses.classes import cosines
from lbhash.losses.pairs import similar
from lbhash.utils.validation import check_float


class QSMI(Objective):
    """The quadratic mutual information between cosines and similarity, in its square-clamped form.

    L = (1/n²) [Σ_ij s_ij (z_ij − 1)² + (1/M) Σ_ij z_ij² + α Σ_ik ||ℓ_ik| − 1|],  z_ij = ½(1 + cos(ℓ_i, ℓ_j))

    i and j run over the n rows of the batch, M = n² / Σ_ij s_ij, and s_ij is 1 for rows that share a label, else 0. A
    row is similar to itself. (The authors do not divide by n². DeepHash-pytorch takes the last term of outputs of unit
    length, whose entries cannot be ±1.)

    Args:
        alpha: α, the weight of the quantization.
    """

    uses_centers = False
    weighs_pairs = True
    recommended: ClassVar = {
        "none": tuned(batch_size=128, lr=0.0016, dropout=0.12, options={"alpha": 0.015}),
        "surrogate": tuned(batch_size=256, lr=0.0061, dropout=0.45, options={"alpha": 0.00057}, weight=0.0015),
    }
    recommended_long: ClassVar = {"none": {"batch_size": 256, "lr": 0.002, "dropout": 0.0, "options": {}}}
    search_space: ClassVar = {"alpha": {"low": 1e-4, "high": 1e-1, "log": True}}

    def __init__(self, task: Task, *, alpha: float = 0.01) -> None:
        super().__init__()
        self.alpha = check_float(alpha, "alpha", 0)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar."""
        z = (1 + cosines(logits, logits)) / 2
        s = similar(labels, labels).to(z.dtype)
        s.fill_diagonal_(1)  # also a row without a label
        information = (s * (z - 1).square()).mean() + s.mean() * z.square().mean()
        return information + self.alpha * (logits.abs() - 1).abs().sum() / len(logits) ** 2
