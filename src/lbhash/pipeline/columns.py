"""Metadata: columns of the data that are stored with the codes in a file, and later in an index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.codes.io import OWN_COLUMNS
from lbhash.data.images import FileImages, ImageTable, holds_images, is_hub_dataset, load_images
from lbhash.data.images.decoding import thumbnail_of
from lbhash.data.loading import DATASETS
from lbhash.data.readers import is_one_table
from lbhash.data.streamed import ParquetRows
from lbhash.index.base import THUMBNAIL
from lbhash.index.metadata import check_common, converted, convertible, plain_type, values_type
from lbhash.utils.columns import can_be_labels, read_columns, with_dates
from lbhash.utils.formatting import some_names
from lbhash.utils.parquet import with_texts
from lbhash.utils.paths import existing_file
from lbhash.utils.reading import reading
from lbhash.utils.table_files import TABLES, suffix_of
from lbhash.utils.tables import check_once, open_table
from lbhash.utils.validation import did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE = 10_000
"""Rows used to estimate the size of metadata."""
PATH = "path"
"""A column of images that are separate files: each file's path, relative to the data's folder."""


class ImageColumns:
    """The columns ``path`` and ``thumbnail`` of images; ``ValueError`` for ``path`` without image files."""

    def __init__(self, images: ImageTable, names: Sequence[str]) -> None:
        self._store, self._names = images.store.in_order(), names
        if PATH in names and not isinstance(images.store, FileImages):
            raise ValueError(f"metadata is {PATH}, and the images of {images.name} are not in files of their own")

    def take(self, rows: npt.NDArray[np.int64]) -> pa.Table:
        """Return the columns of these rows."""
        import pyarrow as pa

        found = {name: [self._value(name, row) for row in rows.tolist()] for name in self._names}
        return pa.table(found, _image_schema(self._names))

    def _value(self, name: str, row: int) -> Any:
        if name == THUMBNAIL:
            return thumbnail_of(self._store.read(row))
        assert isinstance(self._store, FileImages)
        return self._store.files[row]


class BothColumns:
    """The columns of a table of images, and those that are made from its images."""

    def __init__(self, table: TableColumns, images: ImageColumns) -> None:
        self._parts = table, images

    def take(self, rows: npt.NDArray[np.int64]) -> pa.Table:
        """Return the columns of these rows."""
        table, images = (part.take(rows) for part in self._parts)
        for name in images.column_names:
            table = table.append_column(name, images[name])
        return table


def column_schema(
    data: str | Path,
    names: Sequence[str],
    *,
    one_file: bool = True,
    option: str = "metadata",
    like: Sequence[pa.Field] = (),
) -> pa.Schema:
    """Return the names and types of metadata columns, each once; messages call them ``option``.

    The data are a table with these columns (a Parquet, CSV, JSON lines, Arrow or Feather file, or a folder that is one
    table), or images: all have ``thumbnail``, and separate files also have ``path``. Several files for splits
    (``one_file`` is false) have no metadata. Columns that cannot be converted to the types of an index (``like``) are
    refused (``TableColumns``).
    """
    import pyarrow as pa

    if not names:
        return pa.schema([])
    file = Path(data)
    if not (file.exists() or "://" in str(data) or str(data) in DATASETS or is_hub_dataset(data)):
        existing_file(file, "data")
    if not one_file or not _has_columns(file):
        if set(names) <= {PATH, THUMBNAIL} and one_file and holds_images(data):
            return _image_schema(names)
        images = f"for {PATH!r} and {THUMBNAIL!r} a folder of images"
        what = f"it must be one table (Parquet, CSV, JSON lines, Arrow), or {images}"
        raise ValueError(f"{option} is {', '.join(names)} and data is {str(data)!r}; {what}")
    known, made = open_table(file).schema.names, _made(data, names)
    for name in names:
        if name in made:
            continue
        if name in OWN_COLUMNS or name not in known:
            others = [column for column in known if column not in OWN_COLUMNS]
            known_names = f"columns of the data ({some_names(others)}){did_you_mean(name, others)}"
            raise ValueError(f"{option} has {name!r}; it must name {known_names}")
    held = [name for name in names if name not in made]
    return pa.unify_schemas([TableColumns(file, held, like).schema if held else pa.schema([]), _image_schema(made)])


def _made(data: str | Path, names: Sequence[str]) -> list[str]:
    """Return which of these columns must be made from a table's images, because the table lacks them."""
    wanted = THUMBNAIL in names and THUMBNAIL not in open_table(data).schema.names
    return [THUMBNAIL] if wanted and holds_images(data) else []


def _image_schema(names: Sequence[str]) -> pa.Schema:
    import pyarrow as pa

    kinds = {PATH: pa.string(), THUMBNAIL: pa.large_binary()}
    return pa.schema([(name, kinds[name]) for name in dict.fromkeys(names)])


def columns_in(data: str | Path) -> list[str]:
    """Return the names of all columns of a table or of images; empty for other data."""
    if Path(data).exists() and _has_columns(Path(data)):
        names = list(open_table(Path(data)).schema.names)
        return names + [name for name in _made(data, [THUMBNAIL]) if name not in names]
    return [PATH, THUMBNAIL] if holds_images(data) else []


def label_columns(data: str | Path) -> list[str]:
    """Return the columns of a table that could hold labels; empty for other data."""
    schema = open_table(data).schema if _has_columns(Path(data)) else []
    return [one.name for one in schema if can_be_labels(one.type)]


def _has_columns(file: Path) -> bool:
    if file.is_file():
        return suffix_of(file) in TABLES
    return is_one_table(file) and not holds_images(file)


def metadata_bytes(data: str | Path, names: Sequence[str]) -> float:
    """Estimate the bytes per row of metadata columns in an index, from the first ``SAMPLE`` rows of a table."""
    column_schema(data, names)
    columns = TableColumns(Path(data), names)
    rows = columns.take(np.arange(min(SAMPLE, len(columns))))
    return float(rows.nbytes / max(1, len(rows)))


class TableColumns:
    """The metadata of a table: read on demand from Parquet, held in memory for other files.

    Repeated texts are held once until rows are taken. Dates in CSV (2026-11-30, 2026-11-30 18:24:05) are read as dates.
    ``like`` has the columns of an index to convert to: its text columns keep CSV's characters, such as 007, and a
    ``ValueError`` names a value that cannot be converted, or a column of a type that files of codes cannot hold.
    """

    def __init__(self, data: Path, names: Sequence[str], like: Sequence[pa.Field] = ()) -> None:
        import pyarrow as pa

        source, chosen = open_table(data), list(dict.fromkeys(names))
        check_once(source.schema, chosen, f"data is {str(data)!r}")
        wanted = {field.name: field for field in like if field.name in chosen}
        self._rows: ParquetRows | pa.Table
        if source.files:
            for name, field in wanted.items():
                if not convertible(kind := source.schema.field(name).type, field.type):
                    said = f"metadata {name!r} holds {kind}; the index has {field.type} there"
                    raise ValueError(f"{said}: mend it, or build the index again")
            self._rows = ParquetRows(source.files, chosen, batch_rows=2048, texts=True)
            kinds = {name: plain_type(source.schema.field(name).type) for name in chosen}
        else:
            texts = [name for name, field in wanted.items() if source.decimal and pa.types.is_string(field.type)]
            with reading("data", data):
                columns = read_columns(source, chosen)
                if not columns.rows:
                    raise ValueError(f"data is {str(data)!r}, which has no row")
                held = {name: columns.texts(name) if name in texts else columns[name] for name in chosen}
                dated = set(chosen) - set(texts) if source.decimal else set()
                held = {name: with_dates(column) if name in dated else column for name, column in held.items()}
            self._rows = pa.table(held)
            for name, field in wanted.items():
                converted(self._rows[name], field)
            kinds = {field.name: values_type(field.type) for field in self._rows.schema}
        for name, kind in kinds.items():
            check_common(name, kind)
        self.schema = pa.schema(kinds)

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, rows: npt.NDArray[np.int64]) -> pa.Table:
        """Return these rows, in the types of the file."""
        return with_texts(self._rows.take(rows), self.schema)


def open_columns(
    data: str | Path, names: Sequence[str], images: ImageTable | None = None, like: Sequence[pa.Field] = ()
) -> ImageColumns | TableColumns | BothColumns | None:
    """Open the metadata of data or of its images, from which ``take`` gets rows; None if ``names`` is empty."""
    names = list(dict.fromkeys(names))
    if not names:
        return None
    if images is not None and suffix_of(data) != ".parquet":
        return ImageColumns(images, names)
    made = _made(data, names)
    held = [name for name in names if name not in made]
    columns = TableColumns(Path(data), held, like) if held else None
    if not made:
        return columns
    of_images = ImageColumns(load_images(data) if images is None else images, made)
    return of_images if columns is None else BothColumns(columns, of_images)
