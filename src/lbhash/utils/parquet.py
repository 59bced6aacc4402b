"""Parquet files with checksums: of every page, as the format has them, and of the whole file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lbhash.utils.checksums import add_checksum, check_file
from lbhash.utils.files import replacing

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


def read_parquet(path: Path) -> pa.Table:
    """Return all of a file; raises ``OSError`` or ``ValueError`` (also Arrow's) if it is damaged."""
    import pyarrow.parquet as pq

    check_file(path)
    with pq.ParquetFile(path, **CHECKED) as opened:
        return opened.read()
