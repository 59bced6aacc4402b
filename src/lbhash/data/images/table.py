"""Images with labels, wherever they lie: in files, in Parquet, in memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from lbhash.data.images.decoding import decode_image

if TYPE_CHECKING:
    from PIL import Image


class ImageStore(Protocol):
    """Where the images of a table come from; a row is one image."""

    def __len__(self) -> int: ...

    def read(self, row: int) -> Image.Image:
        """The image of a row, upright and in RGB; ``ValueError`` with its name where it is damaged or missing."""

    def where(self, row: int) -> str:
        """What to call the image of a row in a message."""

    def missing(self) -> npt.NDArray[np.int64]:
        """The rows whose image is not there, found out without decoding any."""

    def fingerprint(self) -> str:
        """16 hexadecimal digits that change when an image does."""

    def in_order(self) -> ImageStore:
        """The same images for one who reads rows that rise, with no more in memory than a few of them."""

    def in_any_order(self, rows: npt.NDArray[np.int64]) -> ImageStore:
        """The same images for one who reads these rows in any order, and often."""


@dataclass(frozen=True)
class ImageTable:
    """Rows of images, as a file or a folder holds them.

    Attributes:
        store: one a row.
        labels: ``int64 [n]``, or multi-hot ``uint8 [n, C]``; ``None`` where there are none.
        name: where the rows come from, for messages.
        flags: split name to ``bool [n]``, where the data say which rows are train, base and query.
        parts: the parts that the data set was published in, to ``bool [n]``: ``train``, and ``held`` for the test or
            validation set.
        protocol: what draws the splits where neither flags nor the user say so.
        classes: the names of the classes, where they have names.
    """

    store: ImageStore
    labels: npt.NDArray | None
    name: str
    flags: dict[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    parts: dict[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    protocol: str = "holdout"
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not len(self):
            raise ValueError(f"{self.name} has no image")
        if self.labels is not None and len(self.labels) != len(self):
            raise ValueError(f"{self.name} has {len(self)} images and {len(self.labels)} labels")

    def __len__(self) -> int:
        return len(self.store)

    def read(self, row: int) -> Image.Image:
        """The image of a row, upright and in RGB.

        Raises:
            ValueError: it is damaged or missing; the message names it.
        """
        return self.store.read(row)


class FileImages:
    """Images in files of their own.

    Args:
        folder: what the paths start from.
        files: a path for each row.

    The fingerprint is one of paths, sizes and times of change, as ``make`` tells what is new: a data set of a million
    files is not read again to find that it is the same.
    """

    def __init__(self, folder: Path, files: Sequence[str]) -> None:
        self.folder, self.files = folder, files

    def __len__(self) -> int:
        return len(self.files)

    def read(self, row: int) -> Image.Image:
        """The image of a row."""
        path = self.folder / self.files[row]
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ValueError(f"{self.where(row)} cannot be read: {error.strerror}") from None
        return decode_image(data, name=self.where(row))

    def where(self, row: int) -> str:
        """The file."""
        return f"image {self.files[row]!r}"

    def missing(self) -> npt.NDArray[np.int64]:
        """The rows whose file is not there."""
        there = [os.path.isfile(os.path.join(self.folder, file)) for file in self.files]
        return np.flatnonzero(~np.array(there, bool))

    def fingerprint(self) -> str:
        """Of paths, sizes and times of change."""
        digest = hashlib.sha256()
        for file in self.files:
            digest.update(file_facts(self.folder, file))
        return digest.hexdigest()[:16]

    def in_order(self) -> ImageStore:
        """These themselves."""
        return self

    def in_any_order(self, rows: npt.NDArray[np.int64]) -> ImageStore:
        """These themselves."""
        return self


class ArrayImages:
    """Images in memory.

    Args:
        pixels: ``uint8 [n, height, width, 3]``.
        name: where they come from, for messages.
    """

    def __init__(self, pixels: npt.NDArray[np.uint8], name: str) -> None:
        self.pixels, self.name = pixels, name

    def __len__(self) -> int:
        return len(self.pixels)

    def read(self, row: int) -> Image.Image:
        """The image of a row."""
        from PIL import Image

        return Image.fromarray(self.pixels[row])

    def where(self, row: int) -> str:
        """The row."""
        return f"image {row} of {self.name}"

    def missing(self) -> npt.NDArray[np.int64]:
        """No row."""
        return np.empty(0, np.int64)

    def fingerprint(self) -> str:
        """Of the pixels."""
        digest = hashlib.sha256(str(self.pixels.shape).encode())
        digest.update(np.ascontiguousarray(self.pixels).data)
        return digest.hexdigest()[:16]

    def in_order(self) -> ImageStore:
        """These themselves."""
        return self

    def in_any_order(self, rows: npt.NDArray[np.int64]) -> ImageStore:
        """These themselves."""
        return self


def file_facts(folder: Path, file: str) -> bytes:
    """What tells a file from a changed one: its path, its size and its time of change."""
    try:
        facts = os.stat(os.path.join(folder, file))
        said = f"{file}\0{facts.st_size}\0{facts.st_mtime_ns}\n"
    except OSError:
        said = f"{file}\0missing\n"
    return said.encode(errors="surrogateescape")
