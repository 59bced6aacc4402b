"""The security layer around the application, which answers in JSON like every route.

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
"""The files of pages, by path; like all static files they need no token."""

PROBES = ("/health", "/ready")
"""Routes for load balancers; they need no token."""

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
    """Adds security headers, and refuses requests that may be harmful.

    The headers keep browsers from loading anything from other sites and from storing data.

    Refused are requests for another host, from another web site, without the token, or with a body that is too large or
    arrives too slowly.
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
            if "content-length" in headers and "transfer-encoding" in headers:  # a proxy may read another length
                both = "the request has Content-Length and Transfer-Encoding; it must have one of them"
                raise ServiceError(400, both)
            if scope["path"] not in PROBES and not _is_page(scope["path"]):
                scope["may_change"] = self._tokens.allow_change(headers.get("authorization", ""))
            limit = MAX_BODY if media_type(headers.get("content-type", "")) == FORM else self._max_json
            check_size = partial(_check_size, limit=limit)
            announced = headers.get("content-length", "0")
            if announced.isdecimal():
                check_size(int(announced[:20]))
            # GET routes take no body; all other requests wait until their body is complete.
            bodiless = scope["method"] in ("GET", "HEAD")
            body = None if bodiless else await self._bodies.take(receive, check_size)
        except ServiceError as error:
            response = await http_exception_handler(Request(scope), error)
            if "content-length" in headers or "transfer-encoding" in headers:
                response.headers["Connection"] = "close"  # the rest of the body is discarded
            await response(scope, receive, send_with_headers)
            return
        size = len(body or b"")
        whole: list[Message] = [] if body is None else [{"type": "http.request", "body": body, "more_body": False}]
        del body  # only the application holds it now, and frees it early

        async def receive_whole() -> Message:
            return whole.pop() if whole else await receive()

        # Answer HEAD as GET (the server drops the body); FastAPI's routes would refuse it. Send files whole: Starlette
        # refuses a range with no line, or not as JSON.
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        read = {**scope, "method": method, "headers": [one for one in scope["headers"] if one[0] != b"range"]}
        try:
            await self.app(read, receive_whole, send_with_headers)
        finally:
            scope["route"] = read.get("route")
            self._bodies.give_back(size)

    def _check_host(self, headers: Headers) -> None:
        """Refuse a request whose ``Host``, without the port, is not in the settings (421).

        Otherwise a web site could point its own name to the loopback address, and its scripts could read the answers.
        """
        host = headers.get("host", "")
        found = _name_and_port(host)
        if self._hosts and (found is None or found[0] not in self._hosts):
            raise ServiceError(421, f"the request is for host {host!r}, which is not allowed here (see --allow-host)")

    def _check_origin(self, headers: Headers) -> None:
        """Refuse a request from a page of another web site (403), unless reading needs a token.

        A browser sends some requests for any page and only hides the answers; the service would still do the work.
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
    """Return the host name in lower case and its port (default ``port``); None if ``host`` is not valid."""
    found = _HOST.fullmatch(host.lower())
    return None if found is None else (found[1], found[2] or port)


def _is_page(path: str) -> bool:
    return path in PAGES or path.startswith("/static/")
