"""Images in Parquet, as Hugging Face ``datasets`` writes them."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.data.dataset import SPLITS
from lbhash.data.images.decoding import decode_image
from lbhash.data.images.folders import HELD
from lbhash.data.images.spooled import SpooledImages
from lbhash.data.images.stores import ImageStore, file_facts
from lbhash.data.images.table import ImageTable
from lbhash.data.streamed import ParquetRows
from lbhash.utils.files import existing_file
from lbhash.utils.labels import check_labels

if TYPE_CHECKING:
    from PIL import Image

IMAGE_COLUMNS = ("image", "img")
LABEL_COLUMNS = ("label", "labels", "fine_label")

_HELD = 32  # images that are in memory at a time where they are read in order


class ParquetImages(ImageStore):
    """Images in a column of one or more Parquet files; a row group is in memory at a time.

    Args:
        files: the files, in the order of the rows.
        column: a struct of ``bytes`` and ``path``, or binary. An image without bytes lies in the file that ``path``
            names, seen from the Parquet file's folder.
        name: where they come from, for messages.
    """

    def __init__(self, files: list[Path], column: str, name: str) -> None:
        import pyarrow.parquet as pq

        self.files, self.column, self.name = files, column, name
        self._groups: list[tuple[Path, int]] = []
        counts: list[int] = []
        self._doubtful: list[int] = []
        for file in files:
            metadata = pq.read_metadata(file)
            for group in range(metadata.num_row_groups):
                facts = metadata.row_group(group)
                if not _has_all_bytes(facts, column):
                    self._doubtful.append(len(self._groups))
                self._groups.append((file, group))
                counts.append(facts.num_rows)
        self._rows = sum(counts)
        self._starts = np.cumsum([0, *counts], dtype=np.int64)[:-1]
        self._read_group = lru_cache(maxsize=1)(self._group)

    def __len__(self) -> int:
        return self._rows

    def read(self, row: int) -> Image.Image:
        """The image of a row."""
        return decode_image(self.file(row), name=self.where(row))

    def file(self, row: int) -> bytes:
        """The image of a row as it is stored; ``ValueError`` where it lies beside and cannot be read."""
        group = int(np.searchsorted(self._starts, row, side="right")) - 1
        data, path = self._held(group, row)
        if data is None:
            try:
                data = (self._groups[group][0].parent / path).read_bytes() if path else b""
            except OSError as error:
                raise ValueError(f"{self.where(row)} cannot be read: {error.strerror}: {path}") from None
        return data

    def where(self, row: int) -> str:
        """The row."""
        return f"image {row} of {self.name}"

    def missing(self) -> npt.NDArray[np.int64]:
        """The rows without bytes whose path leads nowhere."""
        rows = []
        for group in self._doubtful:
            folder = self._groups[group][0].parent
            for row, (data, path) in enumerate(self._read_group(group), start=int(self._starts[group])):
                if data is None and not (path and (folder / path).is_file()):
                    rows.append(row)
        return np.array(rows, np.int64)

    def fingerprint(self) -> str:
        """Of the files' names, sizes and times of change, and those of the images that lie beside them."""
        digest = hashlib.sha256(self.column.encode())
        for file in self.files:
            digest.update(file_facts(file.parent, file.name))
        for group in self._doubtful:
            folder = self._groups[group][0].parent
            for data, path in self._read_group(group):
                if data is None and path:
                    digest.update(file_facts(folder, path))
        return digest.hexdigest()[:16]

    def in_order(self) -> ParquetImages:
        """As of every table of images, however large the row groups are."""
        return _OrderedImages(self.files, self.column, self.name)

    def in_any_order(self, rows: npt.NDArray[np.int64]) -> SpooledImages:
        """As of every table of images: these rows are copied to a temporary file, once, and read from there."""
        return SpooledImages(self, rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.files, self.column, self.name)  # and no row group

    def _held(self, group: int, row: int) -> tuple[bytes | None, str | None]:
        """Bytes and path of a row."""
        return self._read_group(group)[row - int(self._starts[group])]

    def _group(self, group: int) -> list[tuple[bytes | None, str | None]]:
        """Bytes and path of every row of a row group."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        file, number = self._groups[group]
        try:
            with pq.ParquetFile(file) as parquet:
                column = parquet.read_row_group(number, columns=[self.column])[self.column]
        except (pa.ArrowInvalid, OSError) as error:
            line = str(error).splitlines()[0]
            raise ValueError(f"row group {number} of {file.name} is damaged: {line}") from None
        return _bytes_and_paths(column)


_NO_ROWS: list[tuple[bytes | None, str | None]] = []


class _OrderedImages(ParquetImages):
    """The same, read forward."""

    def __init__(self, files: list[Path], column: str, name: str) -> None:
        super().__init__(files, column, name)
        self._forward = ParquetRows(files, [column], _HELD)
        self._first, self._batch = 0, _NO_ROWS

    def _held(self, group: int, row: int) -> tuple[bytes | None, str | None]:
        if not self._first <= row < self._first + len(self._batch):
            self._first, batch = self._forward.around(row)
            self._batch = _bytes_and_paths(batch[self.column])
        return self._batch[row - self._first]


def _bytes_and_paths(column: Any) -> list[tuple[bytes | None, str | None]]:
    import pyarrow as pa

    if not pa.types.is_struct(column.type):
        return [(data, None) for data in column.to_pylist()]
    return [(row and row.get("bytes"), row and row.get("path")) for row in column.to_pylist()]


def read_parquet_images(path: str | Path, name: str = "data") -> ImageTable:
    """Read a table of images.

    Args:
        path: a Parquet file, or a folder of Parquet files that are one table in the order of their names. A column
            ``image`` (or ``img``) holds structs of ``bytes`` and ``path``, or binary; ``label`` (or ``fine_label``)
            integers, or ``labels`` lists of them, where there are labels. Boolean ``in_train``, ``in_base`` and
            ``in_query`` say which split a row belongs to; or files named ``train``, ``base`` and ``query``. Files named
            ``train-…`` and ``test-…``, ``val-…`` or ``validation-…`` are the parts of the data set. Files may lie in
            the folder's folder ``data``, as in a copy of a repository of the Hub.
        name: of the argument, for messages.

    Raises:
        ValueError: a file is missing, damaged or of other columns than the first; labels are missing.
        TypeError: a column holds something else.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = Path(path).is_dir()
    files = parquet_files(Path(path)) if folder else [existing_file(path, name)]
    if not files:
        raise ValueError(f"{name} is the folder {str(path)!r}, which has no .parquet file")
    tables, image, label = [], "", None
    for file in files:
        try:
            schema = pq.read_schema(file)
            image = _column(schema, IMAGE_COLUMNS) or ""
            _check_images(schema, image, file, name)
            label = _column(schema, LABEL_COLUMNS)
            flags = [f"in_{split}" for split in SPLITS if f"in_{split}" in schema.names]
            tables.append(pq.read_table(file, columns=[*flags, *([label] if label else [])]))
        except (pa.ArrowInvalid, OSError) as error:
            line = str(error).splitlines()[0]
            raise ValueError(f"{name} is {str(file)!r}, which is damaged or no Parquet file: {line}") from None
        if tables[-1].schema.names != tables[0].schema.names:
            raise ValueError(f"{file.name} of {name} has other columns than {files[0].name}; they must be one table")
    table = pa.concat_tables([one.replace_schema_metadata(None) for one in tables], promote_options="permissive")
    labels = None
    if label is not None:
        column = table[label]
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy())[0])
            raise ValueError(f"column {label!r} of {name} is missing in row {row}; every row must have a label")
        nested = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
        labels = check_labels(column.to_pylist() if nested else column.to_numpy(), f"column {label!r} of {name}")
    made = {flag.removeprefix("in_"): _flag(table[flag], flag, name) for flag in flags}
    by_file = {} if made else _by_file(files, [len(one) for one in tables])
    test_rows = by_file.get("test")
    if test_rows is None:
        made |= by_file
    store = ParquetImages(files, image, Path(path).name)
    protocol = "holdout" if test_rows is None else "official"
    return ImageTable(store, labels, Path(path).name, made, test_rows, protocol, _class_names(schema, label))


def has_image_column(path: str | Path) -> bool:
    """Whether a Parquet file, or the first of a folder of them, has a column of images and none of embeddings."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = parquet_files(Path(path)) if Path(path).is_dir() else [Path(path)]
    try:
        schema = pq.read_schema(files[0]) if files else None
        return schema is not None and _column(schema, IMAGE_COLUMNS) is not None and "embedding" not in schema.names
    except (pa.ArrowInvalid, OSError):
        return False


def parquet_files(folder: Path) -> list[Path]:
    """The Parquet files of a folder, or where it has none of its folder ``data``, in the order of their names."""
    return sorted(folder.glob("*.parquet")) or sorted((folder / "data").glob("*.parquet"))


def _column(schema: Any, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in schema.names), None)


def _check_images(schema: Any, column: str, file: Path, name: str) -> None:
    import pyarrow as pa

    if not column:
        raise ValueError(f"{name} is {str(file)!r}, which has no column 'image' (it has {', '.join(schema.names)})")
    kind = schema.field(column).type
    if pa.types.is_struct(kind) and "bytes" in [field.name for field in kind]:
        kind = kind.field("bytes").type
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        raise TypeError(
            f"column {column!r} of {name} holds {kind}; it must hold bytes of images, or structs of bytes and path"
        )


def _flag(column: Any, flag: str, name: str) -> npt.NDArray[np.bool_]:
    values = column.to_numpy()
    if values.dtype != bool:
        raise ValueError(f"{flag} of {name} is {column.type} or has gaps; it must be a boolean for each row")
    return values


def _has_all_bytes(group: Any, column: str) -> bool:
    """Whether the footer says that every image of a row group has its bytes in the file."""
    for at in range(group.num_columns):
        facts = group.column(at)
        if facts.path_in_schema in (column, f"{column}.bytes"):
            return facts.statistics is not None and facts.statistics.null_count == 0
    return False


def _by_file(files: list[Path], counts: list[int]) -> dict[str, npt.NDArray[np.bool_]]:
    """Splits or parts by the names of the files, where every file has such a name and every one is there."""
    heads = ["test" if (head := file.stem.split("-")[0]) in HELD else head for file in files]
    for names in (SPLITS, ("train", "test")):
        if set(heads) == set(names):
            return {name: np.repeat([head == name for head in heads], counts) for name in names}
    return {}


def _class_names(schema: Any, label: str | None) -> tuple[str, ...]:
    """The names that ``datasets`` left in the file."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        about = features[label]
        return tuple(map(str, about.get("names") or about["feature"]["names"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        return ()
