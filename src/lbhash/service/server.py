"""Run the service under uvicorn, and decide who may reach it."""

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
    """Serve until a signal arrives; ``ValueError`` if a package is missing or the port (0 for any) cannot be used.

    ``report`` gets one line with the address once everything is loaded. With ``json_log``, this line goes to the log
    instead, and every request is logged. With a certificate, uvicorn uses TLS.
    """
    check_packages("serve", "serve", "fastapi", "PIL", "prometheus_client", "python_multipart", "uvicorn")
    from lbhash.service.app import create_app
    from lbhash.service.connections import make_server
    from lbhash.service.monitor import start_log

    tls = tls_options(ssl_certfile, ssl_keyfile)
    with listen(host, port) as listening:  # first, so that a port in use is noticed before loading
        app = create_app(settings)
        server = make_server(app, app.state.service.admission.places, **tls)
        # uvicorn finishes the running requests, then raises the signal again to end the process.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        give_back_memory()
        gc.freeze()  # loaded objects stay; scanning them for garbage stops all threads for 0.25 s
        sys.setswitchinterval(5e-4)  # otherwise the event loop often waits 5 ms for computing threads
        start_log(json_log)
        name, number = listening.getsockname()[:2]
        (log.info if json_log else report)(
            f"listening on http{'s' * bool(tls)}://{_bracketed(name)}:{number} (Ctrl-C ends it)"
        )
        server.run(sockets=[listening])


def give_back_memory() -> None:
    """Make glibc return freed buffers of at least 128 KiB to the system; other C libraries are left alone.

    Otherwise glibc keeps such buffers for each thread after a larger one was freed: 100 MiB after some large bodies.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):  # TypeError: Windows has no CDLL(None)
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, 1 << 17)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; ``ValueError`` if this fails."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise ValueError(f"host is {host!r} and port {port}, where it cannot listen: {error.strerror}") from None
    # Connections inherit this. Otherwise an answer's end waits 40 ms until the client acknowledges its beginning.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def tls_options(certfile: str | Path | None, keyfile: str | Path | None) -> dict[str, Any]:
    """Return uvicorn's TLS options, empty without a certificate; ``ValueError`` if the files cannot be used."""
    if certfile is None and keyfile is None:
        return {}
    if certfile is None:
        raise ValueError("ssl_keyfile is given without ssl_certfile; give the certificate, too")
    try:  # an empty password keeps an encrypted key from asking on the terminal
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certfile, keyfile, password="")
    except OSError as error:
        files = f"ssl_certfile is {str(certfile)!r}" + (f" and ssl_keyfile {str(keyfile)!r}" if keyfile else "")
        told = f"{files}, which must be a certificate and its key without a password"
        raise ValueError(f"{told}: {error.strerror or one_line(error)}") from None
    return {"ssl_certfile": str(certfile), "ssl_keyfile": None if keyfile is None else str(keyfile)}


def allowed_hosts(host: str, protected: bool, names: Sequence[str]) -> tuple[str, ...]:
    """Return the allowed host names: those of this machine and ``names``; empty for any name.

    Without ``names``, any name is allowed if reading needs a token or other machines can reach ``host``.
    """
    if "*" in names or (not names and (protected or not is_loopback(host))):
        return ()
    return ("localhost", "127.0.0.1", "[::1]", _bracketed(host), *names)


def check_access(host: str, settings: Settings, no_token: bool) -> None:
    """Raise ``ValueError`` if others could use the service without a token.

    ``no_token`` lets them read, but never change the index.
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
