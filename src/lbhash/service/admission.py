"""Limits how many requests are computed at once and how many wait; refuses the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from lbhash.service.errors import ServiceError

T = TypeVar("T")


class Admission:
    """A bounded queue before a pool of threads, for one of which a request may wait ``seconds``.

    A request holds a place from before its body is read until it is answered, so that the memory of all requests is at
    most the number of places (``threads + queue``) times the largest body.
    """

    def __init__(self, threads: int, queue: int, seconds: float) -> None:
        self.places, self.taken, self.running = threads + queue, 0, 0
        self._seconds, self._free = seconds, asyncio.Semaphore(threads)
        self.pool = ThreadPoolExecutor(threads, "lbhash-request", _use_one_thread)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place while the block runs; raise ``ServiceError`` 503 if all places are taken."""
        if self.taken >= self.places:
            raise _busy(f"{self.taken} requests are running or waiting, which is the limit")
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return ``function(*arguments)``, computed in a thread; raise ``ServiceError`` 503 if none is free in time."""
        try:
            await asyncio.wait_for(self._free.acquire(), self._seconds)
        except asyncio.TimeoutError:
            raise _busy(f"the request waited for {self._seconds:g} seconds") from None
        self.running += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.pool, function, *arguments)
        finally:
            self.running -= 1
            self._free.release()


def _busy(reason: str) -> ServiceError:
    return ServiceError(503, f"the service is busy: {reason}; try again in a moment", {"Retry-After": "1"})


def _use_one_thread() -> None:
    """Let each request use one processor: this answers more requests a second than several processors for each."""
    import faiss
    import torch

    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
