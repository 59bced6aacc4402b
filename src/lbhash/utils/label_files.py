"""Labels in a file of their own: an ``.npy``, or a column of a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lbhash.utils.files import existing_file, read_npy
from lbhash.utils.formatting import one_line, some_names
from lbhash.utils.memory import check_memory, check_parquet
from lbhash.utils.tables import ARROWS, TEXTS, read_arrow, read_text, suffix_of
from lbhash.utils.validation import did_you_mean

LABELS = ("label", "labels", "category", "class", "target", "y")
"""Usual names of the column with the labels, the first of which is taken."""


def is_label_table(path: str | Path | None) -> bool:
    """Return whether labels lie in a column of a table, and not in an ``.npy``."""
    return path is not None and suffix_of(path) in (".parquet", *TEXTS, *ARROWS)


def read_label_file(path: str | Path, name: str, column: str | None = None) -> Any:
    """Return the labels of a file, an array or a column of Arrow; ``name`` is the argument's in messages.

    A table has them in ``column``; if None, in the first of ``LABELS`` that is there, or in its only column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if suffix_of(path) == ".npy":
        return read_npy(path, name)
    file = existing_file(path, name)
    said, suffix = f"{name} is {str(file)!r}", suffix_of(file)
    check_memory(file.stat().st_size, f"{said}, which")
    try:
        if suffix == ".parquet":
            check_parquet(file, f"{said}, which")
            table = pq.read_table(file, partitioning=None)
        elif suffix in ARROWS:
            table = read_arrow(file)
        elif suffix in TEXTS:
            table = read_text(file, said)
        else:
            raise ValueError(f"{said}; it must end in .npy, .parquet, {', '.join((*TEXTS, *ARROWS))}")
    except (pa.ArrowException, OSError, ValueError) as error:
        if str(error).startswith(said):
            raise
        raise ValueError(f"{said}, which is damaged or no {suffix} file: {one_line(error)}") from None
    chosen = _chosen(table.column_names, column, said)
    found = table[chosen]
    return found.cast(found.type.value_type) if pa.types.is_dictionary(found.type) else found


def _chosen(names: Sequence[str], column: str | None, said: str) -> str:
    if column is not None and column not in names:
        hint = did_you_mean(column, names)
        raise ValueError(f"label_column is {column!r}, and {said}, which has {some_names(names)}{hint}")
    usual = next((one for one in LABELS if one in names), names[0] if len(names) == 1 else None)
    if column is None and usual is None:
        raise ValueError(f"{said}, which has no column 'label' (it has {some_names(names)}); name it by label_column")
    return str(column or usual)
