"""HashNet: Deep Learning to Hash by Continuation (Cao, Long, Wang, Yu; ICCV 2017)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from lbhash.losses.base import Objective, Task, tuned
from lbhash.losses.pairs import balanced_mean, likelihood_loss, similar
from lbhash.utils.validation import check_float


class HashNet(Objective):
    """The weighted maximum likelihood of pairs, with a tanh that gets sharper during training.

    u = tanh(β ℓ),  L = mean over pairs i ≠ j of the batch of w_ij [log(1 + exp(α⟨u_i, u_j⟩)) − s_ij α⟨u_i, u_j⟩]

    s_ij is 1 for rows that share a label, else 0, and w_ij balances the two kinds of pairs (``balanced_mean``). The
    authors' code pairs the two halves of a batch; all its pairs are used here. A row is not paired with itself.

    Args:
        alpha: α of the adaptive sigmoid. If None, it is 10 / bits as in the authors' code, so that the largest exponent
            α·h is 10 at every length.
        continuation: the number of epochs over which β² grows by 1: β = √(1 + epoch / continuation).
    """

    uses_centers = False
    weighs_pairs = True
    recommended: ClassVar = {
        "none": tuned(
            batch_size=256, lr=1.3e-3, dropout=0.4, options={"alpha": lambda bits: 15 / bits, "continuation": 60.0}
        ),
        "surrogate": tuned(
            batch_size=256,
            lr=5.1e-3,
            dropout=0.47,
            options={"alpha": lambda bits: 3 / bits, "continuation": 8.5},
            weight=0.042,
        ),
    }
    recommended_long: ClassVar = {
        "none": {"batch_size": 256, "lr": 2e-3, "dropout": 0.0, "options": {}},
        "surrogate": {"options": {}, "guidance": {"weight": 1.0}},
    }
    search_space: ClassVar = {
        "alpha": lambda bits: {"low": 1 / bits, "high": 100 / bits, "log": True},
        "continuation": {"low": 5.0, "high": 100.0, "log": True},
    }

    def __init__(self, task: Task, *, alpha: float | None = None, continuation: float = 20.0) -> None:
        super().__init__()
        self.alpha = 10 / task.bits if alpha is None else check_float(alpha, "alpha", above=0)
        self.continuation = check_float(continuation, "continuation", above=0)
        self.beta = 1.0

    def begin_epoch(self, epoch: int) -> None:
        """Sharpen the tanh."""
        self.beta = (1 + epoch / self.continuation) ** 0.5

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar; it is 0 for a batch of one row, which has no pair."""
        u = (self.beta * logits).tanh()
        return balanced_mean(likelihood_loss(self.alpha * u @ u.T, similar(labels, labels)), labels)
