"""Folders of images: a folder for each class, perhaps inside a folder for each split; or images alone."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lbhash.data.images.stores import FileImages
from lbhash.data.images.table import ImageTable
from lbhash.data.split_names import is_known, split_masks, splits_of

SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
"""Endings of image file names, in any case."""

_OF_THE_SYSTEM = ("thumbs.db", "desktop.ini")  # files that Windows leaves in any folder of images
_NAMED = 3  # left-out files that a message names


@dataclass
class Walk:
    """The contents of a folder, and of some of its subfolders at any depth."""

    images: dict[str, list[str]]  # by subfolder: paths relative to it, sorted
    beside: list[str] = field(default_factory=list)  # images in the folder itself
    others: list[str] = field(default_factory=list)  # files that are no images
    links: list[str] = field(default_factory=list)  # links to folders that are counted already, or contain this one


def read_image_folder(path: str | Path, name: str = "data") -> ImageTable:
    """Read folders of images, one per class; classes are in the order of their names.

    The class folders lie in ``path``, or in its split folders (``lbhash.data.split_names``). Images may lie deeper in a
    class's folder. Hidden files are ignored. Files that do not end in one of ``SUFFIXES``, and links to folders that
    are counted already, are left out; a line on standard error names them.
    """
    root = _existing_folder(path, name)
    tops = _top_folders(root, name)
    found = {top: walk(root / top, folders_in(root / top)) for top in tops}
    for top, one in found.items():
        if one.beside:
            raise ValueError(
                f"{name} is {str(root / top)!r}, which has {one.beside[0]!r} beside the folders of its classes; put "
                "every image into the folder of a class, or all images into one folder"
            )
        _check_classes(one, f"{name} is {str(root / top)!r}")
    tell_left_out(found, name)
    parts = [(top, label, files) for top, one in found.items() for label, files in one.images.items()]
    classes = sorted({label for _, label, _ in parts})
    counts = [len(files) for _, _, files in parts]
    store = FileImages(root, [os.path.join(top, label, file) for top, label, files in parts for file in files])
    labels = np.repeat([classes.index(label) for _, label, _ in parts], counts)
    masks = split_masks([top for top, _, _ in parts], np.repeat(np.arange(len(parts)), counts), name)
    if "test" in masks:
        return ImageTable(store, labels, root.name, {}, masks["test"], "official", tuple(classes))
    return ImageTable(store, labels, root.name, masks, class_names=tuple(classes))


def read_image_files(path: str | Path, name: str = "data") -> ImageTable:
    """Read the images in a folder and its subfolders without labels, in the order of their paths."""
    root = _existing_folder(path, name)
    found = walk(root, [""])
    if not found.images[""]:
        raise ValueError(f"{name} is {str(path)!r}, which has no image ({', '.join(SUFFIXES)})")
    tell_left_out({"": found}, name)
    return ImageTable(FileImages(root, found.images[""]), None, root.name)


def holds_files(folder: Path) -> bool:
    """Return whether a folder has images, and its subfolders have none."""
    if not folder.is_dir():
        return False
    found = walk(folder, folders_in(folder))
    return bool(found.beside) and not any(found.images.values())


def holds_folders(folder: Path) -> bool:
    """Return whether the subfolders of a folder have images."""
    return any(walk(folder, folders_in(folder)).images.values())


def folders_in(folder: Path) -> list[str]:
    """Return the names of a folder's subfolders that are not hidden, in order."""
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))


def walk(root: Path, folders: Sequence[str]) -> Walk:
    """List some subfolders of ``root``; the name "" stands for ``root`` itself.

    A folder counts once, at its own place, however many links lead to it. A folder that contains ``root`` never counts.
    """
    found = Walk({folder: [] for folder in folders})
    seen = {_identity(above) for path in (root.absolute(), root.resolve()) for above in path.parents}
    waiting: deque[tuple[str, str]] = deque()  # (one of ``folders``, a folder in it)
    links: deque[tuple[str, str]] = deque()  # links to folders, visited after all real folders
    for folder in folders:
        (links if os.path.islink(root / folder) else waiting).append((folder, folder))
    if "" not in folders:
        seen.add(_identity(root))
        for entry in os.scandir(root):
            if not entry.is_dir():
                _sort_in(entry.name, entry.name, found.beside, found.others)
    while waiting or links:
        top, path = (waiting or links).popleft()
        if (identity := _identity(root / path)) in seen:
            found.links.append(path)
            continue
        seen.add(identity)
        for entry in os.scandir(root / path):
            inner = os.path.join(path, entry.name)
            if not entry.is_dir():
                _sort_in(entry.name, inner, found.images[top], found.others)
            elif not entry.name.startswith("."):
                (links if entry.is_symlink() else waiting).append((top, inner))
    for top, files in found.images.items():
        found.images[top] = sorted(file[len(top) + 1 :] if top else file for file in files)
    found.beside.sort()
    return found


def _identity(folder: Path) -> tuple[int, int]:
    """Return the identity of a folder, which links to it share."""
    facts = os.stat(folder)
    return facts.st_dev, facts.st_ino


def _sort_in(name: str, path: str, images: list[str], others: list[str]) -> None:
    """Add a file's path to the images or the others; leave out hidden files and files of the system."""
    if not name.startswith(".") and name.lower() not in _OF_THE_SYSTEM:
        (images if name.lower().endswith(SUFFIXES) else others).append(path)


def _top_folders(root: Path, name: str) -> tuple[str, ...]:
    """Return the folders of splits or of published sets; ``("",)`` if the classes are at the top."""
    folders = folders_in(root)
    splits = splits_of(folders)
    if not splits and folders and all(map(is_known, folders)):  # otherwise train is a class of trains
        raise ValueError(
            f"{name} is {str(root)!r}, which has the folders {', '.join(folders)}; it must have train, base and query, "
            "or train and test (or validation), or a folder for each class"
        )
    others = [folder for folder in folders if splits and folder not in splits]
    if held := {folder: len(images) for folder, images in walk(root, others).images.items() if images}:
        said = ", ".join(f"{folder} ({count:,} images)" for folder, count in held.items())
        print(f"{name} has the folders {', '.join(splits)}: others are left out, {said}", file=sys.stderr)
    return tuple(splits) or ("",)


def _check_classes(found: Walk, said: str) -> None:
    """Leave out classes that are links to others; raise ``ValueError`` if no class is left, or one has no image."""
    for folder in set(found.links) & found.images.keys():
        del found.images[folder]
    if not found.images:
        raise ValueError(f"{said}, which has no folder; it must have one for each class")
    empty = next((label for label, images in found.images.items() if not images), None)
    if empty is not None:
        raise ValueError(
            f"{said}, whose folder {empty!r} has no image ({', '.join(SUFFIXES)}); every class must have one"
        )


def tell_left_out(found: dict[str, Walk], name: str) -> None:
    """Print which files and which links of folders are left out, one line each."""
    links = "links to folders that are counted already, or that it lies in"
    for what, kind in (("files that are no images lbhash reads", "others"), (links, "links")):
        paths = sorted(os.path.join(top, path) for top, one in found.items() for path in getattr(one, kind))
        if paths:
            named = ", ".join(paths[:_NAMED]) + (", …" if len(paths) > _NAMED else "")
            print(f"{name} has {what}; they are left out ({len(paths):,}): {named}", file=sys.stderr)


def _existing_folder(path: str | Path, name: str) -> Path:
    if not Path(path).is_dir():
        raise ValueError(f"{name} is {str(path)!r}, and there is no such folder")
    return Path(path)
