"""Keeping class centers and bounds that took seconds to make, in the user's cache folder.

A file is named after what was asked for and after the sources that made it, so that another version of the
constructions never reads what this one wrote. A cache that cannot be written or read is as good as none.
"""

from __future__ import annotations

import json
import zlib
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from lbhash.centers.bounds import UpperBound
from lbhash.centers.distance import Centers
from lbhash.codes import pack, unpack
from lbhash.utils.files import cache_folder, replacing, write_text


def load_centers(kind: str, classes: int, bits: int) -> tuple[Centers, str] | None:
    """Centers that ``save_centers`` kept, and the name of their construction; None if there are none."""
    try:
        with np.load(_file(kind, classes, bits, "npz"), allow_pickle=False) as stored:
            centers = unpack(stored["codes"], bits)
            return (centers, str(stored["construction"])) if centers.shape == (classes, bits) else None
    except (OSError, ValueError, KeyError, EOFError, RuntimeError, BadZipFile, zlib.error):
        return None


def save_centers(kind: str, centers: Centers, construction: str) -> None:
    """Keep centers, if the folder can be written to."""
    file = _file(kind, len(centers), centers.shape[1], "npz")
    with suppress(OSError), replacing(file) as temporary, temporary.open("wb") as opened:
        np.savez(opened, codes=pack(centers), construction=np.array(construction))


def load_bound(classes: int, bits: int) -> UpperBound | None:
    """The upper bound that ``save_bound`` kept, or None."""
    try:
        distance, source = json.loads(_file("bound", classes, bits, "json").read_text(encoding="utf-8"))
        return UpperBound(int(distance), str(source))
    except (OSError, ValueError, TypeError):
        return None


def save_bound(classes: int, bits: int, bound: UpperBound) -> None:
    """Keep an upper bound, if the folder can be written to."""
    with suppress(OSError):
        write_text(_file("bound", classes, bits, "json"), json.dumps([bound.distance, bound.source]))


def _file(kind: str, classes: int, bits: int, suffix: str) -> Path:
    return cache_folder() / "centers" / f"{kind}-{classes}x{bits}-{_sources()}.{suffix}"


@cache
def _sources() -> str:
    """A fingerprint of the files of this folder."""
    digest = sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
