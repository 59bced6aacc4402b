"""The guidance: any host method, and beside it the pull of the surrogate onto the class centres."""

from __future__ import annotations

import copy
from typing import Literal

import torch
from torch import Tensor

from lbhash.objectives.base import Objective, Task, check_finite, check_loss, check_weight
from lbhash.objectives.pairs import one_hot
from lbhash.posterior import Surrogate

RECIPES: dict[str, dict[str, float]] = {
    "paper": {"noise": 0.0, "teacher": 0.0},
    "distilled": {"noise": 0.5, "teacher": 0.5},
}
"""What ``recipe`` stands for: σ and τ of ``Guided``. docs/guidance.md tells where the second comes from."""


class Guided(Objective):
    """X_D: host method X with the guidance ("A Lower Bound of Hash Codes' Performance", NeurIPS 2022, Algorithm 1).

    L = L_X + w·L_θ,   L_θ = Σ_blocks −log P(center of the class | ℓ), which moves the model only;
    and at the same time the surrogate P learns, L_π = Σ_blocks −log P(code seen | ℓ), which moves P only. A row
    with several labels is pulled to the centre of each, and one without any to none.

    With ``noise`` σ the surrogate learns the posterior of the noisy code bin(ℓ + σ·ε), ε ~ N(0, 1), in the place of the
    code itself. That is a function of ℓ, so that P is as sure as the outputs are large, whatever is known of them, and
    pulls hardest at bits that are surely wrong.

    With ``teacher`` τ a row is pulled to the centres of other classes, too, as far as a model that has not seen its
    label takes it for theirs (``Task.teacher``): L_θ = Σ_c w_c Σ_blocks −log P(center c | ℓ) with
    w_c = (1 − τ)·1{c is a label} + τ·p(c | row), so that the outputs of a row that looks like two classes stay small in
    the bits in which these differ.

    ``forward`` gives the sum of all three: their gradients part inside ``Surrogate.losses``, so that one backward
    pass and one optimiser over model and surrogate make both updates of the algorithm.

    Args:
        host: the method that is guided.
        task: what is to be learnt; its centres are where the codes are pulled.
        mode: ``"add"`` the guidance to the host's loss, or let it ``"replace"`` it (the paper's ablation).
        recipe: "paper", or "distilled" (``RECIPES``), which has noise and a teacher.
        weight: w.
        noise: σ, in the unit of ℓ; the recipe's where it is not given.
        teacher: τ, from 0 to 1; the recipe's where it is not given.
        surrogate: the network P, of which a copy is trained; the paper's where it is not given.
    """

    centers: Tensor
    taught: Tensor | None

    def __init__(
        self,
        host: Objective,
        task: Task,
        *,
        mode: Literal["add", "replace"] = "add",
        recipe: Literal["paper", "distilled"] = "paper",
        weight: float = 1.0,
        noise: float | None = None,
        teacher: float | None = None,
        surrogate: Surrogate | None = None,
    ) -> None:
        super().__init__()
        if mode not in ("add", "replace"):
            raise ValueError(f"mode is {mode!r}; it must be 'add' or 'replace'")
        self.host = host
        self.mode = mode
        self.weight = check_finite(weight, "weight")
        if not isinstance(recipe, str) or recipe not in RECIPES:
            raise ValueError(f"recipe is {recipe!r}; it must be one of {', '.join(RECIPES)}")
        known = RECIPES[recipe]
        self.noise = check_weight(known["noise"] if noise is None else noise, "noise")
        self.teacher = check_weight(known["teacher"] if teacher is None else teacher, "teacher")
        if self.teacher > 1:
            raise ValueError(f"teacher is {self.teacher}; it must be from 0 to 1")
        self.surrogate = Surrogate(task.bits) if surrogate is None else copy.deepcopy(surrogate)
        if not isinstance(self.surrogate, Surrogate):
            raise TypeError(f"surrogate is {surrogate!r}; it must be a Surrogate, or None for the paper's")
        if self.surrogate.bits != task.bits:
            raise ValueError(f"surrogate is one of {self.surrogate.bits} bits; it must be one of {task.bits}")
        taught = None
        if self.teacher:
            if task.teacher is None:
                raise ValueError(f"teacher is {self.teacher}, and the task has none; it must be 0 without one")
            taught = task.teacher().float()
        of_blocks = self.surrogate.block_index if taught is None else self.surrogate.indicators
        self.register_buffer("centers", of_blocks(task.centers))
        self.register_buffer("taught", taught, persistent=False)  # n·C numbers, which can be made again

    def begin_epoch(self, epoch: int) -> None:
        """Pass it on to the host."""
        self.host.begin_epoch(epoch)

    def end_training(self) -> None:
        """Pass it on to the host."""
        self.host.end_training()

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """L_X + w·L_θ + L_π of a batch, a scalar (without L_X where the guidance replaces it)."""
        fit, pull = self.guidance(logits, labels, index)
        loss = fit + self.weight * pull
        if self.mode == "replace":
            return loss
        return loss + check_loss(self.host(logits, labels, index), self.host, logits)

    def guidance(self, logits: Tensor, labels: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """L_π and L_θ of a batch."""
        seen = logits.detach()
        if self.noise:
            seen = seen + self.noise * torch.randn_like(seen)
        codes = self.surrogate.block_index(seen)
        if self.taught is not None:
            weights = torch.lerp(one_hot(labels, len(self.centers)), self.taught[index], self.teacher)
            strengths = torch.einsum("nc,cbo->nbo", weights, self.centers)
            return self.surrogate.losses(logits, codes, strengths, torch.arange(len(logits), device=logits.device))
        if labels.ndim == 1:
            rows, classes = torch.arange(len(labels), device=labels.device), labels
        else:
            rows, classes = labels.nonzero(as_tuple=True)
        return self.surrogate.losses(logits, codes, self.centers[classes], rows)

    def class_scores(self, signs: Tensor) -> Tensor | None:
        """The host's; ``None`` where the guidance replaces the host's loss, so that its classifier learns nothing."""
        return self.host.class_scores(signs) if self.mode == "add" else None
