"""How long and how fast to learn: the learning rate as a function of epoch and step alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, get_args

ScheduleName = Literal["step", "cosine", "linear", "constant"]
SCHEDULES: tuple[str, ...] = get_args(ScheduleName)

BACKBONE_SHARE = 0.1
"""The learning rate of a backbone, as a share of the head's, where none is named."""


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to learn.

    With t = epoch + step / steps, which counts epochs in fractions, the learning rate is ``lr`` times

    - step: decay^⌊epoch / decay_every⌋, the paper's;
    - cosine: (1 + cos πs) / 2, with s = (t − warmup) / (epochs − warmup);
    - linear: 1 − s;
    - constant: 1;

    and during the first ``warmup`` epochs (t + 1 / steps) / warmup times that, with s = 0. It follows from epoch and
    step alone, so that a resumed run repeats the killed one.

    Attributes:
        epochs: passes over the training set.
        batch_size: rows in a step; in each process where there are several.
        lr: Adam's learning rate, of model and surrogate alike.
        decay: factor of the learning rate every ``decay_every`` epochs ("step" only).
        decay_every: epochs between two decays ("step" only).
        schedule: one of ``SCHEDULES``.
        warmup: epochs over which the learning rate rises linearly; fractions are allowed.
        backbone_lr: the learning rate of a backbone that is fine-tuned, which follows the same schedule; a tenth of
            ``lr`` where it is not given.

    The defaults but the epochs are the paper's, which trains for 100.
    """

    epochs: int = 30
    batch_size: int = 64
    lr: float = 1e-3
    decay: float = 0.1
    decay_every: int = 10
    schedule: ScheduleName = "step"
    warmup: float = 0.0
    backbone_lr: float | None = None

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("batch_size", 2), ("decay_every", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} is {value!r}; it must be an integer of at least {least}")
            if value < least:
                raise ValueError(f"{name} is {value}; it must be at least {least}")
        for name in ("lr", "decay", "backbone_lr"):
            rate: Any = getattr(self, name)
            if rate is None and name == "backbone_lr":
                continue
            if isinstance(rate, bool) or not isinstance(rate, Real):
                raise TypeError(f"{name} is {rate!r}; it must be a number above 0")
            if not 0 < float(rate) < math.inf:
                raise ValueError(f"{name} is {rate}; it must be above 0 and finite")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule is {self.schedule!r}; it must be one of {', '.join(SCHEDULES)}")
        if isinstance(self.warmup, bool) or not isinstance(self.warmup, Real):
            raise TypeError(f"warmup is {self.warmup!r}; it must be a number of epochs, from 0 to below {self.epochs}")
        if not 0 <= self.warmup < self.epochs:
            raise ValueError(f"warmup is {self.warmup}; it must be at least 0 and below epochs ({self.epochs})")

    def rate(self, epoch: int, step: int = 0, steps: int = 1) -> float:
        """The learning rate of a step, of ``steps`` that the epoch has; both count from 0."""
        return self.lr * self._factor(epoch, step, steps)

    def backbone_rate(self, epoch: int, step: int = 0, steps: int = 1) -> float:
        """The same of a backbone."""
        lr = BACKBONE_SHARE * self.lr if self.backbone_lr is None else self.backbone_lr
        return lr * self._factor(epoch, step, steps)

    def _factor(self, epoch: int, step: int, steps: int) -> float:
        done = max(0.0, (epoch + step / steps - self.warmup) / (self.epochs - self.warmup))
        if self.schedule == "step":
            factor = self.decay ** (epoch // self.decay_every)
        elif self.schedule == "cosine":
            factor = (1 + math.cos(math.pi * done)) / 2
        elif self.schedule == "linear":
            factor = 1 - done
        else:
            factor = 1.0
        begun = epoch + (step + 1) / steps
        return factor * begun / self.warmup if begun < self.warmup else factor
