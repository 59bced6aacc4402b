"""Limit the running requests, the waiting requests, and the memory of request bodies; refuse the rest."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from starlette.types import Receive
from threadpoolctl import threadpool_limits

from lbhash.service.errors import ServiceError

T = TypeVar("T")


class Admission:
    """A bounded queue before a thread pool; a request may wait ``seconds`` for a thread.

    At most ``threads + queue`` requests run or wait.
    """

    def __init__(self, threads: int, queue: int, seconds: float) -> None:
        self.places, self.taken, self.running = threads + queue, 0, 0
        self._seconds, self._free = seconds, asyncio.Semaphore(threads)
        self.pool = ThreadPoolExecutor(threads, "lbhash-request", _use_one_thread)

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return ``function(*arguments)``, computed in a thread.

        Raises ``ServiceError`` 503 if all places are taken, or no thread is free in time.
        """
        if self.taken >= self.places:
            raise _busy(f"{self.taken} requests are running or waiting, which is the limit")
        self.taken += 1
        try:
            try:
                await asyncio.wait_for(self._free.acquire(), self._seconds)
            except TimeoutError:
                raise _busy(f"the request waited for {self._seconds:g} seconds") from None
            self.running += 1
            try:
                return await asyncio.get_running_loop().run_in_executor(self.pool, function, *arguments)
            finally:
                self.running -= 1
                self._free.release()
        finally:
            self.taken -= 1


class Bodies:
    """Request bodies: each must arrive within ``seconds``, and all together may take ``room`` bytes of memory.

    If there is no more room, the body that has been arriving the longest is dropped, because it may never end.
    """

    def __init__(self, room: int, seconds: float) -> None:
        self._room, self._seconds, self._held = room, seconds, 0
        self._turns = asyncio.Semaphore(4)
        self._arriving: dict[asyncio.Task[bytes], bytearray] = {}  # the oldest first

    async def take(self, receive: Receive, check_size: Callable[[int], None]) -> bytes:
        """Return a body once it is complete; it takes room until ``give_back`` is called with its size.

        Raises ``ServiceError`` with 408 if it is too slow, 503 if there is no room, 400 if the client has left, and the
        errors of ``check_size``, which gets the size so far.
        """
        body = bytearray()
        task = asyncio.create_task(self._fill(body, receive, check_size))
        self._arriving[task] = body
        try:
            await asyncio.wait({task}, timeout=self._seconds)
            if not task.done():
                raise ServiceError(408, f"the body took longer than {self._seconds:g} seconds to arrive")
            if task.cancelled():
                raise _busy(f"the bodies of other requests fill the {self._room:,} bytes for all")
            return task.result()
        except BaseException:
            task.cancel()
            self.give_back(len(body))
            raise
        finally:
            self._arriving.pop(task, None)

    def give_back(self, size: int) -> None:
        """Free the room of a body of ``size`` bytes."""
        self._held -= size

    async def _fill(self, body: bytearray, receive: Receive, check_size: Callable[[int], None]) -> bytes:
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ServiceError(400, "the client left before all of its body was there")
            piece, more = message.get("body", b""), message.get("more_body", False)
            check_size(len(body) + len(piece))
            body += piece
            self._held += len(piece)
            while self._held > self._room:
                oldest = next(iter(self._arriving))
                if oldest is asyncio.current_task():
                    raise _busy(f"the bodies of all requests may take {self._room:,} bytes")
                oldest.cancel()
                longest = self._arriving.pop(oldest)
                self.give_back(len(longest))
                longest.clear()
            if more and len(piece) >= 1 << 14:
                async with self._turns:  # slow down fast bodies, so that other work gets time
                    await asyncio.sleep(0.001)
        return bytes(body)


def _busy(reason: str) -> ServiceError:
    return ServiceError(503, f"the service is busy: {reason}; try again in a moment", {"Retry-After": "1"})


def _use_one_thread() -> None:
    """Use one core per request: this answers more requests per second than several cores for each."""
    import faiss

    faiss.omp_set_num_threads(1)
    threadpool_limits(1)  # NumPy's matrix products
    if (torch := sys.modules.get("torch")) is not None:  # loaded for a backbone
        torch.set_num_threads(1)
