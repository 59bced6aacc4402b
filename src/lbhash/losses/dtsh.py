"""DTSH: Deep Supervised Hashing with Triplet Labels (Wang, Shi, Kitani; ACCV 2016)."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from lbhash.losses.base import Objective, Task, tuned
from lbhash.losses.pairs import other_rows, quantization, similar
from lbhash.utils.validation import check_float


class DTSH(Objective):
    """The likelihood of triplets: a row is nearer to a similar one than to a dissimilar one, by a margin.

    L = mean over triplets of log(1 + exp(−(θ_ip − θ_in − α))) + η mean (b − ℓ)²,  θ_ij = ½⟨ℓ_i, ℓ_j⟩,  b = bin(ℓ)

    The triplets (i, p, n) are all those of the batch in which p ≠ i shares a label with i, and n does not.

    Args:
        alpha: α, the margin. If None, half of the bits as in the authors' code.
        eta: η, the weight of the quantization.
    """

    uses_centers = False
    weighs_pairs = True
    recommended: ClassVar = {
        "none": tuned(
            batch_size=256, lr=0.0033, dropout=0.11, options={"alpha": lambda bits: 4.1 * bits / 32, "eta": 0.82}
        ),
        "surrogate": tuned(
            batch_size=256,
            lr=0.0098,
            dropout=0.39,
            options={"alpha": lambda bits: 16 * bits / 32, "eta": 0.0092},
            weight=2.8,
        ),
    }
    search_space: ClassVar = {
        "alpha": lambda bits: {"low": 0.05 * bits, "high": 1.0 * bits, "log": True},
        "eta": {"low": 1e-3, "high": 10.0, "log": True},
    }

    def __init__(self, task: Task, *, alpha: float | None = None, eta: float = 1.0) -> None:
        super().__init__()
        self.alpha = task.bits / 2 if alpha is None else check_float(alpha, "alpha", 0)
        self.eta = check_float(eta, "eta", 0)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar; without a triplet only the quantization."""
        theta, s = logits @ logits.T / 2, similar(labels, labels)
        others = other_rows(labels)
        i, p = (s & others).nonzero(as_tuple=True)
        negative = (~s & others)[i]  # n of each pair (i, p)
        likelihood = F.softplus(theta[i] - theta[i, p][:, None] + self.alpha)
        triplets = torch.where(negative, likelihood, 0).sum() / negative.sum().clamp(min=1)
        return triplets + self.eta * quantization(logits)
