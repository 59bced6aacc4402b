"""Folders of images: a folder for each class, and perhaps one for each split above them; or images alone."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from lbhash.data.dataset import SPLITS
from lbhash.data.images.stores import FileImages
from lbhash.data.images.table import ImageTable

SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
"""How a file's name ends where it is taken for an image, in capitals too."""

HELD = ("test", "val", "validation")
"""What the part of a data set is called that is not for training."""


def read_image_folder(path: str | Path, name: str = "data") -> ImageTable:
    """Read folders of images, a folder a class; the classes count in the order of their names.

    Args:
        path: a folder with a folder for each class; or with ``train``, ``base`` and ``query``, or ``train`` and some of
            ``test``, ``val`` and ``validation``, which hold them. Images may lie deeper in a class's folder. Files
            that do not end in one of ``SUFFIXES``, and hidden ones, are no images.
        name: of the argument, for messages.

    Raises:
        ValueError: there is no such folder, a class has no image, images lie where no class is, or there is a
            folder ``train`` without its others.
    """
    root = Path(path)
    if not root.is_dir():
        raise ValueError(f"{name} is {str(path)!r}, and there is no such folder")
    tops = top_folders(root, name)
    for top in tops:
        stray = _direct_images(root / top)
        if stray:
            raise ValueError(
                f"{name} is {str(root / top)!r}, which has {stray[0]!r} beside the folders of its classes; an image "
                "must be in one of them, or all are read without labels (layout 'files')"
            )
    found = {top: class_folders(root / top, name) for top in tops}
    classes = sorted({label for folders in found.values() for label in folders})
    files: list[str] = []
    labels: list[int] = []
    of_top: list[int] = []
    for at, (top, folders) in enumerate(found.items()):
        for label, images in folders.items():
            files += [os.path.join(top, label, image) for image in images]
            labels += [classes.index(label)] * len(images)
            of_top += [at] * len(images)
    where = np.array(of_top)
    masks = {top: where == at for at, top in enumerate(tops)}
    flags = masks if tops == SPLITS else {}
    test_rows = None if flags or tops == ("",) else ~masks["train"]
    protocol = "holdout" if test_rows is None else "official"
    return ImageTable(
        FileImages(root, files), np.array(labels, np.int64), root.name, flags, test_rows, protocol, tuple(classes)
    )


def read_image_files(path: str | Path, name: str = "data") -> ImageTable:
    """Read the images in and below a folder as they are, without labels, in the order of their names.

    Args:
        path: the folder; what is an image is as of ``read_image_folder``.
        name: of the argument, for messages.

    Raises:
        ValueError: there is no such folder, or no image in it.
    """
    root = Path(path)
    if not root.is_dir():
        raise ValueError(f"{name} is {str(path)!r}, and there is no such folder")
    files = images_in(root)
    if not files:
        raise ValueError(f"{name} is {str(path)!r}, which has no image ({', '.join(SUFFIXES)})")
    return ImageTable(FileImages(root, files), None, root.name)


def top_folders(root: Path, name: str) -> tuple[str, ...]:
    """The folders of the splits or parts, or ``("",)`` where the classes are at the top."""
    folders = {entry.name for entry in os.scandir(root) if entry.is_dir() and not entry.name.startswith(".")}
    if folders.issuperset(SPLITS):
        return SPLITS
    if "train" in folders and folders.intersection(HELD):
        return ("train", *(top for top in HELD if top in folders))
    if "train" in folders and folders.issubset(SPLITS):  # else it is a class of trains
        raise ValueError(
            f"{name} is {str(root)!r}, which has the folders {', '.join(sorted(folders))}; beside train there must be "
            f"base and query, or {', '.join(HELD[:-1])} or {HELD[-1]}"
        )
    return ("",)


def class_folders(folder: Path, name: str) -> dict[str, list[str]]:
    """The images of each class, paths seen from the class's folder, classes and images in the order of names."""
    classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))
    if not classes:
        raise ValueError(f"{name} is {str(folder)!r}, which has no folder; it must have one for each class")
    found = {label: images_in(folder / label) for label in classes}
    empty = [label for label, images in found.items() if not images]
    if empty:
        raise ValueError(
            f"{name} is {str(folder)!r}, whose folder {empty[0]!r} has no image ({', '.join(SUFFIXES)}); "
            "every class must have one"
        )
    return found


def holds_files(folder: Path) -> bool:
    """Whether there are images in a folder, and none in the folders in it."""
    if not folder.is_dir() or not _direct_images(folder):
        return False
    inner = [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith(".")]
    return not any(images_in(one) for one in inner)


def _direct_images(folder: Path) -> list[str]:
    names = (entry.name for entry in os.scandir(folder) if entry.is_file())
    return sorted(name for name in names if not name.startswith(".") and name.lower().endswith(SUFFIXES))


def images_in(folder: Path) -> list[str]:
    """The images in and below a folder, as paths seen from it, in the order of their names."""
    found = []
    for top, folders, files in os.walk(folder, followlinks=True):
        folders[:] = [inner for inner in folders if not inner.startswith(".")]
        inner = os.path.relpath(top, folder)
        for file in files:
            if not file.startswith(".") and file.lower().endswith(SUFFIXES):
                found.append(os.path.normpath(os.path.join(inner, file)))
    return sorted(found)
