"""Data sets by name, and their columns in the paper."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lbhash.data import Dataset, load_dataset
from lbhash.data.split import EmbeddingSplit

TOP_K: dict[str, int | None] = {"cifar10": None, "nuswide": 5000, "imagenet100": 1000, "imagenet": 1000}
"""The k of the paper's mAP@k by its name of the data; ``None`` is the whole base."""

STANDS_FOR = {"tiny-imagenet": ("imagenet100", "ImageNet-100"), "mosaic": ("nuswide", "NUS-WIDE")}
"""Data sets of the same kind and protocol as one of the paper's: the column they are compared with, and its title."""

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


class UnsuitableData(ValueError):
    """An experiment cannot use these data; the message says what it needs."""


@dataclass(frozen=True)
class Source:
    """A data set: a file or a folder that ``load_dataset`` reads, and a name.

    The name chooses the k of mAP@k, and the paper's column if it has one.
    """

    name: str
    file: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"data has the name {self.name!r}; it must be of letters, digits, '-', '_' and '.'")

    @classmethod
    def of(cls, given: str) -> Source:
        """Return the source of ``NAME=FILE``, or of ``FILE``, whose stem is then the name."""
        name, equals, file = given.partition("=")
        if equals and "/" not in name and "\\" not in name:
            if not file:
                raise ValueError(f"data is {given!r}; it must be NAME=FILE, FILE or digits")
            return cls(name, file)
        return cls(Path(given).stem, given)

    @property
    def column(self) -> str | None:
        """The paper's name of such data; ``None`` if it has none."""
        name, _ = STANDS_FOR.get(self.name, (self.name, ""))
        return name if name in TOP_K else None

    def top_k(self) -> int | None:
        """Return the k of mAP@k; ``None`` is the whole base, also if the base has fewer rows than k."""
        top_k = None if self.column is None else TOP_K[self.column]
        return None if top_k is None or top_k > len(self.dataset().base) else top_k

    def dataset(self) -> Dataset:
        """Return the splits, which are read once."""
        return _read(self.file)

    def training(self) -> tuple[EmbeddingSplit, npt.NDArray[np.int64]]:
        """Return the training rows with their classes numbered without gaps (``compact``)."""
        return _numbered(self.file)

    def fingerprint(self) -> str:
        """Return the part of a run's name that identifies the rows of the three splits."""
        return _fingerprint(self)

    def classes(self) -> int:
        """Return the number of classes that have a training row."""
        return len(_numbered(self.file)[1])

    def __str__(self) -> str:
        data, top_k = self.dataset(), self.top_k()
        ranked = "mAP over the whole base" if top_k is None else f"mAP@{top_k:,}"
        kind = "labels" if data.multi_label else "classes"
        stands = f", which stands for the paper's {STANDS_FOR[self.name][1]}" if self.name in STANDS_FOR else ""
        return (
            f"{self.name}{stands}: {self.classes():,} {kind}, {len(data.train):,} rows to train, {len(data.base):,} in "
            f"the base, {len(data.query):,} queries, {ranked}"
        )


DIGITS = Source("digits", "digits")


_read = lru_cache(maxsize=8)(load_dataset)


@lru_cache(maxsize=64)
def _fingerprint(source: Source) -> str:
    data = source.dataset()
    splits = " ".join(split.fingerprint() for split in (data.train, data.base, data.query))
    return f"data{zlib.crc32(splits.encode()):08x}"


@lru_cache(maxsize=8)
def _numbered(file: str) -> tuple[EmbeddingSplit, npt.NDArray[np.int64]]:
    return _read(file).train.compact()
