"""TALR: Hashing as Tie-Aware Learning to Rank (He, Cakir, Bargal, Sclaroff; CVPR 2018)."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from lbhash.losses.base import Objective, Task, tuned
from lbhash.losses.pairs import other_rows, similar, soft_histograms
from lbhash.utils.validation import check_choice, check_float, check_int


class TALR(Objective):
    """The average precision or NDCG of the batch's rows as queries, in expectation over the order of tied rows.

    u = tanh(γ ℓ),  L = 1 − mean_i (1/N⁺_i) Σ_d c⁺_d (C⁺_{d−1} + C⁺_d + 1) / (C_{d−1} + C_d + 1)    (AP)
                    L = 1 − mean_i (1/I_i) Σ_d g_d / log₂(C_{d−1} + (c_d + 1)/2 + 1)                (NDCG)

    c_d and c⁺_d are soft counts of the other rows, all and similar ones, at each distance d (``soft_histograms``), C
    and C⁺ their sums up to d, and N⁺_i the number of similar rows. g_d is the soft sum of the gains 2^r − 1, where r is
    the number of labels that two rows share, and I_i the DCG of the best order. The mean is over the rows that have any
    similar one. (The authors' code counts the query itself in I_i, where the best NDCG is below 1.)

    Args:
        measure: "ap", or "ndcg", which counts the labels that rows share.
        gamma: γ, the slope of the tanh. (The authors' 2 σ(γ ℓ) − 1 is tanh(γ ℓ / 2): their 1 of CIFAR-10 and NUS-WIDE
            is 0.5 here, and their 10 of ImageNet is 5.)
        bins: parts of the range of distances. If None, half of the bits, 1 at least, as the authors' from 32 bits on.
    """

    uses_centers = False
    weighs_pairs = True
    recommended: ClassVar = {
        "none": tuned(
            batch_size=512,
            lr=0.0016,
            dropout=0.37,
            options={"gamma": 2.1, "bins": lambda bits: max(1, round(31 * bits / 32))},
        ),
        "surrogate": tuned(
            batch_size=256,
            lr=0.0021,
            dropout=0.54,
            options={"gamma": 1.3, "bins": lambda bits: max(1, round(bits / 32))},
            weight=0.01,
        ),
    }
    recommended_long: ClassVar = {"none": {"options": {}}, "surrogate": "paper"}
    search_space: ClassVar = {
        "gamma": {"low": 0.1, "high": 10.0, "log": True},
        "bins": lambda bits: {"low": 1, "high": max(2, bits), "log": True},
    }

    def __init__(
        self, task: Task, *, measure: Literal["ap", "ndcg"] = "ap", gamma: float = 1.0, bins: int | None = None
    ) -> None:
        super().__init__()
        self.measure = check_choice(measure, "measure", ("ap", "ndcg"))
        self.gamma = check_float(gamma, "gamma", above=0)
        self.bins = max(task.bits // 2, 1) if bins is None else check_int(bins, "bins", 1)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar; it is 1 where no two rows are similar."""
        u, others = (self.gamma * logits).tanh(), other_rows(labels)
        positive = similar(labels, labels) & others
        score = self._ndcg(u, labels, others) if self.measure == "ndcg" else self._precision(u, positive, others)
        asking = positive.any(dim=1)
        return 1 - (score * asking).sum() / asking.sum().clamp(min=1)

    def _precision(self, u: Tensor, positive: Tensor, others: Tensor) -> Tensor:
        near, every = soft_histograms(u, self.bins, positive), soft_histograms(u, self.bins, others)
        # Up to d and up to d − 1, together: 2 C_d − c_d.
        both_near, both_every = 2 * near.cumsum(dim=1) - near, 2 * every.cumsum(dim=1) - every
        return (near * (both_near + 1) / (both_every + 1)).sum(dim=1) / positive.sum(dim=1).clamp(min=1)

    def _ndcg(self, u: Tensor, labels: Tensor, others: Tensor) -> Tensor:
        shared = similar(labels, labels).float() if labels.ndim == 1 else labels.float() @ labels.float().T
        gains = (2**shared - 1) * others
        every = soft_histograms(u, self.bins, others)
        rank = every.cumsum(dim=1) - (every - 1) / 2  # the mean rank of the rows at d
        discounts = 1 / torch.arange(2, len(labels) + 2, device=u.device).log2()
        best = (gains.sort(dim=1, descending=True).values * discounts).sum(dim=1)
        found = (soft_histograms(u, self.bins, gains) / (rank + 1).log2()).sum(dim=1)
        return found / best.clamp(min=1e-6)
