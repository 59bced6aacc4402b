"""MIRFLICKR-25K as a multi-label set."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lbhash.data.images.list_files import numbered_lines
from lbhash.data.images.stores import FileImages
from lbhash.data.images.table import ImageTable

ANNOTATIONS = "mirflickr25k_annotations*"


def read_mirflickr(path: str | Path, images: str | Path | None = None, name: str = "data") -> ImageTable:
    """Read the images that have one of the labels, of which MIRFLICKR-25K has 24.

    The files ``LABEL_r1.txt``, which name the images where a label is the main subject, are left out, as is usual.
    Protocol ``mirflickr25k`` has 2,000 queries, the rest base, 5,000 of it to train; 24,581 images have a label.

    The folder has ``mirflickr25k_annotations_v080/LABEL.txt``, with the number of an image a line, and
    ``mirflickr/im1.jpg`` …; both may also lie in it itself, and the images in the folder ``images``.

    Source: M. J. Huiskes and M. S. Lew, The MIR Flickr Retrieval Evaluation, MIR 2008.
    """
    root = Path(path)
    folder = next((found for found in sorted(root.glob(ANNOTATIONS)) if found.is_dir()), root)
    others = ("_r1", "readme", "license")
    found = [file for file in sorted(folder.glob("*.txt")) if not file.stem.lower().endswith(others)]
    if not found:
        raise ValueError(f"{name} is {str(path)!r}, which has no {ANNOTATIONS}/LABEL.txt")
    members: list[set[int]] = []
    for file in found:
        lines = dict(numbered_lines(file))
        wrong = next((where for where, line in lines.items() if not line.strip().isdecimal()), None)
        if wrong is not None:
            raise ValueError(f"{wrong} is {lines[wrong][:80]!r}; it must be the number of an image")
        members.append(set(map(int, lines.values())))
    numbers = sorted(set().union(*members))
    labels = np.array([[number in member for member in members] for number in numbers], np.uint8)
    folder = Path(images) if images else root / "mirflickr" if (root / "mirflickr").is_dir() else root
    labels = labels.reshape(len(numbers), len(found))  # also of no number
    store, classes = FileImages(folder, [f"im{number}.jpg" for number in numbers]), tuple(file.stem for file in found)
    return ImageTable(store, labels, root.name, protocol="mirflickr25k", class_names=classes)
