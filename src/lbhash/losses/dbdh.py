"""DBDH: Deep Balanced Discrete Hashing for Image Retrieval (Zheng, Zhang, Lu; Neurocomputing 2020)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from lbhash.losses.base import Objective, Task, tuned
from lbhash.losses.pairs import Memory, straight_through
from lbhash.utils.validation import check_float


class DBDH(Objective):
    """The likelihood of pairs with the whole training set, and a term that balances the bits.

    L = mean_ij [log(1 + exp θ_ij) − s_ij θ_ij] + α mean_k |mean_i u_ik|,  θ = ½⟨u_i, u_j⟩,  u = ℓ clipped to [−1, 1]

    The gradient passes straight through the clip. A plain clip has gradient 0 outside ±1, where many outputs would
    stay. i runs over the batch, j over the latest outputs of the whole training set. s_ij is 1 for rows that share a
    label, else 0. A bit is balanced if it is +1 for half of the rows, so the last mean is over the rows, bit by bit;
    the public re-implementation (DeepHash-pytorch) takes it over the bits of a row instead.

    Args:
        alpha: α, the weight of the balance.
    """

    uses_centers = False
    recommended: ClassVar = {
        "none": tuned(batch_size=128, lr=3.5e-3, dropout=0.11, options={"alpha": 0.11}),
        "surrogate": tuned(batch_size=512, lr=6.1e-3, dropout=0.53, options={"alpha": 0.079}, weight=0.76),
    }
    recommended_long: ClassVar = {"none": {"options": {}}, "surrogate": "paper"}
    search_space: ClassVar = {"alpha": {"low": 1e-3, "high": 1.0, "log": True}}

    def __init__(self, task: Task, *, alpha: float = 0.1) -> None:
        super().__init__()
        self.alpha = check_float(alpha, "alpha", 0)
        self.memory = Memory(task.labels, task.bits)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar."""
        u = straight_through(logits.detach().clamp(-1, 1), logits)
        return self.memory.pair_loss(u, labels, index) + self.alpha * u.mean(dim=0).abs().mean()
