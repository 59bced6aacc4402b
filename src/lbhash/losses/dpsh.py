"""DPSH: Feature Learning based Deep Supervised Hashing with Pairwise Labels (Li, Wang, Kang; IJCAI 2016)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from lbhash.losses.base import Objective, Task, tuned
from lbhash.losses.pairs import likelihood_loss, pair_mean, quantization, similar
from lbhash.utils.validation import check_float


class DPSH(Objective):
    """The likelihood of the pairs of a batch, and a pull of the outputs to their signs.

    L = mean over pairs i ≠ j of [log(1 + exp θ_ij) − s_ij θ_ij] + η mean (b − ℓ)²,  θ_ij = ½⟨ℓ_i, ℓ_j⟩,  b = bin(ℓ)

    i and j run over the batch; s_ij is 1 for rows that share a label, else 0. The paper pairs the batch with the latest
    outputs of all training rows. With Adam that oscillates: dissimilar rows, the majority, flee together from a mean
    that is an epoch old.

    Args:
        eta: η, the weight of the quantization. (The authors' 10, of sums over 5,000 rows, is 0.1 here at 50 bits.)
    """

    uses_centers = False
    recommended: ClassVar = {
        "none": tuned(batch_size=128, lr=0.0018, dropout=0.097, options={"eta": 0.9}),
        "surrogate": tuned(batch_size=256, lr=0.0024, dropout=0.35, options={"eta": 1.5}, weight=1.1),
    }
    recommended_long: ClassVar = {"none": {"batch_size": 256, "lr": 0.002, "dropout": 0.0}, "surrogate": "paper"}
    search_space: ClassVar = {"eta": {"low": 1e-3, "high": 10.0, "log": True}}

    def __init__(self, task: Task, *, eta: float = 0.1) -> None:
        super().__init__()
        self.eta = check_float(eta, "eta", 0)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar; for one row only the quantization."""
        pairs = pair_mean(likelihood_loss(logits @ logits.T / 2, similar(labels, labels)))
        return pairs + self.eta * quantization(logits)
