"""Close connections whose clients keep the service waiting; uvicorn alone keeps most of them forever.

uvicorn's ``limit_concurrency`` also counts silent connections, and refuses everybody once the limit is reached, so it
is not used. Its ``timeout_keep_alive`` between two requests is used, and h11's limit of 16 KiB for headers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from typing import Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0  # to begin the first request, and to send the headers
IDLE_SECONDS = 75.0  # between two requests; longer than proxies' 60 seconds, because the proxy must close first
READ_SECONDS = 30.0  # for the client to read an answer that exceeds the buffers
LINGER_SECONDS = 10.0  # for the rest of a request that is answered early: 16 MiB at 13 MBit/s

_ACCEPTED = 4  # connections that asyncio accepts in a row
_SPARE = 24  # file handles for connections just accepted, and for files

log = logging.getLogger("lbhash.service")


class _Transport:
    """An asyncio transport that, in the middle of a request, signals its end and lets the client close it.

    Closing a transport with unread bytes resets the connection, and the client loses the answer.
    """

    def __init__(self, transport: asyncio.Transport, request: h11.Connection) -> None:
        self._transport, self._request, self._ending = transport, request, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """Return whether writing has ended."""
        return self._ending or self._transport.is_closing()

    def close(self) -> None:
        """Stop writing; read and discard the rest of the request."""
        if self._request.their_state not in (h11.SEND_BODY, h11.ERROR):
            self._transport.close()
            return
        self._ending = True
        self._transport.resume_reading()
        if self._transport.can_write_eof():  # not with TLS
            with contextlib.suppress(OSError):  # the client may have just left
                self._transport.write_eof()


class Connection(H11Protocol):
    """A uvicorn connection with a time limit whenever it waits for its client.

    At most ``most`` connections are open, at most half of them from one address. A further connection ends the one that
    has waited longest; if all others are being answered, it is ended itself. ``Bodies`` limits the time for a body.
    """

    def __init__(self, open_ones: dict[Connection, None], most: int, **state: Any) -> None:
        super().__init__(**state)
        self.conn = _Pieces(h11.SERVER)
        self.address: str | None = None
        self._open, self._most = open_ones, most  # longest wait first
        self._waiting: tuple[Any, float | None] | None = None
        self._since = 0.0

    @property
    def _asked(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Register the connection, and close another one if there are too many."""
        super().connection_made(cast(asyncio.Transport, _Transport(transport, self.conn)))
        # asyncio reads 256 KiB at a time: with many fast senders, all other clients would wait.
        transport.max_size = 1 << 15  # type: ignore[attr-defined]
        self.address = self.client[0] if self.client else None
        self._open[self] = None
        for most, where in ((self._most // 2, " from one address"), (self._most, "")):
            if len(self._open) <= most:  # the usual case: skip the scan below
                continue
            held = [one for one in self._open if not where or one.address == self.address]
            if len(held) > most:
                log.warning("%d connections%s are the limit: the one that waited longest was closed", most, where)
                longest = next(one for one in held if not one._asked or one.cycle.more_body or one.flow.write_paused)
                self._open.pop(longest, None)
                longest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Unregister the connection."""
        self._open.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Discard data that arrives after the last answer."""
        if not self.transport.is_closing():
            super().data_received(data)

    def on_response_complete(self) -> None:
        """Wait for the next request, or close if the request continues after its answer: it may never end."""
        self._open.pop(self, None)
        self._open[self] = None
        goes_on = self.cycle.more_body
        super().on_response_complete()
        if goes_on:
            self.transport.close()

    def resume_writing(self) -> None:
        """Restart the time limit: the client has read something."""
        super().resume_writing()
        self._waiting = None

    def limit(self, now: float) -> None:
        """End the connection if the client is too slow; each wait has one limit."""
        waiting = self.cycle, self._patience()
        if waiting != self._waiting:
            self._waiting, self._since = waiting, now
        elif waiting[1] is not None and now - self._since > waiting[1]:
            self.transport.abort()

    def _patience(self) -> float | None:
        """Return the limit in seconds of the current wait for the client; None for no limit here."""
        if self.flow.write_paused or self.transport.get_write_buffer_size():
            return READ_SECONDS
        if self.transport.is_closing():
            return LINGER_SECONDS
        # uvicorn limits the time between two requests, up to the first byte of the second one.
        return None if self._asked or self.timeout_keep_alive_task is not None else HEAD_SECONDS


class _Pieces(h11.Connection):
    """Refuses a body in very many small pieces: each piece, even of one byte, takes 10 microseconds."""

    def next_event(self) -> Any:
        """Return the next part of a request."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._allowed = 256.0
        elif isinstance(event, h11.Data):
            self._allowed += len(event.data) / 64 - 1
            if self._allowed < 0:
                raise h11.RemoteProtocolError("the body comes in too many small pieces")
        return event


class Server(uvicorn.Server):
    """A server that accepts few connections at a time, so it can close others before file handles run out."""

    async def startup(self, sockets: Any = None) -> None:
        """Listen; connections wait in the operating system until they are accepted."""
        await super().startup(sockets)
        for listening in sockets:
            listening.listen(2048)
        self._sweeping = asyncio.create_task(self._sweep())

    async def _sweep(self) -> None:
        """Twice a second, end connections whose clients are too slow, also during shutdown."""
        while True:
            await asyncio.sleep(0.5)
            for one in list(self.server_state.connections):
                cast(Connection, one).limit(time.monotonic())


def make_server(app: Any, places: int, **tls: Any) -> Server:
    """Return a server for an application that answers ``places`` requests at once; ``tls`` are uvicorn's TLS options.

    Raises ``ValueError`` if the process may not have enough open files.
    """
    most = min(1024 + 2 * places, 3 * (_free_handles() - _SPARE) // 4)  # a quarter for children and the index
    if most < 8:
        raise ValueError(
            "this process may open too few files for connections; allow more, for example by 'ulimit -n 1024'"
        )
    open_ones: dict[Connection, None] = {}
    config = uvicorn.Config(
        app,
        http=cast(Any, lambda **state: Connection(open_ones, most, **state)),
        loop="asyncio",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=_ACCEPTED,
        timeout_keep_alive=cast(int, IDLE_SECONDS),
        timeout_graceful_shutdown=30,  # seconds for running requests at shutdown
        **tls,
    )
    return Server(config)


def _free_handles() -> int:
    """Raise the limit of open files to 4,096 if possible, and return how many are free; very many on Windows."""
    try:
        import resource
    except ImportError:  # Windows
        return 1 << 30
    limit = resource.RLIMIT_NOFILE
    soft, hard = resource.getrlimit(limit)
    if soft != resource.RLIM_INFINITY and soft < 4096:
        soft = 4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)
        resource.setrlimit(limit, (soft, hard))
    return 1 << 30 if soft == resource.RLIM_INFINITY else soft - len(os.listdir("/dev/fd"))
