"""Rows to learn from, and the batches that a process takes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from lbhash.data.dataset import EmbeddingSplit


@runtime_checkable
class TrainingRows(Protocol):
    """Rows to learn from, of embeddings or images.

    Attributes:
        labels: of all rows, ``int64 [n]``, or multi-hot ``float [n, C]``.
    """

    labels: Tensor

    def __len__(self) -> int:
        """n, the number of rows."""
        ...

    def inputs(self, index: npt.NDArray[np.int64], epoch: int) -> Tensor:
        """What the model takes of these rows, ``[m, ...]``.

        What is random in it, augmentation say, must follow from the seed, the epoch and the row alone: the processes
        that read the rows are not the same in a resumed run.
        """
        ...

    def fingerprint(self) -> str:
        """What identifies the rows, so that no other rows are resumed with."""
        ...


class EmbeddingRows:
    """The rows of a split of embeddings, converted to float32 a batch at a time."""

    def __init__(self, part: EmbeddingSplit) -> None:
        if part.labels is None:
            raise ValueError("part has no labels; training needs one for each row")
        self.part = part
        labels = torch.from_numpy(part.labels)
        self.labels = labels if labels.ndim == 1 else labels.float()

    def __len__(self) -> int:
        return len(self.part)

    def inputs(self, index: npt.NDArray[np.int64], epoch: int) -> Tensor:
        """Embeddings at these positions, ``float32 [m, dim]``, the same in every epoch."""
        return torch.from_numpy(self.part.take(index))

    def fingerprint(self) -> str:
        """Of embeddings and labels."""
        return self.part.fingerprint()


def as_rows(rows: EmbeddingSplit | TrainingRows) -> TrainingRows:
    """Rows to learn from, of a split of embeddings too."""
    return EmbeddingRows(rows) if isinstance(rows, EmbeddingSplit) else rows


class ShuffledBatches(Sampler):
    """Batches in an order that follows from seed and epoch alone.

    A last batch of one row, which has no pair, joins the batch before it.
    """

    def __init__(self, rows: int, batch_size: int, seed: int) -> None:
        self.rows, self.batch_size, self.seed, self.epoch = rows, batch_size, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Called before each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        full, rest = divmod(self.rows, self.batch_size)
        return max(1, full + (rest > 1))

    def __iter__(self) -> Iterator[npt.NDArray[np.int64]]:
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.rows)
        last = len(self) - 1
        for batch in range(len(self)):
            yield order[batch * self.batch_size : None if batch == last else (batch + 1) * self.batch_size]


class Turn(NamedTuple):
    """What a process takes of a batch."""

    epoch: int
    own: npt.NDArray[np.int64]
    """The rows that it computes."""
    whole: npt.NDArray[np.int64]
    """The rows of the batch, those of the other processes among them."""


class Turns(Sampler):
    """The turns of one of several processes, which cut every batch into slices.

    All slices of a batch have the same length m, ⌈n / world⌉; where n is not m times world, the last ones are filled up
    with the first rows of the batch, which are computed twice and counted once: the slices in their order, cut at n,
    are the batch.

    Args:
        batches: in their order; with a ``set_epoch`` where the order depends on the epoch.
        rank: which of the processes this is.
        world: how many there are.
        epoch: the one to begin with.
    """

    def __init__(self, batches: Iterable[npt.NDArray[np.int64]], rank: int = 0, world: int = 1, epoch: int = 0) -> None:
        self.batches, self.rank, self.world = batches, rank, world
        self.set_epoch(epoch)

    def set_epoch(self, epoch: int) -> None:
        """Called by Lightning before each epoch."""
        self.epoch = epoch
        if isinstance(self.batches, ShuffledBatches):
            self.batches.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self.batches)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Turn]:
        for whole in self.batches:
            yield Turn(self.epoch, self._slice(whole), whole)

    def _slice(self, whole: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        if self.world == 1:
            return whole
        length = -(-len(whole) // self.world)
        return np.resize(whole, length * self.world)[self.rank * length : (self.rank + 1) * length]


class _ByTurns(Dataset):
    """A turn in, tensors out: the inputs of its own rows, and labels and positions of the whole batch."""

    def __init__(self, rows: TrainingRows) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, turn: Turn) -> tuple[Tensor, Tensor, Tensor]:
        positions = torch.from_numpy(turn.whole)
        return self.rows.inputs(turn.own, turn.epoch), self.rows.labels[positions], positions


def batch_loader(rows: TrainingRows, turns: Turns, *, workers: int = 0, persistent: bool, pin: bool) -> DataLoader:
    """Reads the turns, in ``workers`` processes of its own, or here where there are none."""
    return DataLoader(
        _ByTurns(rows),
        sampler=turns,
        batch_size=None,
        num_workers=workers,
        persistent_workers=persistent and workers > 0,
        pin_memory=pin,
        generator=torch.Generator(),  # else an epoch's iterator draws from PyTorch's, sooner in a resumed run
    )


def in_order(rows: int, batch_size: int) -> list[npt.NDArray[np.int64]]:
    """All rows in their order, so many at a time."""
    return [np.arange(start, min(start + batch_size, rows)) for start in range(0, rows, batch_size)]
