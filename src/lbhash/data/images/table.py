"""Tables of images with labels, and splits of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lbhash.data.images.loading import ImageReader
from lbhash.data.images.stores import ImageStore
from lbhash.data.reading_ahead import ReadAhead
from lbhash.data.split import Embedder, EmbeddingSplit, Split
from lbhash.data.table import Table
from lbhash.utils.fingerprint import fingerprint
from lbhash.utils.progress import counted


@dataclass(frozen=True)
class ImageSplit(Split):
    """Some rows of a table of images."""

    images: ImageTable
    rows: npt.NDArray[np.int64]
    labels: npt.NDArray | None
    needs_backbone = True

    def input_dim(self, backbone: Embedder | None = None) -> int:
        """Return the length of an embedding of the backbone."""
        assert backbone is not None
        return backbone.dim

    def chunks(
        self, backbone: Embedder | None = None, *, size: int = 32, workers: int = 0, progress: str = ""
    ) -> Iterator[npt.NDArray[np.float32]]:
        """Yield the images' embeddings in order, ``float32 [up to size, dim]`` at a time."""
        assert backbone is not None
        reader = ImageReader(self.images.store.in_order(), backbone.processor, backbone.name)
        batches = [self.rows[start : start + size] for start in range(0, len(self), size)]
        with counted(progress, len(self), "images", show=bool(progress)) as advance:
            for pixels, _, damaged in ReadAhead(reader, batches, workers):
                if damaged:
                    raise ValueError(damaged[0].fault)
                yield backbone.embed_pixels(pixels)
                advance(len(pixels))

    def embedded(self, backbone: Embedder | None = None, *, workers: int = 0, progress: str = "") -> EmbeddingSplit:
        """Return the embeddings that the backbone makes of the images, held in memory."""
        none = np.empty((0, self.input_dim(backbone)), np.float32)
        embeddings = np.concatenate([none, *self.chunks(backbone, workers=workers, progress=progress)])
        return EmbeddingSplit(embeddings, np.arange(len(self)), self.labels)

    def fingerprint(self) -> str:
        """Return the fingerprint of the image store, the rows and the labels."""
        labels = b"" if self.labels is None else self.labels
        return fingerprint(self.images.store.fingerprint(), np.asarray(self.rows, np.int64), labels)


@dataclass(frozen=True, repr=False)
class ImageTable(Table[ImageSplit]):
    """Rows of images, as a file or a folder holds them."""

    def __post_init__(self) -> None:
        if not len(self):
            raise ValueError(f"{self.name} has no image")
        if self.labels is not None and len(self.labels) != len(self):
            raise ValueError(f"{self.name} has {len(self)} images and {len(self.labels)} labels")
        super().__post_init__()

    @property
    def store(self) -> ImageStore:
        """Where the images lie."""
        return self.content

    def where(self, row: int) -> str:
        """Return the name of a row's image for messages."""
        return self.store.where(row)

    def split(self, rows: npt.NDArray[np.int64] | None = None) -> ImageSplit:
        """Return these rows as a split; if None, all that are not damaged."""
        rows = self.sound() if rows is None else rows
        return ImageSplit(self, rows, None if self.labels is None else self.labels[rows])
