"""What stands before the application: the size and pace of bodies, the token, the host, the headers of every answer.

They are plain ASGI wrappers. The order in which ``create_app`` puts them is the order in which a request meets them.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lbhash.service.errors import Refused

OPEN = ("/", "/health")
"""The paths that need no token: the page, which asks for it, and the answer that the service is there."""

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class SecurityHeaders:
    """Adds to every answer what tells a browser to load nothing from elsewhere; keeps data out of caches."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                static = scope["path"] == "/" or scope["path"].startswith("/static/")
                headers.setdefault("Cache-Control", "no-cache" if static else "no-store")
            await send(message)

        await self.app(scope, receive, sending)


class HostGuard:
    """Refuses requests whose ``Host`` is not one of ``hosts``.

    Without it any web site that is opened on the machine could have its own name point to the loopback address, and
    its scripts could then read what a service without a token answers.
    """

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...]) -> None:
        self.app, self.hosts = app, {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http" and self.hosts:
            host = Headers(scope=scope).get("host", "").lower()
            name = host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
            if name not in self.hosts:
                detail = f"the request is for the host {name!r}, which this service does not go by (--allow-host)"
                await Refused(421, detail).response()(scope, receive, send)
                return
        await self.app(scope, receive, send)


class TokenGuard:
    """Refuses requests without the token."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self.app = app
        self.digest = None if token is None else _digest(token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http" and self.digest is not None and not _is_open(scope["path"]):
            scheme, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
            # Digests, as the time that a comparison takes must tell neither the token's characters nor its length.
            if not (hmac.compare_digest(_digest(given.strip()), self.digest) and scheme.lower() == "bearer"):
                detail = "the token is wrong" if given else "this service needs a token: Authorization: Bearer TOKEN"
                refused = Refused(401, detail, {"WWW-Authenticate": "Bearer"})
                await refused.response()(scope, receive, send)
                return
        await self.app(scope, receive, send)


class BodyLimit:
    """Refuses bodies of more than ``limit`` bytes while they come in, and those that take longer than ``seconds``.

    A length that the request announces is believed where it is too large; what counts is what arrives.
    """

    def __init__(self, app: ASGIApp, limit: int, seconds: float) -> None:
        self.app, self.limit, self.seconds = app, limit, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        announced = Headers(scope=scope).get("content-length", "0")
        if announced.isdecimal() and int(announced[:20]) > self.limit:
            await self._too_large().response()(scope, receive, send)
            return
        seen, complete, deadline = 0, False, 0.0

        async def receiving() -> Message:
            nonlocal seen, complete, deadline
            if complete:
                return await receive()
            deadline = deadline or time.monotonic() + self.seconds
            try:
                message = await asyncio.wait_for(receive(), max(0.0, deadline - time.monotonic()))
            except asyncio.TimeoutError:
                raise Refused(408, f"the body took longer than {self.seconds:g} seconds to arrive") from None
            seen += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if seen > self.limit:
                raise self._too_large()
            return message

        await self.app(scope, receiving, send)

    def _too_large(self) -> Refused:
        return Refused(413, f"the body has more than {self.limit:,} bytes, the most that this service takes")


def _is_open(path: str) -> bool:
    return path in OPEN or path.startswith("/static/")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
