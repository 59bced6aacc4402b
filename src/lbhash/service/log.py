"""The log of ``lbhash serve``: lines of text, or of JSON with a line for every request."""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
from collections import Counter
from datetime import datetime, timezone

REQUESTS = logging.getLogger("lbhash.requests")
"""Gets a record for every request; what is known of it is in ``record.facts``."""

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


def start_log(as_json: bool) -> None:
    """Write warnings of all, and more of the service, to standard error; as JSON with every request."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    for handler in logging.getLogger().handlers:
        handler.addFilter(Sparing())
        if as_json:
            handler.setFormatter(JsonLines())
    logging.getLogger("lbhash.service").setLevel(logging.INFO)
    REQUESTS.setLevel(logging.INFO if as_json else logging.CRITICAL)


def request_id(given: str | None) -> str:
    """Return the id of a request: the one that a proxy gave it, or a new one."""
    return given if given is not None and _ID.fullmatch(given) else secrets.token_hex(8)


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        facts = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage().strip(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            facts["traceback"] = self.formatException(record.exc_info)
        return json.dumps(facts)


class Sparing(logging.Filter):
    """Lets ten records of a kind through a minute: a client can cause errors without end.

    The records of requests, which are written only if they are wanted, are not counted.
    """

    def __init__(self) -> None:
        super().__init__()
        self._minute, self._seen = 0, Counter[tuple[str, str]]()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written; the last one says that others are not."""
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
