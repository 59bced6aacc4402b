"""Open frames, files and folders as tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lbhash.utils.formatting import some_names
from lbhash.utils.memory import check_npz
from lbhash.utils.parquet import check_rows, open_parquet
from lbhash.utils.paths import Unchanged, existing_file, read_npy
from lbhash.utils.reading import reading
from lbhash.utils.table_files import ARROWS, SUFFIXES, TABLES, is_frame, suffix_of, table_files
from lbhash.utils.tables.arrow_files import open_arrow
from lbhash.utils.tables.csv_files import open_csv
from lbhash.utils.tables.json_files import open_json
from lbhash.utils.tables.source import ROWS, Source, of_table, say

_FEW = 128  # rows of a batch whose texts are not dictionaries


def open_table(data: Any, name: str = "data") -> Source:
    """Open a frame, a file, a folder of files that are one table, or a folder that ``datasets`` saved.

    Raises:
        ValueError: the file is missing, damaged or not a table; messages call it ``name``.
    """
    if is_frame(data):
        with reading(name, data):
            is_pandas = hasattr(data, "iloc")  # pandas has row names, which are not a column
            return of_table(pa.Table.from_pandas(data, preserve_index=False) if is_pandas else pa.table(data))
    path = Path(data)
    if (path / "dataset_dict.json").is_file():
        with reading(name, path):
            splits = json.loads((path / "dataset_dict.json").read_text("utf-8"))["splits"]
            splits = [Path(one).name for one in dict.fromkeys(splits)]
        return _folder(path, [replace(_saved(path / one, name), title=one) for one in splits], name)
    if (path / "state.json").is_file():
        return _saved(path, name)
    files = table_files(path) if path.is_dir() else []
    if files:
        beside = [
            one.name for one in sorted(files[0].parent.iterdir()) if one not in files and suffix_of(one) in TABLES
        ]
        if beside := [one for one in beside if one[0] not in "._" and not one.endswith((".json", ".json.gz"))]:
            say(f"{name} is {str(path)!r}: only its {suffix_of(files[0])} files are read, and not {some_names(beside)}")
        return _folder(path, [_file(existing_file(file, name), name) for file in files], name)
    return _file(existing_file(data, name), name)


def _saved(folder: Path, name: str) -> Source:
    """Open one split that ``datasets`` saved."""
    with reading(name, folder):
        listed = json.loads((folder / "state.json").read_text("utf-8"))["_data_files"]
        files = [folder / Path(one).name for one in dict.fromkeys(one["filename"] for one in listed)]
    return _folder(folder, [_file(existing_file(file, name), name) for file in files], name)


def _folder(folder: Path, parts: Sequence[Source], name: str) -> Source:
    if not parts:
        raise ValueError(f"{name} is {str(folder)!r}, which has no part")
    first, *others = parts
    for part in others:
        if set(part.schema.names) != set(first.schema.names):
            said = f"{part.title} of {name} has other columns than {first.title}; they must be one table"
            raise ValueError(f"{said} ({name} is {str(folder)!r})")

    def read(columns: Sequence[str], types: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        for part in parts:
            yield from part.read(columns, types)

    # A column of CSV that is text in one part is text in all.
    fields = [
        max((part.schema.field(one.name) for part in parts), key=lambda field: field.type == pa.string())
        for one in first.schema
    ]
    schema = pa.schema(fields, first.schema.metadata) if first.decimal else first.schema
    rows = [part.rows for part in parts]
    return Source(
        schema,
        read,
        folder.name,
        None if None in rows else sum(filter(None, rows)),
        tuple(parts),
        tuple(file for part in parts for file in part.files),
        decimal=first.decimal,
    )


def _file(file: Path, name: str) -> Source:
    kind, said = suffix_of(file), f"{name} is {str(file)!r}"
    if kind not in SUFFIXES:
        raise ValueError(f"{said}; it must end in {', '.join(SUFFIXES)}")
    unchanged = Unchanged(file, said)
    with reading(name, file):
        if kind == ".parquet":
            source = _parquet(file)
        elif kind in ARROWS:
            source = open_arrow(file, said)
        elif kind in (".npy", ".npz"):
            source = _arrays(file, name)
        elif kind.startswith((".csv", ".tsv")):
            source = open_csv(file, said)
        else:
            source = open_json(file, said)

    def read(columns: Sequence[str], types: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        with reading(name, file), unchanged:
            yield from source.read(columns, types)

    def array(key: str) -> npt.NDArray[Any]:
        assert source.array is not None
        with unchanged:
            return source.array(key)

    return replace(source, read=read, title=file.name, array=array if source.array else None)


def _parquet(file: Path) -> Source:
    with open_parquet(file) as opened:
        schema, rows = opened.schema_arrow, opened.metadata.num_rows

    def read(columns: Sequence[str], types: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        nested = [one for one in columns if pa.types.is_nested(schema.field(one).type)]
        size, done = 2048 if nested or len(columns) > 16 else ROWS, 0
        try:
            with open_parquet(file, columns) as opened:
                for batch in opened.iter_batches(size, columns=list(columns), use_threads=False):
                    yield batch
                    done += len(batch)
        except pa.ArrowNotImplementedError:  # in lists of texts, only some pages are dictionaries
            before, done = done, 0
            with open_parquet(file, [one for one in columns if one not in nested]) as opened:
                for batch in opened.iter_batches(_FEW, columns=list(columns), use_threads=False):
                    yield batch.slice(min(max(0, before - done), len(batch)))
                    done += len(batch)
        check_rows(done, rows)

    return Source(schema, read, rows=rows, files=(file,))


def _arrays(file: Path, name: str) -> Source:
    if suffix_of(file) == ".npy":
        names = ["embedding"]
    else:
        with reading(name, file, foreign=True), np.load(file, allow_pickle=False) as opened:
            names = list(opened.files)

    def array(key: str) -> npt.NDArray[Any]:
        if suffix_of(file) == ".npy":
            return read_npy(file, name)
        check_npz(file, f"{name} is {str(file)!r}, which", [key])
        part = f"array {key!r} of {name}"
        with reading(name, file, foreign=True, what=part), np.load(file, allow_pickle=False) as opened:
            return opened[key]

    def read(columns: Sequence[str], types: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        if columns:
            found = {one: np.atleast_1d(array(one)) for one in columns}
            lengths = {one: len(values) for one, values in found.items()}
            if len(set(lengths.values())) > 1:
                shown = ", ".join(f"{one!r} {length:,}" for one, length in lengths.items())
                raise ValueError(f"the arrays of {name} differ in their rows: {shown}")
            yield pa.record_batch({one: _arrow_of(values) for one, values in found.items()})

    return Source(pa.schema([(one, pa.null()) for one in names]), read, array=array)


def _arrow_of(array: npt.NDArray[Any]) -> pa.Array:
    """Return an array ``[n]`` or ``[n, 1]`` as a column, and ``[n, C]`` as one of lists of a fixed size."""
    if array.ndim == 2 and array.shape[1] != 1:
        return pa.FixedSizeListArray.from_arrays(pa.array(array.ravel()), array.shape[1])
    return pa.array(array.ravel() if array.ndim == 2 else array)
