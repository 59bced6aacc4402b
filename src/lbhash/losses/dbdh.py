"""DBDH: Deep Balanced Discrete Hashing for Image Retrieval (Zheng, Zhang, Lu; Neurocomputing 2020)."""

from __future__ import annotations

from torch import Tensor

from lbhash.losses.base import Objective, Task, check_weight
from lbhash.losses.pairs import Memory


class DBDH(Objective):
    """Pair likelihood against the whole training set, and bits that are balanced.

    u = ℓ clipped to [−1, 1],  L = mean_ij [log(1 + exp θ_ij) − s_ij θ_ij] + α mean_k |mean_i u_ik|,  θ = ½⟨u_i, u_j⟩

    i runs over the batch, j over the latest outputs of the whole training set.

    Args:
        task: what is to be learned.
        alpha: weight of the balance term.

    Balance means that every bit is +1 for half of the rows, so the mean is taken over the rows, bit by bit. The
    public re-implementation (DeepHash-pytorch) takes it over the bits of a row instead.
    """

    uses_centers = False

    def __init__(self, task: Task, *, alpha: float = 0.1) -> None:
        super().__init__()
        self.alpha = check_weight(alpha, "alpha")
        self.memory = Memory(task.labels, task.bits)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """The loss of a batch, a scalar."""
        u = logits.clamp(-1, 1)
        return self.memory.pair_loss(u, labels, index) + self.alpha * u.mean(dim=0).abs().mean()
