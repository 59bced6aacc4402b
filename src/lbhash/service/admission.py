"""How many requests are computed at once, how many wait, and who is sent away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from lbhash.service.errors import Refused

T = TypeVar("T")


class Admission:
    """A bounded queue before a pool of threads.

    A request takes a place before its body is read and gives it back with its answer, so that what the waiting ones
    hold in memory is bounded by the places times the largest body; it takes a thread only for its computation.

    Args:
        threads: how many are computed at once.
        queue: how many more have a place.
        seconds: how long one may wait for a thread.
    """

    def __init__(self, threads: int, queue: int, seconds: float) -> None:
        self.places, self.taken, self.running = threads + queue, 0, 0
        self._seconds = seconds
        self._free = asyncio.Semaphore(threads)
        self._pool = ThreadPoolExecutor(threads, "lbhash-request", _one_thread)

    @property
    def waiting(self) -> int:
        """How many have a place and no thread."""
        return self.taken - self.running

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place while the block runs; ``Refused`` with 503 where there is none."""
        if self.taken >= self.places:
            raise _busy(f"{self.taken} requests are running or waiting, as many as may")
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """``function(*arguments)`` in a thread, when one is free."""
        try:
            await asyncio.wait_for(self._free.acquire(), self._seconds)
        except asyncio.TimeoutError:
            raise _busy(f"the request waited for {self._seconds:g} seconds") from None
        self.running += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)
        finally:
            self.running -= 1
            self._free.release()

    def close(self) -> None:
        """Take no more work."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _busy(why: str) -> Refused:
    return Refused(503, f"the service is busy: {why}; try again in a moment", {"Retry-After": "1"})


def _one_thread() -> None:
    """A request is computed by one thread: as many requests as processors are faster so than one after the other."""
    import faiss
    import torch

    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
