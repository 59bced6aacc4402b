"""TALR: Hashing as Tie-Aware Learning to Rank (He, Cakir, Bargal, Sclaroff; CVPR 2018)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from lbhash.losses.base import Objective, Task
from lbhash.losses.pairs import similar, soft_histograms
from lbhash.utils.validation import check_float, check_int


class TALR(Objective):
    """The average precision of the batch's rows as queries, in expectation over the order of tied rows.

    u = tanh(γ ℓ),  L = 1 − mean_i (1/N⁺_i) Σ_d c⁺_d (C⁺_{d−1} + C⁺_d + 1) / (C_{d−1} + C_d + 1)

    c_d and c⁺_d are soft counts of the other rows, all and similar ones, at each distance d (``soft_histograms``), C
    and C⁺ their sums up to d, and N⁺_i the number of similar rows. The mean is over the rows that have any.

    Args:
        gamma: γ, the slope of the tanh. (The authors' 2 σ(γ ℓ) − 1 is tanh(γ ℓ / 2): their 1 of CIFAR-10 and NUS-WIDE
            is 0.5 here, and their 10 of ImageNet is 5.)
        bins: parts of the range of distances. If None, half of the bits, 1 at least, as the authors' from 32 bits on.
    """

    uses_centers = False
    search_space: ClassVar = {
        "gamma": {"low": 0.1, "high": 10.0, "log": True},
        "bins": lambda bits: {"low": 1, "high": max(2, bits), "log": True},
    }

    def __init__(self, task: Task, *, gamma: float = 1.0, bins: int | None = None) -> None:
        super().__init__()
        self.gamma = check_float(gamma, "gamma", above=0)
        self.bins = max(task.bits // 2, 1) if bins is None else check_int(bins, "bins", 1)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar; it is 1 where no two rows are similar."""
        u, others = (self.gamma * logits).tanh(), ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
        positive = similar(labels, labels) & others
        near, every = soft_histograms(u, self.bins, positive), soft_histograms(u, self.bins, others)
        # Up to d and up to d − 1, together: 2 C_d − c_d.
        both_near, both_every = 2 * near.cumsum(dim=1) - near, 2 * every.cumsum(dim=1) - every
        count = positive.sum(dim=1)
        precision = (near * (both_near + 1) / (both_every + 1)).sum(dim=1) / count.clamp(min=1)
        return 1 - (precision * (count > 0)).sum() / (count > 0).sum().clamp(min=1)
