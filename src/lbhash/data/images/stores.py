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

from lbhash.data.images.decoding import as_image, decode_image
from lbhash.utils.fingerprint import fingerprint

if TYPE_CHECKING:
    from PIL import Image


class ImageStore(ABC):
    """Images that are read one by one; a row is one image."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def read(self, row: int) -> Image.Image:
        """Return the image of a row, upright and in RGB.

        Raises:
            ValueError: the image is damaged or missing; the message names it.
        """

    @abstractmethod
    def where(self, row: int) -> str:
        """Return what a message calls the image of a row."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that change when an image does."""

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
        self.folder, self.files = folder, files

    def __len__(self) -> int:
        return len(self.files)

    def read(self, row: int) -> Image.Image:
        """Return the image of a row."""
        path = self.folder / self.files[row]
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ValueError(f"{self.where(row)} cannot be read: {error.strerror}") from None
        return decode_image(data, name=self.where(row))

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
        """Return the image of a row."""
        from PIL import Image

        return Image.fromarray(self.pixels[row])

    def where(self, row: int) -> str:
        """Return the row's number and the name."""
        return f"image {row} of {self.name}"

    def fingerprint(self) -> str:
        """Return the fingerprint of the pixels."""
        return fingerprint(str(self.pixels.shape), self.pixels)


class ListedImages(ImageStore):
    """A list of images that a program holds.

    Args:
        images: PIL images, or what ``lbhash.data.images.decoding.decode_image`` takes.
    """

    def __init__(self, images: Sequence[Image.Image | bytes]) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def read(self, row: int) -> Image.Image:
        """Return the image of a row."""
        return as_image(self.images[row], self.where(row))

    def where(self, row: int) -> str:
        """Return its place in the list."""
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
