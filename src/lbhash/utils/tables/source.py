"""A table that is open: its columns, and how they are read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pyarrow as pa

ROWS = 65536  # rows of a batch without embeddings

Read = Callable[[Sequence[str], Mapping[str, Any]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Source:
    """An open table.

    Attributes:
        schema: schema of the columns; for CSV, guessed from a sample of the rows. Arrays have the type null.
        read: takes column names, and types for some columns if cells are text (the others stay text); yields batches of
            these columns. All errors are one line.
        title: the name of the file or split.
        rows: number of rows, if known before they are read.
        parts: the tables that it consists of, if there are several.
        files: Parquet files, if it consists of nothing else.
        array: returns an array by its name, if the table consists of arrays.
        decimal: the decimal mark, if cells are text; ``lbhash.utils.columns`` then finds their types.
    """

    schema: pa.Schema
    read: Read
    title: str = "data"
    rows: int | None = None
    parts: tuple[Source, ...] = ()
    files: tuple[Path, ...] = ()
    array: Callable[[str], npt.NDArray[Any]] | None = None
    decimal: str = ""


def check_once(schema: pa.Schema, names: Sequence[str], said: str) -> None:
    """Raise ``ValueError``, which begins with ``said``, if a table has one of these columns several times."""
    for one in names:
        if (times := schema.names.count(one)) > 1:
            raise ValueError(f"{said}, which has the column {one!r} {times} times; give each a name of its own")


def of_table(table: pa.Table) -> Source:
    """Return a table that is in memory."""

    def read(columns: Sequence[str], types: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        yield from table.select(list(columns)).to_batches(ROWS)

    return Source(table.schema, read, rows=len(table))


@cache  # a file may be read several times
def say(line: str) -> None:
    """Print a line on standard error, once."""
    print(line, file=sys.stderr)
