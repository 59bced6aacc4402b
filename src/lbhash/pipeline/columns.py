"""Extra columns: columns of the data that go with the codes into their file, and from there into an index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lbhash.codes.io import OWN_COLUMNS
from lbhash.data.arrow import parquet_files, read_whole
from lbhash.data.images import FileImages, ImageTable, holds_images
from lbhash.data.readers import TABLES, is_one_table
from lbhash.data.streamed import ParquetRows
from lbhash.utils.formatting import one_line, some_names
from lbhash.utils.tables import suffix_of
from lbhash.utils.validation import did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

PATH = "path"
"""The column of images in files of their own: the path of each file, relative to the data's folder."""


class ImagePaths:
    """The paths of images, as the column ``path``; ``ValueError`` if they are not in files of their own."""

    def __init__(self, table: ImageTable) -> None:
        if not isinstance(table.store, FileImages):
            raise ValueError(f"columns is {PATH}, and the images of {table.name} are not in files of their own")
        self._files = table.store.files

    def take(self, rows: npt.NDArray[np.int64]) -> pa.Table:
        """Return the paths of these rows."""
        import pyarrow as pa

        return pa.table({PATH: pa.array([self._files[row] for row in rows.tolist()], pa.string())})


def column_schema(
    data: str | Path, names: Sequence[str], *, one_file: bool = True, option: str = "columns"
) -> pa.Schema:
    """Return the names and types of extra columns, each once; messages call them ``option``.

    The data are a table with these columns (a Parquet, CSV, JSON lines, Arrow or Feather file, or a folder that is one
    table), or images in files, which have ``path``. Of several files, for splits, ``one_file`` is false, and there are
    no extra columns.
    """
    import pyarrow as pa

    if not names:
        return pa.schema([])
    file = Path(data)
    if not one_file or not _has_columns(file):
        if set(names) == {PATH} and one_file and holds_images(data):
            return pa.schema([(PATH, pa.string())])
        what = f"it must be one table (Parquet, CSV, JSON lines, Arrow), or for {PATH!r} a folder of images"
        raise ValueError(f"{option} is {', '.join(names)} and data is {str(data)!r}; {what}")
    known = _schema(file)
    for name in names:
        if name in OWN_COLUMNS or name not in known.names:
            others = [column for column in known.names if column not in OWN_COLUMNS]
            hint = "; one name at a time" if "," in name else did_you_mean(name, others)
            raise ValueError(f"{option} has {name!r}; it must name columns of the data ({some_names(others)}){hint}")
    return pa.schema([known.field(name) for name in dict.fromkeys(names)])


def label_columns(data: str | Path) -> list[str]:
    """Return the columns of data that labels could be in, which hold integers or texts; none if data are no table."""
    import pyarrow as pa

    schema = _schema(Path(data)) if _has_columns(Path(data)) else []
    kinds = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string, pa.types.is_dictionary)
    return [one.name for one in schema if any(holds(one.type) for holds in kinds)]


def _has_columns(file: Path) -> bool:
    if file.is_file():
        return suffix_of(file) in (".parquet", *TABLES)
    return is_one_table(file) and not holds_images(file)


def _schema(file: Path) -> pa.Schema:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        parts = parquet_files(file)
        return pq.read_schema(parts[0]) if parts else read_whole(file, f"data is {str(file)!r}")[0].schema
    except (OSError, pa.ArrowInvalid) as error:
        raise ValueError(f"data is {str(file)!r}, which could not be read: {one_line(error)}") from None


def open_columns(
    data: str | Path, names: Sequence[str], images: ImageTable | None = None
) -> ImagePaths | ParquetRows | pa.Table | None:
    """Open the extra columns of data, or of its images, to ``take`` rows of them; return None if none is named."""
    if not names:
        return None
    if images is not None and Path(data).suffix != ".parquet":
        return ImagePaths(images)
    chosen = list(dict.fromkeys(names))
    if parts := parquet_files(Path(data)):
        return ParquetRows(parts, chosen, batch_rows=2048)
    return read_whole(Path(data), f"data is {str(data)!r}")[0].select(chosen)
