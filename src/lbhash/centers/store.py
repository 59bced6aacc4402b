"""A cache of class centers and bounds that take seconds to make, in the user's cache folder.

A file is named after what was asked for and after the sources that made it, so that another version of the
constructions never reads what this one wrote. If the cache cannot be written or read, nothing is cached.
"""

from __future__ import annotations

import json
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from lbhash.centers.bounds import UpperBound
from lbhash.centers.distance import Centers
from lbhash.codes import pack, unpack
from lbhash.utils.files import cache_folder, replacing, write_text
from lbhash.utils.fingerprint import fingerprint


def load_centers(kind: str, classes: int, bits: int) -> tuple[Centers, str] | None:
    """Return cached centers and the name of their construction; None if there are none."""
    try:
        with np.load(_file(kind, classes, bits, "npz"), allow_pickle=False) as stored:
            centers = unpack(stored["codes"], bits)
            return (centers, str(stored["construction"])) if centers.shape == (classes, bits) else None
    except (OSError, ValueError, KeyError, EOFError, RuntimeError, BadZipFile, zlib.error):
        return None


def save_centers(kind: str, centers: Centers, construction: str) -> None:
    """Cache centers if the folder can be written to."""
    file = _file(kind, len(centers), centers.shape[1], "npz")
    with suppress(OSError), replacing(file) as temporary, temporary.open("wb") as opened:
        np.savez(opened, codes=pack(centers), construction=np.array(construction))


def load_bound(classes: int, bits: int) -> UpperBound | None:
    """Return the cached upper bound; None if there is none."""
    try:
        distance, source = json.loads(_file("bound", classes, bits, "json").read_text(encoding="utf-8"))
        return UpperBound(int(distance), str(source))
    except (OSError, ValueError, TypeError):
        return None


def save_bound(classes: int, bits: int, bound: UpperBound) -> None:
    """Cache an upper bound if the folder can be written to."""
    with suppress(OSError):
        write_text(_file("bound", classes, bits, "json"), json.dumps([bound.distance, bound.source]))


def _file(kind: str, classes: int, bits: int, suffix: str) -> Path:
    return cache_folder() / "centers" / f"{kind}-{classes}x{bits}-{_sources()}.{suffix}"


@cache
def _sources() -> str:
    """Return a fingerprint of the code and the data files of this folder."""
    files = sorted(file for file in Path(__file__).parent.rglob("*") if file.suffix in (".py", ".json", ".csv"))
    return fingerprint(*(file.read_bytes() for file in files))
