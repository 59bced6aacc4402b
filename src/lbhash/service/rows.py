"""The rows of the data behind an index: their embeddings, labels and images, and their usual outputs."""

from __future__ import annotations

import contextlib
import io
import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from lbhash.data import load_table
from lbhash.data.choose import EMBEDDINGS, first_of
from lbhash.data.images import FileImages, ImageStore, ImageTable, holds_images, load_images
from lbhash.data.images.decoding import read_file
from lbhash.data.images.parquet import ParquetImages
from lbhash.data.table import EmbeddingTable
from lbhash.data.texts import EmbeddedTexts
from lbhash.models.encoder import Encoder
from lbhash.service.errors import blame_data
from lbhash.utils.labels import label_value

SAMPLE = 1000  # rows for estimating a model's usual outputs
_FULL = {"digits": 16, "characters": 255}  # the largest gray value in the image data sets


class Rows:
    """The rows of a table: ``embeddings`` ``[n, dim]``, and ``labels`` ``[n]`` or multi-hot; None if there are none.

    Only the rows in ``sound``, ``int64 [m]``, have finite embeddings and can be queries.
    """

    def __init__(self, table: EmbeddingTable | None) -> None:
        self.embeddings = None if table is None else table.embeddings
        self.sound = np.arange(0) if table is None else table.split().rows
        self.labels = None if table is None else table.labels
        self.class_names = () if table is None else table.class_names

    def __len__(self) -> int:
        return 0 if self.embeddings is None else len(self.embeddings)

    def label(self, row: int) -> Any:
        """Return the label of a row in the index's form; None if there is none."""
        return None if self.labels is None else label_value(self.labels[row], self.class_names)

    def image(self, row: int) -> bytes | None:
        """Return the image file of a row, or None if it has none."""
        return None

    def text(self, row: int) -> str | None:
        """Return the text that a row's embedding is made from, or None if there is none."""
        return None


class TextRows(Rows):
    """The rows of a table of texts, embedded on request."""

    def __init__(self, table: EmbeddingTable, texts: EmbeddedTexts) -> None:
        super().__init__(None)
        self.labels, self.class_names, self._texts = table.labels, table.class_names, texts

    def __len__(self) -> int:
        return len(self._texts)

    def text(self, row: int) -> str | None:
        """Return the text of a row, or None if it is empty."""
        text = self._texts.read(row)
        return text if text.strip() else None


class GrayRows(Rows):
    """A data set whose embeddings are square images: gray values from 0 to ``full``, bright on dark."""

    def __init__(self, table: EmbeddingTable, full: int) -> None:
        super().__init__(table)
        self._scale, self._side = 255 / full, math.isqrt(table.embeddings.shape[1])

    def image(self, row: int) -> bytes | None:
        """Return a row as a PNG file, one pixel per value."""
        assert self.embeddings is not None
        file = io.BytesIO()
        gray = self.embeddings[row].reshape(self._side, self._side) * self._scale
        Image.fromarray(np.rint(gray).astype(np.uint8)).save(file, "PNG")
        return file.getvalue()

    def embed(self, image: Image.Image) -> npt.NDArray:
        """Return an image scaled to the data's size as gray values, inverted if its border is bright."""
        gray = np.asarray(image.convert("L").resize((self._side, self._side), Image.Resampling.BOX), np.float32)
        border = np.concatenate([gray[0], gray[-1], gray[1:-1, 0], gray[1:-1, -1]])
        if border.mean() > 127.5:
            gray = 255 - gray
        return np.rint(gray / self._scale).astype(np.uint8).ravel()


class ImageRows(Rows):
    """The rows of a table of images, or of embeddings and images; the images may exceed the memory."""

    def __init__(self, images: ImageStore, table: EmbeddingTable | ImageTable) -> None:
        super().__init__(table if isinstance(table, EmbeddingTable) else None)
        self.labels, self.class_names = table.labels, table.class_names
        self._images = images
        self._lock = threading.Lock()  # ParquetImages has one reader

    def __len__(self) -> int:
        return len(self._images)

    def image(self, row: int) -> bytes | None:
        """Return the image file of a row, or None if it is missing or outside the data's folder."""
        store = self._images
        if isinstance(store, FileImages):
            return _inside(store.folder, store.files[row])
        if isinstance(store, ParquetImages):
            with self._lock, blame_data():
                data, path = store.bytes_and_path(row)
            return _inside(store.files[0].parent, path) if data is None and path else data
        file = io.BytesIO()
        store.read(row).save(file, "PNG")
        return file.getvalue()


def _inside(folder: Path, path: str) -> bytes | None:
    """Return a file, or None if it is missing or not inside the folder."""
    root = folder.resolve()
    file = (root / path).resolve()
    # Foreign data must not make the service show other files of this machine.
    if not file.is_relative_to(root):
        return None
    try:
        return read_file(file, path)
    except ValueError:
        return None


def open_rows(data: str | Path, **reading: Any) -> Rows:
    """Return the rows of a named data set, or of a file of embeddings, texts or images; ``ValueError`` if none.

    Further arguments are those of ``load_table``.
    """
    if str(data) in _FULL:
        return GrayRows(load_table(data), _FULL[str(data)])
    columns: list[str] = []
    if Path(data).suffix == ".parquet":
        with contextlib.suppress(pa.ArrowInvalid, OSError):  # load_table reports a missing or damaged file
            columns = pq.read_schema(data).names
    beside = first_of(EMBEDDINGS, columns)
    if beside is None and holds_images(data):
        images = load_images(data)
        return ImageRows(images.store, images)
    in_place = Path(data).suffix == ".npy"  # its rows are quickly found; other files are read into memory
    table = load_table(data, damaged="skip", stream=in_place, **reading)
    if isinstance(table.embeddings, EmbeddedTexts):
        return TextRows(table, table.embeddings)
    return ImageRows(ParquetImages([Path(data)], "image", table.name), table) if "image" in columns else Rows(table)


class Usual:
    """The usual outputs of a model, estimated on a sample of ``rows`` of ``embeddings`` (at least two)."""

    def __init__(self, model: Encoder, embeddings: npt.NDArray, rows: npt.NDArray[np.int64]) -> None:
        if len(rows) > SAMPLE:
            rows = np.sort(np.random.default_rng(0).choice(rows, SAMPLE, replace=False))
        self._outputs = model.outputs(embeddings[rows])
        self._small = np.median(np.abs(self._outputs)) / 4
        exact = self._outputs.astype(np.float64)
        norms = (exact**2).sum(axis=1)
        squares = norms[:, None] + norms - 2 * exact @ exact.T
        np.fill_diagonal(squares, np.inf)
        self._gaps = np.sort(squares.min(axis=1).clip(0))

    def judge(self, outputs: npt.NDArray) -> dict[str, Any]:
        """Return the fields ``doubt`` and ``unsure`` of ``lbhash.service.schemas.Query`` for outputs ``[bits]``.

        Small outputs alone do not reveal noise, because a network's outputs are large far from the data.
        """
        squares = ((self._outputs - outputs) ** 2).sum(axis=1)
        itself = squares.min() < 1e-9 * squares.mean()  # the query may be a row of the sample
        gap = np.partition(squares, 1)[int(itself)]
        return {
            "doubt": float(np.searchsorted(self._gaps, gap) / len(self._gaps)),
            "unsure": np.flatnonzero(np.abs(outputs) < self._small).tolist(),
        }
