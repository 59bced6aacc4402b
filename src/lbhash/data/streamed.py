"""Read Parquet and ``.npy`` files on access, with the memory of a few rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.data.vectors import numbers_of
from lbhash.utils.formatting import one_line
from lbhash.utils.memory import check_memory, group_bytes
from lbhash.utils.parquet import open_parquet
from lbhash.utils.paths import Unchanged
from lbhash.utils.reading import reading

if TYPE_CHECKING:
    import pyarrow as pa


class ParquetRows:
    """Some columns of one or more Parquet files, read forward, ``batch_rows`` rows at a time.

    Rows in ascending order cost one pass over the files, and row groups without any of them are skipped. For a row
    before the current batch, its row group is read again from the start. Memory holds one batch and one page of the
    file; a page is a megabyte, or 1,024 rows, which pyarrow writes at once. All batches get the column types of the
    first. With ``texts``, texts are dictionaries, so that a repeated text is held once. A file that has changed is
    refused.
    """

    def __init__(self, files: Sequence[Path], columns: Sequence[str], batch_rows: int, texts: bool = False) -> None:
        import pyarrow.parquet as pq

        self.files, self.columns, self.batch_rows, self.texts = list(files), list(columns), batch_rows, texts
        self._unchanged = {file: Unchanged(file, f"data is {str(file)!r}") for file in self.files}
        self._groups: list[tuple[Path, int]] = []
        counts = [0]  # rows of a group
        for file in self.files:
            metadata = pq.read_metadata(file)
            for group in range(metadata.num_row_groups):
                self._groups.append((file, group))
                counts.append(metadata.row_group(group).num_rows)
        self._starts = np.cumsum(counts, dtype=np.int64)
        self._opened: Any = None
        self._schema: pa.Schema | None = None
        self._group = -1  # the row group that is being read
        self._batches: Iterator[Any] = iter(())
        self._batch: Any = ()
        self._first = 0  # the row that the batch begins with

    def __len__(self) -> int:
        return int(self._starts[-1])

    def take(self, rows: npt.NDArray[np.int64]) -> pa.Table:
        """Return these rows, in this order; ascending rows are fast."""
        import pyarrow as pa

        order = np.argsort(rows, kind="stable")
        rising, at = rows[order], 0
        batches = []
        while at < len(rising):
            first, batch = self.around(int(rising[at]))
            stop = int(np.searchsorted(rising, first + len(batch)))
            batches.append(batch.take(pa.array(rising[at:stop] - first)))
            at = stop
        table = pa.Table.from_batches(batches or [self.around(0)[1].slice(0, 0)])
        return table if (order[1:] > order[:-1]).all() else table.take(pa.array(np.argsort(order)))

    def around(self, row: int) -> tuple[int, pa.RecordBatch]:
        """Return the batch that holds ``row``, after the number of its first row; ``ValueError`` if it is damaged."""
        import pyarrow as pa

        group = self._group_of(row)
        file, number = self._groups[group]
        with self._unchanged[file]:
            try:
                if group != self._group or row < self._first:
                    self._open(group)
                while row >= self._first + len(self._batch):
                    self._first += len(self._batch)
                    self._batch = self._alike(next(self._batches).select(self.columns))
            except (pa.ArrowException, OSError, StopIteration) as error:
                self._group = -1
                ended = isinstance(error, StopIteration)
                fault = "has fewer rows than the file says" if ended else f"is damaged: {one_line(error)}"
                raise ValueError(f"row group {number} of {file.name} {fault}") from None
        return self._first, self._batch

    def file_of(self, row: int) -> Path:
        """Return the file that holds a row."""
        return self._groups[self._group_of(row)][0]

    def _alike(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with the column types of the first one; files of one table may differ."""
        import pyarrow as pa

        self._schema = self._schema or batch.schema
        if batch.schema.types == self._schema.types:
            return batch
        columns = [column.cast(kind) for column, kind in zip(batch.columns, self._schema.types, strict=True)]
        return pa.record_batch(columns, self.columns)

    def _group_of(self, row: int) -> int:
        return int(np.searchsorted(self._starts, row, side="right")) - 1

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.files, self.columns, self.batch_rows, self.texts)  # without the open file

    def _open(self, group: int) -> None:
        file, number = self._groups[group]
        if self._group < 0 or self._groups[self._group][0] != file:
            self._opened = open_parquet(file, self.columns if self.texts else ())
        rows = int(self._starts[group + 1] - self._starts[group])
        share = min(1, self.batch_rows / max(1, rows))
        taken = int(share * group_bytes(self._opened, number, self.columns))
        check_memory(taken, f"{self.batch_rows:,} rows of {file.name}")
        self._batches = self._opened.iter_batches(
            self.batch_rows, row_groups=[number], columns=self.columns, use_threads=False
        )
        self._group, self._first, self._batch = group, int(self._starts[group]), ()


class StreamedEmbeddings:
    """The embeddings of Parquet files as an array ``[n, dim]`` that is read on access (``ParquetRows``).

    At first only the first row that is not missing is checked. Faults of other rows are reported when they are read.
    """

    ndim = 2

    def __init__(self, files: Sequence[Path], name: str, column: str) -> None:
        self._rows = ParquetRows(files, [column], batch_rows=2048)
        self._said, self._column = f"column {column!r} of {name}", column
        self.shape = (len(self._rows), 0)
        ends = [0, 1, *range(2048, len(self._rows), 2048), len(self._rows)]
        parts = (self._read(np.arange(*ends[at : at + 2])) for at in range(len(ends) - 1) if ends[at] < ends[at + 1])
        first = next((found for found in parts if found is not None), None)
        if not len(self):
            raise ValueError(f"{name} is {str(files[0])!r}, which has no row")
        if first is None:
            raise ValueError(f"{self._said} is missing in every row")
        self.shape, self.dtype = (len(self._rows), first.shape[1]), first.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | npt.NDArray[np.int64]) -> npt.NDArray:
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        found = self._read(rows) if len(rows) else None
        return np.empty((0, self.shape[1]), self.dtype) if found is None else found

    def _read(self, rows: npt.NDArray[np.int64]) -> npt.NDArray | None:
        column = self._rows.take(rows)[self._column].combine_chunks()
        return numbers_of(column, rows, self.shape[1] or None, self._said)


class NpyRows:
    """The rows of an ``.npy`` file ``[n, dim]``, as an array that is read on access; a file that changes is refused.

    It is not mapped: truncating a mapped file ends the process.
    """

    ndim = 2

    def __init__(self, file: Path, name: str) -> None:
        self.file, self._unchanged = file, Unchanged(file, f"{name} is {str(file)!r}")
        with reading(name, file, foreign=True):
            stored = np.lib.format.open_memmap(file, mode="r")  # for its form; no number is read
        self.shape, self.dtype, self._start = stored.shape, stored.dtype, stored.offset
        self.in_order = stored.ndim == 2 and stored.flags.c_contiguous

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> npt.NDArray:
        """Return one row ``[dim]`` (an integer), or some ``[m, dim]`` (a slice or an array)."""
        if isinstance(rows, (int, np.integer)):
            return self[np.array([rows])][0]
        rows = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else np.asarray(rows)
        found = np.empty((len(rows), self.shape[1]), self.dtype)
        starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1).tolist()  # of runs of rows, each read at once
        with self._unchanged, self.file.open("rb") as opened:
            for start, end in pairwise([*starts, len(rows)]):
                opened.seek(self._start + int(rows[start]) * found.strides[0])
                opened.readinto(found[start:end].data)
        return found
