"""What Prometheus reads: requests by route and status, their latency, the queue, the refused, the index."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

if TYPE_CHECKING:
    from lbhash.service.admission import Admission
    from lbhash.service.engine import Engine

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_METHODS = {"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}


class Monitor:
    """The metrics of one application, in a registry of its own, so that a process may have several.

    Args:
        engine: whose index is told of.
        admission: whose queue is told of.
    """

    def __init__(self, engine: Engine, admission: Admission) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "lbhash_requests", "Requests answered.", ["route", "method", "status"], registry=self._registry
        )
        self.seconds = Histogram(
            "lbhash_request_seconds", "Time to answer.", ["route"], buckets=_BUCKETS, registry=self._registry
        )
        self.refused = Counter("lbhash_refused", "Requests sent away with 503.", registry=self._registry)
        self.reloads = Counter("lbhash_index_reloads", "Newer indexes.", ["outcome"], registry=self._registry)
        for outcome in ("loaded", "failed"):
            self.reloads.labels(outcome)
        for name, what, value in (
            ("lbhash_queue_depth", "Requests that wait for a thread.", lambda: admission.waiting),
            ("lbhash_running", "Requests that are computed.", lambda: admission.running),
            ("lbhash_index_codes", "Codes of the index.", lambda: len(engine.index)),
            ("lbhash_index_generation", "Generation of the index.", lambda: engine.index.generation),
        ):
            Gauge(name, what, registry=self._registry).set_function(value)
        self._engine = engine
        self._index = Info("lbhash_index", "What the index is of.", registry=self._registry)

    def text(self) -> bytes:
        """The metrics as Prometheus has them."""
        self._index.info({"build": self._engine.index.build})
        return generate_latest(self._registry)


class Measured:
    """Counts and times the requests of an application."""

    def __init__(self, app: ASGIApp, monitor: Monitor) -> None:
        self.app, self.monitor = app, monitor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, sending)
        finally:
            # Routes and methods that do not exist are one label: whoever asks must not be able to make new ones.
            route = getattr(scope.get("route"), "path", None) or "none"
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self.monitor.requests.labels(route, method, str(status)).inc()
            self.monitor.seconds.labels(route).observe(time.perf_counter() - started)
            if status == 503:
                self.monitor.refused.inc()
