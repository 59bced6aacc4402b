"""MDS: Deep Hashing with Minimal-Distance-Separated Hash Centers (Wang, Pan, Liang, Yu, Liu; CVPR 2023)."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from lbhash.losses.base import Objective, Task, tuned
from lbhash.losses.classes import cosines, one_hot
from lbhash.losses.pairs import quantization, similar
from lbhash.utils.validation import check_float, check_int


class MDS(Objective):
    """A softmax over the centers with a binary loss for each class; later, similar rows are pulled together.

    u = tanh ℓ,  p_i = softmax_k(√h cos(u_i, c_k)),  L = −mean_ik [y_ik log p_ik + (1 − y_ik) log(1 − p_ik)]
        + λ mean (|u| − 1)² + β mean over (i, j) of log(1 + exp ½(1 − cos(u_i, v_j)))

    The last term is there from epoch ``start`` on. i runs over the batch, j over the rows of the training set that
    share a label with i and have been seen; v_j is row j's moving average of u, in which the latest weighs a tenth. h
    are the bits. This average replaces the authors' second network, which follows the first. The setting ``centers``
    chooses the centers.

    Args:
        lam: λ, the weight of the quantization.
        beta: β, the weight of the pairs.
        start: the epoch, counted from 0, from which on pairs count.
    """

    recommended: ClassVar = {
        "none": tuned(batch_size=256, lr=0.0026, dropout=0.42, options={"lam": 0.0075, "beta": 1.9}),
        "surrogate": tuned(
            batch_size=128, lr=0.0024, dropout=0.57, options={"lam": 2.1e-05, "beta": 0.24}, weight=0.59
        ),
    }
    recommended_long: ClassVar = {
        "none": {"batch_size": 128, "lr": 0.0015, "dropout": 0.0, "options": {}},
        "surrogate": "paper",
    }
    search_space: ClassVar = {
        "lam": {"low": 1e-5, "high": 1e-1, "log": True},
        "beta": {"low": 1e-2, "high": 10.0, "log": True},
    }
    centers: Tensor
    outputs: Tensor
    labels: Tensor

    def __init__(self, task: Task, *, lam: float = 1e-4, beta: float = 1.0, start: int = 10) -> None:
        super().__init__()
        self.lam = check_float(lam, "lam", 0)
        self.beta = check_float(beta, "beta", 0)
        self.start = check_int(start, "start", 0)
        self.epoch = 0
        self.register_buffer("centers", task.centers.float())
        self.register_buffer("labels", task.labels, persistent=False)
        self.register_buffer("outputs", torch.zeros(len(task.labels), task.bits))

    def begin_epoch(self, epoch: int) -> None:
        """Count the epochs."""
        self.epoch = epoch

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar."""
        u, y = logits.tanh(), one_hot(labels, len(self.centers))
        scores = logits.shape[1] ** 0.5 * cosines(u, self.centers)
        p = scores.softmax(dim=1)
        loss = -(
            y * scores.log_softmax(dim=1) + (1 - y) * (1 - p).clamp(min=1e-7).log()
        ).mean() + self.lam * quantization(u)
        self.outputs[index] = 0.9 * self.outputs[index] + 0.1 * u.detach().to(self.outputs.dtype)
        if self.epoch < self.start:
            return loss
        pairs = similar(labels, self.labels) & self.outputs.any(dim=1)
        pull = F.softplus((1 - cosines(u, self.outputs)) / 2)
        return loss + self.beta * torch.where(pairs, pull, 0).sum() / pairs.sum().clamp(min=1)
