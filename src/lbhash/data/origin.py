"""Fingerprints of data: an index recognizes the data of its rows by them.

A row's number means nothing in another file, or in the same file after a change.
"""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import file_digest
from pathlib import Path

from xxhash import xxh3_128

from lbhash.data.images import FileImages, holds_images, is_hub_dataset, load_images
from lbhash.data.loading import DATASETS, is_split_folder
from lbhash.utils.fetched import fetched
from lbhash.utils.fingerprint import fingerprint, sampled

ROW = "row"
"""The column that names the row of the data a code was made from; null if the code was made from other data."""


def data_fingerprint(data: str | Path) -> str:
    """Return the fingerprint of a file, or of a folder by its files' names and sizes and a sample of their bytes.

    A copy has the same fingerprint. It is empty for an unreadable file, and for a folder with a file for each split,
    because each file numbers its own rows.
    """
    if str(data) in DATASETS or is_hub_dataset(data):
        return fingerprint(str(data))
    path = Path(fetched(data, "data"))
    if not path.is_dir():  # without the name, which a copy may not share
        with suppress(OSError), path.open("rb") as opened:
            return fingerprint(file_digest(opened, xxh3_128).digest())
        return ""  # reading the file reports the fault
    images = load_images(path).store if holds_images(path) else None
    if images is None and is_split_folder(path):
        return ""
    files = images.files if isinstance(images, FileImages) else _below(path)
    return fingerprint(list(files), [_size(path / file) for file in files], sampled(path, files))


def _below(folder: Path) -> list[str]:
    found = (Path(where, name).relative_to(folder) for where, _, names in os.walk(folder) for name in names)
    return sorted(one.as_posix() for one in found if not any(part.startswith(".") for part in one.parts))


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return -1
