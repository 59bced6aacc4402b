"""Images in Parquet, as Hugging Face ``datasets`` writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.data.choose import Chosen, facts_of, first_of, split_columns
from lbhash.data.images.decoding import read_file
from lbhash.data.images.stores import FileImages, ImageStore, SpooledImages, file_facts
from lbhash.data.images.table import ImageTable
from lbhash.data.streamed import ParquetRows
from lbhash.utils.fingerprint import fingerprint, sampled
from lbhash.utils.memory import check_parquet
from lbhash.utils.paths import existing_file
from lbhash.utils.reading import reading
from lbhash.utils.table_files import parquet_files

IMAGE_COLUMNS = ("image", "img")
LABEL_COLUMNS = ("label", "labels", "fine_label")

_BATCH = 32  # images in memory at a time


class ParquetImages(ImageStore):
    """Images in a column of one or more Parquet files, read forward (``ParquetRows``).

    The column holds structs of ``bytes`` and ``path``, or binary. An image without bytes lies in the file that ``path``
    names, relative to the Parquet file's folder.
    """

    def __init__(self, files: list[Path], column: str, name: str) -> None:
        self.files, self.column, self.name = files, column, name
        self._rows = ParquetRows(files, [column], _BATCH)
        self._first = 0
        self._batch: list[tuple[bytes | None, str | None]] = []  # bytes and paths of images, from row _first on

    def __len__(self) -> int:
        return len(self._rows)

    def stored(self, row: int) -> bytes:
        """Return the stored image of a row, from the file itself or from the file that the row names."""
        data, path = self.bytes_and_path(row)
        if data is None:
            data = read_file(self._rows.file_of(row).parent / path, f"{self.where(row)} ({path})") if path else b""
        return data

    def missing(self) -> npt.NDArray[np.int64]:
        """Return the rows that have neither bytes nor a path to an existing file."""
        rows = [row for row, folder, path in self._beside() if not (path and (folder / path).is_file())]
        return np.array(rows, np.int64)

    def fingerprint(self) -> str:
        """Return the fingerprint of names, sizes and times of change: of the files, and of images beside them."""
        facts = (file_facts(file.parent, file.name) for file in self.files)
        return fingerprint(self.column, facts, (file_facts(folder, path) for _, folder, path in self._beside() if path))

    def sample(self) -> Iterator[bytes]:
        """Yield parts of the Parquet files."""
        return sampled(Path(), self.files)

    def in_order(self) -> ParquetImages:
        """Return the same images, for one reader."""
        return ParquetImages(self.files, self.column, self.name)

    def in_any_order(self, rows: npt.NDArray[np.int64]) -> SpooledImages:
        """Return these images, copied once to a temporary file."""
        return SpooledImages(self, rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.files, self.column, self.name)  # without the batch

    def bytes_and_path(self, row: int) -> tuple[bytes | None, str | None]:
        """Return bytes and path of a row."""
        if not self._first <= row < self._first + len(self._batch):
            self._first, batch = self._rows.around(row)
            images = batch[self.column].to_pylist()
            if batch.schema.field(self.column).type.num_fields:
                self._batch = [(image and image.get("bytes"), image and image.get("path")) for image in images]
            else:
                self._batch = [(image, None) for image in images]
        return self._batch[row - self._first]

    def _beside(self) -> Iterator[tuple[int, Path, str | None]]:
        """Yield row, folder and path of the images that have no bytes in the file."""
        import pyarrow.parquet as pq

        start = 0
        for file in self.files:
            metadata = pq.read_metadata(file)
            for number in range(metadata.num_row_groups):
                group = metadata.row_group(number)
                self.bytes_and_path(start)  # a damaged group raises here; its statistics would end the process
                columns = {facts.path_in_schema: facts for facts in map(group.column, range(group.num_columns))}
                facts = columns.get(f"{self.column}.bytes") or columns[self.column]
                if facts.statistics is None or facts.statistics.null_count:  # otherwise all have bytes
                    for row in range(start, start + group.num_rows):
                        data, path = self.bytes_and_path(row)
                        if data is None:
                            yield row, file.parent, path
                start += group.num_rows


def read_parquet_images(path: str | Path, name: str = "data") -> ImageTable:
    """Read a Parquet file, or a folder of Parquet files as one table in the order of their names.

    Column ``image`` (or ``img``) holds structs of ``bytes`` and ``path``, or binary. If there are labels, ``label`` (or
    ``fine_label``) holds integers, or ``labels`` lists of them. Boolean ``in_train``, ``in_base`` and ``in_query`` mark
    the rows of each split, or texts in ``split`` name it, or file names do, such as ``train-…`` and ``test-…``
    (``lbhash.data.split_names``). Files may lie in the subfolder ``data``, as in a copy of a repository of the Hub.
    """
    from lbhash.utils.columns import read_columns
    from lbhash.utils.tables import open_table

    files = parquet_files(Path(path)) if Path(path).is_dir() else [existing_file(path, name)]
    if not files:
        raise ValueError(f"{name} is the folder {str(path)!r}, which has no .parquet file")
    source = open_table(path, name)
    parts = source.parts or (source,)
    for part in parts:
        image = _image_column(part.schema, part.files[0], name)
    schema = source.schema
    chosen = Chosen([image], first_of(LABEL_COLUMNS, schema.names), split_columns(schema), False)
    beside = len(files) == 1 and _holds_no_bytes(schema.field(image).type)
    for file in files:
        check_parquet(file, f"{name} is {str(file)!r}, whose columns {', '.join(chosen.facts)}", chosen.facts)
    with reading(name, path):
        columns = read_columns(source, [*chosen.facts, *([image] if beside else [])], chosen.label)
        facts = facts_of(columns, chosen, [(part.title, part.rows or 0) for part in parts], name)
    store: ImageStore = ParquetImages(files, image, Path(path).name)
    if beside:
        paths = [one and one.get("path") for one in columns[image].to_pylist()]
        store = FileImages(files[0].parent, paths) if all(paths) else store
    return ImageTable(store, name=Path(path).name, **facts)


def _holds_no_bytes(kind: Any) -> bool:
    """Return whether a column of this type stores only paths, so that every image is a separate file."""
    import pyarrow as pa

    return pa.types.is_struct(kind) and pa.types.is_null(kind.field("bytes").type)


def has_image_column(path: str | Path) -> bool:
    """Return whether a Parquet file, or the first of a folder, has a column of images and none of embeddings."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = parquet_files(Path(path))
    try:
        names = pq.read_schema(files[0]).names if files else []
    except (pa.ArrowInvalid, OSError):
        return False
    return first_of(IMAGE_COLUMNS, names) is not None and "embedding" not in names


def _image_column(schema: Any, file: Path, name: str) -> str:
    """Return the column that holds the images."""
    import pyarrow as pa

    column = first_of(IMAGE_COLUMNS, schema.names)
    if column is None:
        raise ValueError(f"{name} is {str(file)!r}, which has no column 'image' (it has {', '.join(schema.names)})")
    kind = schema.field(column).type
    if pa.types.is_struct(kind) and "bytes" in [field.name for field in kind]:
        kind = kind.field("bytes").type
        if pa.types.is_null(kind):  # every image is the file that its path names
            return column
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        said = f"column {column!r} of {name} holds {kind}"
        raise TypeError(f"{said}; it must hold bytes of images, or structs of bytes and path")
    return column
