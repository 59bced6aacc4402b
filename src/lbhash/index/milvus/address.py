"""The address of a Milvus collection, which begins with ``milvus+``, and its credentials."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

PREFIX = "milvus+"
"""The beginning of every address of a collection."""

TOKEN = "LBHASH_MILVUS_TOKEN"
"""The environment variable with the token, for addresses without credentials."""

_FORMS = "milvus+http://HOST:PORT/COLLECTION, milvus+https://… or milvus+FILE.db"
_COLLECTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_FILE = re.compile(r"[A-Za-z0-9._-]{1,35}")  # what Milvus Lite takes as a name


@dataclass(frozen=True)
class Address:
    """A collection, or an alias of one, and how to reach it; ``token`` is ``user:password`` or an API key."""

    shown: str
    """The address without credentials, for messages."""
    uri: str
    """The address of the server, or the file of Milvus Lite."""
    collection: str
    database: str = ""
    token: str = field(default="", repr=False)

    @property
    def file(self) -> Path | None:
        """The file of Milvus Lite; None for a server."""
        return None if "://" in self.uri else Path(self.uri)


def parse_address(text: str) -> Address:
    """Return the address that a text holds, or raise ``ValueError``.

    The text is ``milvus+http://[USER:PASSWORD@]HOST[:PORT]/COLLECTION[?token=TOKEN][&database=NAME]``, or the same with
    ``https``; or ``milvus+FILE.db[/COLLECTION]`` for Milvus Lite, where the collection is "lbhash" by default.
    """
    shown, rest = shown_address(text), text.removeprefix(PREFIX)
    wrong_form = ValueError(f"index is {shown!r}; an address of Milvus is {_FORMS}")
    if "://" not in rest:
        file, dot, collection = rest.rpartition(".db/")
        path = Path(file + ".db") if dot else Path(rest)
        if path.suffix != ".db":
            raise wrong_form
        if not _FILE.fullmatch(path.name):
            allowed = "at most 35 letters, digits, '.', '_' and '-'"
            raise ValueError(f"index is {shown!r}; the name of a file of Milvus Lite has {allowed}")
        return Address(shown, str(path), _checked(shown, collection if dot else "lbhash"))
    parts = urlsplit(rest)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 19530)
    except ValueError:
        port = 0
    if parts.scheme not in ("http", "https") or not parts.hostname or not port:
        raise wrong_form
    asked = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := set(asked) - {"token", "database"}:
        raise ValueError(f"index is {shown!r}, with {sorted(unknown)[0]!r} after '?'; it may have token and database")
    user = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
    token = asked.get("token") or user or os.environ.get(TOKEN, "")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    collection = _checked(shown, parts.path.strip("/"))
    return Address(shown, f"{parts.scheme}://{host}:{port}", collection, asked.get("database", ""), token)


def shown_address(text: str) -> str:
    """Return an address without user, password and token, so that it may be printed; other paths do not change."""
    if not text.startswith(PREFIX) or "://" not in text:
        return text
    parts = urlsplit(text.removeprefix(PREFIX))
    database = dict(parse_qsl(parts.query)).get("database")
    query = f"database={database}" if database else ""
    return PREFIX + urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, ""))


def _checked(shown: str, collection: str) -> str:
    if not _COLLECTION.fullmatch(collection):
        allowed = "begin with a letter or '_' and have letters, digits and '_' only"
        raise ValueError(f"index is {shown!r}, with the collection {collection!r}; its name must {allowed}")
    return collection
