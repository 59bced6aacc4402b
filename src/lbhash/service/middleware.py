"""The layer around the application that protects it, and answers in JSON like every route.

Starlette's ``TrustedHostMiddleware`` and ``RequestBodyLimitMiddleware`` answer in plain text, the first with 400.
"""

from __future__ import annotations

import re
from functools import partial

from fastapi.exception_handlers import http_exception_handler
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lbhash.service.admission import Bodies
from lbhash.service.errors import ServiceError
from lbhash.service.requests import FORM, media_type
from lbhash.service.settings import BODY_SECONDS, MAX_BODY, Settings
from lbhash.service.tokens import Tokens

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^][:/?#@\s]+)(?::([0-9]*))?")
PAGES = {"/": "index.html", "/docs": "docs.html"}
"""Pages, by their paths, and their files; like all static files they need no token."""

PROBES = ("/health", "/ready")
"""Routes that tell a load balancer about the service, and need no token."""

_PORTS = {"http": "80", "https": "443"}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Security:
    """Adds headers, by which browsers load nothing from other sites and store no data, and refuses wrong requests.

    These are requests for another host, from another web site, without the token, or with a body that is too large or
    comes too slowly.
    """

    def __init__(self, app: ASGIApp, settings: Settings, max_json: int) -> None:
        self.app, self._tokens, self._max_json = app, Tokens(settings), max_json
        self._open, self._hosts = settings.read_token is None, [host.lower() for host in settings.hosts]
        self._bodies = Bodies(2 * MAX_BODY, BODY_SECONDS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("Cache-Control", "no-cache" if _is_page(scope["path"]) else "no-store")
            await send(message)

        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            self._check_host(headers)
            self._check_origin(headers)
            if "content-length" in headers and "transfer-encoding" in headers:  # a proxy may see another end than we do
                both = "the request has Content-Length and Transfer-Encoding; it must have one of them"
                raise ServiceError(400, both)
            if scope["path"] not in PROBES and not _is_page(scope["path"]):
                scope["may_change"] = self._tokens.allow_change(headers.get("authorization", ""))
            limit = MAX_BODY if media_type(headers.get("content-type", "")) == FORM else self._max_json
            check_size = partial(_check_size, limit=limit)
            announced = headers.get("content-length", "0")
            if announced.isdecimal():
                check_size(int(announced[:20]))
            # No route that is read with GET takes a body; of any other, nothing begins before all of its body is there.
            bodiless = scope["method"] in ("GET", "HEAD")
            body = None if bodiless else await self._bodies.take(receive, check_size)
        except ServiceError as error:
            response = await http_exception_handler(Request(scope), error)
            if "content-length" in headers or "transfer-encoding" in headers:
                response.headers["Connection"] = "close"  # the rest of the body is thrown away
            await response(scope, receive, send_with_headers)
            return
        size = len(body or b"")
        whole: list[Message] = [] if body is None else [{"type": "http.request", "body": body, "more_body": False}]
        del body  # the application frees it as soon as it has read it

        async def receive_whole() -> Message:
            return whole.pop() if whole else await receive()

        # HEAD is answered as GET is, and the server leaves the body out; FastAPI's routes would refuse it.
        read = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        try:
            await self.app(read, receive_whole, send_with_headers)
        finally:
            scope["route"] = read.get("route")
            self._bodies.give_back(size)

    def _check_host(self, headers: Headers) -> None:
        """Refuse a request whose ``Host``, without the port, is not in the settings (421).

        Otherwise a web site could let its own name point to the loopback address, and its scripts read the answers.
        """
        host = headers.get("host", "")
        found = _name_and_port(host)
        if self._hosts and (found is None or found[0] not in self._hosts):
            raise ServiceError(421, f"the request is for host {host!r}, which is not allowed here (see --allow-host)")

    def _check_origin(self, headers: Headers) -> None:
        """Refuse a request that a page of another web site sends (403), unless reading needs a token.

        A browser sends some requests for any page, and only keeps their answers from it. They could still make work.
        """
        for origin in headers.getlist("origin") if self._open else ():
            scheme, _, rest = origin.partition("://")
            port = _PORTS.get(scheme, "")
            page = _name_and_port(rest, port)
            if not port or page is None or page != _name_and_port(headers.get("host", ""), port):
                raise ServiceError(403, f"the request is from a page of {origin!r}, another web site")


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        what = "a body that is no form" if limit < MAX_BODY else "a body"
        raise ServiceError(413, f"the body has more than {limit:,} bytes, which is the limit of {what}")


def _name_and_port(host: str, port: str = "") -> tuple[str, str] | None:
    """Return the name in ``Host``, in lower case, and its port (``port`` if it has none); None if it is wrong."""
    found = _HOST.fullmatch(host.lower())
    return None if found is None else (found[1], found[2] or port)


def _is_page(path: str) -> bool:
    return path in PAGES or path.startswith("/static/")
