"""Parquet files with checksums: of every page, as the format defines, and of the whole file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lbhash.utils.checksums import add_checksum, check_file
from lbhash.utils.files import replacing
from lbhash.utils.memory import check_memory

if TYPE_CHECKING:
    import pyarrow as pa

CHECKED: dict[str, Any] = {"page_checksum_verification": True}
"""How ``pyarrow`` opens Parquet files, so that pages with a wrong checksum are refused."""


def write_parquet(path: str | os.PathLike[str], table: pa.Table) -> None:
    """Write a table; after an error the old file is unchanged."""
    import pyarrow.parquet as pq

    with replacing(path) as temporary:
        pq.write_table(table, temporary, write_page_checksum=True)
        add_checksum(temporary)


def open_parquet(file: Path, texts: Sequence[str] = ()) -> Any:
    """Open a Parquet file for reading a few rows at a time; columns in ``texts`` keep texts as dictionaries."""
    import pyarrow.parquet as pq

    # Without a buffer size, pyarrow reads a whole row group at once.
    options: dict[str, Any] = {"pre_buffer": False, "buffer_size": 1 << 16, **CHECKED}
    if not texts:
        return pq.ParquetFile(file, **options)
    described = pq.read_metadata(file).schema
    paths = (described.column(at) for at in range(len(described)))
    kept = [one.path for one in paths if one.physical_type == "BYTE_ARRAY" and one.path.split(".")[0] in texts]
    return pq.ParquetFile(file, read_dictionary=kept, **options)


def read_parquet(path: Path) -> pa.Table:
    """Return a file as a table; raises ``OSError`` or ``ValueError`` (also Arrow's) if it is damaged or too large."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_file(path)
    schema = pq.read_schema(path)
    with open_parquet(path, [one.name for one in schema if not pa.types.is_nested(one.type)]) as opened:
        table = opened.read()
        check_rows(len(table), opened.metadata.num_rows)
        return with_texts(table, schema)


def check_rows(found: int, stated: int) -> None:
    """Raise ``ValueError`` if a file stated another number of rows; pyarrow ends without an error where pages end."""
    if found != stated:
        raise ValueError(f"it says that it has {stated:,} rows, and only {found:,} can be read")


def with_texts(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table in the types of a schema; ``ValueError`` if repeated texts then take too much memory."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_dictionary(column.type) and not pa.types.is_primitive(column.type.value_type):
            sizes = (pc.binary_length(one.dictionary).take(one.indices) for one in column.chunks)
            check_memory(sum(pc.sum(one).as_py() or 0 for one in sizes), f"column {name!r} of {len(table):,} rows")
    return table.cast(schema)
