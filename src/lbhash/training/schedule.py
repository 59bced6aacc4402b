"""The length of a training and its learning rate, which depends only on epoch and step."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from lbhash.losses.registry import PAPER
from lbhash.training.settings import ScheduleName, Settings

BACKBONE_SHARE = 0.1
"""The default learning rate of a backbone, as a share of the head's."""


@dataclass(frozen=True)
class Schedule:
    """The length of a training and its learning rate.

    With t = epoch + step / steps, which counts epochs in fractions, the learning rate is ``lr`` times

    - step: decay^⌊epoch / decay_every⌋, the paper's;
    - cosine: (1 + cos πs) / 2, with s = t / epochs;
    - linear: 1 − s;
    - constant: 1.

    It depends only on epoch and step, so a resumed run repeats the killed one.

    ``decay`` and ``decay_every`` (epochs) are for "step" only; the other fields are those of ``Settings``. A fine-tuned
    backbone follows the same schedule from ``backbone_lr``, or if None, from a tenth of ``lr``. The defaults are the
    paper's, except ``epochs`` (100 in the paper).
    """

    epochs: int = 30
    batch_size: int = PAPER["batch_size"]
    lr: float = PAPER["lr"]
    decay: float = 0.1
    decay_every: int = 10
    schedule: ScheduleName = PAPER["schedule"]
    backbone_lr: float | None = None

    @classmethod
    def of(cls, arguments: Settings) -> Schedule:
        """Return the schedule of a training with these arguments; the paper's values replace None."""
        given = {one.name: getattr(arguments, one.name, None) for one in fields(cls)}
        return cls(**{name: value for name, value in given.items() if value is not None})

    def rate(self, epoch: int, step: int = 0, steps: int = 1) -> float:
        """The learning rate of a step of an epoch with ``steps`` steps; epochs and steps count from 0."""
        return self.lr * self._factor(epoch, step, steps)

    def backbone_rate(self, epoch: int, step: int = 0, steps: int = 1) -> float:
        """The learning rate of a backbone in that step."""
        lr = BACKBONE_SHARE * self.lr if self.backbone_lr is None else self.backbone_lr
        return lr * self._factor(epoch, step, steps)

    def _factor(self, epoch: int, step: int, steps: int) -> float:
        done = (epoch + step / steps) / self.epochs
        if self.schedule == "step":
            return self.decay ** (epoch // self.decay_every)
        if self.schedule == "cosine":
            return (1 + math.cos(math.pi * done)) / 2
        return 1 - done if self.schedule == "linear" else 1.0
