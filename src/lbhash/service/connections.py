"""Ends the connections on which a client keeps the service waiting; uvicorn itself keeps most of them for ever."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import defaultdict
from typing import Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0  # for the headers of a request, and for the first one to begin
IDLE_SECONDS = 75.0  # between two requests; proxies keep a connection for 60 seconds, and must be those who close it
READ_SECONDS = 30.0  # for the client to read an answer that is too long for the buffers
LINGER_SECONDS = 2.0  # for the client to read an answer that came before the end of its request

_ACCEPTED = 4  # connections that asyncio accepts before it looks at anything else
_SPARE = 24  # file handles for connections that are accepted and not yet seen, and for files

log = logging.getLogger("lbhash.service")


class Held:
    """The open connections: at most ``most``, half of them from one address.

    One more ends the connection that has waited longest for its client; if all are being answered, it is ended itself.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        # Dicts keep their order: who has waited longest comes first. Under None are those of all addresses.
        self._by_address: defaultdict[str | None, dict[Connection, None]] = defaultdict(dict)

    def wait(self, one: Connection) -> None:
        """Note that a connection, a new one or one that was answered, waits for its client from now on."""
        self.leave(one)
        for address in {None, one.address}:
            self._by_address[address][one] = None

    def leave(self, one: Connection) -> None:
        """Forget a connection."""
        for address in {None, one.address}:
            self._by_address[address].pop(one, None)
            if not self._by_address[address]:
                del self._by_address[address]

    def make_room(self, last: Connection) -> None:
        """End the connection that waited longest if the last one is too many."""
        for address, most, where in ((last.address, self._most // 2, " from one address"), (None, self._most, "")):
            if len(held := self._by_address[address]) > most:
                log.warning("%d connections%s are the limit: the one that waited longest was closed", most, where)
                longest = next(one for one in held if one.waits)
                self.leave(longest)
                longest.transport.abort()


class Connection(H11Protocol):
    """A connection of uvicorn with a limit for every time that it waits for its client.

    The body's time is limited in ``Bodies``, how many connections there are in ``Held``.
    """

    def __init__(self, held: Held, **state: Any) -> None:
        super().__init__(**state)
        self.conn = _Pieces(h11.SERVER)
        self.address: str | None = None
        self._held, self._seconds = held, cast("float | None", None)
        self._timer: asyncio.TimerHandle | None = None
        self._in_head, self._answered_early = True, False

    @property
    def waits(self) -> bool:
        """Whether it is the client's turn: to ask, to send more, or to read."""
        return not self._asked or self.cycle.more_body or self.flow.write_paused

    @property
    def _asked(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Limit the time to the first request, and make room."""
        super().connection_made(transport)
        # asyncio reads 256 KiB at a time: many that send without a pause would keep all the others waiting.
        transport.max_size = 1 << 15  # type: ignore[attr-defined]
        self.address = self.client[0] if self.client else None
        self._limit()
        self._held.wait(self)
        self._held.make_room(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the limit."""
        if self._timer is not None:
            self._timer.cancel()
        self._held.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Limit the time from the first to the last byte of the headers."""
        if self._answered_early:
            return
        super().data_received(data)
        if not self._asked and not self._in_head:
            self._in_head = True
            self._held.wait(self)
        self._limit()

    def on_response_complete(self) -> None:
        """Keep the connection if the request is over; otherwise close it, as its rest may have no end."""
        self._held.wait(self)
        if self.cycle.more_body and not self.transport.is_closing():
            # What still comes is thrown away for a moment: if it stayed unread, the client would lose the answer.
            self._answered_early = True
            self.flow.resume_reading()
            if self.transport.can_write_eof():  # not with TLS
                self.transport.write_eof()
        else:
            super().on_response_complete()
        self._limit()

    def timeout_keep_alive_handler(self) -> None:
        """End an idle connection, even if its client has not read the last answer."""
        self.transport.abort()

    def pause_writing(self) -> None:
        """Limit the time for the client to read."""
        super().pause_writing()
        self._limit()

    def resume_writing(self) -> None:
        """Forget that limit."""
        super().resume_writing()
        self._limit()

    def _limit(self) -> None:
        """End the connection when what it waits for now has not come in time; one wait has one limit."""
        if self._asked:
            self._in_head = False
        if self._answered_early:
            seconds: float | None = LINGER_SECONDS
        elif self.transport.is_closing() or self.flow.write_paused:
            seconds = READ_SECONDS
        else:
            seconds = HEAD_SECONDS if self._in_head else None
        if seconds != self._seconds:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)
            self._seconds = seconds


class _Pieces(h11.Connection):
    """Refuses a body in very many small pieces: reading one byte as a piece of its own takes 10 microseconds."""

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
    """A server that accepts few connections at a time, so that it can end others before it runs out of file handles."""

    async def startup(self, sockets: Any = None) -> None:
        """Listen; what is not accepted yet waits in the system."""
        await super().startup(sockets)
        for listening in sockets:
            listening.listen(2048)


def make_server(app: Any, places: int, **tls: Any) -> Server:
    """Return a server of an application that answers ``places`` requests at once, with uvicorn's options for TLS.

    Raises ``ValueError`` if the process may not have enough open files.
    """
    most = min(1024 + 2 * places, 3 * (_free_handles() - _SPARE) // 4)  # a quarter for children and the index
    if most < 8:
        raise ValueError(
            "this process may not open enough files for a few connections; allow more, as by 'ulimit -n 1024'"
        )
    held = Held(most)
    config = uvicorn.Config(
        app,
        http=cast(Any, lambda **state: Connection(held, **state)),
        loop="asyncio",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=_ACCEPTED,
        timeout_keep_alive=cast(int, IDLE_SECONDS),
        timeout_graceful_shutdown=30,  # seconds for the requests that run when the service is told to end
        **tls,
    )
    return Server(config)


def _free_handles() -> int:
    """Return how many more files this process may open, with as high a limit as it may have; very many on Windows."""
    if os.name != "posix":
        return 1 << 30
    import resource

    limit = resource.RLIMIT_NOFILE
    soft, hard = resource.getrlimit(limit)
    if soft != resource.RLIM_INFINITY and soft < 4096:
        soft = 4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)
        resource.setrlimit(limit, (soft, hard))
    return 1 << 30 if soft == resource.RLIM_INFINITY else soft - len(os.listdir("/dev/fd"))
