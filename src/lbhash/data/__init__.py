"""Data sets and their splits, by name or from files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from lbhash.data.dataset import SPLITS, Dataset, EmbeddingSplit, Table
from lbhash.data.digits import digits
from lbhash.data.holdout import hold_out, validation_dataset
from lbhash.data.protocols import PROTOCOLS, Protocol
from lbhash.data.readers import SUFFIXES, check_embeddings, read_table

DATASETS = {"digits": digits}
"""The data sets that need no file, by name."""


def load_dataset(
    data: str | Path,
    *,
    base: str | Path | None = None,
    query: str | Path | None = None,
    labels: str | Path | None = None,
    protocol: str | None = None,
    seed: int = 0,
    stream: bool = False,
) -> Dataset:
    """Train, base and query of a data set.

    Args:
        data: ``"digits"``; a file (``read_table``); or a folder with the files ``train``, ``base`` and ``query``.
        base: a file of the base rows; ``data`` then holds the training rows alone.
        query: a file of the query rows, together with ``base``.
        labels: an ``.npy`` with the labels of the file ``data``.
        protocol: a name of ``PROTOCOLS``, for one file. Where it is not given, the file's own flags count, and
            ``holdout`` where it has none.
        seed: of the protocol's draw.
        stream: as of ``read_table``.

    Raises:
        ValueError: arguments that do not go together, or what ``read_table`` and ``Dataset`` refuse.
    """
    if protocol is not None and protocol not in PROTOCOLS:
        raise ValueError(f"protocol is {protocol!r}; it must be one of {', '.join(PROTOCOLS)}")
    if (base is None) != (query is None):
        raise ValueError("base and query go together: give both files, or neither")
    folder = Path(data).is_dir()
    if protocol is not None and (base is not None or folder):
        files = f"base is {str(base)!r}" if base is not None else f"data is the folder {str(data)!r}"
        raise ValueError(f"protocol is {protocol!r} and {files}, whose files are the splits; give one of the two")
    if labels is not None and folder:
        raise ValueError(
            f"labels is {str(labels)!r} and data is the folder {str(data)!r}, whose files have labels of their own "
            "(for an .npy, train_labels.npy and so on beside it); give labels with a file only"
        )
    if base is not None and query is not None:
        return _from_tables(
            Path(data).name,
            read_table(data, labels, stream=stream),
            read_table(base, name="base", stream=stream),
            read_table(query, name="query", stream=stream),
        )
    if folder:
        tables = [read_table(_file_in(Path(data), split), name=split, stream=stream) for split in SPLITS]
        return _from_tables(Path(data).name, *tables)
    table = load_table(data, labels, stream=stream)
    if protocol is None and table.flags:
        return _from_flags(table)
    chosen = protocol or ("digits" if data == "digits" else "holdout")
    if table.labels is None:
        raise ValueError(f"data is {str(data)!r}, which has no labels; give them as a column, an array or a file")
    rows = PROTOCOLS[chosen].split(table.labels, seed)
    return Dataset(table.name, chosen, *(_part(table, rows[split]) for split in SPLITS))


def load_table(data: str | Path, labels: str | Path | None = None, *, stream: bool = False) -> Table:
    """All rows of a data set by name or from a file; ``stream`` as of ``read_table``."""
    if str(data) not in DATASETS:
        return read_table(data, labels, stream=stream)
    if labels is not None:
        raise ValueError(f"labels is {str(labels)!r} and data is {str(data)!r}, which has labels of its own; give one")
    return DATASETS[str(data)]()


def _part(table: Table, rows: np.ndarray) -> EmbeddingSplit:
    return EmbeddingSplit(table.embeddings, rows, None if table.labels is None else table.labels[rows])


def _from_flags(table: Table) -> Dataset:
    missing = [split for split in SPLITS if split not in table.flags]
    if missing:
        raise ValueError(
            f"{table.name} has no flag in_{missing[0]}; it must have one for train, base and query, or none"
        )
    for split in ("train", "base"):
        both = table.flags["query"] & table.flags[split]
        if both.any() and table.labels is not None:
            raise ValueError(
                f"in_query and in_{split} of {table.name} are both true in row {np.argmax(both)} ({both.sum()} rows); "
                "a query must be in no other split, or it finds itself"
            )
    return Dataset(table.name, "flags", *(_part(table, np.flatnonzero(table.flags[split])) for split in SPLITS))


def _from_tables(name: str, *tables: Table) -> Dataset:
    parts = [_part(table, np.arange(len(table.embeddings))) for table in tables]
    classes = max((p.labels.shape[1] for p in parts if p.labels is not None and p.labels.ndim == 2), default=0)
    return Dataset(name, "files", *(widened(part, classes) for part in parts))


def widened(part: EmbeddingSplit, classes: int) -> EmbeddingSplit:
    """With at least so many columns of multi-hot labels: a file of lists has as many as its largest label asks for."""
    if part.labels is None or part.labels.ndim == 1 or part.labels.shape[1] >= classes:
        return part
    return replace(part, labels=np.pad(part.labels, ((0, 0), (0, classes - part.labels.shape[1]))))


def _file_in(folder: Path, split: str) -> Path:
    for suffix in SUFFIXES:
        if (folder / f"{split}{suffix}").is_file():
            return folder / f"{split}{suffix}"
    raise ValueError(f"data is {str(folder)!r}, which has no file {split} ({', '.join(SUFFIXES)})")


__all__ = ["DATASETS", "PROTOCOLS", "SPLITS", "Dataset", "EmbeddingSplit", "Protocol", "Table"]
__all__ += ["check_embeddings", "hold_out", "load_dataset", "load_table", "validation_dataset", "widened"]
