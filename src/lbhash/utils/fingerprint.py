"""Fingerprints: short names computed from contents; other contents get another name."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

_BLOCKS, _BLOCK = 128, 4096


def fingerprint(*parts: Any) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of all parts, one after the other.

    Parts are bytes, text, NumPy arrays (their bytes in C order; neither shape nor type), or other JSON values, with
    sorted keys. An iterator stands for the parts that it yields, one at a time.

    >>> fingerprint("csq", {"bits": 16}) == fingerprint("csq", {"bits": 16})
    True
    """
    digest = hashlib.sha256()
    for part in chain.from_iterable(part if isinstance(part, Iterator) else (part,) for part in parts):
        if isinstance(part, str):
            part = part.encode()
        elif isinstance(part, np.ndarray):
            part = np.ascontiguousarray(part).data.cast("B") if part.size else b""
        elif not isinstance(part, (bytes, bytearray, memoryview)):
            part = json.dumps(part, sort_keys=True, default=str).encode()
        digest.update(part)
    return digest.hexdigest()[:16]


def sampled(folder: Path, files: Sequence[str | Path]) -> Iterator[bytes]:
    """Yield a sample of at most 128 files: blocks of 4 KiB at equal distances, more of each if there are few files.

    Smaller files are yielded whole; unreadable files are skipped.
    """
    chosen = np.unique(np.linspace(0, len(files) - 1, min(len(files), _BLOCKS)).astype(np.int64))
    for at in chosen:
        with suppress(OSError), (folder / files[at]).open("rb", buffering=0) as opened:
            last = max(0, opened.seek(0, os.SEEK_END) - _BLOCK)
            count = 1 + min(-(-last // _BLOCK), -(-_BLOCKS // len(chosen)))
            for start in np.linspace(0, last, count).astype(np.int64).tolist():
                opened.seek(start)
                yield opened.read(_BLOCK)
