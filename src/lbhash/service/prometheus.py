"""The metrics for Prometheus: requests and their latency, the queue, refused requests, the index."""

from __future__ import annotations

import logging
import time

from prometheus_client import CollectorRegistry, Counter, Enum, Gauge, Histogram, Info, generate_latest
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lbhash.service.admission import Admission
from lbhash.service.engine import Engine
from lbhash.service.log import REQUESTS, request_id

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_METHODS = {"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}


class Monitor:
    """The metrics of one application, in its own registry, so that a process may have several applications."""

    def __init__(self, engine: Engine, admission: Admission) -> None:
        self._registry = own = CollectorRegistry()
        self.requests = Counter("lbhash_requests", "Requests answered.", ["route", "method", "status"], registry=own)
        self.seconds = Histogram("lbhash_request_seconds", "Time to answer.", ["route"], buckets=_BUCKETS, registry=own)
        self.refused = Counter("lbhash_refused", "Requests answered with 503.", registry=own)
        self.reloads = Counter("lbhash_index_reloads", "Newer indexes, loaded or not.", ["outcome"], registry=own)
        for outcome in ("loaded", "failed"):
            self.reloads.labels(outcome)
        for name, help_text, value in (
            ("lbhash_queue_depth", "Requests that wait for a thread.", lambda: admission.taken - admission.running),
            ("lbhash_running", "Requests that are being computed.", lambda: admission.running),
            ("lbhash_index_codes", "Codes of the index.", lambda: len(engine.index)),
            ("lbhash_index_generation", "Generation of the index.", lambda: engine.index.generation),
        ):
            Gauge(name, help_text, registry=own).set_function(value)
        self._engine = engine
        self._index = Info("lbhash_index", "The build of the index.", registry=own)
        states, about = ["running", "intact", "damaged"], "Comparison of the index's files with their checksums."
        self._check = Enum("lbhash_index_check", about, states=states, registry=own)

    def text(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        self._index.info({"build": self._engine.index.build})
        self._check.state(self._engine.check)
        return generate_latest(self._registry)

    def measured(self, app: ASGIApp) -> ASGIApp:
        """Return an application with its requests counted, timed and, if that is wanted, logged."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            started, status = time.perf_counter(), 500
            name = request_id(Headers(scope=scope).get("x-request-id")) if scope["type"] == "http" else ""

            async def send_and_note(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                    MutableHeaders(scope=message)["X-Request-ID"] = name
                await send(message)

            try:
                await app(scope, receive, send_and_note)
            finally:
                if scope["type"] == "http":
                    # All unknown routes and methods share one label, so that a client cannot create labels without end.
                    # A route has one label with its version and without, as some versions of FastAPI have it anyway.
                    route = (getattr(scope.get("route"), "path", None) or "none").removeprefix("/v1")
                    method = scope["method"] if scope["method"] in _METHODS else "other"
                    self.requests.labels(route, method, str(status)).inc()
                    seconds = time.perf_counter() - started
                    self.seconds.labels(route).observe(seconds)
                    self.refused.inc(status == 503)
                    if REQUESTS.isEnabledFor(logging.INFO):
                        facts = {"request_id": name, "method": method, "route": route, "status": status}
                        facts |= {"ms": round(1e3 * seconds, 3), "token": getattr(scope.get("token"), "name", None)}
                        REQUESTS.log(_level(status), "request", extra={"facts": facts})

        return answer


def _level(status: int) -> int:
    if status in (429, 503):
        return logging.WARNING
    return logging.ERROR if status >= 500 else logging.INFO
