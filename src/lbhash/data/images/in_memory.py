"""Images that a program holds: PIL images, or the bytes of image files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lbhash.data.images.decoding import as_image

if TYPE_CHECKING:
    from PIL import Image

    from lbhash.data.images.table import ImageStore


class ListedImages:
    """A list of images.

    Args:
        images: PIL images, or what ``lbhash.data.images.decoding.decode_image`` takes.
    """

    def __init__(self, images: Sequence[Image.Image | bytes]) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def read(self, row: int) -> Image.Image:
        """The image of a row."""
        return as_image(self.images[row], self.where(row))

    def where(self, row: int) -> str:
        """Its place in the list."""
        return f"image {row}"

    def missing(self) -> npt.NDArray[np.int64]:
        """No row."""
        return np.empty(0, np.int64)

    def fingerprint(self) -> str:
        """Of sizes and pixels, or of the files."""
        digest = hashlib.sha256()
        for image in self.images:
            if isinstance(image, (bytes, bytearray, memoryview)):
                digest.update(hashlib.sha256(image).digest())
            else:
                digest.update(f"{image.mode} {image.size}".encode() + hashlib.sha256(image.tobytes()).digest())
        return digest.hexdigest()[:16]

    def in_order(self) -> ImageStore:
        """These themselves."""
        return self

    def in_any_order(self, rows: npt.NDArray[np.int64]) -> ImageStore:
        """These themselves."""
        return self
