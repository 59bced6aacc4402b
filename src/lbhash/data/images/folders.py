"""Folders of images: a folder for each class, and perhaps one for each split above them; or images alone."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from lbhash.data.arrow import TEST_NAMES
from lbhash.data.dataset import SPLITS
from lbhash.data.images.stores import FileImages
from lbhash.data.images.table import ImageTable

SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
"""How the name of an image's file ends, in small letters or capitals."""


def read_image_folder(path: str | Path, name: str = "data") -> ImageTable:
    """Read folders of images, a folder a class; the classes count in the order of their names.

    They lie in ``path``; or in its folders ``train``, ``base`` and ``query``, or ``train`` and some of ``test``,
    ``val`` and ``validation``. Images may lie deeper in a class's folder. Files that do not end in one of
    ``SUFFIXES``, and hidden ones, are no images.
    """
    root = _existing_folder(path, name)
    tops = _top_folders(root, name)
    for top in tops:
        stray = _direct_images(root / top)
        if stray:
            raise ValueError(
                f"{name} is {str(root / top)!r}, which has {stray[0]!r} beside the folders of its classes; an image "
                "must be in one of them, or all images in one folder without others"
            )
    found = [(top, label, files) for top in tops for label, files in class_folders(root / top, name).items()]
    classes = sorted({label for _, label, _ in found})
    counts = [len(files) for _, _, files in found]
    masks = {top: np.repeat([of == top for of, _, _ in found], counts) for top in tops}
    store = FileImages(root, [os.path.join(top, label, file) for top, label, files in found for file in files])
    labels = np.repeat([classes.index(label) for _, label, _ in found], counts)
    if tops in (SPLITS, ("",)):
        return ImageTable(store, labels, root.name, masks if tops == SPLITS else {}, class_names=tuple(classes))
    return ImageTable(store, labels, root.name, {}, ~masks["train"], "official", tuple(classes))


def read_image_files(path: str | Path, name: str = "data") -> ImageTable:
    """Read the images in and below a folder without labels, in the order of their names."""
    root = _existing_folder(path, name)
    files = images_in(root)
    if not files:
        raise ValueError(f"{name} is {str(path)!r}, which has no image ({', '.join(SUFFIXES)})")
    return ImageTable(FileImages(root, files), None, root.name)


def class_folders(folder: Path, name: str) -> dict[str, list[str]]:
    """Return the images of each class, paths seen from the class's folder, classes and images in the order of names."""
    classes = folders_in(folder)
    if not classes:
        raise ValueError(f"{name} is {str(folder)!r}, which has no folder; it must have one for each class")
    found = {label: images_in(folder / label) for label in classes}
    empty = next((label for label, images in found.items() if not images), None)
    if empty is not None:
        said = f"{name} is {str(folder)!r}, whose folder {empty!r} has no image ({', '.join(SUFFIXES)})"
        raise ValueError(f"{said}; every class must have one")
    return found


def holds_files(folder: Path) -> bool:
    """Return whether there are images in a folder, and none in the folders in it."""
    there = folder.is_dir() and _direct_images(folder)
    return bool(there) and not any(images_in(folder / inner) for inner in folders_in(folder))


def folders_in(folder: Path) -> list[str]:
    """Return the names of the folders in a folder that are not hidden, in order."""
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))


def images_in(folder: Path) -> list[str]:
    """Return the images in and below a folder, as paths seen from it, in the order of their names."""
    found = []
    for top, folders, files in os.walk(folder, followlinks=True):
        folders[:] = [inner for inner in folders if not inner.startswith(".")]
        inner = os.path.relpath(top, folder)
        found += [os.path.normpath(os.path.join(inner, file)) for file in files if _is_image(file)]
    return sorted(found)


def _top_folders(root: Path, name: str) -> tuple[str, ...]:
    """Return the folders of the splits or of the published sets; ``("",)`` if the classes are at the top."""
    folders = set(folders_in(root))
    if folders.issuperset(SPLITS):
        return SPLITS
    if "train" in folders and folders.intersection(TEST_NAMES):
        return ("train", *(top for top in TEST_NAMES if top in folders))
    if "train" in folders and folders.issubset(SPLITS):  # else it is a class of trains
        raise ValueError(
            f"{name} is {str(root)!r}, which has the folders {', '.join(sorted(folders))}; beside train there must be "
            f"base and query, or {', '.join(TEST_NAMES[:-1])} or {TEST_NAMES[-1]}"
        )
    return ("",)


def _existing_folder(path: str | Path, name: str) -> Path:
    if not Path(path).is_dir():
        raise ValueError(f"{name} is {str(path)!r}, and there is no such folder")
    return Path(path)


def _direct_images(folder: Path) -> list[str]:
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_file() and _is_image(entry.name))


def _is_image(file: str) -> bool:
    return not file.startswith(".") and file.lower().endswith(SUFFIXES)
