"""Columns of tables, read batch by batch, with one type each and repeated texts held once."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lbhash.utils.formatting import some_names
from lbhash.utils.paths import read_npy
from lbhash.utils.reading import reading
from lbhash.utils.table_files import suffix_of
from lbhash.utils.tables import MISSING, Source, check_once, open_table
from lbhash.utils.validation import did_you_mean, refusing

LABELS = ("label", "labels", "category", "class", "target", "y")
"""Usual names of the label column; the first that exists is taken."""

_LONGEST = 1 << 16  # most bytes of a label
_FORMS: tuple[tuple[re.Pattern[str], Callable[[str], Any]], ...] = (
    (re.compile(r"[-+]?(0|[1-9]\d{0,18})"), int),
    (re.compile(r"[-+]?(0|[1-9]\d{0,17}|\d*\.\d+|\d+\.)(e[-+]\d+)?"), float),  # 1e5 may be a name
    (re.compile("true|false"), "true".__eq__),
)


_DATE = r"\d{4}-\d{2}-\d{2}"
_DATES = {_DATE: pa.date32(), rf"{_DATE}[ T]\d{{2}}:\d{{2}}(:\d{{2}})?": pa.timestamp("s")}


def content(kind: pa.DataType) -> str:
    """Return a word for a column of an Arrow type: lists, text, bytes, whole, numbers, Booleans, or "" for others."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return content(kind.storage_type)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return content(kind.value_type)
    known = {
        "text": (types.is_string, types.is_large_string, types.is_string_view),
        "bytes": (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary),
        "whole": (types.is_integer,),
        "numbers": (types.is_floating, types.is_decimal),
        "Booleans": (types.is_boolean,),
        "lists": (
            types.is_list,
            types.is_large_list,
            types.is_fixed_size_list,
            types.is_list_view,
            types.is_large_list_view,
        ),
    }
    return next((what for what, tests in known.items() if any(test(kind) for test in tests)), "")


def can_be_labels(kind: pa.DataType) -> bool:
    """Return whether a column may hold labels; only the values show whether numbers are whole."""
    inner = content(kind.value_type) if content(kind) == "lists" and hasattr(kind, "value_type") else content(kind)
    return inner in ("text", "whole", "Booleans") or (inner in ("bytes", "numbers") and content(kind) != "lists")


def plain(array: pa.Array) -> pa.Array:
    """Return an array without its extension type, and runs of equal values as a dictionary."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if not pa.types.is_run_end_encoded(array.type):
        return array
    values = array.values.dictionary_encode() if not pa.types.is_dictionary(array.values.type) else array.values
    rows = np.arange(array.offset, array.offset + len(array))
    at = np.searchsorted(np.asarray(array.run_ends), rows, side="right")
    return pa.DictionaryArray.from_arrays(values.indices.take(pa.array(at)), values.dictionary)


def compact(array: pa.Array) -> pa.Array:
    """Return texts, also in lists, as a dictionary of those that occur; return other values without a dictionary."""
    array = plain(array)
    kind = content(array.type)
    if kind == "lists":
        if pa.types.is_fixed_size_list(array.type) and content(array.type.value_type) != "text":
            return array
        lengths = np.asarray(array.value_lengths().fill_null(0))
        ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        return pa.ListArray.from_arrays(ends, compact(array.flatten()), mask=array.is_null())
    if kind not in ("text", "bytes"):
        return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    values = coded.dictionary.cast(pa.string() if kind == "text" else pa.binary())
    used = pc.unique(coded.indices.drop_null())
    used = used.filter(values.take(used).is_valid())
    return pa.DictionaryArray.from_arrays(pc.index_in(coded.indices, used), values.take(used))


def joined(chunks: Iterable[pa.Array], name: str) -> pa.ChunkedArray:
    """Return the chunks of a column in one type; ``TypeError`` if they are of several kinds."""
    chunks = list(chunks)
    kinds = list(
        dict.fromkeys(one.type for one in chunks if not pa.types.is_null(one.type) and one.null_count < len(one))
    )
    if not kinds:
        return pa.chunked_array(chunks or [pa.nulls(0)])
    try:
        fields = [pa.schema([("", one)]) for one in kinds]
        kind = pa.unify_schemas(fields, promote_options="permissive").field(0).type
    except pa.ArrowException:
        both = ", ".join(sorted(map(str, kinds)))
        raise TypeError(f"{name} holds values of several kinds ({both}); give all as text, or all as numbers") from None
    with refusing(f"{name} holds fractions, and integers that they would change; give all as text", pa.ArrowException):
        alike = [
            one if one.type == kind else pa.nulls(len(one), kind) if one.null_count == len(one) else one.cast(kind)
            for one in chunks
        ]
    return pa.chunked_array(alike, kind)


def read_columns(source: Source, names: Sequence[str], label: str | None = None) -> Columns:
    """Return some columns of a table; ``label`` names the label column, if any."""
    columns = Columns(source, names, label)
    for batch in source.read(names, {}):
        columns.add(batch)
    return columns


class Columns:
    """Columns that are collected batch by batch."""

    def __init__(self, source: Source, names: Sequence[str], label: str | None = None) -> None:
        self.source, self.label, self.rows = source, label, 0
        self._chunks: dict[str, list[pa.Array]] = {name: [] for name in names}

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch; its other columns are ignored."""
        for name, chunks in self._chunks.items():
            chunk = compact(batch[name])
            if name == self.label and pa.types.is_dictionary(chunk.type) and len(chunk.dictionary):
                longest = pc.max(pc.binary_length(chunk.dictionary)).as_py()
                if longest > _LONGEST:
                    said = f"column {name!r} has a label of {longest:,} bytes near row {self.rows}"
                    raise ValueError(f"{said}, perhaps by a quote that is not closed; it may have {_LONGEST:,}")
            chunks.append(chunk)
        self.rows += len(batch)

    def texts(self, name: str) -> pa.DictionaryArray:
        """Return a column as texts, even if they look like numbers; empty texts become null."""
        return without_empty(compact(joined(self._chunks[name], f"column {name!r}").combine_chunks()))

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        column = joined(self._chunks[name], f"column {name!r}")
        mark = self.source.decimal
        if not mark or not pa.types.is_dictionary(column.type):
            return column
        lists = as_lists(column) if name == self.label else None
        return typed(column, mark) if lists is None else lists


def as_lists(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return a CSV column of lists of labels, written as in JSON or in Python; None if a cell is no such list."""
    coded = column.combine_chunks()
    held = [one.strip() for one in coded.dictionary.to_pylist()]
    if not any(held) or any(one and one[0] + one[-1] != "[]" for one in held):
        return None
    try:
        lists = pa.array([ast.literal_eval(one or "[]") for one in [*held, ""]])
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError, pa.ArrowException):  # names, such as [UNK]
        return None
    return pa.chunked_array([lists.take(coded.indices.fill_null(len(held)))])  # no cell: no label


def typed(column: pa.ChunkedArray, decimal: str) -> pa.ChunkedArray:
    """Return a CSV column of texts as numbers or Booleans, unless two texts would become one value.

    A column with a fraction is always converted. Numbers with leading zeros, integers beyond int64, and forms such as
    ``1e5`` stay text. Empty texts become null.
    """
    coded = column.combine_chunks()
    held = coded.dictionary.to_pylist()
    texts = [one.strip().lower().replace(decimal, ".") for one in held]
    known = [one for one in texts if one not in MISSING]
    if not known:
        return pa.chunked_array([pa.nulls(len(coded))])
    read = next((read for form, read in _FORMS if known and all(map(form.fullmatch, known))), None)
    values = [] if read is None else [None if one in MISSING else read(one) for one in texts]
    present = {one for one in values if one is not None}
    small = all(isinstance(one, float) or -(2**63) <= one < 2**63 for one in present)
    if small and (len(present) == len(known) > 0 or any(one % 1 for one in present)):
        return pa.chunked_array([pa.array(values).take(coded.indices)])
    return pa.chunked_array([without_empty(coded)])


def without_empty(coded: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return texts with null for empty and blank ones."""
    empty = pc.indices_nonzero(pc.equal(pc.utf8_trim_whitespace(coded.dictionary), ""))
    if not len(empty):
        return coded
    indices = pc.if_else(pc.is_in(coded.indices, empty.cast(coded.indices.type)), None, coded.indices)
    return pa.DictionaryArray.from_arrays(indices, coded.dictionary)


def with_dates(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of texts as dates, or as times without a zone, if all are written as in ISO 8601."""
    if not pa.types.is_dictionary(column.type) or not len(known := _distinct(column)):
        return column
    for form, kind in _DATES.items():
        if pc.all(pc.match_substring_regex(known, f"^{form}$")).as_py():
            try:
                return column.cast(pa.string()).cast(kind)
            except pa.ArrowInvalid:  # as 2026-02-30
                break
    return column


def _distinct(column: pa.ChunkedArray) -> pa.Array:
    return pc.unique(column.cast(column.type.value_type)).drop_null()


def read_label_file(path: str | Path, name: str, column: str | None = None) -> Any:
    """Return the labels of a file as an array or an Arrow column; messages call the argument ``name``.

    A table has them in ``column``; if None, in the first of ``LABELS`` that exists, or in its only column.
    """
    if suffix_of(path) == ".npy":
        return read_npy(path, name)
    source = open_table(path, name)
    said, names = f"{name} is {str(path)!r}", source.schema.names
    if column is not None and column not in names:
        hint = did_you_mean(column, names)
        raise ValueError(f"label_column is {column!r}, and {said}, which has {some_names(names)}{hint}")
    chosen = column or next((one for one in LABELS if one in names), names[0] if len(names) == 1 else None)
    if chosen is None:
        raise ValueError(f"{said}, which has no column 'label' (it has {some_names(names)}); name it by label_column")
    check_once(source.schema, [chosen], said)
    with reading(name, path):
        return read_columns(source, [chosen], chosen)[chosen]
