"""The rows of the data behind an index: their embeddings and images."""

from __future__ import annotations

import contextlib
import io
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.data import EmbeddingTable, load_table
from lbhash.utils.labels import check_labels

if TYPE_CHECKING:
    from PIL.Image import Image

_GROUPS_HELD = 64 << 20  # bytes of images, in the row groups that were read last


class Rows:
    """The rows of a table of embeddings; ``labels`` are ``int64 [n]`` or multi-hot, or None if there are none."""

    has_images = False

    def __init__(self, table: EmbeddingTable | None) -> None:
        self._embeddings = None if table is None else table.embeddings
        self.labels = None if table is None else table.labels

    def __len__(self) -> int:
        return 0 if self._embeddings is None else len(self._embeddings)

    def embedding(self, row: int) -> npt.NDArray | None:
        """Return the embedding of a row, ``[dim]``, or None if only a backbone can make it."""
        return None if self._embeddings is None else self._embeddings[row]

    def image(self, row: int) -> bytes | None:
        """Return the image file of a row, or None if it has none."""
        return None


class DigitRows(Rows):
    """scikit-learn's digits, whose embeddings are their images: 8 × 8 gray values from 0 to 16, bright on dark."""

    has_images = True

    def image(self, row: int) -> bytes | None:
        """Return a row as a PNG file of 8 × 8 pixels."""
        from PIL import Image

        values = self.embedding(row)
        assert values is not None
        file = io.BytesIO()
        Image.fromarray(np.rint(values.reshape(8, 8) * (255 / 16)).astype(np.uint8)).save(file, "PNG")
        return file.getvalue()

    def embed(self, image: Image) -> npt.NDArray:
        """Return the mean gray values of an image in 8 × 8 fields, inverted if its border is bright."""
        from PIL import Image

        gray = np.asarray(image.convert("L").resize((8, 8), Image.Resampling.BOX), np.float32)
        border = np.concatenate([gray[0], gray[-1], gray[1:-1, 0], gray[1:-1, -1]])
        if border.mean() > 127.5:
            gray = 255 - gray
        return np.rint(gray * (16 / 255)).astype(np.uint8).ravel()


class ImageRows(Rows):
    """The rows of a Parquet file with a column ``image``: binary, or a struct with ``bytes`` or ``path``.

    Only the row groups that were read last are in memory, so the file may be larger than the memory. ``table`` has
    the file's embeddings; it is None if there is no such column.
    """

    has_images = True

    def __init__(self, file: Path, table: EmbeddingTable | None) -> None:
        import pyarrow.parquet as pq

        super().__init__(table)
        self._folder = file.parent.resolve()
        self._parquet = pq.ParquetFile(file)
        metadata = self._parquet.metadata
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self._starts = np.cumsum([0, *sizes])
        self._held: OrderedDict[int, Any] = OrderedDict()
        self._lock = threading.Lock()
        column = next((name for name in ("label", "labels") if name in self._parquet.schema_arrow.names), None)
        if table is None and column is not None:
            values = self._parquet.read(columns=[column])[column].to_pylist()
            self.labels = check_labels(values, f"column {column!r} of {file.name}")

    def __len__(self) -> int:
        return int(self._starts[-1])

    def image(self, row: int) -> bytes | None:
        """Return the image file of a row; a path must lead to a file in the Parquet file's folder or below it."""
        group = int(np.searchsorted(self._starts, row, side="right")) - 1
        value = self._group(group)[row - int(self._starts[group])].as_py()
        if not isinstance(value, dict):
            return value
        if value.get("bytes") is not None:
            return value["bytes"]
        file = (self._folder / (value.get("path") or "")).resolve()
        # A data file from elsewhere must not make the service show any file of the machine.
        return file.read_bytes() if file.is_relative_to(self._folder) and file.is_file() else None

    def _group(self, group: int) -> Any:
        with self._lock:
            if group not in self._held:
                self._held[group] = self._parquet.read_row_group(group, columns=["image"])["image"]
                while len(self._held) > 1 and sum(column.nbytes for column in self._held.values()) > _GROUPS_HELD:
                    self._held.popitem(last=False)
            self._held.move_to_end(group)
            return self._held[group]


def open_rows(data: str | Path) -> Rows:
    """Return the rows of ``"digits"`` or of a file.

    Raises:
        TypeError, ValueError: as ``lbhash.data.load_table``.
    """
    if str(data) == "digits":
        return DigitRows(load_table(data))
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: list[str] = []
    if Path(data).suffix == ".parquet":
        with contextlib.suppress(pa.ArrowInvalid, OSError):  # load_table reports a missing or damaged file
            columns = pq.read_schema(data).names
    if "image" in columns:
        return ImageRows(Path(data), load_table(data) if "embedding" in columns else None)
    return Rows(load_table(data))
