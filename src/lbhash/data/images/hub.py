"""Data sets of the Hugging Face Hub by name: downloaded once, stored in Parquet, and read from there."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lbhash.data.images.parquet import read_parquet_images
from lbhash.data.images.table import ImageTable
from lbhash.utils.checksums import add_checksum, check_file
from lbhash.utils.files import make_folder, replacing
from lbhash.utils.formatting import one_line
from lbhash.utils.paths import cache_folder
from lbhash.utils.system import check_packages


class HubDataset(NamedTuple):
    """A data set of the Hub that has a training and a test set."""

    repository: str
    protocol: str  # used if the user names none


HUB_DATASETS = {
    "cifar10": HubDataset("uoft-cs/cifar10", "cifar10"),
    "cifar100": HubDataset("uoft-cs/cifar100", "official"),
}


def read_hub_dataset(name: str) -> ImageTable:
    """Return the images of a data set, CIFAR-100 with the fine labels; they are downloaded once.

    The cache folder (``$LBHASH_CACHE``, or the platform's) keeps one Parquet file per published set. Rows are in the
    Hub's order, so a protocol samples other rows than from the original files.
    """
    folder = cache_folder() / "datasets" / name
    files = {of: folder / f"{of}.parquet" for of in ("train", "test")}
    if not all(map(_is_whole, files.values())):
        _download(name, files)
    return replace(read_parquet_images(folder), protocol=HUB_DATASETS[name].protocol)


def _download(name: str, files: dict[str, Path]) -> None:
    check_packages(f"data is {name!r}, which", "datasets", "datasets")
    from datasets import load_dataset

    known, folder = HUB_DATASETS[name], files["train"].parent
    make_folder(folder)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as temporary:
        try:
            loaded = load_dataset(known.repository, cache_dir=temporary)
        except Exception as error:  # from the system, httpx, huggingface_hub or datasets
            raise ValueError(
                f"data is {name!r}, which could not be downloaded from the Hub ({known.repository}): "
                f"{one_line(error)}; without a network give a copy of its folder"
            ) from None
        for of, file in files.items():
            with replacing(file) as written:
                loaded[of].to_parquet(written, write_page_checksum=True)
                add_checksum(written)


def _is_whole(file: Path) -> bool:
    try:
        check_file(file)
    except (OSError, ValueError):
        return False
    return True
