"""Parquet files that are read as they are needed, with the memory of a few rows, however large their row groups are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.data.arrow import list_numbers
from lbhash.utils.formatting import one_line
from lbhash.utils.memory import check_memory, group_bytes
from lbhash.utils.parquet import CHECKED

if TYPE_CHECKING:
    import pyarrow as pa

_BUFFER = 1 << 16  # bytes that are read of a column at a time; without it pyarrow reads a row group's at once


class ParquetRows:
    """Some columns of one or more Parquet files, read forward, ``batch_rows`` rows at a time.

    Rows that rise from call to call cost one pass over the files, and row groups without any of them are skipped. For a
    row before the last one its row group is read again from its beginning. A batch and a page of the file are in
    memory; a page is a megabyte, or what pyarrow writes at once, 1,024 rows.
    """

    def __init__(self, files: Sequence[Path], columns: Sequence[str], batch_rows: int) -> None:
        import pyarrow.parquet as pq

        self.files, self.columns, self.batch_rows = list(files), list(columns), batch_rows
        self._groups: list[tuple[Path, int]] = []
        counts = [0]  # rows of a group
        for file in self.files:
            metadata = pq.read_metadata(file)
            for group in range(metadata.num_row_groups):
                self._groups.append((file, group))
                counts.append(metadata.row_group(group).num_rows)
        self._starts = np.cumsum(counts, dtype=np.int64)
        self._opened: Any = None
        self._group = -1  # the row group that is being read
        self._batches: Iterator[Any] = iter(())
        self._batch: Any = ()
        self._first = 0  # the row that the batch begins with

    def __len__(self) -> int:
        return int(self._starts[-1])

    def take(self, rows: npt.NDArray[np.int64]) -> pa.Table:
        """Return these rows, in this order; it is quick if they rise."""
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
        """Return the row that the batch of ``row`` begins with, and the batch; ``ValueError`` if it is damaged."""
        import pyarrow as pa

        group = self._group_of(row)
        try:
            if group != self._group or row < self._first:
                self._open(group)
            while row >= self._first + len(self._batch):
                self._first += len(self._batch)
                self._batch = next(self._batches)
        except (pa.ArrowException, OSError, StopIteration) as error:
            self._group = -1
            file, number = self._groups[group]
            ended = isinstance(error, StopIteration)
            fault = "has fewer rows than the file says" if ended else f"is damaged: {one_line(error)}"
            raise ValueError(f"row group {number} of {file.name} {fault}") from None
        return self._first, self._batch

    def file_of(self, row: int) -> Path:
        """Return the file that holds a row."""
        return self._groups[self._group_of(row)][0]

    def _group_of(self, row: int) -> int:
        return int(np.searchsorted(self._starts, row, side="right")) - 1

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.files, self.columns, self.batch_rows)  # and no file that is open

    def _open(self, group: int) -> None:
        import pyarrow.parquet as pq

        file, number = self._groups[group]
        if self._group < 0 or self._groups[self._group][0] != file:
            self._opened = pq.ParquetFile(file, pre_buffer=False, buffer_size=_BUFFER, **CHECKED)
        rows = int(self._starts[group + 1] - self._starts[group])
        share = min(1, self.batch_rows / max(1, rows))
        taken = int(share * group_bytes(self._opened, number, self.columns))
        check_memory(taken, f"{self.batch_rows:,} rows of {file.name}")
        self._batches = self._opened.iter_batches(
            self.batch_rows, row_groups=[number], columns=self.columns, use_threads=False
        )
        self._group, self._first, self._batch = group, int(self._starts[group]), ()


class StreamedEmbeddings:
    """The embeddings of Parquet files, ``[n, dim]``: an array that is read when it is looked at (``ParquetRows``).

    Only the first row is checked at once; what is wrong with another is said when it is read.
    """

    ndim = 2

    def __init__(self, files: Sequence[Path], name: str = "data", column: str = "embedding") -> None:
        self._rows, self._name, self._file = ParquetRows(files, [column], batch_rows=2048), name, files[0]
        self._column = column
        if not len(self._rows):
            raise ValueError(f"{name} is {str(self._file)!r}, which has no row")
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
        column = self._rows.take(rows)[self._column].combine_chunks()
        return list_numbers(column, rows, dim, f"column {self._column!r} of {self._name}")
