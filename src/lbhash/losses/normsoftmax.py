"""NormSoftmax: Classification is a Strong Baseline for Deep Metric Learning (Zhai, Wu; BMVC 2019), on class centers."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from lbhash.losses.base import Objective, Task, tuned
from lbhash.losses.classes import cosines, cross_entropy, one_hot
from lbhash.utils.validation import check_float


class NormSoftmax(Objective):
    """A softmax over the cosines with all centers, which are fixed.

    L = mean_i −Σ_k (y_ik/|y_i|) log softmax_k(cos(ℓ_i, c_k) / τ)

    The paper learns a proxy for each class; here it is the center. A row without any label does not enter.

    Args:
        tau: τ, the temperature.
    """

    recommended: ClassVar = {
        "none": tuned(batch_size=512, lr=0.0062, dropout=0.45, options={"tau": 0.95}),
        "surrogate": tuned(batch_size=256, lr=0.0023, dropout=0.47, options={"tau": 1.0}, weight=0.27),
    }
    recommended_long: ClassVar = {"none": "paper", "surrogate": "paper"}
    search_space: ClassVar = {"tau": {"low": 0.02, "high": 1.0, "log": True}}
    centers: Tensor

    def __init__(self, task: Task, *, tau: float = 0.2) -> None:
        super().__init__()
        self.tau = check_float(tau, "tau", above=0)
        self.register_buffer("centers", task.centers.float())

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar."""
        return cross_entropy(cosines(logits, self.centers) / self.tau, one_hot(labels, len(self.centers)))
