"""Which data the rows of an index are of: it knows them by a fingerprint.

A row's number means nothing in another file, nor in the same file once it has changed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import file_digest
from pathlib import Path

from xxhash import xxh3_128

from lbhash.data.images import FileImages, holds_images, is_hub_dataset, load_images
from lbhash.data.loading import DATASETS, is_split_folder
from lbhash.utils.files import fetched
from lbhash.utils.fingerprint import fingerprint, sampled

ROW = "row"
"""The column with the row of the data that a code was made from; null for a code of other data."""


def data_fingerprint(data: str | Path) -> str:
    """Return the fingerprint of a file, or of a folder by the names and sizes of its files and a sample of these.

    A copy has the same. It is empty for a folder with a file for each split, whose rows are counted in each file.
    """
    if str(data) in DATASETS or is_hub_dataset(data):
        return fingerprint(str(data))
    path = Path(fetched(data, "data"))
    if not path.is_dir():  # which may have another name elsewhere
        with suppress(OSError), path.open("rb") as opened:
            return fingerprint(file_digest(opened, xxh3_128).digest())
        return ""  # whoever reads it says why it cannot be read
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
