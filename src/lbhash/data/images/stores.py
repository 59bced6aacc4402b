"""Where the images of a table lie: in files of their own, or in memory. (For Parquet see ``parquet.py``.)"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lbhash.data.images.decoding import as_image
from lbhash.utils.fingerprint import fingerprint

if TYPE_CHECKING:
    from PIL import Image


class ImageStore(ABC):
    """Images that are read one by one; a row is one image.

    Attributes:
        name: where the images come from, for messages.
    """

    name: str

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def stored(self, row: int) -> Image.Image | bytes:
        """Return the image of a row as it is stored: a PIL image, or the bytes of a file.

        Raises:
            ValueError: the image is missing; the message names it.
        """

    @abstractmethod
    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that change when an image does."""

    def read(self, row: int) -> Image.Image:
        """Return the image of a row, upright and in RGB.

        Raises:
            ValueError: the image is damaged or missing; the message names it.
        """
        return as_image(self.stored(row), self.where(row))

    def where(self, row: int) -> str:
        """Return what a message calls the image of a row."""
        return f"image {row} of {self.name}"

    def missing(self) -> npt.NDArray[np.int64]:
        """Return the rows whose image is not there, found without decoding any."""
        return np.empty(0, np.int64)

    def in_order(self) -> ImageStore:
        """Return the same images for a reader whose rows rise, with no more than a few of them in memory."""
        return self

    def in_any_order(self, rows: npt.NDArray[np.int64]) -> ImageStore:
        """Return the same images for a reader who reads these rows in any order, and often."""
        return self


class FileImages(ImageStore):
    """Images in files of their own.

    The fingerprint is one of paths, sizes and times of change, as ``make`` tells what is new: a data set of a million
    files is not read again to find that it is the same.

    Args:
        folder: the folder that the paths start from.
        files: a path for each row.
    """

    def __init__(self, folder: Path, files: Sequence[str]) -> None:
        self.folder, self.files, self.name = folder, files, folder.name

    def __len__(self) -> int:
        return len(self.files)

    def stored(self, row: int) -> bytes:
        """Return the file of a row."""
        try:
            return (self.folder / self.files[row]).read_bytes()
        except OSError as error:
            raise ValueError(f"{self.where(row)} cannot be read: {error.strerror}") from None

    def where(self, row: int) -> str:
        """Return the file's path."""
        return f"image {self.files[row]!r}"

    def missing(self) -> npt.NDArray[np.int64]:
        """Return the rows whose file is not there."""
        there = [os.path.isfile(os.path.join(self.folder, file)) for file in self.files]
        return np.flatnonzero(~np.array(there, bool))

    def fingerprint(self) -> str:
        """Return the fingerprint of paths, sizes and times of change."""
        return fingerprint(file_facts(self.folder, file) for file in self.files)


class ArrayImages(ImageStore):
    """Images in memory, as pixels ``uint8 [n, height, width, 3]``."""

    def __init__(self, pixels: npt.NDArray[np.uint8], name: str) -> None:
        self.pixels, self.name = pixels, name

    def __len__(self) -> int:
        return len(self.pixels)

    def stored(self, row: int) -> Image.Image:
        """Return the image of a row."""
        from PIL import Image

        return Image.fromarray(self.pixels[row])

    def fingerprint(self) -> str:
        """Return the fingerprint of the pixels."""
        return fingerprint(str(self.pixels.shape), self.pixels)


class ListedImages(ImageStore):
    """A list of images that a program holds: PIL images, or what ``decode_image`` takes."""

    def __init__(self, images: Sequence[Image.Image | bytes]) -> None:
        self.images, self.name = images, "images"

    def __len__(self) -> int:
        return len(self.images)

    def stored(self, row: int) -> Image.Image | bytes:
        """Return the image of a row."""
        return self.images[row]

    def where(self, row: int) -> str:
        """Return the image's place in the list."""
        return f"image {row}"

    def fingerprint(self) -> str:
        """Return the fingerprint of sizes and pixels, or of the files' bytes."""
        return fingerprint(map(_image_digest, self.images))


def _image_digest(image: Image.Image | bytes) -> bytes:
    if isinstance(image, (bytes, bytearray, memoryview)):
        return hashlib.sha256(image).digest()
    return f"{image.mode} {image.size}".encode() + hashlib.sha256(image.tobytes()).digest()


def file_facts(folder: Path, file: str) -> bytes:
    """Return what tells a file from a changed one: its path, its size and its time of change."""
    try:
        facts = os.stat(os.path.join(folder, file))
        said = f"{file}\0{facts.st_size}\0{facts.st_mtime_ns}\n"
    except OSError:
        said = f"{file}\0missing\n"
    return said.encode(errors="surrogateescape")
