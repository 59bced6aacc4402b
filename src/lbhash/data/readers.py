"""Tables of embeddings from files: Parquet, ``.npz`` and ``.npy``, in the number type that the file has."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.data.dataset import SPLITS
from lbhash.data.streamed import ParquetRows
from lbhash.data.table import EmbeddingTable
from lbhash.utils.arrays import check_unmasked
from lbhash.utils.files import existing_file, read_npy
from lbhash.utils.formatting import one_line
from lbhash.utils.labels import check_labels
from lbhash.utils.memory import check_memory, check_npz, check_parquet
from lbhash.utils.parquet import CHECKED

SUFFIXES = (".parquet", ".npz", ".npy")
FLAGS = {f"in_{split}": split for split in SPLITS}  # the columns or arrays that say which rows are in a split
_ARRAYS = ("embedding", "embeddings", "label", "labels", *FLAGS)


def read_table(
    path: str | Path, labels: str | Path | None = None, name: str = "data", *, stream: bool = False
) -> EmbeddingTable:
    """Read embeddings, labels and split flags.

    Args:
        path: a Parquet file with a column ``embedding`` (lists of one length) and, if there are labels, ``label``
            (integers) or ``labels`` (lists of integers); an ``.npz`` with arrays of these names (``embedding`` or
            ``embeddings``, ``label`` or ``labels``, integers or multi-hot); or an ``.npy`` of the embeddings, whose
            labels may lie beside ``NAME.npy`` in ``NAME_labels.npy``.
            Boolean ``in_train``, ``in_base`` and ``in_query`` say which split a row belongs to.
        labels: an ``.npy`` with the labels, instead of the file's own.
        name: of the argument, for messages.
        stream: read the embeddings of a Parquet file when they are looked at, and leave it to whoever looks at them
            to find those that are NaN, infinite or beyond float32 (``check_embeddings``).

    Raises:
        TypeError, ValueError: the file is missing, damaged, empty or holds something else; an embedding is NaN,
            infinite or beyond float32 (the message says which row); labels are missing or are no class numbers.
    """
    file = existing_file(path, name)
    if file.suffix == ".parquet":
        table = _read_parquet(file, name, stream=stream)
    elif file.suffix == ".npz":
        table = _read_npz(file, name)
    elif file.suffix == ".npy":
        table = EmbeddingTable(_load_npy(file, name, mmap_mode="r"), None, file.name)
    else:
        raise ValueError(f"{name} is {str(path)!r}; it must end in {', '.join(SUFFIXES)}")
    label_name, beside = "labels", file.with_name(f"{file.stem}_labels.npy")
    if labels is None and file.suffix == ".npy" and beside.is_file():
        label_name, labels = f"{beside.name} beside {name}", beside
    if labels is not None:
        given = np.asarray(_load_npy(existing_file(labels, label_name), label_name))
        table = replace(table, labels=check_labels(given, label_name))
    if table.labels is not None and len(table.labels) != len(table):
        raise ValueError(f"{name} has {len(table)} embeddings and {len(table.labels)} labels")
    check_flags(table.flags, len(table), name)
    later = stream and table.embeddings.ndim == 2
    check_embeddings(table.embeddings[:1] if later else table.embeddings, f"embeddings of {name}")
    if not len(table):
        raise ValueError(f"{name} is {str(path)!r}, which has no row")
    return table


def check_embeddings(
    embeddings: npt.NDArray, name: str = "embeddings", rows: npt.NDArray[np.int64] | None = None
) -> None:
    """Raise ``ValueError`` or ``TypeError`` unless ``embeddings`` is ``[n, dim]`` of finite numbers.

    A message calls them ``name`` and its rows by the numbers in ``rows``, ``int64 [n]``; if None, they count from 0.
    """
    check_unmasked(embeddings, name)
    if embeddings.ndim != 2 or embeddings.shape[1] == 0:
        raise ValueError(f"{name} has shape {embeddings.shape}; it must be [n, dim]")
    if embeddings.dtype.kind not in "uif":
        raise TypeError(f"{name} holds {embeddings.dtype}; it must hold numbers")
    if embeddings.dtype.kind != "f":
        return
    for start in range(0, len(embeddings), 8192):
        chunk = embeddings[start : start + 8192]
        with np.errstate(over="ignore"):
            finite = np.isfinite(chunk.astype(np.float32, copy=False)).all(axis=1)  # which is what a model is given
        if not finite.all():
            at = int(np.flatnonzero(~finite)[0])
            what = "beyond the range of float32" if np.isfinite(chunk[at]).all() else "NaN or infinite"
            row = start + at if rows is None else rows[start + at]
            raise ValueError(f"{name} is {what} in row {row}; every number must be finite")


def check_flags(flags: dict[str, npt.NDArray], rows: int, name: str) -> None:
    """Raise ``ValueError`` unless every flag is a boolean for each row."""
    for split, flag in flags.items():
        if flag.dtype != bool or flag.shape != (rows,):
            said = f"in_{split} of {name} is {flag.dtype} {list(flag.shape)}"
            raise ValueError(f"{said}; it must be a boolean for each row")


def first_of(names: Iterable[str], present: Iterable[str]) -> str | None:
    """Return the first name that is present; ``None`` if none is."""
    return next((name for name in names if name in present), None)


def read_label_column(column: Any, name: str) -> npt.NDArray:
    """Return the labels of a column of Parquet: of integers, or of lists of integers."""
    if column.null_count:
        raise ValueError(f"{name} is missing in row {_first_null(column)}; every row must have a label")
    return check_labels(column.to_pylist() if _holds_lists(column.type) else column.to_numpy(), name)


def _first_null(column: Any) -> int:
    return column.is_null().index(True).as_py()


def _holds_lists(kind: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _read_parquet(file: Path, name: str, *, stream: bool) -> EmbeddingTable:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file, **CHECKED) as parquet:
            columns = parquet.schema_arrow.names
            if "embedding" not in columns:
                has = ", ".join(columns)
                raise ValueError(f"{name} is {str(file)!r}, which has no column 'embedding' (it has {has})")
            label = first_of(("label", "labels"), columns)
            flags = [flag for flag in FLAGS if flag in columns]
            streamed = StreamedEmbeddings(file, name)
            embeddings: Any = streamed if stream else streamed.in_memory()
            others = flags + ([label] if label else [])
            check_parquet(file, f"{name} is {str(file)!r}, whose columns {', '.join(others)}", others)
            rest = parquet.read(columns=others)
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"{name} is {str(file)!r}, which is damaged or no Parquet file: {one_line(error)}") from None
    labels = read_label_column(rest[label], f"column {label!r} of {name}") if label else None
    return EmbeddingTable(embeddings, labels, file.name, {FLAGS[flag]: rest[flag].to_numpy() for flag in flags})


def _numbers(column: Any, rows: npt.NDArray[np.int64], dim: int | None, name: str) -> npt.NDArray:
    """Return some rows of the column ``embedding``, ``[m, dim]``; if ``dim`` is None, it is the first row's length."""
    said = f"column 'embedding' of {name}"
    if column.null_count:
        raise ValueError(f"{said} is missing in row {rows[_first_null(column)]}")
    if not _holds_lists(column.type):
        raise TypeError(f"{said} holds {column.type}; it must hold lists of numbers")
    values, lengths = column.flatten(), column.value_lengths().to_numpy()
    dim = int(lengths[0]) if dim is None else dim
    if (lengths != dim).any():
        at = np.argmax(lengths != dim)
        numbers = f"{lengths[at]} numbers in row {rows[at]}"
        raise ValueError(f"{said} has {numbers}; all rows must have as many as the first ({dim})")
    if values.null_count:
        raise ValueError(f"{said} has a missing number in row {rows[_first_null(values) // dim]}")
    found = values.to_numpy(zero_copy_only=False)
    if found.dtype.kind not in "uif":
        raise TypeError(f"{said} holds {column.type}; it must hold lists of numbers")
    return found.reshape(len(column), dim)


class StreamedEmbeddings:
    """The embeddings of a Parquet file, ``[n, dim]``: an array that is read when it is looked at (``ParquetRows``).

    Only the first row is checked at once; what is wrong with another is said when it is read.
    """

    ndim = 2

    def __init__(self, file: Path, name: str = "data") -> None:
        self._rows, self._name, self._file = ParquetRows([file], ["embedding"], batch_rows=2048), name, file
        if not len(self._rows):
            raise ValueError(f"{name} is {str(file)!r}, which has no row")
        first = self._read(np.arange(1), None)
        self.shape, self.dtype = (len(self._rows), first.shape[1]), first.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | npt.NDArray[np.int64]) -> npt.NDArray:
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        return self._read(rows, self.shape[1]) if len(rows) else np.empty((0, self.shape[1]), self.dtype)

    def in_memory(self) -> npt.NDArray:
        """Return all embeddings, with the extra memory of a few rows."""
        size = self.shape[0] * self.shape[1] * self.dtype.itemsize
        check_memory(size, f"{self._name} is {str(self._file)!r}, whose {self.shape[0]:,} embeddings")
        made = np.empty(self.shape, self.dtype)
        for start in range(0, len(self), 8192):
            made[start : start + 8192] = self[start : start + 8192]
        return made

    def _read(self, rows: npt.NDArray[np.int64], dim: int | None) -> npt.NDArray:
        return _numbers(self._rows.take(rows)["embedding"].combine_chunks(), rows, dim, self._name)


def _read_npz(file: Path, name: str) -> EmbeddingTable:
    found: dict[str, npt.NDArray] = {}
    key = ""
    check_npz(file, f"{name} is {str(file)!r}, which", _ARRAYS)
    try:
        with np.load(file, allow_pickle=False) as arrays:
            names = list(arrays.files)
            for key in names:
                if key in _ARRAYS:
                    found[key] = arrays[key]
    except (OSError, ValueError, TypeError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        _refuse_objects(error, f"array {key!r} of {name}")
        raise ValueError(f"{name} is {str(file)!r}, which is damaged or no .npz file: {one_line(error)}") from None
    embedding, label = first_of(("embedding", "embeddings"), found), first_of(("label", "labels"), found)
    if embedding is None:
        raise ValueError(f"{name} is {str(file)!r}, which has no array 'embeddings' (it has {', '.join(names)})")
    labels = None if label is None else check_labels(found[label], f"labels of {name}")
    flags = {split: found[flag] for flag, split in FLAGS.items() if flag in found}
    return EmbeddingTable(found[embedding], labels, file.name, flags)


def _load_npy(file: Path, name: str, mmap_mode: Any = None) -> npt.NDArray:
    if not mmap_mode:
        check_memory(file.stat().st_size, f"{name} is {str(file)!r}, which")
    try:
        return np.lib.format.open_memmap(file, mode=mmap_mode) if mmap_mode else read_npy(file)
    except (OSError, ValueError, EOFError, MemoryError) as error:
        _refuse_objects(error, name)
        raise ValueError(f"{name} is {str(file)!r}, which is damaged or no .npy file: {one_line(error)}") from None


def _refuse_objects(error: Exception, name: str) -> None:
    """Raise ``TypeError`` if NumPy refused an array only because it holds Python objects, which are pickles."""
    if "Object arrays" in str(error) or "Python objects" in str(error):
        raise TypeError(f"{name} holds Python objects, which are never loaded; it must hold numbers") from None
