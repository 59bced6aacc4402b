"""DSDH: Deep Supervised Discrete Hashing (Li, Sun, He, Tan; NeurIPS 2017)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from lbhash.losses.base import Objective, Task, tuned
from lbhash.losses.classes import one_hot
from lbhash.losses.pairs import Memory
from lbhash.utils.validation import check_float, check_int


class DSDH(Objective):
    """The likelihood of pairs, and a linear classifier on discrete codes B that pull the outputs.

    L = mean_ij [log(1 + exp θ_ij) − s_ij θ_ij] + μ‖Y − WᵀB‖² + ν‖W‖² + η‖B − U‖²,  B ∈ {±1},  θ_ij = ½⟨u_i, u_j⟩

    i runs over the batch, j over the latest outputs U of the whole training set. Y are the labels, one-hot. Before
    every epoch W is set in closed form and B bit by bit (``update_codes``). Within an epoch the network descends the
    pair term and η‖B − U‖², as a mean over the batch's bits. (DeepHash-pytorch leaves that last term out of the loss,
    so that B never reaches the network; the paper has it.)

    Args:
        mu: μ, the weight of the classification.
        nu: ν, the weight of the ridge.
        eta: η, the weight of the pull to the discrete codes.
        sweeps: how often W and B are set before each epoch.
    """

    uses_centers = False
    recommended: ClassVar = {
        "none": tuned(batch_size=128, lr=1.7e-3, dropout=0.28, options={"mu": 0.2, "nu": 0.012, "eta": 0.45}),
        "surrogate": tuned(
            batch_size=512, lr=7.7e-3, dropout=0.51, options={"mu": 0.12, "nu": 0.017, "eta": 0.32}, weight=0.75
        ),
    }
    recommended_long: ClassVar = {
        "none": {"batch_size": 128, "lr": 1.5e-3, "dropout": 0.0, "options": {}},
        "surrogate": "paper",
    }
    search_space: ClassVar = {name: {"low": 1e-2, "high": 10.0, "log": True} for name in ("mu", "nu", "eta")}
    targets: Tensor
    weights: Tensor
    codes: Tensor

    def __init__(self, task: Task, *, mu: float = 1.0, nu: float = 1.0, eta: float = 1.0, sweeps: int = 3) -> None:
        super().__init__()
        self.mu = check_float(mu, "mu", above=0)
        self.nu = check_float(nu, "nu", above=0)  # with 0, BᵀB may have no inverse
        self.eta = check_float(eta, "eta", 0)
        self.sweeps = check_int(sweeps, "sweeps", 1)
        self.memory = Memory(task.labels, task.bits)
        self.register_buffer("targets", one_hot(task.labels, task.classes), persistent=False)
        self.register_buffer("weights", torch.zeros(task.bits, task.classes))
        signs = 2.0 * torch.randint(0, 2, (len(task.labels), task.bits), generator=task.generator()) - 1
        self.register_buffer("codes", signs)

    def begin_epoch(self, epoch: int) -> None:
        """Set W and B from the latest outputs."""
        self.update_codes()

    def end_training(self) -> None:
        """Set W and B from the outputs of the last epoch."""
        self.update_codes()

    @torch.no_grad()
    def update_codes(self) -> None:
        """Set W in closed form, then B by discrete cyclic coordinate descent.

        W = (BᵀB + ν/μ·I)⁻¹ BᵀY, and bit by bit b_k = sgn(q_k − B' W' w_k), where q_k is column k of Y Wᵀ + η/μ·U and
        B', W' are the rest. This is the exact minimum of μ‖Y − B W‖² + η‖B − U‖² over b_k; rows are samples here.
        """
        b, y, u = self.codes, self.targets, self.memory.outputs
        ridge = self.nu / self.mu * torch.eye(b.shape[1], device=b.device)
        for _ in range(self.sweeps):
            self.weights.copy_(torch.linalg.solve(b.T @ b + ridge, b.T @ y))
            w = self.weights
            q = y @ w.T + self.eta / self.mu * u
            gram = w @ w.T
            gram.fill_diagonal_(0)
            for k in range(b.shape[1]):
                b[:, k] = torch.where(q[:, k] - b @ gram[:, k] >= 0, 1.0, -1.0)

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar. Its gradient is the network's, as W and B are fixed within an epoch."""
        pairs = self.memory.pair_loss(logits, labels, index)
        b = self.codes[index]
        # The terms without ℓ are part of the objective's value and have no gradient.
        classification = (self.targets[index] - b @ self.weights).square().mean()
        constant = self.mu * classification + self.nu * self.weights.square().mean()
        return pairs + constant + self.eta * (b - logits).square().mean()

    def class_scores(self, signs: Tensor) -> Tensor:
        """Return Wᵀ b, ``[n, C]``."""
        return signs @ self.weights
