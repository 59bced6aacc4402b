"""DPN: Deep Polarized Network for Supervised Learning of Accurate Binary Hashing Codes (Fan et al.; IJCAI 2020)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from lbhash.losses.base import Objective, Task, tuned
from lbhash.losses.classes import labeled_mean, majority, tie_break
from lbhash.utils.validation import check_float


class DPN(Objective):
    """The polarization loss: every output is on its center's side of 0, by a margin.

    L = mean_i Σ_k max(m − ℓ_ik c_ik, 0)

    c_i is the center of row i's class, or the bit-wise majority of its labels' centers as in CSQ. A row without any
    label does not enter. The paper draws the centers at random; here they are those of every method.

    Args:
        margin: m.
    """

    recommended: ClassVar = {
        "none": tuned(batch_size=128, lr=0.0068, dropout=0.54, options={"margin": 5.6}),
        "surrogate": tuned(batch_size=256, lr=0.004, dropout=0.42, options={"margin": 2.2}, weight=0.37),
    }
    recommended_long: ClassVar = {"none": {"options": {}}, "surrogate": {"options": {}, "guidance": {"weight": 1.0}}}
    search_space: ClassVar = {"margin": {"low": 0.1, "high": 10.0, "log": True}}
    centers: Tensor
    tie_break: Tensor

    def __init__(self, task: Task, *, margin: float = 1.0) -> None:
        super().__init__()
        self.margin = check_float(margin, "margin", above=0)
        self.register_buffer("centers", task.centers.float())
        self.register_buffer("tie_break", tie_break(task))

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar."""
        agreement = logits * majority(labels, self.centers, self.tie_break)
        return labeled_mean((self.margin - agreement).clamp(min=0).sum(dim=1), labels)
