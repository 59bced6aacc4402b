"""The settings of the service."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lbhash.utils.validation import check_int

MAX_K = 1000  # neighbors in one answer
MAX_BATCH = 100  # queries in one search, or items in one change
MAX_FOUND = 10_000  # neighbors in the answer to several queries: 1 to 2 MiB of JSON
CANDIDATES = 100  # items to re-rank by default
MAX_BODY = 16 << 20  # bytes of a body (a form with images)
MAX_JSON = 256 << 10  # bytes of a JSON body without its embeddings
DIGITS = 25  # bytes of a JSON number with all digits and its separators
MAX_PIXELS = 25_000_000  # largest image
QUEUE = 64  # requests that may wait for a thread; more get status 503
QUEUE_SECONDS = 10.0  # longest wait for a thread or for another writer, before status 503
BODY_SECONDS = 30.0  # for a body to arrive
DECODE_SECONDS = 10.0  # to decode an image; after that, no further image of the request is begun
RELOAD_SECONDS = 1.0  # between two checks for a newer index


def max_json(dim: int) -> int:
    """Return the most bytes of a JSON body, with room for ``MAX_BATCH`` embeddings of ``dim`` numbers."""
    return min(MAX_JSON + MAX_BATCH * dim * DIGITS, MAX_BODY)


@dataclass(frozen=True)
class Settings:
    """The settings of a service; raises ``TypeError`` or ``ValueError`` if one is not valid.

    Args:
        model: a folder that ``lbhash train`` wrote.
        index: a path or address for ``lbhash.Index.open``.
        data: ``"digits"``, ``"characters"`` or a file, with the rows, their images and the queries for evaluation.
        backbone: a folder or Hub id of a model that embeds images or texts. If None, the one from training; if that one
            is not on this machine, images cannot be queries.
        read_token: the token that requests need (``Authorization: Bearer``), except for ``/health``, ``/ready`` and the
            pages' files. If None, everybody may read.
        write_token: the token that changes of the index need; it also allows reading. With ``writable`` and a
            ``read_token``, it is required.
        hosts: the allowed names in a request's ``Host`` header; empty for any.
        concurrency: how many requests are computed at once. If None, the number of usable cores.
        writable: whether requests may add, replace and delete items; the index must be in a folder.

    >>> Settings(model="model", index="index", write_token="a secret").writable
    False
    """

    model: str | Path
    index: str | Path
    data: str | Path | None = None
    backbone: str | Path | None = None
    read_token: str | None = field(default=None, repr=False)
    write_token: str | None = field(default=None, repr=False)
    hosts: tuple[str, ...] = ()
    concurrency: int | None = None
    writable: bool = False

    def __post_init__(self) -> None:
        if self.concurrency is not None:
            check_int(self.concurrency, "concurrency", 1)
        for name in ("read_token", "write_token"):
            token = getattr(self, name)
            if token is not None and not (token and token.isascii() and token.isprintable()):
                raise ValueError(f"{name} is empty or not printable ASCII; a header can hold nothing else")
        if self.read_token is not None and self.read_token == self.write_token:
            raise ValueError("read_token and write_token are the same; make another one")
        if self.writable and self.read_token is not None and self.write_token is None:
            raise ValueError("read_token is given, but no write_token; with writable give both (LBHASH_WRITE_TOKEN)")
