"""``lbhash serve``: the service and its page."""

from __future__ import annotations

import ipaddress
import logging
import signal
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from lbhash.cli.commands.options import Model

LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
"""What a service on the loopback address goes by."""

_BACKLOG = 2048
_LAST_SECONDS = 30  # for requests that run when the service is told to end


def serve(
    model: Model,
    index: Annotated[str, typer.Option(help="An index that 'lbhash index build' wrote, or its URL.")],
    data: Annotated[
        str | None, typer.Option(help="'digits' or a file: where rows, their images and the queries come from.")
    ] = None,
    backbone: Annotated[
        Path | None, typer.Option(help="The folder of a vision model for images; a model knows its own.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any that is free.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(envvar="LBHASH_TOKEN", show_envvar=True, help="What every request must bring as a bearer token."),
    ] = None,
    no_token: Annotated[bool, typer.Option("--no-token", help="Listen beyond this machine without a token.")] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A name that the service goes by, besides localhost; may be given often. '*' for any."),
    ] = None,
    max_body: Annotated[int, typer.Option(help="The most bytes of a request.")] = 16 << 20,
    max_pixels: Annotated[int, typer.Option(help="The most pixels of an image.")] = 25_000_000,
    concurrency: Annotated[
        int | None, typer.Option(help="How many requests are computed at once; one a processor if not given.")
    ] = None,
    queue: Annotated[int, typer.Option(help="How many more may wait; others are told to come back (503).")] = 64,
) -> None:
    """Search over HTTP, with a page to look at."""
    _check_open(host, token, no_token)
    try:
        import uvicorn

        from lbhash.service import Settings, create_app
    except ModuleNotFoundError as error:
        raise ValueError(f"serve needs {error.name}: pip install 'lbhash[serve]'") from None

    settings = Settings(
        model=model,
        index=index,
        data=data,
        backbone=backbone,
        token=token,
        hosts=_hosts(host, token, allow_host or []),
        max_body=max_body,
        max_pixels=max_pixels,
        concurrency=concurrency,
        queue=queue,
    )
    with _listen(host, port) as listening:
        app = create_app(settings)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=_BACKLOG,
            timeout_graceful_shutdown=_LAST_SECONDS,
        )
        # uvicorn finishes the running requests, and then raises the signal again for us to end by.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        _log_to_stderr()
        typer.echo(f"listening on {_address(listening)} (Ctrl-C ends it)", err=True)
        uvicorn.Server(config).run(sockets=[listening])


def _check_open(host: str, token: str | None, no_token: bool) -> None:
    if token is not None and no_token:
        raise ValueError("token is given, and --no-token too; give one of the two")
    if token is None and not no_token and not _is_loopback(host):
        raise ValueError(
            f"host is {host!r}, which others can reach; give a --token that requests must bring, or --no-token"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _hosts(host: str, token: str | None, allowed: list[str]) -> tuple[str, ...]:
    """The names that requests may be for: without a token those of this machine only; any where a token guards."""
    if "*" in allowed or (not allowed and (token is not None or not _is_loopback(host))):
        return ()
    return (*LOCAL_NAMES, f"[{host}]" if ":" in host else host, *allowed)


def _log_to_stderr() -> None:
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("lbhash.service").setLevel(logging.INFO)


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens, so that a port that is taken is known before the model is loaded."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ValueError(f"host is {host!r} and port {port}, where it cannot listen: {error.strerror}") from None


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
