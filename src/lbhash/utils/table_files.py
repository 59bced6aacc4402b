"""Find out which files are tables, alone or in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ARROWS = (".arrow", ".feather")
_TEXTS = (".csv", ".tsv", ".json", ".jsonl", ".ndjson")
TABLES = (".parquet", *_TEXTS, *(f"{suffix}.gz" for suffix in _TEXTS), *ARROWS)
"""Suffixes of files that have columns."""

SUFFIXES = (".parquet", ".npz", ".npy", *TABLES[1:])
"""Suffixes of files that hold embeddings."""


def suffix_of(path: str | Path) -> str:
    """Return the suffix of a file's name in lower case, with the one before ``.gz``.

    >>> suffix_of("rows.CSV.gz")
    '.csv.gz'
    """
    suffixes = [one.lower() for one in Path(path).suffixes]
    return "".join(suffixes[-2:] if suffixes[-1:] == [".gz"] else suffixes[-1:])


def is_frame(data: Any) -> bool:
    """Return whether data are a pandas or Polars frame, or an Arrow table."""
    return len(getattr(data, "shape", ())) == 2 and hasattr(data, "columns")


def is_label_table(path: str | Path | None) -> bool:
    """Return whether labels lie in a column of a table, and not in an ``.npy``."""
    return path is not None and suffix_of(path) in TABLES


def parquet_files(path: Path) -> list[Path]:
    """Return a Parquet file, or those in a folder or its subfolder ``data``, by name; nothing for other paths."""
    if path.is_dir():
        return _in(path, [".parquet"]) or _in(path / "data", [".parquet"])
    return [path] if suffix_of(path) == ".parquet" and path.is_file() else []


def table_files(folder: Path) -> list[Path]:
    """Return the files of a folder that form one table: Parquet files, or else other tables.

    ``.json`` files do not count, because they often describe other files.
    """
    return parquet_files(folder) or _in(
        folder, [one for one in TABLES if ".json" not in (one, one.removesuffix(".gz"))]
    )


def _in(folder: Path, suffixes: list[str]) -> list[Path]:
    """Return the folder's entries with these suffixes that are not hidden, by name; they may not be files."""
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(one for one in found if one.name[0] not in "._" and suffix_of(one) in suffixes)
