"""Runs the service under uvicorn, and decides who may reach it."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import ipaddress
import logging
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lbhash.service.settings import Settings
from lbhash.utils.formatting import one_line
from lbhash.utils.system import check_packages

log = logging.getLogger("lbhash.service")

MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of malloc.h


def run(
    settings: Settings,
    host: str,
    port: int,
    report: Callable[[str], None],
    *,
    json_log: bool = False,
    ssl_certfile: Path | None = None,
    ssl_keyfile: Path | None = None,
) -> None:
    """Serve until a signal ends it; ``ValueError`` if a package is missing or the port (0 for any) cannot be used.

    ``report`` gets one line with the address, once the service listens and everything is loaded; with ``json_log`` it
    is in the log, as is a line for every request. With a certificate, uvicorn does TLS.
    """
    check_packages("serve", "serve", "fastapi", "PIL", "prometheus_client", "python_multipart", "uvicorn")
    from lbhash.service.app import create_app
    from lbhash.service.connections import make_server
    from lbhash.service.monitor import start_log

    tls = tls_options(ssl_certfile, ssl_keyfile)
    with listen(host, port) as listening:  # before the model is loaded, so that a port in use is noticed at once
        app = create_app(settings)
        server = make_server(app, app.state.service.admission.places, **tls)
        # uvicorn finishes the running requests, and then raises the signal again to end the process.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        give_back_memory()
        gc.freeze()  # what is loaded stays: to look through it for garbage stops all threads for a quarter of a second
        sys.setswitchinterval(5e-4)  # else the event loop waits 5 ms, again and again, for threads that compute
        start_log(json_log)
        name, number = listening.getsockname()[:2]
        (log.info if json_log else report)(
            f"listening on http{'s' * bool(tls)}://{_bracketed(name)}:{number} (Ctrl-C ends it)"
        )
        server.run(sockets=[listening])


def give_back_memory() -> None:
    """Let the C library give buffers from 128 KiB on back to the system when they are freed, where it is glibc.

    Otherwise it keeps those of each thread once a larger one was freed: 100 MiB after some large bodies.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):  # TypeError: Windows, which has no library of none
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, 1 << 17)


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


def tls_options(certfile: str | Path | None, keyfile: str | Path | None) -> dict[str, Any]:
    """Return uvicorn's options for TLS, none without a certificate; ``ValueError`` if the files cannot be used."""
    if certfile is None and keyfile is None:
        return {}
    if certfile is None:
        raise ValueError("ssl_keyfile is given without ssl_certfile; give the certificate, too")
    try:  # with a password, as otherwise a key that has one would ask for it on the terminal
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certfile, keyfile, password="")
    except OSError as error:
        files = f"ssl_certfile is {str(certfile)!r}" + (f" and ssl_keyfile {str(keyfile)!r}" if keyfile else "")
        told = f"{files}, which must be a certificate and its key without a password"
        raise ValueError(f"{told}: {error.strerror or one_line(error)}") from None
    return {"ssl_certfile": str(certfile), "ssl_keyfile": None if keyfile is None else str(keyfile)}


def allowed_hosts(host: str, protected: bool, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names that requests may be for, which are those of this machine and ``names``; empty for any name.

    If reading needs a token, or beyond this machine, any name is allowed unless ``names`` are given.
    """
    if "*" in names or (not names and (protected or not is_loopback(host))):
        return ()
    return ("localhost", "127.0.0.1", "[::1]", _bracketed(host), *names)


def check_access(host: str, settings: Settings, no_token: bool) -> None:
    """Raise ``ValueError`` if others could use a service that no token protects, unless ``no_token`` lets them read.

    It does not let them change the index.
    """
    if no_token and settings.read_token is not None:
        raise ValueError("LBHASH_READ_TOKEN is given, and so is --no-token; give one of the two")
    if is_loopback(host):
        return
    reached = f"host is {host!r}, which others can reach"
    if settings.writable and settings.write_token is None:
        raise ValueError(f"{reached}; with --writable set LBHASH_WRITE_TOKEN, which requests must bring")
    if not no_token and settings.read_token is None:
        raise ValueError(f"{reached}; set LBHASH_READ_TOKEN, which requests must bring, or give --no-token")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
