"""The rows behind an index: their embeddings, their pictures, and how a picture of a stranger becomes an embedding."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.data import EmbeddingTable, load_table
from lbhash.utils.files import existing_file

if TYPE_CHECKING:
    from PIL.Image import Image

_GROUPS_HELD = 64 << 20  # bytes of pictures of the row groups that were read last


class Rows:
    """The rows of a table of embeddings, which has no pictures.

    Args:
        table: the rows.

    Attributes:
        pictures: whether a row has a picture.
        labels: ``int64 [n]``, or multi-hot; ``None`` where there are none.
    """

    pictures = False

    def __init__(self, table: EmbeddingTable) -> None:
        self._table = table
        self.labels = table.labels

    def __len__(self) -> int:
        return len(self._table.embeddings)

    def embedding(self, row: int) -> npt.NDArray | None:
        """The embedding of a row, ``[dim]``; ``None`` where only a backbone can tell it."""
        return self._table.embeddings[row]

    def picture(self, row: int) -> bytes | None:
        """The file of a row's picture, as it was given; ``None`` where it has none."""
        return None

    def embed(self, picture: Image) -> npt.NDArray | None:
        """The embedding of a picture, ``[dim]``; ``None`` where that takes a backbone."""
        return None


class DigitRows(Rows):
    """scikit-learn's digits, whose embeddings are their pictures: 8 × 8 gray values from 0 to 16, ink bright."""

    pictures = True

    def picture(self, row: int) -> bytes | None:
        """As a PNG file of 8 × 8 pixels."""
        from PIL import Image

        gray = np.rint(self._table.embeddings[row].reshape(8, 8) * (255 / 16)).astype(np.uint8)
        file = io.BytesIO()
        Image.fromarray(gray).save(file, "PNG")
        return file.getvalue()

    def embed(self, picture: Image) -> npt.NDArray | None:
        """Of any picture: its mean gray in 8 × 8 fields; dark ink on bright paper, told by the rim, is inverted."""
        gray = np.asarray(picture.convert("L").resize((8, 8), _box()), np.float32)
        rim = np.concatenate([gray[0], gray[-1], gray[1:-1, 0], gray[1:-1, -1]])
        if rim.mean() > 127.5:
            gray = 255 - gray
        return np.rint(gray * (16 / 255)).astype(np.uint8).ravel()


class ImageRows(Rows):
    """The rows of a Parquet file with a column ``image``: binary, or a struct with ``bytes`` or ``path``.

    Of the pictures only the row groups that were read last are held, so that a file may be larger than the memory.

    Args:
        file: the Parquet file.
        table: its embeddings, where it has a column of them.
    """

    pictures = True

    def __init__(self, file: Path, table: EmbeddingTable | None) -> None:
        import pyarrow.parquet as pq

        self._file, self._maybe_table = file, table
        self._parquet = pq.ParquetFile(file)
        metadata = self._parquet.metadata
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        self._held: OrderedDict[int, Any] = OrderedDict()
        self._lock = threading.Lock()
        self.labels = _labels(self._parquet, file) if table is None else table.labels

    def __len__(self) -> int:
        return int(self._starts[-1])

    def embedding(self, row: int) -> npt.NDArray | None:
        """As of any rows."""
        return None if self._maybe_table is None else self._maybe_table.embeddings[row]

    def picture(self, row: int) -> bytes | None:
        """As of any rows; a path is one beside the Parquet file, or below."""
        group = int(np.searchsorted(self._starts, row, side="right")) - 1
        value = self._group(group)[row - int(self._starts[group])].as_py()
        if isinstance(value, dict):
            if value.get("bytes") is not None:
                return value["bytes"]
            folder = self._file.parent.resolve()
            beside = (folder / str(value["path"])).resolve() if value.get("path") else None
            # A data file from elsewhere must not have the service show any file of the machine.
            if beside is None or not beside.is_relative_to(folder) or not beside.is_file():
                return None
            return beside.read_bytes()
        return value

    def _group(self, group: int) -> Any:
        with self._lock:
            if group not in self._held:
                self._held[group] = self._parquet.read_row_group(group, columns=["image"])["image"]
                while len(self._held) > 1 and sum(column.nbytes for column in self._held.values()) > _GROUPS_HELD:
                    self._held.popitem(last=False)
            self._held.move_to_end(group)
            return self._held[group]


def open_rows(data: str | Path) -> Rows:
    """The rows of ``"digits"`` or of a file.

    Raises:
        TypeError, ValueError: as ``lbhash.data.load_table``.
    """
    if str(data) == "digits":
        return DigitRows(load_table(data))
    if Path(data).suffix != ".parquet":
        return Rows(load_table(data))
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = existing_file(data, "data")
    try:
        columns = pq.read_schema(file).names
    except (pa.ArrowInvalid, OSError) as error:
        line = str(error).splitlines()[0]
        raise ValueError(f"data is {str(data)!r}, which is damaged or no Parquet file: {line}") from None
    if "image" not in columns:
        return Rows(load_table(data))
    return ImageRows(file, load_table(data) if "embedding" in columns else None)


def _labels(parquet: Any, file: Path) -> npt.NDArray | None:
    from lbhash.utils.labels import check_labels

    name = next((name for name in ("label", "labels") if name in parquet.schema_arrow.names), None)
    if name is None:
        return None
    return check_labels(parquet.read(columns=[name])[name].to_pylist(), f"column {name!r} of {file.name}")


def _box() -> Any:
    from PIL import Image

    return Image.Resampling.BOX
