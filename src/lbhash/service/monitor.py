"""The log of ``lbhash serve``, and metrics of its requests for Prometheus."""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
import time
from collections import Counter as Counts
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, Counter, Enum, Gauge, Histogram, generate_latest
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lbhash.service.admission import Admission
from lbhash.service.engine import Engine

REQUESTS = logging.getLogger("lbhash.requests")
"""The logger of requests: one record each, with its details in ``record.facts``."""

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_METHODS = {"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}


class Monitor:
    """The metrics of one application, in its own registry, so a process may have several applications."""

    def __init__(self, engine: Engine, admission: Admission) -> None:
        self._engine, self._registry = engine, (own := CollectorRegistry())
        self.requests = Counter("lbhash_requests", "Requests answered.", ["route", "method", "status"], registry=own)
        self.seconds = Histogram("lbhash_request_seconds", "Time to answer.", ["route"], buckets=_BUCKETS, registry=own)
        self.reloads = Counter("lbhash_index_reloads", "Newer indexes, loaded or not.", ["outcome"], registry=own)
        for outcome in ("loaded", "failed"):
            self.reloads.labels(outcome)
        for name, help_text, value in (
            ("queue_depth", "Requests that wait for a thread.", lambda: admission.taken - admission.running),
            ("running", "Requests that are being computed.", lambda: admission.running),
            ("index_generation", "Generation of the index.", lambda: engine.index.generation),
        ):
            Gauge(f"lbhash_{name}", help_text, registry=own).set_function(value)
        states, about = ["running", "intact", "damaged"], "Comparison of the index's files with their checksums."
        self._check = Enum("lbhash_index_check", about, states=states, registry=own)

    def text(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        self._check.state(self._engine.check)
        return generate_latest(self._registry)

    def measured(self, app: ASGIApp) -> ASGIApp:
        """Wrap an application so that its requests are counted, timed and, if enabled, logged."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            started, status, name = time.perf_counter(), 500, _request_id(scope)

            async def send_and_note(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                    MutableHeaders(scope=message)["X-Request-ID"] = name
                await send(message)

            try:
                await app(scope, receive, send_and_note)
            finally:
                self._note(scope, name, status, time.perf_counter() - started)

        return answer

    def _note(self, scope: Scope, name: str, status: int, seconds: float) -> None:
        # All unknown routes and methods share one label, or a client could create endless labels. Labels have no
        # version, because a route's path has none in some versions of FastAPI.
        route = (getattr(scope.get("route"), "path_format", None) or "none").removeprefix("/v1")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self.requests.labels(route, method, str(status)).inc()
        self.seconds.labels(route).observe(seconds)
        facts = {"request_id": name, "method": method, "route": route, "status": status, "ms": round(1e3 * seconds, 3)}
        level = logging.WARNING if status == 503 else logging.ERROR if status >= 500 else logging.INFO
        if REQUESTS.isEnabledFor(logging.INFO):
            REQUESTS.log(level, "request", extra={"facts": facts})


def _request_id(scope: Scope) -> str:
    """Return a request's id: a proxy's, or a new one."""
    given = Headers(scope=scope).get("x-request-id", "")
    return given if _ID.fullmatch(given) else secrets.token_hex(8)


def start_log(as_json: bool) -> None:
    """Log all warnings, and the service's information, to standard error; as JSON, log every request too."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    for handler in logging.getLogger().handlers:
        handler.addFilter(Sparing())
        if as_json:
            handler.setFormatter(JsonLines())
    logging.getLogger("lbhash.service").setLevel(logging.INFO)
    REQUESTS.setLevel(logging.INFO if as_json else logging.CRITICAL)


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        facts = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage().strip(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            facts["traceback"] = self.formatException(record.exc_info)
        return json.dumps(facts)


class Sparing(logging.Filter):
    """Passes all request records, and at most ten others of a kind per minute: clients can cause endless errors."""

    def __init__(self) -> None:
        super().__init__()
        self._minute, self._seen = 0, Counts[tuple[str, str]]()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written; the tenth says that no more follow."""
        if record.name == REQUESTS.name:
            return True
        if (minute := int(record.created // 60)) != self._minute:
            self._minute = minute
            self._seen.clear()
        kind = record.name, str(record.msg).partition("\n")[0]
        self._seen[kind] += 1
        if self._seen[kind] == 10:
            record.msg = f"{record.msg} (no more of these in this minute)"
        return self._seen[kind] <= 10
