"""The rows of the data behind an index: their embeddings, labels and images, and what is usual of them."""

from __future__ import annotations

import contextlib
import io
import math
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from lbhash.data import EmbeddingTable, load_table
from lbhash.data.arrow import first_of, read_label_column
from lbhash.data.images.parquet import ParquetImages
from lbhash.data.readers import EMBEDDINGS
from lbhash.models.encoder import Encoder
from lbhash.utils.labels import label_value
from lbhash.utils.parquet import CHECKED

SAMPLE = 1000  # rows that tell what a model's outputs usually are
_FULL = {"digits": 16, "characters": 255}  # the largest gray value of the data sets that are images


class Rows:
    """The rows of a table: ``embeddings`` ``[n, dim]``, and ``labels`` ``[n]`` or multi-hot; None if there are none.

    Only the ``sound`` ones, ``int64 [m]``, are finite numbers and can be queries.
    """

    def __init__(self, table: EmbeddingTable | None) -> None:
        self.embeddings = None if table is None else table.embeddings
        self.sound = np.arange(0) if table is None else table.split().rows
        self.labels = None if table is None else table.labels
        self.class_names = () if table is None else table.class_names

    def __len__(self) -> int:
        return 0 if self.embeddings is None else len(self.embeddings)

    def label(self, row: int) -> Any:
        """Return the label of a row, as the index has labels; None if there is none."""
        return None if self.labels is None else label_value(self.labels[row], self.class_names)

    def image(self, row: int) -> bytes | None:
        """Return the image file of a row, or None if it has none."""
        return None


class GrayRows(Rows):
    """A data set whose embeddings are square images: gray values from 0 to ``full``, bright on dark."""

    def __init__(self, table: EmbeddingTable, full: int) -> None:
        super().__init__(table)
        self._scale, self._side = 255 / full, math.isqrt(table.embeddings.shape[1])

    def image(self, row: int) -> bytes | None:
        """Return a row as a PNG file, a value a pixel."""
        assert self.embeddings is not None
        file = io.BytesIO()
        gray = self.embeddings[row].reshape(self._side, self._side) * self._scale
        Image.fromarray(np.rint(gray).astype(np.uint8)).save(file, "PNG")
        return file.getvalue()

    def embed(self, image: Image.Image) -> npt.NDArray:
        """Return the mean gray values of an image in as many fields, inverted if its border is bright."""
        gray = np.asarray(image.convert("L").resize((self._side, self._side), Image.Resampling.BOX), np.float32)
        border = np.concatenate([gray[0], gray[-1], gray[1:-1, 0], gray[1:-1, -1]])
        if border.mean() > 127.5:
            gray = 255 - gray
        return np.rint(gray / self._scale).astype(np.uint8).ravel()


class ImageRows(Rows):
    """The rows of a Parquet file with a column ``image`` (``ParquetImages``), which may be larger than the memory."""

    def __init__(self, file: Path, columns: Sequence[str]) -> None:
        super().__init__(load_table(file, damaged="skip") if first_of(EMBEDDINGS, columns) else None)
        self._folder = file.parent.resolve()
        self._images = ParquetImages([file], "image", file.name)
        self._lock = threading.Lock()  # ParquetImages has one reader
        column = first_of(("label", "labels"), columns)
        if self.embeddings is None and column is not None:
            labels = pq.read_table(file, columns=[column], **CHECKED)[column]
            self.labels, self.class_names = read_label_column(labels, f"column {column!r} of {file.name}")

    def __len__(self) -> int:
        return len(self._images)

    def image(self, row: int) -> bytes | None:
        """Return the image file of a row; a path must lead to a file in the Parquet file's folder or below it."""
        with self._lock:
            data, path = self._images.bytes_and_path(row)
        if data is None and path:
            file = (self._folder / path).resolve()
            # A data file from elsewhere must not make the service show any file of the machine.
            return file.read_bytes() if file.is_relative_to(self._folder) and file.is_file() else None
        return data


def open_rows(data: str | Path, **reading: str) -> Rows:
    """Return the rows of a data set by name or of a file; arguments and errors are those of ``load_table``."""
    if str(data) in _FULL:
        return GrayRows(load_table(data), _FULL[str(data)])
    columns: list[str] = []
    if Path(data).suffix == ".parquet":
        with contextlib.suppress(pa.ArrowInvalid, OSError):  # load_table reports a missing or damaged file
            columns = pq.read_schema(data).names
    if "image" in columns:
        return ImageRows(Path(data), columns)
    return Rows(load_table(data, damaged="skip", **reading))


class Usual:
    """What the outputs of a model usually are, by a sample of these ``rows`` of ``embeddings``, two rows or more."""

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

        Small outputs alone do not tell noise from data: far from the data, a network's outputs are large.
        """
        squares = ((self._outputs - outputs) ** 2).sum(axis=1)
        itself = squares.min() < 1e-9 * squares.mean()  # the query may be a row of the sample
        gap = np.partition(squares, 1)[int(itself)]
        return {
            "doubt": float(np.searchsorted(self._gaps, gap) / len(self._gaps)),
            "unsure": np.flatnonzero(np.abs(outputs) < self._small).tolist(),
        }
