"""The base class of coders that train a head on batches of rows without labels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lbhash.data.split import EmbeddingSplit
from lbhash.models.hash_model import HashModel
from lbhash.training.coders.base import MOST_TRAINED, Coder, finite_standardization
from lbhash.training.optimizers import Adam


class BatchCoder(Coder):
    """A coder that minimizes a loss of batches by Adam, with a cosine learning-rate schedule.

    Training makes ``epochs`` passes over the rows, but at most ``steps`` steps.
    """

    needs_labels = False
    hidden: ClassVar[int] = 1024
    batch: ClassVar[int] = 64
    epochs: ClassVar[int] = 100
    steps: ClassVar[int] = 2_000
    lr: ClassVar[float] = 1e-3

    @abstractmethod
    def loss(self, model: HashModel, x: Tensor) -> Tensor:
        """Return the loss of embeddings ``[n, dim]``, n even; ``half_cosines`` may pair the halves."""

    def begin(self, model: HashModel, rows: EmbeddingSplit) -> list[nn.Parameter]:
        """Prepare the head (standardized input, random weights), and return the parameters to train."""
        return list(model.parameters())

    def inputs(self, rows: EmbeddingSplit) -> Tensor:
        """Return the rows that batches are drawn from, ``[n, ...]``; by default the embeddings."""
        return torch.from_numpy(rows.subsample(MOST_TRAINED).take(slice(None)))

    def picks(self, x: Tensor, size: int, steps: int) -> Iterator[Tensor]:
        """Yield the row positions of each step's batch; each pass takes all rows in a new random order."""
        batches = len(x) // size
        for step in range(steps):
            if step % batches == 0:
                order = torch.randperm(len(x)).split(size)
            yield order[step % batches]

    def finish(self, model: HashModel, x: Tensor) -> None:
        """Set values that depend on the trained head and the rows ``[n, dim]``."""

    def fit(self, rows: EmbeddingSplit) -> HashModel:
        """Return the trained head.

        Raises:
            ValueError: an embedding is NaN or infinite, or all rows are equal.
        """
        mean, deviation = finite_standardization(rows)
        if not deviation.any():
            raise ValueError("the rows are all equal; there is nothing to tell them apart by")
        x = self.inputs(rows)
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(int(self.rng.integers(2**63)))
            model = HashModel(rows.dim, self.bits, self.hidden, dropout=0.0)
            model.set_standardization(mean, deviation)
            self._train(model, x, self.begin(model, rows))
        model.eval()
        with torch.no_grad():
            self.finish(model, x)
        return model

    def _train(self, model: HashModel, x: Tensor, parameters: list[nn.Parameter]) -> None:
        size = min(self.batch, len(x) // 2 * 2)
        steps = min(self.epochs * (len(x) // size), self.steps)
        optimizer = Adam(parameters, self.lr, fused=True)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        for rows in self.picks(x, size, steps):
            optimizer.zero_grad()
            self.loss(model, x[rows]).backward()
            optimizer.step()
            schedule.step()


def half_cosines(rows: Tensor) -> Tensor:
    """Return the cosine of each row of the first half with its partner in the second, ``[n / 2]`` from ``[n, …]``."""
    first, second = rows.chunk(2)
    return F.cosine_similarity(first, second)
