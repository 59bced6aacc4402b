"""What a host method is, and the task it is given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Task:
    """What an objective may know before training begins.

    Attributes:
        bits: h, the length of a code.
        classes: C, the number of classes.
        labels: the training set's labels in row order: ``int64 [n]``, or multi-hot ``float [n, C]``.
        centers: the class centers, ``float [C, bits]`` of ±1.
        epochs: the length of training, for schedules.
        seed: for what an objective draws itself.
    """

    bits: int
    classes: int
    labels: Tensor
    centers: Tensor
    epochs: int = 100
    seed: int = 0

    @property
    def multi_label(self) -> bool:
        """Whether a row may have several labels."""
        return self.labels.ndim == 2

    def generator(self) -> torch.Generator:
        """A generator that starts from the seed."""
        return torch.Generator().manual_seed(self.seed)


class Objective(nn.Module):
    """A method's loss. A new method is one file: a subclass that takes a ``Task`` and its own options.

    ``forward(logits, labels, index)`` takes the raw outputs ``[n, bits]``, the labels of the rows (``int64 [n]``, or
    multi-hot ``float [n, C]``) and their positions in the training set (``int64 [n]``), and gives a scalar loss.
    What it learns itself are ``nn.Parameter``s, trained beside the model; what it remembers are buffers, so that
    both are in the checkpoints.
    """

    uses_centers: ClassVar[bool] = True
    """Whether it looks at ``Task.centers``. Of one that does not they need not be arranged."""

    guidance_weight: ClassVar[float] = 1.0
    """Weight of the guidance in balance with the method's own loss (``Guided(weight="balanced")``), 1 as in the paper
    where a method says nothing else."""

    def begin_epoch(self, epoch: int) -> None:
        """Called before each epoch, which counts from 0."""

    def end_training(self) -> None:
        """Called once after the last epoch: for what was set before it and should know its outputs."""

    def class_scores(self, signs: Tensor) -> Tensor | None:
        """Scores ``[n, C]`` of the method's own classifier for codes ``float [n, bits]`` of ±1, if it has one."""
        return None

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """The loss of a batch, a scalar."""
        raise NotImplementedError


def check_loss(loss: Any, objective: nn.Module, logits: Tensor) -> Tensor:
    """Return a loss; raise ``TypeError`` or ``ValueError`` unless it is a scalar that can be learned from."""
    name = type(objective).__name__
    if not isinstance(loss, Tensor) or loss.ndim:
        what = f"a tensor of shape {list(loss.shape)}" if isinstance(loss, Tensor) else repr(loss)
        raise TypeError(f"method {name} returned {what}; its loss must be a scalar tensor")
    if logits.requires_grad and not loss.requires_grad:
        raise ValueError(f"method {name} returned a loss without a gradient; it must be computed from the logits")
    return loss


def check_weight(value: Any, name: str, *, above_zero: bool = False) -> float:
    """Return a method's weight: a finite number of at least 0; above 0 where a loss divides by it.

    Raises:
        TypeError: it is not a number.
        ValueError: it is out of range.
    """
    limits = "above 0" if above_zero else "at least 0"
    if check_finite(value, name) < 0 or (above_zero and value == 0):
        raise ValueError(f"{name} is {value}; it must be {limits}")
    return float(value)


def check_finite(value: Any, name: str) -> float:
    """Return a number, or raise ``TypeError`` where it is none and ``ValueError`` where it is NaN or infinite."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} is {value!r}; it must be a number")
    if not math.isfinite(value):
        raise ValueError(f"{name} is {value}; it must be finite")
    return float(value)
