"""Data sets of images, in the layouts that they are published in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from lbhash.data.arrow import parquet_files
from lbhash.data.images.cifar import read_cifar
from lbhash.data.images.coco import read_coco
from lbhash.data.images.folders import holds_files, images_in, read_image_files, read_image_folder
from lbhash.data.images.hub import HUB_DATASETS, read_hub_dataset
from lbhash.data.images.imagenet import WORDNET_ID, read_imagenet
from lbhash.data.images.list_files import LISTS, read_image_lists
from lbhash.data.images.mirflickr import ANNOTATIONS, read_mirflickr
from lbhash.data.images.nuswide import LABELS, read_nuswide
from lbhash.data.images.parquet import has_image_column, read_parquet_images
from lbhash.data.images.stores import ArrayImages, FileImages, ImageStore, ListedImages
from lbhash.data.images.table import ImageSplit, ImageTable
from lbhash.utils.validation import check_choice, did_you_mean


class Layout(NamedTuple):
    """A way in which images and labels lie on disk."""

    read: Callable[..., ImageTable]  # of the path and, for messages, the name of the argument; with ValueErrors
    recognizes: Callable[[Path], bool]  # by the names of the files
    options: tuple[str, ...] = ()  # those of "images" and "classes" that the reader takes


LAYOUTS = {
    "parquet": Layout(read_parquet_images, lambda path: bool(parquet_files(path))),
    "lists": Layout(read_image_lists, lambda path: _all(path, LISTS.values()), ("images",)),
    "cifar": Layout(read_cifar, lambda path: _has(path, "data_batch_*") or _all(path, ("train", "test", "meta"))),
    "nuswide": Layout(read_nuswide, lambda path: (path / LABELS).is_dir(), ("images",)),
    "coco": Layout(read_coco, lambda path: _has(path, "annotations/instances_*.json"), ("images",)),
    "mirflickr": Layout(read_mirflickr, lambda path: _has(path, ANNOTATIONS), ("images",)),
    "imagenet": Layout(read_imagenet, lambda path: _has(path, f"train/{WORDNET_ID}"), ("classes",)),
    "files": Layout(read_image_files, holds_files),
    "folder": Layout(read_image_folder, lambda path: path.is_dir()),
}
"""The layouts by name, in the order in which they are tried."""


def load_images(
    data: str | Path,
    *,
    layout: str | None = None,
    images: str | Path | None = None,
    classes: str | Path | Sequence[str] | None = None,
    name: str = "data",
) -> ImageTable:
    """Return a table of images from a file or a folder.

    Args:
        data: the file or folder; or a name of ``HUB_DATASETS``, if there is no file or folder of that name.
        layout: a name of ``LAYOUTS``; if None, the names of the files tell it.
        images: the folder that the paths of the data's own lists are seen from, if the layout has such lists.
        classes: a file that lists the classes, or the classes, for the layout ``imagenet``.
        name: of the argument, for messages.

    Raises:
        TypeError, ValueError: what the reader refuses; or options that do not go with the layout.
    """
    path = Path(data)
    if layout is not None:
        layout = check_choice(layout, "layout", LAYOUTS)
    given = {option: value for option, value in (("images", images), ("classes", classes)) if value is not None}
    if is_hub_dataset(data):
        for option, value in {"layout": layout, **given}.items():
            if value is not None:
                raise ValueError(f"{option} is {str(value)!r}, and {name} is {str(data)!r}, a data set that takes none")
        return read_hub_dataset(str(data))
    if not path.exists():
        known, hint = " or ".join(HUB_DATASETS), did_you_mean(str(data), HUB_DATASETS)
        said = f"{name} is {str(data)!r}, and there is no such file or folder; it must be one, or {known}"
        raise ValueError(f"{said}{hint}")
    found = layout or layout_of(path)
    if found is None:
        raise ValueError(f"{name} is {str(data)!r}, which is no .parquet file and no folder of images")
    for option, value in given.items():
        if option not in LAYOUTS[found].options:
            raise ValueError(f"{option} is {str(value)!r}, and {name} is of the layout {found!r}, which takes none")
    if images is not None and not Path(images).is_dir():
        raise ValueError(f"images is {str(images)!r}, and there is no such folder")
    return LAYOUTS[found].read(path, name=name, **given)


def layout_of(data: str | Path) -> str | None:
    """Return the name of a file's or folder's layout, as the names of its files tell it; ``None`` if it has none."""
    return next((known for known, one in LAYOUTS.items() if one.recognizes(Path(data))), None)


def is_hub_dataset(data: str | Path) -> bool:
    """Return whether this is the name of a data set of the Hub, and no file or folder."""
    return str(data) in HUB_DATASETS and not Path(data).exists()


def holds_images(data: str | Path) -> bool:
    """Return whether a path looks like images, and not like embeddings, so that a missing backbone can be named."""
    path = Path(data)
    if is_hub_dataset(data):
        return True
    if path.suffix == ".parquet":
        return path.is_file() and has_image_column(path)
    found = layout_of(path) if path.is_dir() else None
    if found == "folder":
        return any(folder.is_dir() and images_in(folder) for folder in path.iterdir())
    return found is not None and (found != "parquet" or has_image_column(path))


def _has(path: Path, pattern: str) -> bool:
    return path.is_dir() and next(path.glob(pattern), None) is not None


def _all(path: Path, files: Iterable[str]) -> bool:
    return all((path / file).is_file() for file in files)


__all__ = ["HUB_DATASETS", "LAYOUTS", "ArrayImages", "FileImages", "ImageSplit", "ImageStore", "ImageTable", "Layout"]
__all__ += ["ListedImages", "holds_images", "is_hub_dataset", "layout_of", "load_images"]
