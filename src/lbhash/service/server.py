"""Runs the service under uvicorn, and decides who may reach it."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import ipaddress
import logging
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable, Sequence

from lbhash.service.settings import Settings
from lbhash.utils.system import check_packages

MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of malloc.h


def run(settings: Settings, host: str, port: int, report: Callable[[str], None]) -> None:
    """Serve until a signal ends it; ``ValueError`` if a package is missing or the port (0 for any) cannot be used.

    ``report`` gets one line with the address, once the service listens and everything is loaded.
    """
    check_packages("serve", "serve", "fastapi", "PIL", "prometheus_client", "python_multipart", "uvicorn")
    from lbhash.service.app import create_app
    from lbhash.service.connections import make_server

    with listen(host, port) as listening:  # before the model is loaded, so that a port in use is noticed at once
        app = create_app(settings)
        server = make_server(app, app.state.service.admission.places)
        # uvicorn finishes the running requests, and then raises the signal again to end the process.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        give_back_memory()
        gc.freeze()  # what is loaded stays: to look through it for garbage stops all threads for a quarter of a second
        sys.setswitchinterval(5e-4)  # else the event loop waits 5 ms, again and again, for threads that compute
        logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
        for handler in logging.getLogger().handlers:
            handler.addFilter(Sparing())
        logging.getLogger("lbhash.service").setLevel(logging.INFO)
        name, number = listening.getsockname()[:2]
        report(f"listening on http://{_bracketed(name)}:{number} (Ctrl-C ends it)")
        server.run(sockets=[listening])


def give_back_memory() -> None:
    """Let the C library give buffers from 1 MiB on back to the system when they are freed, where it is glibc.

    Otherwise it keeps those of each thread once a larger one was freed: 100 MiB after some large bodies.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):  # TypeError: Windows, which has no library of none
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, 1 << 20)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; ``ValueError`` if it cannot."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise ValueError(f"host is {host!r} and port {port}, where it cannot listen: {error.strerror}") from None
    # Connections inherit it. Otherwise the end of an answer waits for the client to acknowledge its beginning: 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


class Sparing(logging.Filter):
    """Lets ten records of a kind through a minute, and a hundred in all: a client can cause errors without end."""

    def __init__(self) -> None:
        super().__init__()
        self._minute, self._passed, self._seen = 0, 0, Counter[tuple[str, str]]()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written; the last one says that others are not."""
        if (minute := int(record.created // 60)) != self._minute:
            self._minute, self._passed = minute, 0
            self._seen.clear()
        kind = record.name, str(record.msg).partition("\n")[0]
        if self._passed == 100 or self._seen[kind] == 10:
            return False
        self._passed += 1
        self._seen[kind] += 1
        if self._seen[kind] == 10:
            record.msg = f"{record.msg} (no more of these in this minute)"
        return True


def allowed_hosts(host: str, protected: bool, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names that requests may be for, which are those of this machine and ``names``; empty for any name.

    If tokens protect the service, or beyond this machine, any name is allowed unless ``names`` are given.
    """
    if "*" in names or (not names and (protected or not is_loopback(host))):
        return ()
    return ("localhost", "127.0.0.1", "[::1]", _bracketed(host), *names)


def check_access(host: str, protected: bool, no_token: bool, writable: bool = False) -> None:
    """Raise ``ValueError`` if others could use a service that no token protects, unless ``no_token`` allows it.

    It does not allow others to change the index.
    """
    if protected and no_token:
        raise ValueError("token is given, and so is --no-token; give one of the two")
    if not protected and writable and not is_loopback(host):
        raise ValueError(f"host is {host!r}, which others can reach; with --writable give requests a --token to bring")
    if not protected and not no_token and not is_loopback(host):
        raise ValueError(f"host is {host!r}, which others can reach; give requests a --token to bring, or --no-token")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
