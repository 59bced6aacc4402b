"""Sets of data by name, and what the paper reports for them."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from lbhash.data import Dataset, EmbeddingSplit

AT: dict[str, int | None] = {"cifar10": None, "nuswide": 5000, "imagenet100": 1000, "imagenet": 1000}
"""The rank of the paper's mAP by its name of the data; ``None`` is the whole base."""

STANDS_FOR = {"tiny-imagenet": "imagenet100", "mosaic": "nuswide"}
"""Data of the same kind and protocol, which stand beside a column of the paper."""

TITLES = {"cifar10": "CIFAR-10", "nuswide": "NUS-WIDE", "imagenet100": "ImageNet-100", "imagenet": "ImageNet"}

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


class UnsuitableData(ValueError):
    """An experiment cannot be made with these data; the message says what it needs."""


@dataclass(frozen=True)
class Source:
    """A set of data.

    Attributes:
        name: which chooses the rank of the mAP and the paper's column, where the paper has one.
        file: a file or a folder that ``lbhash.data.load_dataset`` reads, or ``digits``.
        validation: whether train, base and query are all cut from the file's training rows (``validation_dataset``),
            so that what is chosen by them has never seen a query; each seed has a draw of its own.
    """

    name: str
    file: str
    validation: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"data has the name {self.name!r}; it must be of letters, digits, '-', '_' and '.'")

    @classmethod
    def of(cls, given: str) -> Source:
        """Of ``NAME=FILE``, or of ``FILE`` with the name of its stem."""
        name, equals, file = given.partition("=")
        if equals and "/" not in name and "\\" not in name:
            if not file:
                raise ValueError(f"data is {given!r}; it must be NAME=FILE, FILE or digits")
            return cls(name, file)
        return cls(Path(given).stem, given)

    @property
    def column(self) -> str | None:
        """The paper's name of such data; ``None`` where it has none."""
        name = STANDS_FOR.get(self.name, self.name)
        return name if name in AT else None

    def at(self) -> int | None:
        """The rank R of the mAP; ``None`` is the whole base, which also stands for a rank beyond its end."""
        at = None if self.column is None else AT[self.column]
        return None if at is None or at > len(self.dataset().base) else at

    def dataset(self, draw: int = 0) -> Dataset:
        """Its splits, read once; ``draw`` is which of the cuts, where they are cut from the training rows."""
        return _cut(self.file, draw) if self.validation else _read(self.file)

    def training(self, draw: int = 0) -> tuple[EmbeddingSplit, npt.NDArray[np.int64]]:
        """The training rows with their classes numbered without gaps (``compact``): in every draw the same."""
        part, classes = _numbered(self.file)
        return (self.dataset(draw).train, np.arange(len(classes))) if self.validation else (part, classes)

    def mark(self) -> str:
        """What stands for the rows in a run's name, beside its seed: of all three splits' fingerprints."""
        return _mark(self)

    def classes(self) -> int:
        """Classes that have a training row."""
        return len(_numbered(self.file)[1])

    def __str__(self) -> str:
        """What it is, in a sentence."""
        data = self.dataset()
        at = self.at()
        ranked = "mAP over the whole base" if at is None else f"mAP@{at:,}"
        kind = "labels" if data.multi_label else "classes"
        cut = ", all three cut from its training rows, anew for each seed" if self.validation else ""
        stands = f", which stands for the paper's {TITLES[STANDS_FOR[self.name]]}" if self.name in STANDS_FOR else ""
        return (
            f"{self.name}{stands}: {self.classes():,} {kind}, {len(data.train):,} rows to train, {len(data.base):,} in "
            f"the base, {len(data.query):,} queries{cut}, {ranked}"
        )


DIGITS = Source("digits", "digits")


@lru_cache(maxsize=8)
def _read(file: str) -> Dataset:
    from lbhash.data import load_dataset

    return load_dataset(file)


@lru_cache(maxsize=64)
def _cut(file: str, draw: int) -> Dataset:
    from lbhash.data import validation_dataset

    return validation_dataset(replace(_read(file), train=_numbered(file)[0]), draw)


@lru_cache(maxsize=64)
def _mark(source: Source) -> str:
    data = source.dataset()
    prints = " ".join(part.fingerprint() for part in (data.train, data.base, data.query))
    return f"{'draws' if source.validation else 'data'}{zlib.crc32(prints.encode()):08x}"


@lru_cache(maxsize=8)
def _numbered(file: str) -> tuple[EmbeddingSplit, npt.NDArray[np.int64]]:
    return _read(file).train.compact()
