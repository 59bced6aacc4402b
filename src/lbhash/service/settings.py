"""The settings of the service."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lbhash.utils.validation import check_int

MAX_K = 1000  # neighbors in one answer
MAX_BATCH = 100  # queries in one search, or items in one change
MAX_FOUND = 10_000  # neighbors in the answer to several queries: 1 to 2 MiB of JSON
CANDIDATES = 100  # that are ranked again, if a request does not say how many
MAX_BODY = 16 << 20  # bytes of a body, which is a form with images
MAX_JSON = 256 << 10  # bytes of a body of JSON, without its embeddings
DIGITS = 25  # bytes of a number of JSON with all of its digits, and what is around it
MAX_PIXELS = 25_000_000  # of an image
QUEUE = 64  # requests that may wait for a thread; any more get status 503
QUEUE_SECONDS = 10.0  # for which a request may wait for a thread, or for another writer, before it gets status 503
BODY_SECONDS = 30.0  # in which a body must arrive
DECODE_SECONDS = 10.0  # in which an image must be decoded, and after which no other one of a request is begun
RELOAD_SECONDS = 1.0  # between two looks for a newer index


def max_json(dim: int) -> int:
    """Return the bytes that a body of JSON may have, if ``MAX_BATCH`` embeddings of ``dim`` numbers are in it."""
    return min(MAX_JSON + MAX_BATCH * dim * DIGITS, MAX_BODY)


@dataclass(frozen=True)
class Settings:
    """The settings of a service; raises ``TypeError`` or ``ValueError`` if one is not valid.

    Args:
        model: a folder that ``lbhash train`` wrote.
        index: what ``lbhash.Index.open`` opens.
        data: ``"digits"``, ``"characters"`` or a file, with the rows, their images and the queries of the evaluation.
        backbone: a folder or Hub id of what embeds images or texts. If None, what the model was trained with; images
            are no queries if that is not on this machine.
        read_token: what every request but those for ``/health``, ``/ready`` and the pages' files must bring
            (``Authorization: Bearer``). If None, everybody may read.
        write_token: what a request that changes the index must bring; it may read, too. If None, ``read_token`` must be
            None, too, or the index not ``writable``.
        hosts: the allowed names in the ``Host`` of a request; empty for any.
        concurrency: how many requests are computed at once. If None, it is the number of usable cores.
        writable: whether requests may add items to the index, replace and delete them; it must be in a folder.

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
