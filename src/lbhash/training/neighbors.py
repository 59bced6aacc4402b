"""The loss of rows without labels, which partly labeled rows and the coder ``sne`` have in common."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lbhash.losses.pairs import other_rows, straight_through

WIDTH = 0.2
"""τ of ``neighbor_loss`` in standard deviations of a batch's cosines."""


def first_sharpness() -> nn.Parameter:
    """Return log β of ``neighbor_loss`` where a training begins."""
    return nn.Parameter(torch.tensor(15.0).log())


def neighbor_loss(logits: Tensor, rows: Tensor, sharpness: Tensor) -> Tensor:
    """Return how far the neighbors of a batch by code are from those by cosine, of rows without labels.

    L = −mean_i Σ_j p_ij log q_ij over i ≠ j, with p_i = softmax_j(cos(x_i, x_j) / τ),
    q_i = softmax_j(β ⟨b_i, b_j⟩ / h), τ ``WIDTH`` standard deviations of the batch's cosines, and b = sign ℓ,
    which has the gradient of tanh ℓ: stochastic neighbor embedding (Hinton and Roweis, NIPS 2002), with codes for the
    embedding.

    Args:
        logits: ℓ, ``[n, bits]``.
        rows: the embeddings x, ``[n, dim]``.
        sharpness: log β, a scalar.
    """
    b = straight_through(torch.where(logits >= 0, 1.0, -1.0), logits.tanh())
    others = other_rows(rows)
    cosines = F.normalize(rows) @ F.normalize(rows).T
    tau = WIDTH * cosines[others].std().clamp(min=1e-6)
    p = (cosines / tau).masked_fill(~others, -torch.inf).softmax(dim=1)
    products = sharpness.exp() * (b @ b.T) / b.shape[1]
    log_q = products.masked_fill(~others, -torch.inf).log_softmax(dim=1)
    return -(p * log_q.masked_fill(~others, 0)).sum(dim=1).mean()
