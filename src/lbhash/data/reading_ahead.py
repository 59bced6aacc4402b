"""Read batches of rows in processes beside the model, a few batches ahead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


class ReadAhead:
    """An iterable of ``reader[rows]`` for each batch of rows, in order; each loop reads them anew.

    Args:
        reader: takes the rows of a batch, and returns a tensor, or a tuple or list with tensors.
        batches: the rows of each batch.
        workers: number of processes that read; with 0 this process does.
        keep: keep the processes for the next loop.
        pin: put the tensors into memory that a GPU reads faster.
    """

    def __init__(
        self, reader: Any, batches: Iterable[Any], workers: int = 0, *, keep: bool = False, pin: bool = False
    ) -> None:
        import torch
        from torch.utils.data import DataLoader

        self._loader: Any = DataLoader(
            _Guarded(reader, workers),  # type: ignore[arg-type]
            sampler=batches,
            batch_size=None,
            num_workers=workers,
            collate_fn=_unchanged,
            pin_memory=pin,
            persistent_workers=keep and workers > 0,
            generator=torch.Generator(),  # or loops draw from PyTorch's generator, and a resumed training differs
        )

    def __iter__(self) -> Iterator[Any]:
        try:
            batches = iter(self._loader)
        except OSError as error:
            said = f"workers is {self._loader.num_workers}, whose processes cannot start"
            raise ValueError(f"{said}: {error.strerror}; take fewer, or 0") from None
        for batch in batches:
            if isinstance(batch, Exception):
                raise batch
            yield batch


class _Guarded:
    """Returns users' errors in place of batches, because a ``DataLoader`` would make a page of a process's error."""

    def __init__(self, reader: Any, workers: int) -> None:
        self._reader, self._workers = reader, workers

    def __getitem__(self, rows: Any) -> Any:
        try:
            batch = self._reader[rows]
            if self._workers:
                self._share(batch)
        except (ValueError, TypeError, OSError, MemoryError) as error:
            return error
        return batch

    def _share(self, batch: Any) -> None:
        """Move tensors to shared memory here: where it is full, the queue would lose the batch, and wait for ever."""
        from torch import Tensor

        for one in batch if isinstance(batch, (tuple, list)) else (batch,):
            if isinstance(one, Tensor) and one.numel():
                try:
                    one.share_memory_()
                except RuntimeError as error:
                    said = f"workers is {self._workers}, and the memory that they share (/dev/shm) is full"
                    raise ValueError(f"{said}; enlarge it (Docker: shm-size), or take 0") from error


def _unchanged(batch: Any) -> Any:
    return batch
