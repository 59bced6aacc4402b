"""The settings of the service."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lbhash.utils.validation import check_choice, check_int

MAX_K = 1000  # neighbors in one answer
MAX_BATCH = 100  # embeddings in one search, or in one change
MAX_FOUND = 10_000  # neighbors in the answer to several embeddings: 1 to 2 MiB of JSON
MAX_JSON = 256 << 10  # bytes of a body of JSON: 10,000 numbers with all of their digits
QUEUE_SECONDS = 10.0  # for which a request may wait for a thread, or for another writer, before it gets status 503
BODY_SECONDS = 30.0  # in which a body must arrive
DECODE_SECONDS = 10.0  # in which an image must be decoded
RELOAD_SECONDS = 1.0  # between two looks for a newer index


@dataclass(frozen=True)
class Settings:
    """The settings of a service; raises ``TypeError`` or ``ValueError`` if a number or the token is not valid.

    Args:
        model: a folder that ``lbhash train`` wrote.
        index: what ``lbhash.index.open_index`` opens.
        data: ``"digits"``, ``"characters"`` or a file, with the rows, their images and the queries of the evaluation.
        backbone: a folder or Hub id of what embeds images or texts. If None, what the model was trained with; images
            are no queries if that is not on this machine.
        token: what every request but those for ``/health``, ``/ready`` and the pages' files must bring
            (``Authorization: Bearer``).
        tokens: in its place a TOML file of several tokens, with what each allows (``lbhash.service.tokens``).
        hosts: the allowed names in the ``Host`` of a request; empty for any.
        max_body: the largest body of a request, in bytes; one of JSON has at most ``MAX_JSON``, too.
        max_pixels: the largest image, in pixels.
        concurrency: how many requests are computed at once. If None, it is the number of usable cores.
        queue: how many requests may wait for a thread; any more get status 503.
        writable: whether requests may add codes to the index and remove them; it must be in a folder.
        verify: when all files of the index are compared with their checksums: ``"background"``, beside the first
            requests, which wait for what they need; or ``"before-serving"``. A small index is compared before.
    """

    model: str | Path
    index: str | Path
    data: str | Path | None = None
    backbone: str | Path | None = None
    token: str | None = field(default=None, repr=False)
    tokens: str | Path | None = None
    hosts: tuple[str, ...] = ()
    max_body: int = 16 << 20
    max_pixels: int = 25_000_000
    concurrency: int | None = None
    queue: int = 64
    writable: bool = False
    verify: str = "background"

    def __post_init__(self) -> None:
        object.__setattr__(self, "verify", check_choice(self.verify, "verify", ("background", "before-serving")))
        for name, least in (("max_body", 1), ("max_pixels", 1), ("queue", 0)):
            check_int(getattr(self, name), name, least)
        if self.concurrency is not None:
            check_int(self.concurrency, "concurrency", 1)
        if self.token is not None:
            check_token(self.token, "token")
            if self.tokens is not None:
                raise ValueError("token is given, and so is tokens; give one of the two (LBHASH_TOKEN is a token, too)")


def check_token(value: str, name: str = "it") -> str:
    """Return a token, or raise ``ValueError`` if a header cannot hold it."""
    if not (value and value.isascii() and value.isprintable()):
        raise ValueError(f"{name} is empty or not printable ASCII; a header can hold nothing else")
    return value
