"""The address of a Milvus collection, which begins with ``milvus+``."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

PREFIX = "milvus+"
"""The beginning of every address of a collection."""

TOKEN = "LBHASH_MILVUS_TOKEN"
"""The environment variable with the token, ``user:password`` or an API key."""

_FORMS = (
    "milvus+http://HOST:PORT/COLLECTION, milvus+https://… or milvus+FILE.db (COLLECTION begins with a letter or '_', "
    "and has letters, digits and '_' only; FILE.db has at most 35 letters, digits, '.', '_' and '-')"
)
_COLLECTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_FILE = re.compile(r"[A-Za-z0-9._-]{1,32}\.db")  # names that Milvus Lite accepts


@dataclass(frozen=True)
class Address:
    """A collection, or an alias of one, and how to reach it."""

    shown: str
    """The address as the user gave it, for messages."""
    uri: str
    """The address of the server, or the file of Milvus Lite."""
    collection: str
    token: str = field(default="", repr=False)

    @property
    def file(self) -> Path | None:
        """The file of Milvus Lite; None for a server."""
        return None if "://" in self.uri else Path(self.uri)


def parse_address(text: str) -> Address:
    """Parse an address of Milvus, or raise ``ValueError``.

    The text is ``milvus+http://HOST[:PORT]/COLLECTION``, or the same with ``https``; or ``milvus+FILE.db[/COLLECTION]``
    for Milvus Lite, whose default collection is "lbhash".
    """
    rest = text.removeprefix(PREFIX)
    wrong_form = ValueError(f"path is {text!r}; an address of Milvus is {_FORMS}")
    if "://" not in rest:
        file, dot, collection = rest.rpartition(".db/")
        path, collection = (Path(file + ".db"), collection) if dot else (Path(rest), "lbhash")
        if not _FILE.fullmatch(path.name) or not _COLLECTION.fullmatch(collection):
            raise wrong_form
        return Address(text, str(path), collection)
    if "@" in rest or "?" in rest:  # an address with credentials could end up in a log
        raise ValueError(f"path is an address of Milvus with credentials or options; put the token into {TOKEN}")
    parts = urlsplit(rest)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 19530)
    except ValueError:
        port = 0
    collection = parts.path.strip("/")
    known = parts.scheme in ("http", "https") and _COLLECTION.fullmatch(collection)
    if not known or not parts.hostname or not port:
        raise wrong_form
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return Address(text, f"{parts.scheme}://{host}:{port}", collection, os.environ.get(TOKEN, ""))
