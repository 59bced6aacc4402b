"""The surrogate P: the posterior of a code's bits, block by block.

The bits of a code are correlated, so their posterior given the model's raw output ℓ is a multivariate Bernoulli
distribution: a probability for each of the 2^h codes. h bits are cut into blocks of r = 8, and per block a small
network learns, by maximum likelihood on the codes seen, the 2^r joint probabilities of the block given its r raw
outputs ("A Lower Bound of Hash Codes' Performance", NeurIPS 2022, Algorithm 1):

    P_j(ℓ_j) = softmax(W2_j · dropout(SiLU(W1_j · ℓ_j + b1_j)) + b2_j),    j = 1 … u = ⌈h / r⌉

The index of a block's outcome is Σ_k 1{b_k > 0}·2^(k-1) over its bits.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from lbhash.models.dropout import keep_mask


class Surrogate(nn.Module):
    """The posterior of each block of ``block_bits`` bits, all blocks in one batched computation.

    If ``bits`` is not a multiple of ``block_bits``, the last block is smaller: its missing inputs are zero and its
    impossible outcomes have probability 0. The defaults are the paper's (8 → 256, SiLU, dropout 0.5, 256 → 256).
    """

    impossible: Tensor
    powers: Tensor

    def __init__(self, bits: int, block_bits: int = 8, hidden: int = 256, dropout: float = 0.5) -> None:
        super().__init__()
        self.bits, self.block_bits, self.hidden, self.dropout = bits, min(block_bits, bits), hidden, dropout
        self.blocks = -(-bits // self.block_bits)
        outcomes = 2**self.block_bits
        last = bits - (self.blocks - 1) * self.block_bits
        self.weight1 = nn.Parameter(torch.empty(self.blocks, self.block_bits, hidden))
        self.bias1 = nn.Parameter(torch.empty(self.blocks, 1, hidden))
        self.weight2 = nn.Parameter(torch.empty(self.blocks, hidden, outcomes))
        self.bias2 = nn.Parameter(torch.empty(self.blocks, 1, outcomes))
        impossible = torch.zeros(self.blocks, 1, outcomes)
        impossible[-1, :, 2**last :] = -math.inf
        self.register_buffer("impossible", impossible, persistent=False)
        self.register_buffer("powers", 2 ** torch.arange(self.block_bits), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize the weights as ``nn.Linear`` does: uniform within ± 1 / √(fan in), block by block."""
        for block in range(self.blocks):
            inputs = min(self.block_bits, self.bits - block * self.block_bits)
            parameters = (self.weight1, self.bias1, self.weight2, self.bias2)
            for parameter, fan_in in zip(parameters, (inputs, inputs, self.hidden, self.hidden), strict=True):
                nn.init.uniform_(parameter[block], -(fan_in**-0.5), fan_in**-0.5)

    def forward(self, logits: Tensor) -> Tensor:
        """Return the logits of the joint probabilities of every block, ``[n, blocks, 2**block_bits]``."""
        hidden = F.silu(torch.baddbmm(self.bias1, self._split(logits), self.weight1))
        hidden = F.dropout(hidden, self.dropout, self.training)
        return (torch.baddbmm(self.bias2, hidden, self.weight2) + self.impossible).transpose(0, 1)

    def joint(self, logits: Tensor) -> Tensor:
        """Return the joint probabilities of every block, ``[n, blocks, 2**block_bits]``; each block sums to 1."""
        return self(logits).softmax(dim=-1)

    def block_index(self, signs: Tensor) -> Tensor:
        """Return the index of the outcome of every block of codes, ``int64 [n, blocks]``.

        Only the signs of the real numbers ``[n, bits]`` count; 0 counts as +1.
        """
        ones = F.pad((signs >= 0).long(), (0, self.blocks * self.block_bits - self.bits))
        return (ones.view(-1, self.blocks, self.block_bits) * self.powers).sum(-1)

    def losses(self, logits: Tensor, codes: Tensor, centers: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return both losses of Algorithm 1 from one shared forward pass, each with its own gradient.

        L_π = 1/n Σ_i Σ_j −log P_j(b_i | ℓ_i), whose gradient reaches the surrogate only, and
        L_θ = 1/n Σ_p Σ_j −log P_j(c_p | ℓ_{rows(p)}), whose gradient reaches the logits only,
        so that one backward pass over L_π + L_θ is Algorithm 1's two updates. ``codes [n, blocks]`` and ``centers
        [pairs, blocks]`` are block indices; ``rows [pairs]`` has the row of ``logits [n, bits]`` of each center, as a
        row with several labels has several.
        """
        shape = (self.blocks, len(logits), self.hidden)
        keep = keep_mask(self.dropout, shape, logits) if self.training else None
        weights = (self.weight1, self.bias1, self.weight2, self.bias2, self.impossible)
        return _RoutedLosses.apply(self._split(logits), *weights, keep, codes.T, centers.T, rows)

    def _split(self, values: Tensor) -> Tensor:
        """Split ``[n, bits]`` into ``[blocks, n, block_bits]``; the last block is padded with zeros."""
        padded = F.pad(values, (0, self.blocks * self.block_bits - self.bits))
        return padded.view(-1, self.blocks, self.block_bits).transpose(0, 1)


class _RoutedLosses(torch.autograd.Function):
    """The forward pass of the surrogate with two losses that have different gradients.

    Written by hand because autograd would need a second forward pass to keep L_π out of ℓ and L_θ out of the
    weights; P(ℓ) is half the cost of the guidance.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        x, w1, b1, w2, b2, impossible, keep, codes, centers, rows = inputs
        z = torch.baddbmm(b1, x, w1)
        a = F.silu(z)
        if keep is not None:
            a *= keep
        log_p = torch.baddbmm(b2, a, w2).add_(impossible).log_softmax(-1)
        blocks = torch.arange(len(x), device=x.device)[:, None]
        n = x.shape[1]
        ctx.save_for_backward(x, w1, w2, keep, z, a, log_p, codes, centers, rows, blocks)
        fit = log_p.gather(2, codes[:, :, None]).sum() / -n
        pull = log_p[blocks, rows, centers].sum() / -n
        return fit, pull

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_fit: Tensor, grad_pull: Tensor) -> tuple[Tensor | None, ...]:
        x, w1, w2, keep, z, a, log_p, codes, centers, rows, blocks = ctx.saved_tensors
        n = x.shape[1]
        p = log_p.exp()

        def to_hidden(g: Tensor) -> Tensor:
            """Return the gradient with respect to z, given the gradient with respect to the outcomes' logits."""
            da = torch.bmm(g, w2.transpose(1, 2))
            return torch.ops.aten.silu_backward(da if keep is None else da.mul_(keep), z)

        dx = dw1 = db1 = dw2 = db2 = None
        if ctx.needs_input_grad[0]:
            pulls = p.new_zeros(n).index_add_(0, rows, p.new_ones(len(rows)))  # a bincount waits for a GPU
            g = p * pulls[:, None]
            minus_one = g.new_full((), -1.0).expand(centers.shape)
            g.index_put_((blocks, rows.expand_as(centers), centers), minus_one, accumulate=True)
            dx = torch.bmm(to_hidden(g), w1.transpose(1, 2)).mul_(grad_pull / n)
        if any(ctx.needs_input_grad[1:5]):
            g = p.scatter_add_(2, codes[:, :, None], p.new_full((), -1.0).expand(*codes.shape, 1)).mul_(grad_fit / n)
            dw2 = torch.bmm(a.transpose(1, 2), g)
            db2 = g.sum(1, keepdim=True)
            dz = to_hidden(g)
            dw1 = torch.bmm(x.transpose(1, 2), dz)
            db1 = dz.sum(1, keepdim=True)
        return dx, dw1, db1, dw2, db2, None, None, None, None, None
