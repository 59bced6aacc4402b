"""A split of images, as training and evaluation see it: which rows of a table, and their labels."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lbhash.data.dataset import Splits, numbered
from lbhash.data.images.table import ImageTable


@dataclass(frozen=True)
class ImageSplit:
    """Some rows of a table of images.

    Attributes:
        images: the table.
        rows: which of its rows, ``int64 [n]``.
        labels: of these rows, ``int64 [n]`` or multi-hot ``uint8 [n, C]``; ``None`` where there are none.
    """

    images: ImageTable
    rows: npt.NDArray[np.int64]
    labels: npt.NDArray | None

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, chosen: npt.NDArray[np.bool_]) -> ImageSplit:
        """Some of the rows, in their order; ``chosen`` is ``bool [n]``."""
        return replace(self, rows=self.rows[chosen], labels=None if self.labels is None else self.labels[chosen])

    def compact(self) -> tuple[ImageSplit, npt.NDArray[np.int64]]:
        """The split with its classes numbered 0 … C − 1 without gaps, and what their numbers were.

        Raises:
            ValueError: no row has a label.
        """
        labels, classes = numbered(self.labels)
        return replace(self, labels=labels), classes

    def fingerprint(self) -> str:
        """16 hexadecimal digits that identify the split: of its images, as their table tells them, and its labels."""
        digest = hashlib.sha256(self.images.store.fingerprint().encode())
        digest.update(np.ascontiguousarray(self.rows, np.int64).data)
        if self.labels is not None:
            digest.update(np.ascontiguousarray(self.labels).tobytes())
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class ImageDataset(Splits[ImageSplit]):
    """Train, base and query of images."""
