"""Data sets of the Hugging Face Hub by name: downloaded once, kept in Parquet, and read from there."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lbhash.data.images.parquet import read_parquet_images
from lbhash.data.images.table import ImageTable
from lbhash.utils.files import cache_folder, replacing


@dataclass(frozen=True)
class HubDataset:
    """A data set of the Hub that has a training and a test set.

    Attributes:
        repository: its id.
        protocol: what draws the splits where the user does not say so.
        original: the folder of its original files, to be given in its place.
    """

    repository: str
    protocol: str
    original: str


HUB_DATASETS = {
    "cifar10": HubDataset("uoft-cs/cifar10", "cifar10", "cifar-10-batches-py"),
    "cifar100": HubDataset("uoft-cs/cifar100", "official", "cifar-100-python"),
}
"""The data sets by name."""

_PARTS = ("train", "test")


def read_hub_dataset(name: str) -> ImageTable:
    """The images of a data set, of CIFAR-100 with the fine labels; downloaded where that was not done before.

    They are kept in the cache folder (``$LBHASH_CACHE``, or the platform's), a Parquet file a part. Rows are in the
    Hub's order, so that a protocol draws others than from the original files.

    Args:
        name: of ``HUB_DATASETS``.

    Raises:
        ValueError: it cannot be downloaded, or the package ``datasets`` is missing, which downloads it.
    """
    known = HUB_DATASETS[name]
    folder = cache_folder() / "datasets" / name
    if not all(_file(folder, part).is_file() for part in _PARTS):
        _download(name, known, folder)
    return replace(read_parquet_images(folder), protocol=known.protocol)


def _download(name: str, known: HubDataset, folder: Path) -> None:
    if find_spec("datasets") is None:
        raise ValueError(f"data is {name!r}, which the package datasets downloads: pip install 'lbhash[datasets]'")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as temporary:
        held = _loaded(name, known, temporary)
        for part in _PARTS:
            with replacing(_file(folder, part)) as file:
                held[part].to_parquet(file)


def _loaded(name: str, known: HubDataset, folder: str) -> Any:
    from datasets import load_dataset

    try:
        return load_dataset(known.repository, cache_dir=folder)
    except Exception as error:  # of the system, of httpx, of huggingface_hub and of datasets
        line = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"data is {name!r}, which could not be downloaded from the Hub ({known.repository}): {line}; without a "
            f"network give the folder of the original files, {known.original}"
        ) from None


def _file(folder: Path, part: str) -> Path:
    return folder / f"{part}.parquet"
