"""HashNet: Deep Learning to Hash by Continuation (Cao, Long, Wang, Yu; ICCV 2017)."""

from __future__ import annotations

from torch import Tensor

from lbhash.losses.base import Objective, Task, check_weight
from lbhash.losses.pairs import balance_weights, distinct_pairs, likelihood_loss, similar


class HashNet(Objective):
    """Weighted maximum likelihood of pairs, with a tanh that is sharpened during training.

    u = tanh(β ℓ),  L = mean over pairs i ≠ j of the batch of w_ij [log(1 + exp(α⟨u_i, u_j⟩)) − s_ij α⟨u_i, u_j⟩]

    Args:
        task: what is to be learned.
        alpha: α of the adaptive sigmoid; 10 / bits where it is not given, as in the authors' code, so that the
            largest exponent α·h is 10 at every length.
        continuation: epochs over which β² grows by 1: β = √(1 + epoch / continuation).

    The authors' code pairs the two halves of a batch; all its pairs are used here. A row is not paired with itself.
    """

    uses_centers = False

    def __init__(self, task: Task, *, alpha: float | None = None, continuation: float = 20.0) -> None:
        super().__init__()
        self.alpha = 10 / task.bits if alpha is None else check_weight(alpha, "alpha", above_zero=True)
        self.continuation = check_weight(continuation, "continuation", above_zero=True)
        self.beta = 1.0

    def begin_epoch(self, epoch: int) -> None:
        """Sharpen the tanh."""
        self.beta = (1 + epoch / self.continuation) ** 0.5

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """The loss of a batch, a scalar; 0 for a batch of one row, which has no pair."""
        u = (self.beta * logits).tanh()
        pairs = distinct_pairs(len(u), u.device)
        loss = likelihood_loss(self.alpha * u @ u.T, similar(labels, labels))
        return (balance_weights(labels, pairs) * loss).sum() / pairs.sum().clamp(min=1)
