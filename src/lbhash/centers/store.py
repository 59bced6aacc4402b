"""Keeping class centres that took seconds to make, in the user's cache folder.

A file is named after what was asked for and after the sources that made it, so that another version of the
constructions never reads what this one wrote. A cache that cannot be written or read is as good as none.
"""

from __future__ import annotations

import os
from functools import cache
from hashlib import sha256
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from lbhash.centers.distance import Centers
from lbhash.codes import pack, unpack
from lbhash.files import replacing


def cache_folder() -> Path:
    """The folder: ``$LBHASH_CACHE``, or the platform's for caches."""
    chosen = os.environ.get("LBHASH_CACHE")
    if chosen:
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_cache_dir("lbhash", appauthor=False))


def load_centers(classes: int, bits: int) -> tuple[Centers, str] | None:
    """Centres that ``save_centers`` kept, and the name of their construction; None if there are none."""
    try:
        with np.load(_file(classes, bits), allow_pickle=False) as stored:
            centers = unpack(stored["codes"], bits)
            return (centers, str(stored["construction"])) if centers.shape == (classes, bits) else None
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None


def save_centers(centers: Centers, construction: str) -> None:
    """Keep centres, if the folder can be written to."""
    file = _file(*centers.shape)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as temporary, temporary.open("wb") as opened:
            np.savez(opened, codes=pack(centers), construction=np.array(construction))
    except OSError:
        return


def _file(classes: int, bits: int) -> Path:
    return cache_folder() / "centers" / f"{classes}x{bits}-{_sources()}.npz"


@cache
def _sources() -> str:
    """A fingerprint of the files of this folder."""
    digest = sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
