"""Data sets of the Hugging Face Hub by name: downloaded once, stored in Parquet, and read from there."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from lbhash.data.images.parquet import read_parquet_images
from lbhash.data.images.table import ImageTable
from lbhash.utils.files import cache_folder, replacing
from lbhash.utils.formatting import one_line


@dataclass(frozen=True)
class HubDataset:
    """A data set of the Hub that has a training and a test set.

    Attributes:
        repository: its id.
        protocol: the protocol if the user names none.
        original: the folder of its original files, which can be given instead.
    """

    repository: str
    protocol: str
    original: str


HUB_DATASETS = {
    "cifar10": HubDataset("uoft-cs/cifar10", "cifar10", "cifar-10-batches-py"),
    "cifar100": HubDataset("uoft-cs/cifar100", "official", "cifar-100-python"),
}
"""The data sets by name."""

_SETS = ("train", "test")


def read_hub_dataset(name: str) -> ImageTable:
    """Return the images of a data set, of CIFAR-100 with the fine labels; they are downloaded once.

    They stay in the cache folder (``$LBHASH_CACHE``, or the platform's), in a Parquet file for each published set. Rows
    are in the Hub's order, so that a protocol samples others than from the original files.

    Raises:
        ValueError: it cannot be downloaded, or the package ``datasets`` is missing, which downloads it.
    """
    known = HUB_DATASETS[name]
    folder = cache_folder() / "datasets" / name
    files = {of: folder / f"{of}.parquet" for of in _SETS}
    if not all(file.is_file() for file in files.values()):
        _download(name, known, folder, files)
    return replace(read_parquet_images(folder), protocol=known.protocol)


def _download(name: str, known: HubDataset, folder: Path, files: dict[str, Path]) -> None:
    if find_spec("datasets") is None:
        raise ValueError(f"data is {name!r}, which the package datasets downloads: pip install 'lbhash[datasets]'")
    from datasets import load_dataset

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as temporary:
        try:
            loaded = load_dataset(known.repository, cache_dir=temporary)
        except Exception as error:  # of the system, of httpx, of huggingface_hub and of datasets
            raise ValueError(
                f"data is {name!r}, which could not be downloaded from the Hub ({known.repository}): "
                f"{one_line(error)}; without a network give the folder of the original files, {known.original}"
            ) from None
        for of, file in files.items():
            with replacing(file) as written:
                loaded[of].to_parquet(written)
