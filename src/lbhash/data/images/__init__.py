"""Data sets of images, in the layouts that they are published in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lbhash.data.dataset import SPLITS
from lbhash.data.images.cifar import read_cifar
from lbhash.data.images.coco import read_coco
from lbhash.data.images.folders import holds_files, images_in, read_image_files, read_image_folder
from lbhash.data.images.hub import HUB_DATASETS, read_hub_dataset
from lbhash.data.images.imagenet import WORDNET_ID, read_imagenet
from lbhash.data.images.in_memory import ListedImages
from lbhash.data.images.list_files import LISTS, read_image_lists
from lbhash.data.images.mirflickr import ANNOTATIONS, read_mirflickr
from lbhash.data.images.nuswide import LABELS, read_nuswide
from lbhash.data.images.parquet import has_image_column, parquet_files, read_parquet_images
from lbhash.data.images.protocols import PART_PROTOCOLS, PartProtocol
from lbhash.data.images.split import ImageDataset, ImageSplit
from lbhash.data.images.table import ArrayImages, FileImages, ImageStore, ImageTable
from lbhash.data.protocols import PROTOCOLS


@dataclass(frozen=True)
class Layout:
    """A way in which images and labels lie on disk.

    Attributes:
        read: the reader.
        recognizes: whether a path is of this layout, by a look at its files' names.
        options: the options that the reader takes, of ``images`` and ``classes``.
    """

    read: Callable[..., ImageTable]
    recognizes: Callable[[Path], bool]
    options: tuple[str, ...] = ()


LAYOUTS = {
    "parquet": Layout(read_parquet_images, lambda path: path.suffix == ".parquet" or bool(parquet_files(path))),
    "lists": Layout(read_image_lists, lambda path: _all(path, LISTS.values()), ("images",)),
    "cifar": Layout(read_cifar, lambda path: _has(path, "data_batch_*") or _all(path, ("train", "test", "meta"))),
    "nuswide": Layout(read_nuswide, lambda path: (path / LABELS).is_dir(), ("images",)),
    "coco": Layout(read_coco, lambda path: _has(path, "annotations/instances_*.json"), ("images",)),
    "mirflickr": Layout(read_mirflickr, lambda path: _has(path, ANNOTATIONS), ("images",)),
    "imagenet": Layout(read_imagenet, lambda path: _wordnet(path / "train"), ("classes",)),
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
    """A table of images from a file or a folder.

    Args:
        data: the file or folder; or a name of ``HUB_DATASETS``, where there is no file or folder of that name.
        layout: a name of ``LAYOUTS``; found by the names of the files where it is not given.
        images: the folder that the paths of the data's own lists are seen from, where the layout has such lists.
        classes: a file that lists the classes, or the classes, for the layout ``imagenet``.
        name: of the argument, for messages.

    Raises:
        TypeError, ValueError: what the reader refuses; or options that do not go with the layout.
    """
    path = Path(data)
    if layout is not None and layout not in LAYOUTS:
        raise ValueError(f"layout is {layout!r}; it must be one of {', '.join(LAYOUTS)}")
    if is_hub_dataset(data):
        for option, value in (("layout", layout), ("images", images), ("classes", classes)):
            if value is not None:
                raise ValueError(f"{option} is {str(value)!r}, and {name} is {str(data)!r}, a data set that takes none")
        return read_hub_dataset(str(data))
    if not path.exists():
        known = " or ".join(HUB_DATASETS)
        raise ValueError(f"{name} is {str(data)!r}, and there is no such file or folder; it must be one, or {known}")
    found = layout or layout_of(path)
    if found is None:
        raise ValueError(f"{name} is {str(data)!r}, which is no .parquet file and no folder of images")
    given = {option: value for option, value in (("images", images), ("classes", classes)) if value is not None}
    for option, value in given.items():
        if option not in LAYOUTS[found].options:
            raise ValueError(f"{option} is {str(value)!r}, and {name} is of the layout {found!r}, which takes none")
    if images is not None and not Path(images).is_dir():
        raise ValueError(f"images is {str(images)!r}, and there is no such folder")
    return LAYOUTS[found].read(path, name=name, **given)


def layout_of(data: str | Path) -> str | None:
    """The name of a file's or folder's layout, as the names of its files tell it; ``None`` where it has none."""
    return next((known for known, one in LAYOUTS.items() if one.recognizes(Path(data))), None)


def is_hub_dataset(data: str | Path) -> bool:
    """Whether this is the name of a data set of the Hub, and no file or folder."""
    return str(data) in HUB_DATASETS and not Path(data).exists()


def holds_images(data: str | Path) -> bool:
    """Whether a path looks like images, and not like embeddings: to say so where a backbone is missing."""
    path = Path(data)
    if is_hub_dataset(data):
        return True
    if path.suffix == ".parquet":
        return path.is_file() and has_image_column(path)
    found = layout_of(path) if path.is_dir() else None
    if found == "folder":
        return any(folder.is_dir() and images_in(folder) for folder in path.iterdir())
    return found is not None and (found != "parquet" or has_image_column(path))


def split_images(
    table: ImageTable, kept: npt.NDArray[np.bool_], protocol: str | None = None, seed: int = 0
) -> tuple[str, dict[str, npt.NDArray[np.int64]]]:
    """The protocol, and the train, base and query rows that it draws from those that are kept.

    Args:
        table: images with labels.
        kept: ``bool [n]``, false for a row that no split may have.
        protocol: a name of ``PART_PROTOCOLS``, for a table in parts, or of ``PROTOCOLS``; the table's flags where it
            is not given, and its own protocol where it has none.
        seed: of the draw.

    Raises:
        ValueError: no such protocol, no labels, flags that overlap, or too few rows.
    """
    names = {**PROTOCOLS, **PART_PROTOCOLS}
    if protocol is not None and protocol not in names:
        raise ValueError(f"protocol is {protocol!r}; it must be one of {', '.join(names)}")
    if table.labels is None:
        raise ValueError(f"{table.name} has no labels; splits need them")
    if protocol is None and table.flags:
        return "flags", _by_flags(table, kept)
    chosen = protocol or table.protocol
    rows = np.flatnonzero(kept)
    if table.parts and chosen in PART_PROTOCOLS:
        parts = {part: mask[rows] for part, mask in table.parts.items()}
        draw = partial(PART_PROTOCOLS[chosen].split, table.labels[rows], parts, seed)
    elif chosen in PROTOCOLS:
        draw = partial(PROTOCOLS[chosen].split, table.labels[rows], seed)
    else:
        raise ValueError(
            f"protocol is {chosen!r}, which needs a training set and a test or validation set; {table.name} is not "
            "in such parts"
        )
    try:
        drawn = draw()
    except ValueError as error:
        if protocol is not None:
            raise
        raise ValueError(f"protocol is {chosen!r}, that of such data: {error} (or another protocol)") from None
    return chosen, {split: rows[drawn[split]] for split in SPLITS}


def image_dataset(
    table: ImageTable, kept: npt.NDArray[np.bool_], protocol: str | None = None, seed: int = 0
) -> ImageDataset:
    """Train, base and query of a table of images; arguments and errors as of ``split_images`` and ``Splits``."""
    chosen, rows = split_images(table, kept, protocol, seed)
    assert table.labels is not None
    parts = (ImageSplit(table, rows[split], table.labels[rows[split]]) for split in SPLITS)
    return ImageDataset(table.name, chosen, *parts)


def _by_flags(table: ImageTable, kept: npt.NDArray[np.bool_]) -> dict[str, npt.NDArray[np.int64]]:
    missing = [split for split in SPLITS if split not in table.flags]
    if missing:
        raise ValueError(
            f"{table.name} has no flag in_{missing[0]}; it must have one for train, base and query, or none"
        )
    for split in ("train", "base"):
        both = table.flags["query"] & table.flags[split]
        if both.any():
            raise ValueError(
                f"{table.store.where(int(np.argmax(both)))} is in query and in {split} ({both.sum()} images are); "
                "a query must be in no other split, or it finds itself"
            )
    return {split: np.flatnonzero(table.flags[split] & kept) for split in SPLITS}


def _has(path: Path, pattern: str) -> bool:
    return path.is_dir() and next(path.glob(pattern), None) is not None


def _all(path: Path, files: Iterable[str]) -> bool:
    return all((path / file).is_file() for file in files)


def _wordnet(path: Path) -> bool:
    return path.is_dir() and any(WORDNET_ID.fullmatch(folder.name) for folder in path.iterdir())


__all__ = ["HUB_DATASETS", "LAYOUTS", "PART_PROTOCOLS", "ArrayImages", "FileImages", "ImageTable", "Layout"]
__all__ += ["ImageDataset", "ImageSplit", "ImageStore", "ListedImages", "PartProtocol", "has_image_column"]
__all__ += ["image_dataset", "is_hub_dataset", "load_images", "read_cifar", "read_coco", "read_hub_dataset"]
__all__ += ["read_image_folder", "read_image_lists", "read_imagenet", "read_mirflickr", "read_nuswide"]
__all__ += ["read_image_files", "read_parquet_images", "split_images"]
