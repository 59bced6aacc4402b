"""Pairs of rows: their similarity, their weights and their likelihood, as the pairwise methods use them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


def similar(a: Tensor, b: Tensor) -> Tensor:
    """Return s_ij, whether row i of ``a`` and row j of ``b``, class numbers or multi-hot, share a label, ``[n, m]``."""
    if a.ndim == 1:
        return a[:, None] == b[None, :]
    return a.float() @ b.float().T > 0


def straight_through(values: Tensor, logits: Tensor) -> Tensor:
    """Return exactly ``values``, whose gradient goes to ``logits`` as it is (the straight-through estimator)."""
    return values + (logits - logits.detach())


def other_rows(rows: Tensor) -> Tensor:
    """Return which pairs of a batch are of different rows, ``bool [n, n]``: all i ≠ j."""
    return ~torch.eye(len(rows), dtype=torch.bool, device=rows.device)


def balanced_mean(values: Tensor, labels: Tensor) -> Tensor:
    """Return the weighted mean of ``values`` ``[n, n]`` over the pairs i ≠ j of a batch; 0 for a batch of one row.

    The weights w_ij are those of HashNet (equation 2) and DCH (equation 2), by which similar and dissimilar pairs weigh
    the same in total: c_ij·|S| / |S₁| for similar and |S| / |S₀| for dissimilar pairs. S are all pairs, and c_ij is the
    Jaccard similarity of the labels (1 where there is one label a row). Pairs of one kind only weigh 1.
    """
    pairs = other_rows(values)
    s = similar(labels, labels) & pairs
    d = ~s & pairs
    size, size1, size0 = pairs.sum(), s.sum(), d.sum()
    weights = s * (size / size1.clamp(min=1)) + d * (size / size0.clamp(min=1))
    if labels.ndim == 2:
        y = labels.float()
        common, each = y @ y.T, y.sum(1)
        jaccard = common / (each[:, None] + each[None, :] - common).clamp(min=1)
        weights = torch.where(s, weights * jaccard, weights)
    return (weights * values).sum() / size.clamp(min=1)


def pair_mean(values: Tensor, chosen: Tensor | None = None) -> Tensor:
    """Return the mean of ``values`` ``[n, n]`` over the pairs i ≠ j, all or those that are chosen; 0 without any."""
    pairs = other_rows(values)
    if chosen is not None:
        pairs &= chosen
    return torch.where(pairs, values, 0).sum() / pairs.sum().clamp(min=1)


def quantization(u: Tensor) -> Tensor:
    """Return the mean of (u − bin(u))² over all bits."""
    return (u.abs() - 1).square().mean()


def likelihood_loss(inner: Tensor, s: Tensor) -> Tensor:
    """Return −log p(s_ij | θ_ij) = log(1 + exp θ_ij) − s_ij θ_ij, elementwise."""
    return F.softplus(inner) - s * inner


def soft_histograms(u: Tensor, bins: int, chosen: Tensor) -> Tensor:
    """Return for each row a histogram of its distances to the chosen other rows, ``[n, bins + 1]``.

    The distance d = ½(h − ⟨u_i, u_j⟩) counts max(0, 1 − |d − t|/Δ) at each t = 0, Δ, 2Δ … h, where Δ = h / bins: one in
    total, shared by the two nearest t, so that the count has a gradient. ``chosen`` is ``bool [n, n]``, or
    how much each row counts.
    """
    bits = u.shape[1]
    place = ((bits - u @ u.T) / 2).clamp(0, bits) * (bins / bits)
    below = place.detach().floor().clamp(max=bins - 1)
    at, chosen = below.long(), chosen.to(u.dtype)
    upper = (place - below) * chosen
    counts = u.new_zeros(len(u), bins + 1)
    return counts.scatter_add(1, at, chosen - upper).scatter_add(1, at + 1, upper)


class Memory(torch.nn.Module):
    """The latest outputs of the whole training set, which DBDH and DSDH pair the batch with (MDS has moving averages).

    A row that has not been seen yet has outputs 0 and θ 0, so it pulls nothing.
    """

    outputs: Tensor
    labels: Tensor

    def __init__(self, labels: Tensor, bits: int) -> None:
        super().__init__()
        self.register_buffer("outputs", torch.zeros(len(labels), bits))
        self.register_buffer("labels", labels, persistent=False)

    def pair_loss(self, u: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Store ``u``, and return the mean of −log p(s_ij | θ_ij) over i in the batch and j in the training set.

        θ_ij = ½⟨u_i, u_j⟩. The gradient reaches the batch's rows only.
        """
        self.outputs[index] = u.detach().to(self.outputs.dtype)
        return _MeanLikelihoodLoss.apply(u, self.outputs, similar(labels, self.labels))


class _MeanLikelihoodLoss(torch.autograd.Function):
    """mean_ij [log(1 + exp θ_ij) − s_ij θ_ij] with θ_ij = ½⟨u_i, v_j⟩, and its gradient ½ (σ(θ) − s) V / (n·m) for u.

    It is written by hand because autograd would store, and read again, five arrays of the size of all pairs, which took
    most of a step of DBDH and DSDH.
    """

    @staticmethod
    def forward(ctx: Any, u: Tensor, v: Tensor, s: Tensor) -> Tensor:
        theta = u @ v.T / 2
        similar = s.to(theta.dtype)
        loss = F.softplus(theta).sum() - torch.dot(similar.view(-1), theta.view(-1))
        ctx.gradient = theta.sigmoid_().sub_(similar) @ v / (2 * theta.numel())
        return loss / theta.numel()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return grad * ctx.gradient, None, None
