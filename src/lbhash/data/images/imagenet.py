"""ImageNet from its folders: all of its classes, or those that a file lists."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lbhash.data.images.folders import class_folders, images_in
from lbhash.data.images.stores import FileImages
from lbhash.data.images.table import ImageTable
from lbhash.utils.files import existing_file

WORDNET_ID = re.compile(r"n\d{8}")


def read_imagenet(
    path: str | Path, classes: str | Path | Sequence[str] | None = None, name: str = "data"
) -> ImageTable:
    """Read ``train`` and ``val``, the classes of a list or all, in the list's order or that of their names.

    Protocol ``imagenet100`` queries with the validation images of the listed classes, and has the training images
    as base, 100 a class of which train; ``imagenet1000`` trains on all of ``train``, and of ``val`` 5 a class are
    queries and 45 the base.

    Args:
        path: the folder with ``train/WORDNET_ID/…`` and ``val/WORDNET_ID/…``; or with the images of ``val`` side by
            side, and a ``val.txt`` of lines ``FILE CLASS``, the class a WordNet id or its position among all of
            ``train`` in the order of their names, counted from 0.
        classes: a file that lists WordNet ids, the first word of each line; or the ids themselves.
        name: of the argument, for messages.

    Raises:
        ValueError: a folder or file is missing, a listed class has no folder, or a line is not of this form.
    """
    root = Path(path)
    for part in ("train", "val"):
        if not (root / part).is_dir():
            raise ValueError(f"{name} is {str(path)!r}, which has no folder {part!r}; it must have train and val")
    known = sorted(entry.name for entry in os.scandir(root / "train") if entry.is_dir())
    chosen = known if classes is None else _listed(classes, known)
    train = class_folders(root / "train", name) if classes is None else _some(root / "train", chosen, name)
    if any(entry.is_dir() for entry in os.scandir(root / "val")):
        val = _some(root / "val", chosen, name)
        val_files = {label: [os.path.join("val", label, one) for one in val[label]] for label in chosen}
    else:
        val_files = _flat_val(root, known, chosen, name)
    files: list[str] = []
    labels: list[int] = []
    held: list[bool] = []
    for at, label in enumerate(chosen):
        train_files = [os.path.join("train", label, one) for one in train[label]]
        for found, of_val in ((train_files, False), (val_files[label], True)):
            files += found
            labels += [at] * len(found)
            held += [of_val] * len(found)
    mask = np.array(held)
    return ImageTable(
        FileImages(root, files),
        np.array(labels, np.int64),
        root.name,
        test_rows=mask,
        protocol="imagenet1000" if classes is None else "imagenet100",
        classes=tuple(chosen),
    )


def _listed(classes: str | Path | Sequence[str], known: list[str]) -> list[str]:
    if isinstance(classes, (str, Path)):
        lines = existing_file(classes, "classes").read_text(encoding="utf-8").splitlines()
        listed, said = [line.split()[0] for line in lines if line.strip()], repr(str(classes))
    else:
        listed, said = list(classes), "a list"
    if not listed:
        raise ValueError(f"classes is {said}, which lists none")
    if len(set(listed)) < len(listed):
        twice = next(label for label in listed if listed.count(label) > 1)
        raise ValueError(f"classes is {said}, which lists {twice} twice")
    absent = [label for label in listed if label not in set(known)]
    if absent:
        raise ValueError(f"classes lists {absent[0]!r}, which has no folder in train ({len(absent)} have none)")
    return listed


def _some(folder: Path, classes: list[str], name: str) -> dict[str, list[str]]:
    """The images of some classes, without a look at the other folders."""
    found = {label: images_in(folder / label) for label in classes}
    empty = [label for label, images in found.items() if not images]
    if empty:
        raise ValueError(f"{name} has no image of class {empty[0]} in {folder.name} ({len(empty)} classes have none)")
    return found


def _flat_val(root: Path, known: list[str], classes: list[str], name: str) -> dict[str, list[str]]:
    """The validation images of each class by ``val.txt``."""
    list_file = next((file for file in (root / "val.txt", root / "val" / "val.txt") if file.is_file()), None)
    if list_file is None:
        raise ValueError(
            f"the val of {name} has no folder for each class, and there is no val.txt to say which image is of which"
        )
    found: dict[str, list[str]] = {label: [] for label in classes}
    position = {str(at): label for at, label in enumerate(known)} | {label: label for label in known}
    for number, line in enumerate(list_file.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        words = line.split()
        if len(words) != 2 or words[1] not in position:
            raise ValueError(f"line {number} of val.txt is {line[:80]!r}; it must be a file and its class")
        label = position[words[1]]
        if label in found:
            found[label].append(os.path.join("val", words[0]))
    empty = [label for label, images in found.items() if not images]
    if empty:
        raise ValueError(f"val.txt has no image of class {empty[0]} ({len(empty)} classes have none)")
    return found
