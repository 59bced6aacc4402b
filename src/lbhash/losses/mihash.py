"""MIHash: Online Hashing with Mutual Information (Cakir, He, Bargal, Sclaroff; ICCV 2017), on batches."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from lbhash.losses.base import Objective, Task, tuned
from lbhash.losses.pairs import other_rows, similar, soft_histograms
from lbhash.utils.validation import check_int


class MIHash(Objective):
    """The mutual information between the distance of two rows and whether they are similar.

    u = tanh(ℓ/2),  L = −mean_i [H(D_i) − p⁺_i H(D_i | similar) − p⁻_i H(D_i | dissimilar)]

    D_i is the distance ½(h − ⟨u_i, u_j⟩) of row i to another row j of the batch, whose distributions are histograms of
    soft counts (``soft_histograms``); p⁺_i is the share of the other rows that have a label in common with i. H is the
    entropy.

    Args:
        bins: parts of the range of distances.
    """

    uses_centers = False
    recommended: ClassVar = {
        "none": tuned(batch_size=512, lr=0.0039, dropout=0.21, options={"bins": 17}),
        "surrogate": tuned(batch_size=256, lr=0.0016, dropout=0.55, options={"bins": 14}, weight=0.014),
    }
    recommended_long: ClassVar = {"none": {"options": {}}, "surrogate": "paper"}
    search_space: ClassVar = {"bins": {"low": 4, "high": 32, "log": True}}

    def __init__(self, task: Task, *, bins: int = 16) -> None:
        super().__init__()
        self.bins = check_int(bins, "bins", 1)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar; 0 for one row."""
        u, others = (logits / 2).tanh(), other_rows(labels)
        s = similar(labels, labels)
        near, far = soft_histograms(u, self.bins, s & others), soft_histograms(u, self.bins, ~s & others)
        share = near.sum(dim=1) / max(len(labels) - 1, 1)
        information = entropy(near + far) - share * entropy(near) - (1 - share) * entropy(far)
        return -information.mean()


def entropy(counts: Tensor) -> Tensor:
    """Return the entropy of each row's distribution, ``[n]``; 0 where nothing was counted."""
    p = counts / counts.sum(dim=1, keepdim=True).clamp(min=1e-6)
    return -(p * p.clamp(min=1e-6).log()).sum(dim=1)  # the clamp keeps the slope at 0 finite
