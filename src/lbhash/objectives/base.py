"""What a host method is, and the task it is given."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Task:
    """What an objective may know before training begins.

    Attributes:
        bits: h, the length of a code.
        classes: C, the number of classes.
        labels: the training set's labels in row order: ``int64 [n]``, or multi-hot ``float [n, C]``.
        centers: the class centres, ``float [C, bits]`` of ±1.
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

    def begin_epoch(self, epoch: int) -> None:
        """Called before each epoch, which counts from 0."""

    def class_scores(self, signs: Tensor) -> Tensor | None:
        """Scores ``[n, C]`` of the method's own classifier for codes ``float [n, bits]`` of ±1, if it has one."""
        return None

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """The loss of a batch, a scalar."""
        raise NotImplementedError
