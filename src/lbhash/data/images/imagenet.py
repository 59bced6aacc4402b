"""ImageNet from its folders: all of its classes, or those that a file lists."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lbhash.data.images.folders import folders_in, images_in
from lbhash.data.images.list_files import numbered_lines
from lbhash.data.images.stores import FileImages
from lbhash.data.images.table import ImageTable
from lbhash.utils.files import existing_file

WORDNET_ID = "n" + 8 * "[0-9]"  # as glob has patterns


def read_imagenet(
    path: str | Path, classes: str | Path | Sequence[str] | None = None, name: str = "data"
) -> ImageTable:
    """Read ``train`` and ``val``, the classes of a list or all, in the list's order or that of their names.

    Protocol ``imagenet100`` queries with the validation images of the listed classes, and has the training images
    as base, 100 a class of which train; ``imagenet1000`` trains on all of ``train``, and of ``val`` 5 a class are
    queries and 45 the base.

    The folder has ``train/WORDNET_ID/…`` and ``val/WORDNET_ID/…``; or the images of ``val`` side by side, and a
    ``val.txt`` of lines ``FILE CLASS``, the class a WordNet id or its position among all of ``train`` in the order of
    their names, counted from 0. The list is a file of WordNet ids, the first word of each line; or the ids themselves.
    """
    root = Path(path)
    for folder in ("train", "val"):
        if not (root / folder).is_dir():
            raise ValueError(f"{name} is {str(path)!r}, which has no folder {folder!r}; it must have train and val")
    known = folders_in(root / "train")
    chosen = known if classes is None else _listed(classes, known)
    train = _of_classes(root / "train", chosen, name)
    if folders_in(root / "val"):
        val = _of_classes(root / "val", chosen, name)
        val = {label: [os.path.join(label, file) for file in files] for label, files in val.items()}
    else:
        val = _flat_val(root, known, chosen, name)
    files: list[str] = []
    counts: list[int] = []
    for label in chosen:
        files += [os.path.join("train", label, file) for file in train[label]]
        files += [os.path.join("val", file) for file in val[label]]
        counts += [len(train[label]), len(val[label])]
    published = np.repeat(np.arange(2 * len(chosen)), counts)  # of each image: two a class, training and validation set
    store, protocol = FileImages(root, files), "imagenet1000" if classes is None else "imagenet100"
    return ImageTable(store, published // 2, root.name, {}, published % 2 == 1, protocol, tuple(chosen))


def _listed(classes: str | Path | Sequence[str], known: list[str]) -> list[str]:
    if isinstance(classes, (str, Path)):
        lines = existing_file(classes, "classes").read_text(encoding="utf-8").splitlines()
        listed, said = [line.split()[0] for line in lines if line.strip()], repr(str(classes))
    else:
        listed, said = list(classes), "a list"
    if not listed:
        raise ValueError(f"classes is {said}, which lists none")
    twice = next((label for label, count in Counter(listed).items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"classes is {said}, which lists {twice} twice")
    absent = [label for label in listed if label not in set(known)]
    if absent:
        raise ValueError(f"classes lists {absent[0]!r}, which has no folder in train ({len(absent)} have none)")
    return listed


def _of_classes(folder: Path, classes: list[str], name: str) -> dict[str, list[str]]:
    """Return the images of these classes, without a look at the other folders."""
    return _none_empty({label: images_in(folder / label) for label in classes}, f"{name} has no image of class", folder)


def _none_empty(found: dict[str, list[str]], said: str, folder: Path | None = None) -> dict[str, list[str]]:
    empty = [label for label, images in found.items() if not images]
    if empty:
        where = "" if folder is None else f" in {folder.name}"
        raise ValueError(f"{said} {empty[0]}{where} ({len(empty)} classes have none)")
    return found


def _flat_val(root: Path, known: list[str], classes: list[str], name: str) -> dict[str, list[str]]:
    """Return the validation images of each class by ``val.txt``."""
    list_file = next((file for file in (root / "val.txt", root / "val" / "val.txt") if file.is_file()), None)
    if list_file is None:
        said = f"the val of {name} has no folder for each class"
        raise ValueError(f"{said}, and there is no val.txt to say which image is of which")
    found: dict[str, list[str]] = {label: [] for label in classes}
    position = {str(at): label for at, label in enumerate(known)} | {label: label for label in known}
    for where, line in numbered_lines(list_file):
        words = line.split()
        if len(words) != 2 or words[1] not in position:
            raise ValueError(f"{where} is {line[:80]!r}; it must be a file and its class")
        label = position[words[1]]
        if label in found:
            found[label].append(words[0])
    return _none_empty(found, "val.txt has no image of class")
