"""Fingerprints: short names that follow from the contents of things, so that other contents have another name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np


def fingerprint(*parts: Any) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of all parts, one after the other.

    Parts are bytes, text, NumPy arrays (their bytes in C order; neither shape nor type), or anything else that JSON can
    hold, with its keys sorted. An iterator stands for the parts that it gives, taken one at a time.

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
