"""Training rows, and the batches that each process takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Sampler

from lbhash.data.split import Split, TrainingRows


def labels_of(rows: TrainingRows | Split) -> Tensor:
    """Return the labels of rows as a tensor: ``int64 [n]``, or multi-hot ``float [n, C]``."""
    if rows.labels is None:
        raise ValueError("split has no labels; training needs one for each row")
    labels = torch.as_tensor(rows.labels)
    return labels if labels.ndim == 1 else labels.float()


class ShuffledBatches(Sampler):
    """Batches in an order that depends only on seed and epoch.

    A last batch of one row has no pairs, so it joins the batch before it.
    """

    def __init__(self, rows: int, batch_size: int, seed: int) -> None:
        self.rows, self.batch_size, self.seed, self.epoch = rows, batch_size, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch whose order is next."""
        self.epoch = epoch

    def __len__(self) -> int:
        full, rest = divmod(self.rows, self.batch_size)
        return max(1, full + (rest > 1))

    def __iter__(self) -> Iterator[npt.NDArray[np.int64]]:
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.rows)
        last = len(self) - 1
        for batch in range(len(self)):
            yield order[batch * self.batch_size : None if batch == last else (batch + 1) * self.batch_size]


class BatchShard(NamedTuple):
    """The share of a batch that one process computes."""

    epoch: int
    rows: npt.NDArray[np.int64]  # rows for this process
    batch: npt.NDArray[np.int64]  # rows of the whole batch, for all processes


class DistributedBatchSampler(Sampler):
    """The shards of process ``rank`` among ``world`` processes; each batch is cut into slices.

    All slices of a batch of n rows have the same length m = ⌈n / world⌉. If n is less than m · world, the last slices
    are filled with the batch's first rows. These are computed twice but counted once: the concatenated slices, cut at
    n, are the batch.
    """

    def __init__(self, batches: Iterable[npt.NDArray[np.int64]], rank: int = 0, world: int = 1) -> None:
        self.batches, self.rank, self.world = batches, rank, world
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; call this before each one."""
        self.epoch = epoch
        if isinstance(self.batches, ShuffledBatches):
            self.batches.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self.batches)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[BatchShard]:
        for batch in self.batches:
            length = -(-len(batch) // self.world)
            filled = np.resize(batch, length * self.world)
            yield BatchShard(self.epoch, filled[self.rank * length : (self.rank + 1) * length], batch)


class BatchReader:
    """Turns a shard into tensors: the inputs of the shard's rows, and labels and positions of the whole batch."""

    def __init__(self, rows: TrainingRows) -> None:
        self.rows, self.labels = rows, labels_of(rows)

    def __getitem__(self, shard: BatchShard) -> tuple[Tensor, Tensor, Tensor]:
        positions = torch.from_numpy(shard.batch)
        return torch.as_tensor(self.rows.inputs(shard.rows, shard.epoch)), self.labels[positions], positions


def in_order(rows: int, batch_size: int) -> list[npt.NDArray[np.int64]]:
    """Return all rows in order, in batches of ``batch_size``."""
    return np.split(np.arange(rows), range(batch_size, rows, batch_size))
