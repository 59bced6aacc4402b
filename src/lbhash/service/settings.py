"""What a service is told when it starts."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

MAX_K = 1000
"""The most neighbors of one answer."""


@dataclass(frozen=True)
class Settings:
    """The settings of a service.

    Args:
        model: a folder that ``lbhash train`` wrote.
        index: what ``lbhash.index.open_index`` opens.
        data: ``"digits"`` or a file: where rows, their pictures and the queries of the evaluation come from.
        backbone: the folder of a vision model that turns pictures into embeddings; the one that goes with the model, if
            it is on this machine, where none is named.
        token: what every request must bring as ``Authorization: Bearer``, but for the page's own files and ``/health``.
        hosts: the names that the ``Host`` of a request may have; empty for any.
        max_body: the most bytes of a request's body.
        max_pixels: the most pixels of a picture.
        concurrency: how many requests are computed at once; as many as there are processors where it is not given.
        queue: how many may wait for that; those beyond get 503.
        queue_seconds: how long one may wait before it gets 503 too.
        body_seconds: how long a body may take to arrive.
        decode_seconds: how long a picture may take to decode.
        reload_seconds: how often to look for a newer index.

    Raises:
        ValueError: a number is too small, or the token is empty or not plain ASCII.
    """

    model: str | Path
    index: str | Path
    data: str | Path | None = None
    backbone: str | Path | None = None
    token: str | None = field(default=None, repr=False)
    hosts: tuple[str, ...] = ()
    max_body: int = 16 << 20
    max_pixels: int = 25_000_000
    concurrency: int | None = None
    queue: int = 64
    queue_seconds: float = 10.0
    body_seconds: float = 30.0
    decode_seconds: float = 10.0
    reload_seconds: float = 1.0

    def __post_init__(self) -> None:
        for name, least in (("max_body", 1), ("max_pixels", 1), ("concurrency", 1), ("queue", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} is {value}; it must be at least {least}")
        for name in ("queue_seconds", "body_seconds", "decode_seconds", "reload_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")
        if self.token is not None and (not self.token or not self.token.isascii() or not self.token.isprintable()):
            raise ValueError("token is empty or has characters other than printable ASCII, which a header cannot carry")

    @property
    def threads(self) -> int:
        """How many requests are computed at once."""
        return self.concurrency or os.cpu_count() or 1
