"""Pulls of any host method's codes onto the class centers: the paper's guidance, or bit by bit."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from lbhash.losses.base import Objective, Task, Wrapped
from lbhash.losses.classes import center_cross_entropy, tie_break
from lbhash.models.surrogate import Surrogate
from lbhash.utils.validation import check_choice, check_float

BALANCED = "balanced"


class BitsPull(Wrapped):
    """Host method X, and a pull onto the class centers bit by bit, like CSQ's loss.

    L = L_X + w·L_b,   L_b = mean_i Σ_k −log P(c_ik | ℓ_i),   P(+1 | ℓ_ik) = (tanh ℓ_ik + 1)/2

    It is the guidance with a posterior of independent bits, which has nothing to learn. With several labels a row, c_i
    is the majority of their centers (``classes.majority``); a row without labels is not pulled.

    Args:
        weight: w.
    """

    centers: Tensor
    tie_break: Tensor

    def __init__(self, host: Objective, task: Task, *, weight: float = 1.0) -> None:
        super().__init__(host)
        self.weight = check_float(weight, "weight")
        self.register_buffer("centers", task.centers.float())
        self.register_buffer("tie_break", tie_break(task))

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return L_X + w·L_b of a batch, a scalar."""
        pull = logits.shape[1] * center_cross_entropy(logits, labels, self.centers, self.tie_break)
        return self.host_loss(logits, labels, index) + self.weight * pull


class SurrogatePull(Wrapped):
    """X_D: host method X with the guidance ("A Lower Bound of Hash Codes' Performance", NeurIPS 2022, Algorithm 1).

    L = L_X + w·L_θ,   L_θ = Σ_blocks −log P(center of the class | ℓ), which moves the model only; and at the same time
    the surrogate P learns, L_π = Σ_blocks −log P(code seen | ℓ), which moves P only. A row with several labels is
    pulled to the center of each label; a row without labels is not pulled.

    With ``noise`` σ the surrogate learns the posterior of the noisy code bin(ℓ + σ·ε), ε ~ N(0, 1), instead of the code
    itself. That posterior is a function of ℓ, so P is surer for larger outputs, and pulls hardest at bits that are
    surely wrong.

    ``forward`` returns the sum of all three losses. ``Surrogate.losses`` separates their gradients, so one backward
    pass and one optimizer over model and surrogate make both updates of the algorithm.

    Args:
        mode: ``"add"`` the guidance to the host's loss, or ``"replace"`` that loss (the paper's ablation).
        weight: w; the paper's is 1. "balanced" is the host's weight (``Objective.guidance_weight``), 0.003 for CSQ and
            1 for the others: at 1 the guidance outweighs CSQ's loss so far that it alone decides (docs/guidance.md).
        noise: σ, in the unit of ℓ; the paper has none, and it did not help (docs/guidance.md).
    """

    centers: Tensor

    def __init__(
        self,
        host: Objective,
        task: Task,
        *,
        mode: Literal["add", "replace"] = "add",
        weight: float | Literal["balanced"] = 1.0,
        noise: float = 0.0,
    ) -> None:
        super().__init__(host)
        self.mode = check_choice(mode, "mode", ("add", "replace"))
        if isinstance(weight, str) and weight != BALANCED:
            raise ValueError(f"weight is {weight!r}; it must be a number or {BALANCED!r}")
        self.weight = check_float(host.guidance_weight if isinstance(weight, str) else weight, "weight")
        self.noise = check_float(noise, "noise", 0)
        self.surrogate = Surrogate(task.bits)
        self.register_buffer("centers", self.surrogate.block_index(task.centers))

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return L_X + w·L_θ + L_π of a batch, a scalar; with mode "replace" without L_X."""
        fit, pull = self.guidance(logits, labels)
        loss = fit + self.weight * pull
        return loss if self.mode == "replace" else loss + self.host_loss(logits, labels, index)

    def guidance(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return L_π and L_θ of a batch."""
        seen = logits.detach()
        if self.noise:
            seen = seen + self.noise * torch.randn_like(seen)
        codes = self.surrogate.block_index(seen)
        if labels.ndim == 1:
            rows, classes = torch.arange(len(labels), device=labels.device), labels
        else:
            rows, classes = labels.nonzero(as_tuple=True)
        return self.surrogate.losses(logits, codes, self.centers[classes], rows)

    def class_scores(self, signs: Tensor) -> Tensor | None:
        """Return the host's scores; with mode "replace" None, as its classifier then learns nothing."""
        return self.host.class_scores(signs) if self.mode == "add" else None
