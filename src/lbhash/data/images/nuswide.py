"""NUS-WIDE from its official lists."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from lbhash.data.images.list_files import numbered_lines
from lbhash.data.images.stores import FileImages
from lbhash.data.images.table import ImageTable
from lbhash.utils.paths import existing_file

LABELS = Path("Groundtruth") / "AllLabels"
LIST = Path("ImageList") / "Imagelist.txt"
FOLDERS = ("Flickr", "images", "Images")  # where copies of the data set keep the images
MOST_FREQUENT = 21  # labels that are read; of equally frequent ones, the first by name


def read_nuswide(folder: Path, images: Path | None = None) -> ImageTable:
    """Read the images that have one of the 21 most frequent of NUS-WIDE's 81 labels.

    These are 195,834 of 269,648 images. Protocol ``nuswide21`` makes 2,100 of them queries and 193,734 the base; 10,500
    of the base train.

    The folder has ``Groundtruth/AllLabels/Labels_*.txt`` (a 0 or 1 a line) and ``ImageList/Imagelist.txt`` (a path a
    line, relative to ``images``; if None, to the first of ``FOLDERS`` that exists, or else to the folder).

    Source: T.-S. Chua et al., NUS-WIDE: A Real-World Web Image Database from National University of Singapore, CIVR
    2009.
    """
    lines = numbered_lines(existing_file(folder / LIST, "the image list"))
    files = [line.strip().replace("\\", "/") for _, line in lines]
    found = sorted((folder / LABELS).glob("Labels_*.txt"))
    if len(found) < MOST_FREQUENT:
        raise ValueError(
            f"folder is {str(folder)!r}, which has {len(found)} files {LABELS}/Labels_*.txt; it must have one for each "
            f"label, {MOST_FREQUENT} at least"
        )
    hot = np.stack([_zeros_and_ones(file, len(files)) for file in found], axis=1)
    chosen = np.sort(np.argsort(-hot.sum(axis=0, dtype=np.int64), kind="stable")[:MOST_FREQUENT])
    rows = np.flatnonzero(hot[:, chosen].any(axis=1))
    root = images or next((folder / top for top in FOLDERS if (folder / top).is_dir()), folder)
    store, labels = FileImages(root, [files[row] for row in rows]), np.ascontiguousarray(hot[rows][:, chosen])
    classes = tuple(found[label].stem.removeprefix("Labels_") for label in chosen)
    return ImageTable(store, labels, folder.name, protocol="nuswide21", class_names=classes)


def _zeros_and_ones(file: Path, count: int) -> npt.NDArray[np.uint8]:
    """Return the 0 or 1 of each line, ``uint8 [count]``."""
    words = file.read_bytes().split()
    if len(words) != count:
        raise ValueError(f"{file.name} has {len(words)} lines and the image list {count}; they must be equal")
    if not {b"0", b"1"}.issuperset(words):
        line, word = next((line, word) for line, word in enumerate(words, start=1) if word not in (b"0", b"1"))
        raise ValueError(f"line {line} of {file.name} is {word.decode(errors='replace')!r}; it must be 0 or 1")
    return np.frombuffer(b"".join(words), np.uint8) - ord("0")
