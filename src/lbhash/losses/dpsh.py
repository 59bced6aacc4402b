"""DPSH: Feature Learning based Deep Supervised Hashing with Pairwise Labels (Li, Wang, Kang; IJCAI 2016)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from lbhash.losses.base import Objective, Task
from lbhash.losses.pairs import Memory, quantization
from lbhash.utils.validation import check_float


class DPSH(Objective):
    """The likelihood of pairs with the whole training set, and a pull of the outputs to their signs.

    L = mean_ij [log(1 + exp θ_ij) − s_ij θ_ij] + η mean (b − ℓ)²,  θ_ij = ½⟨ℓ_i, ℓ_j⟩,  b = bin(ℓ)

    i runs over the batch, j over the latest outputs of the whole training set; s_ij is 1 for rows that share a label,
    else 0.

    Args:
        eta: η, the weight of the quantization.
    """

    uses_centers = False
    search_space: ClassVar = {"eta": {"low": 1e-3, "high": 10.0, "log": True}}

    def __init__(self, task: Task, *, eta: float = 0.1) -> None:
        super().__init__()
        self.eta = check_float(eta, "eta", 0)
        self.memory = Memory(task.labels, task.bits)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar."""
        return self.memory.pair_loss(logits, labels, index) + self.eta * quantization(logits)
