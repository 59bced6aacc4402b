"""OrthoHash: One Loss for All: Deep Hashing with a Single Cosine Similarity Based Learning Objective (NeurIPS 2021)."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor

from lbhash.losses.base import Objective, Task, tuned
from lbhash.losses.classes import cosines, cross_entropy, one_hot
from lbhash.utils.validation import check_choice, check_float


class OrthoHash(Objective):
    """A softmax over the cosines with all centers, with a margin at the row's own; by Hoe et al.

    z_ik = cos(ℓ_i, c_k),  L = mean_i −Σ_k (y_ik/|y_i|) log softmax_k(s·z'_ik)

    z' is z, except at the row's labels: there it is z − m ("cosine") or cos(arccos z + m) ("angular"). A row without
    any label does not enter. The authors' network ends in batch normalization, which the head here does not have.

    Args:
        margin: m.
        scale: s.
        kind: of the margin, "cosine" or "angular".
    """

    recommended: ClassVar = {
        "none": tuned(
            batch_size=128, lr=0.0052, dropout=0.57, options={"margin": 0.26, "scale": 3.2, "kind": "cosine"}
        ),
        "surrogate": "paper",
    }
    recommended_long: ClassVar = {"none": "paper"}
    search_space: ClassVar = {
        "margin": {"low": 0.0, "high": 0.5},
        "scale": {"low": 2.0, "high": 32.0, "log": True},
        "kind": {"choices": ["cosine", "angular"]},
    }
    centers: Tensor

    def __init__(
        self,
        task: Task,
        *,
        margin: float = 0.2,
        scale: float = 8.0,
        kind: Literal["cosine", "angular"] = "cosine",
    ) -> None:
        super().__init__()
        self.margin = check_float(margin, "margin", 0, 1)
        self.scale = check_float(scale, "scale", above=0)
        self.kind = check_choice(kind, "kind", ("cosine", "angular"))
        self.register_buffer("centers", task.centers.float())

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar."""
        z, y = cosines(logits, self.centers), one_hot(labels, len(self.centers))
        own = z - self.margin
        if self.kind == "angular":  # arccos has an infinite slope at ±1
            own = (z.clamp(-1 + 1e-6, 1 - 1e-6).acos() + self.margin).cos()
        return cross_entropy(self.scale * (z + y * (own - z)), y)
