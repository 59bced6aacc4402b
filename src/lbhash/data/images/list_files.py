"""The list files of HashNet and DeepHash-pytorch: a line an image, its path and then its labels."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from lbhash.data.images.stores import FileImages
from lbhash.data.images.table import ImageTable
from lbhash.utils.files import existing_file
from lbhash.utils.labels import check_labels

LISTS = {"train": "train.txt", "base": "database.txt", "query": "test.txt"}
"""The file of each split."""

_LINE = re.compile(r"(.*?\S)\s+(\d+(?:\s+\d+)*)\s*")


def read_image_lists(path: str | Path, images: str | Path | None = None, name: str = "data") -> ImageTable:
    """Read ``train.txt``, ``database.txt`` and ``test.txt``.

    A line is ``path 0 1 0 …``, with a 0 or 1 for each class, or ``path 3``, with the number of a class. Where every
    image has exactly one class, the labels are class numbers, else multi-hot. An image that several lists name
    (HashNet draws the training set from the base) is one row.

    Args:
        path: the folder of the lists.
        images: the folder that their paths are seen from; that of the lists where it is not given.
        name: of the argument, for messages.

    Raises:
        ValueError: a list is missing or empty, or a line is not of this form, has another number of labels than the
            first, or disagrees with another list.
    """
    folder = Path(path)
    rows: dict[str, int] = {}
    labels: list[tuple[int, ...]] = []
    members: dict[str, list[int]] = {}
    for split, list_name in LISTS.items():
        file = existing_file(folder / list_name, f"{list_name} of {name}")
        members[split] = []
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="surrogateescape").splitlines(), start=1):
            if not line.strip():
                continue
            where = f"line {number} of {list_name}"
            matched = _LINE.fullmatch(line)
            if matched is None:
                raise ValueError(f"{where} is {line[:80]!r}; it must be a path and its labels, 'path 0 1 0'")
            image, label = matched[1], tuple(map(int, matched[2].split()))
            row = rows.setdefault(image, len(rows))
            if row == len(labels):
                if labels and len(label) != len(labels[0]):
                    raise ValueError(f"{where} has {len(label)} labels and the first line {len(labels[0])}")
                if len(label) > 1 and set(label) - {0, 1}:
                    raise ValueError(f"{where} has the label {max(label)}; of several labels each must be 0 or 1")
                labels.append(label)
            elif label != labels[row]:
                raise ValueError(f"{where} labels {image!r} otherwise than another line does")
            members[split].append(row)
        if not members[split]:
            raise ValueError(f"{list_name} of {name} names no image")
    table = np.array(labels, np.int64)
    if table.shape[1] == 1:
        table = table[:, 0]
    elif (table.sum(axis=1) == 1).all():
        table = table.argmax(axis=1)
    flags = {split: np.isin(np.arange(len(rows)), held) for split, held in members.items()}
    store = FileImages(Path(images) if images else folder, list(rows))
    return ImageTable(store, check_labels(table, f"labels of {name}"), folder.name, flags)
