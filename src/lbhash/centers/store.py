"""A cache of class centers, which can take seconds to make, in the user's cache folder, if it can be written to.

A file's name has a fingerprint of the sources, so that another version never reads what this one wrote.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy.typing as npt

from lbhash.utils.checksums import read_npz, write_npz
from lbhash.utils.fingerprint import fingerprint
from lbhash.utils.paths import cache_folder


def load(kind: str, classes: int, bits: int) -> dict[str, npt.NDArray]:
    """Return cached arrays by name; an empty dict if nothing is cached or the file is damaged."""
    try:
        return read_npz(_file(kind, classes, bits), own=True)
    except (OSError, ValueError):
        return {}


def save(kind: str, classes: int, bits: int, **arrays: Any) -> None:
    """Cache arrays, if the folder can be written to."""
    with suppress(OSError):
        write_npz(_file(kind, classes, bits), arrays)


def _file(kind: str, classes: int, bits: int) -> Path:
    return cache_folder() / "centers" / f"{kind}-{classes}x{bits}-{_sources()}.npz"


@cache
def _sources() -> str:
    """Return a fingerprint of the code and the data files of this folder."""
    files = sorted(file for file in Path(__file__).parent.rglob("*") if file.suffix in (".py", ".npz"))
    return fingerprint(*(file.read_bytes() for file in files))
