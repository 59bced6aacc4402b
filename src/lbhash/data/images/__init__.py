"""Data sets of images: in Parquet, in a folder for each class, or in one folder."""

from __future__ import annotations

from pathlib import Path

from lbhash.data.images.folders import holds_files, holds_folders, read_image_files, read_image_folder
from lbhash.data.images.hub import HUB_DATASETS, read_hub_dataset
from lbhash.data.images.parquet import has_image_column, read_parquet_images
from lbhash.data.images.stores import FileImages, ImageStore, ListedImages
from lbhash.data.images.table import ImageSplit, ImageTable
from lbhash.utils.table_files import parquet_files
from lbhash.utils.validation import did_you_mean

PUBLISHED = {"cifar10": "data_batch_*", "nuswide": "Groundtruth/AllLabels", "lists": "database.txt"}
"""Kinds of ``lbhash prepare`` whose folders no other command reads, each with a path that marks such a folder."""


def load_images(data: str | Path, *, name: str = "data") -> ImageTable:
    """Return a table of images.

    Args:
        data: Parquet (``read_parquet_images``), a folder for each class (``read_image_folder``), or a folder with
            images in it (``read_image_files``); or a name of ``HUB_DATASETS``, if there is no file or folder of that
            name.
        name: name of the argument, for messages.

    Raises:
        TypeError, ValueError: the reader refuses the data.

    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("cat", "dog"):
    ...         (Path(folder) / name).mkdir()
    ...         Image.new("RGB", (8, 8)).save(f"{folder}/{name}/1.png")
    ...     load_images(folder).class_names
    ('cat', 'dog')
    """
    path = Path(data)
    if is_hub_dataset(data):
        return read_hub_dataset(str(data))
    if not path.exists():
        known, hint = " or ".join(HUB_DATASETS), did_you_mean(str(data), HUB_DATASETS)
        said = f"{name} is {str(data)!r}, and there is no such file or folder; it must be one, or {known}"
        raise ValueError(f"{said}{hint}")
    if parquet_files(path):
        return read_parquet_images(path, name)
    if not path.is_dir():
        raise ValueError(f"{name} is {str(data)!r}, which is neither a .parquet file nor a folder of images")
    if kind := _published(path):
        raise ValueError(
            f"{name} is {str(data)!r}, a data set in its original layout; give a Parquet file of it: "
            f"lbhash prepare {kind} FOLDER --out FILE.parquet"
        )
    return read_image_files(path, name) if holds_files(path) else read_image_folder(path, name)


def is_hub_dataset(data: str | Path) -> bool:
    """Return whether ``data`` names a data set of the Hub, and no file or folder."""
    return str(data) in HUB_DATASETS and not Path(data).exists()


def holds_images(data: str | Path) -> bool:
    """Return whether a path looks like images rather than embeddings, so that a message can ask for a backbone."""
    path = Path(data)
    if is_hub_dataset(data):
        return True
    if parquet_files(path):
        return has_image_column(path)
    if not path.is_dir():
        return False
    return bool(_published(path)) or holds_files(path) or holds_folders(path)


def _published(folder: Path) -> str | None:
    """Return the kind of ``PUBLISHED`` that a folder is; None if it is none of them."""
    return next((kind for kind, mark in PUBLISHED.items() if next(folder.glob(mark), None)), None)


__all__ = ["HUB_DATASETS", "FileImages", "ImageSplit", "ImageStore", "ImageTable", "ListedImages"]
__all__ += ["holds_images", "is_hub_dataset", "load_images"]
