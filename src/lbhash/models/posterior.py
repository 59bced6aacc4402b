"""The class posterior of a linear model, as a second branch of a hash model's outputs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

TURNS = 0.8
"""Standard deviation of a dither's phases, in turns, over rows whose root mean square is 1."""


class ClassPosterior(nn.Module):
    """λ · (Σ_c p(c | x) · center of c + s · u(x)), which is added to the branch of bits.

    p is the softmax (with ``several`` labels a row, the logistic function of each score) of a linear model of the
    direction of x − mean. The dither u is a triangle wave between −1 and 1 of a random projection of this direction,
    one for each bit. It is nearly independent from row to row, and nearly the same for rows that are nearly the same.
    Without it (s = 0), rows with one posterior share one code, however unsure they are. With it, the expected Hamming
    distance of two rows falls with the probability that they share a class.
    """

    mean: Tensor
    centers: Tensor
    strength: Tensor
    directions: Tensor
    phases: Tensor

    def __init__(self, dim: int, bits: int, classes: int, several: bool = False) -> None:
        super().__init__()
        self.several = several
        self.linear = nn.Linear(dim, classes)
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("centers", torch.zeros(classes, bits))  # times λ
        self.register_buffer("strength", torch.zeros(bits))  # λ · s
        self.register_buffer("directions", torch.zeros(bits, dim))
        self.register_buffer("phases", torch.zeros(bits))

    @property
    def config(self) -> dict[str, int | bool]:
        """The branch's part of the model's configuration."""
        return {"classes": len(self.centers), "several": self.several}

    def scores(self, x: Tensor) -> Tensor:
        """Return the linear model's scores, ``[n, C]``."""
        found: Tensor = self.linear(self.directed(x))
        return found

    def directed(self, x: Tensor) -> Tensor:
        """Return the directions of embeddings from their mean, ``[n, dim]``."""
        return F.normalize(x - self.mean, dim=1)

    def probabilities(self, x: Tensor) -> Tensor:
        """Return p(c | x), ``[n, C]``."""
        scores = self.scores(x)
        return scores.sigmoid() if self.several else scores.softmax(dim=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the branch's outputs ``[n, bits]`` for embeddings ``[n, dim]``."""
        outputs = self.probabilities(x) @ self.centers
        turns = F.linear(self.directed(x), self.directions, self.phases)
        return outputs + self.strength * (4 * (turns - turns.floor() - 0.5).abs() - 1)
