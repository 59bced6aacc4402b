"""Tables of Arrow, from Parquet and other files: their parts, labels, splits and columns of numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.data.dataset import SPLITS
from lbhash.utils.labels import read_labels
from lbhash.utils.memory import check_memory, check_parquet
from lbhash.utils.parquet import CHECKED
from lbhash.utils.tables import TEXTS, read_arrow, read_text, suffix_of

FLAGS = {f"in_{split}": split for split in SPLITS}  # the columns or arrays that say which rows are in a split
TEST_NAMES = ("test", "val", "validation")  # of the published set that is not for training


def first_null(column: Any) -> int:
    """Return the first row that is null."""
    return column.is_null().index(True).as_py()


def content(kind: Any) -> str:
    """Return what a column of an Arrow type holds: lists, text, numbers, or "" for anything else."""
    from pyarrow import types

    known = {
        "lists": (types.is_list, types.is_large_list, types.is_fixed_size_list),
        "text": (types.is_string, types.is_large_string),
        "numbers": (types.is_integer, types.is_floating),
    }
    return next((content for content, tests in known.items() if any(test(kind) for test in tests)), "")


def parquet_files(path: Path) -> list[Path]:
    """Return a Parquet file, or those of a folder or of its folder ``data`` by their names; none of any other path."""
    if path.is_dir():
        return sorted(path.glob("*.parquet")) or sorted((path / "data").glob("*.parquet"))
    return [path] if path.suffix == ".parquet" else []


def read_parts(files: Sequence[Path], columns: Sequence[str], said: str) -> list[Any]:
    """Return columns of Parquet files, a table each; errors of memory begin with ``said``, and others are Arrow's."""
    import pyarrow.parquet as pq

    for file in files:
        check_parquet(file, f"{said}, whose columns {', '.join(columns)}", columns)
    return [pq.read_table(file, columns=columns, partitioning=None, **CHECKED) for file in files]


def read_facts(
    table: Any, label: str | None, masks: dict[str, npt.NDArray], name: str, *, metadata: Any
) -> tuple[npt.NDArray | None, Sequence[Any], dict[str, Any]]:
    """Return the labels of a table of Arrow, their classes, and the arguments of ``Table`` for the splits.

    ``masks`` (of ``split_masks``) count if the table has no column of ``FLAGS``; ``metadata`` are the schema's.
    """
    labels: npt.NDArray | None = None
    names: Sequence[Any] = ()
    if label is not None:
        read = read_labels(table[label], f"column {label!r} of {name}", _class_names(metadata, label))
        labels, names = read.numbers, read.classes
    flags = {split: table[flag].to_numpy() for flag, split in FLAGS.items() if flag in table.schema.names}
    check_flags(flags, len(table), name)
    masks = flags or masks
    if "test" in masks:
        return labels, names, {"test_rows": masks["test"], "protocol": "official"}
    return labels, names, {"flags": masks}


def split_masks(heads: Sequence[str], lengths: Sequence[int]) -> dict[str, npt.NDArray[np.bool_]]:
    """Return which rows of parts with these names and lengths are in which split, or in the published test set.

    The names must be those of all three splits, or ``train`` and some of ``TEST_NAMES``; else nothing is returned.
    """
    heads = ["test" if head in TEST_NAMES else head for head in heads]
    if set(heads) not in (set(SPLITS), {"train", "test"}):
        return {}
    return {name: np.repeat([head == name for head in heads], lengths) for name in set(heads)}


def read_whole(file: Path, said: str) -> tuple[Any, dict[str, npt.NDArray[np.bool_]]]:
    """Return a table that is not Parquet, and which rows are in which split, if a folder of ``datasets`` says so."""
    import pyarrow as pa

    if (file / "dataset_dict.json").is_file():
        splits = json.loads((file / "dataset_dict.json").read_text(encoding="utf-8"))["splits"]
        tables = [read_whole(file / Path(split).name, said)[0] for split in splits]
        return pa.concat_tables(tables, promote_options="permissive"), split_masks(splits, list(map(len, tables)))
    if (file / "state.json").is_file():
        parts = json.loads((file / "state.json").read_text(encoding="utf-8"))["_data_files"]
        return pa.concat_tables([read_whole(file / Path(part["filename"]).name, said)[0] for part in parts]), {}
    check_memory(file.stat().st_size, f"{said}, which")
    return (read_text(file, said) if suffix_of(file) in TEXTS else read_arrow(file)), {}


def check_flags(flags: dict[str, npt.NDArray], rows: int, name: str) -> None:
    """Raise ``ValueError`` unless every flag is a boolean for each row."""
    for split, flag in flags.items():
        if flag.dtype != bool or flag.shape != (rows,):
            said = f"in_{split} of {name} is {flag.dtype} {list(flag.shape)}"
            raise ValueError(f"{said}; it must be a boolean for each row")


def first_of(names: Iterable[str], present: Iterable[str]) -> str | None:
    """Return the first name that is present; ``None`` if none is."""
    return next((name for name in names if name in present), None)


def _class_names(metadata: Any, label: str | None) -> tuple[str, ...]:
    """Return the names of the classes that ``datasets`` left in the metadata of a schema."""
    try:
        feature = json.loads((metadata or {})[b"huggingface"])["info"]["features"][label]
        return tuple(map(str, feature.get("names") or feature["feature"]["names"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        return ()


def list_numbers(column: Any, rows: npt.NDArray[np.int64], dim: int | None, said: str) -> npt.NDArray:
    """Return some rows of a column of embeddings, ``[m, dim]``; if ``dim`` is None, it is the first row's length."""
    if column.null_count:
        raise ValueError(f"{said} is missing in row {rows[first_null(column)]}, where it is null")
    if content(column.type) != "lists":
        raise TypeError(f"{said} holds {column.type}; it must hold lists of numbers")
    values, lengths = column.flatten(), column.value_lengths().to_numpy()
    dim = int(lengths[0]) if dim is None else dim
    if (lengths != dim).any():
        at = np.argmax(lengths != dim)
        numbers = f"{lengths[at]} numbers in row {rows[at]}"
        raise ValueError(f"{said} has {numbers}; all rows must have as many as the first ({dim})")
    if values.null_count:
        raise ValueError(f"{said} has a missing number in row {rows[first_null(values) // dim]}")
    found = values.to_numpy(zero_copy_only=False)
    if found.dtype.kind not in "uif":
        raise TypeError(f"{said} holds {column.type}; it must hold lists of numbers")
    return found.reshape(len(column), dim)
