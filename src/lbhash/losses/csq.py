"""CSQ: Central Similarity Quantization for Efficient Image and Video Retrieval (Yuan et al.; CVPR 2020)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from lbhash.losses.base import Objective, Task, tuned
from lbhash.losses.classes import center_cross_entropy, tie_break
from lbhash.losses.pairs import quantization
from lbhash.utils.validation import check_float


class CSQ(Objective):
    """A binary cross-entropy pulls every code onto the center of its class, bit by bit.

    u = tanh ℓ,  L = mean_ik BCE((u_ik + 1)/2, (c_ik + 1)/2) + λ mean (|u| − 1)²

    Here u_i are the outputs of row i and c_i is the center of its class. With several labels a row, c_i is the bit-wise
    majority of the labels' centers, and one random code, the same for all rows, breaks its ties. A row without any
    label has no center and does not enter the cross-entropy. The paper's λ-term is a log cosh of |u| − 1; the authors'
    code squares it, as here.

    Args:
        lam: λ, the weight of the quantization.
    """

    guidance_weight = 0.003  # this loss is a mean over bits, and the guidance is a sum over blocks and labels
    recommended: ClassVar = {
        "none": tuned(batch_size=256, lr=3.5e-3, dropout=0.47, options={"lam": 0.0021}),
        "surrogate": tuned(batch_size=256, lr=7.6e-3, dropout=0.45, options={"lam": 2.7e-4}, weight=0.0012),
    }
    recommended_long: ClassVar = {"none": {"lr": 7.6e-3, "dropout": 0.45}}  # those of the guided form
    search_space: ClassVar = {"lam": {"low": 1e-5, "high": 1e-1, "log": True}}
    centers: Tensor
    tie_break: Tensor

    def __init__(self, task: Task, *, lam: float = 1e-4) -> None:
        super().__init__()
        self.lam = check_float(lam, "lam", 0)
        self.register_buffer("centers", task.centers.float())
        self.register_buffer("tie_break", tie_break(task))

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar."""
        bce = center_cross_entropy(logits, labels, self.centers, self.tie_break)
        return bce + self.lam * quantization(logits.tanh())
