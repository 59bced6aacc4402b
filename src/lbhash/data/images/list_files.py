"""The list files of HashNet and DeepHash-pytorch: one image per line, its path and then its labels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lbhash.data.images.stores import FileImages
from lbhash.data.images.table import ImageTable
from lbhash.utils.labels import read_labels
from lbhash.utils.paths import existing_file

LISTS = {"train": "train.txt", "base": "database.txt", "query": "test.txt"}
_LINE = re.compile(r"(.*?\S)\s+(\d+(?:\s+\d+)*)\s*")


def read_image_lists(folder: Path, images: Path | None = None) -> ImageTable:
    """Read ``train.txt``, ``database.txt`` and ``test.txt``.

    Paths are relative to ``images``; if None, to ``folder``.

    A line is ``path 0 1 0 …``, with a 0 or 1 for each class, or ``path 3``, with the number of a class. If every
    image has exactly one class, the labels are class numbers, else multi-hot. An image that several lists name
    (HashNet samples the training set from the base) is one row.
    """
    labels: dict[str, tuple[int, ...]] = {}  # by image, in the order of the rows
    members: dict[str, set[str]] = {split: set() for split in LISTS}
    for split, list_name in LISTS.items():
        for where, line in numbered_lines(existing_file(folder / list_name, list_name)):
            matched = _LINE.fullmatch(line)
            if matched is None:
                raise ValueError(f"{where} is {line[:80]!r}; it must be a path and its labels, 'path 0 1 0'")
            image, label = matched[1], tuple(map(int, matched[2].split()))
            if labels.setdefault(image, label) != label:
                raise ValueError(f"{where} gives {image!r} other labels than an earlier line")
            first = next(iter(labels.values()))
            if len(label) != len(first):
                raise ValueError(f"{where} has {len(label)} labels and the first line {len(first)}")
            if len(label) > 1 and max(label) > 1:
                raise ValueError(f"{where} has the label {max(label)}; with several labels each must be 0 or 1")
            members[split].add(image)
        if not members[split]:
            raise ValueError(f"{list_name} names no image")
    table = np.array(list(labels.values()), np.int64)
    if table.shape[1] == 1:
        table = table[:, 0]
    elif (table.sum(axis=1) == 1).all():
        table = table.argmax(axis=1)
    flags = {split: np.array([image in those for image in labels]) for split, those in members.items()}
    store = FileImages(images or folder, list(labels))
    read = read_labels(table, "labels of folder")
    return ImageTable(store, read.numbers, folder.name, flags, class_names=read.classes)


def numbered_lines(file: Path) -> Iterator[tuple[str, str]]:
    """Yield each line that is not empty, after its name for messages."""
    text = file.read_text(encoding="utf-8", errors="surrogateescape")
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            yield f"line {number} of {file.name}", line
