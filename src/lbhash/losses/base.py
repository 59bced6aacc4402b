"""The base class of the host methods, and the task that a method is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Task:
    """The facts that an objective has before training begins.

    >>> Task(bits=8, classes=2, labels=torch.tensor([0, 1, 1]), centers=torch.ones(2, 8)).multi_label
    False
    """

    bits: int
    """h, the length of a code."""
    classes: int
    """C, the number of classes."""
    labels: Tensor
    """The training set's labels in row order: ``int64 [n]``, or multi-hot ``float [n, C]``."""
    centers: Tensor
    """The class centers, ``float [C, bits]`` of ±1."""
    epochs: int = 100
    """The length of training, for schedules."""
    seed: int = 0
    """The seed of an objective's random numbers."""

    @property
    def multi_label(self) -> bool:
        """Whether a row may have several labels."""
        return self.labels.ndim == 2

    def generator(self) -> torch.Generator:
        """Return a random generator that starts from the seed."""
        return torch.Generator().manual_seed(self.seed)


def tuned(
    *, batch_size: int, lr: float, dropout: float, options: Mapping[str, Any], weight: float | None = None
) -> Mapping[str, Any]:
    """Return the settings that a search found, all with the schedule cosine; ``weight`` is that of the guidance."""
    found = {"batch_size": batch_size, "lr": lr, "schedule": "cosine", "dropout": dropout, "options": options}
    return found if weight is None else {**found, "guidance": {"weight": weight}}


class Objective(nn.Module):
    """A method's loss. A new method is one file: a subclass that takes a ``Task`` and its own options.

    Parameters of the loss (``nn.Parameter``) are trained beside the model. Its state between steps is in buffers, so
    that checkpoints hold both.

    >>> class Pull(Objective):
    ...     def __init__(self, task):
    ...         super().__init__()
    ...         self.register_buffer("centers", task.centers)
    ...
    ...     def forward(self, logits, labels, index):
    ...         return (logits - self.centers[labels]).square().mean()
    >>> task = Task(bits=8, classes=2, labels=torch.tensor([0, 1, 1]), centers=torch.ones(2, 8))
    >>> float(Pull(task)(torch.zeros(3, 8), task.labels, torch.arange(3)))
    1.0
    """

    uses_centers: ClassVar[bool] = True
    """Whether the method reads ``Task.centers``. If it does not, they need not be arranged."""

    weighs_pairs: ClassVar[bool] = False
    """Whether the similar pairs of a batch, or its triplets, weigh the same in total however few they are. In a last
    batch of few rows one or two then weigh as much as all of another batch, and the method learns badly."""

    guidance_weight: ClassVar[float] = 1.0
    """Weight of the guidance in balance with the method's own loss (``SurrogatePull(weight="balanced")``)."""

    recommended: ClassVar[Mapping[str, Mapping[str, Any] | str]] = {}
    """What the recipe "tuned" sets with each pull ("none", "surrogate" or "bits"), where the user says nothing.

    Settings of a training (``batch_size``, ``lr``, ``schedule``, ``dropout``), and ``options`` and ``guidance``, each
    a dict whose values may be functions of ``bits``. What is not named is as in the recipe "paper", and so is
    everything with a pull whose settings are "paper".
    """

    recommended_long: ClassVar[Mapping[str, Mapping[str, Any] | str]] = {}
    """What takes the place of these settings for codes of 48 bits and more (``LONG``)."""

    search_space: ClassVar[Mapping[str, Any]] = {}
    """Ranges of the options that ``lbhash tune`` searches, written as in its ``--space`` file.

    A range is ``{"low": …, "high": …, "log": …}``, ``{"choices": [ … ]}``, or a function of ``bits`` that returns one.
    """

    def begin_epoch(self, epoch: int) -> None:
        """Prepare the epoch, which counts from 0. It is called before each epoch."""

    def end_training(self) -> None:
        """Finish with the outputs of the last epoch. It is called once, after that epoch."""

    def class_scores(self, signs: Tensor) -> Tensor | None:
        """Return the scores ``[n, C]`` of the method's own classifier for codes ``float [n, bits]`` of ±1, if any.

        They must be ``signs @ W``, without a bias: the model stores W only.
        """
        return None

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar.

        ``logits`` are the raw outputs, ``float [n, bits]``; ``labels`` are ``int64 [n]`` or multi-hot ``float [n, C]``;
        ``index`` are the rows' positions in the training set, ``int64 [n]``.
        """
        raise NotImplementedError


class Wrapped(Objective):
    """An objective around a host method, which passes on epochs and class scores."""

    def __init__(self, host: Objective) -> None:
        super().__init__()
        self.host = host

    def begin_epoch(self, epoch: int) -> None:
        """Begin the host's epoch."""
        self.host.begin_epoch(epoch)

    def end_training(self) -> None:
        """End the host's training."""
        self.host.end_training()

    def class_scores(self, signs: Tensor) -> Tensor | None:
        """Return the host's scores."""
        return self.host.class_scores(signs)

    def host_loss(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the host's loss of a batch, a scalar, which is checked."""
        return check_loss(self.host(logits, labels, index), self.host, logits)


def check_loss(loss: Any, objective: nn.Module, logits: Tensor) -> Tensor:
    """Return a loss; raise ``TypeError`` or ``ValueError`` unless it is a scalar with a gradient."""
    name = type(objective).__name__
    if not isinstance(loss, Tensor) or loss.ndim:
        what = f"a tensor of shape {list(loss.shape)}" if isinstance(loss, Tensor) else repr(loss)
        raise TypeError(f"method {name} returned {what}; its loss must be a scalar tensor")
    if logits.requires_grad and not loss.requires_grad:
        raise ValueError(f"method {name} returned a loss without a gradient; it must be computed from the logits")
    return loss
