"""JSON files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lbhash.utils.tables.source import ROWS, Source, of_table
from lbhash.utils.tables.text_files import BLOCK, HEAD, opener
from lbhash.utils.validation import refusing

_DEEPEST = 64  # levels of lists or objects in JSON


def open_json(file: Path, said: str) -> Source:
    """Open a JSON file: a list of objects, or one a line."""
    opened = opener(file, said)
    with opened() as stream:
        if stream.read(HEAD).lstrip().startswith(b"["):
            return _list(opened, said)
    kinds: dict[str, pa.DataType] = {}
    for table in _tables(opened):
        for one in table.schema:  # a later row may have more columns, or fractions
            known = kinds.get(one.name, pa.null())
            if pa.types.is_null(known) or (pa.types.is_integer(known) and pa.types.is_floating(one.type)):
                kinds[one.name] = one.type
    if not kinds:
        raise ValueError(f"{said}, which has no row")

    def read(columns: Sequence[str], types: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        for table in _tables(opened, columns):
            absent = [one for one in columns if one not in table.column_names]
            for one in absent:
                table = table.append_column(one, pa.nulls(len(table)))
            yield from table.select(list(columns)).to_batches(ROWS)

    return Source(pa.schema(list(kinds.items())), read)


def _list(opened: Callable[[], Any], said: str) -> Source:
    with opened() as stream:
        text = stream.read()
    _check_depth(text.replace(b"\n", b" "), 0)
    try:
        rows = json.loads(text)
        names = dict.fromkeys(name for row in rows for name in dict(row))
        values = {name: [row.get(name) for row in rows] for name in names}
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{said}, which is not a list of JSON objects: {error}") from None
    if not rows:
        raise ValueError(f"{said}, which has no row")
    columns = {}
    for name, given in values.items():
        must = f"{said}, whose column {name!r} must hold values of one type, integers of 64 bits"
        with refusing(must, pa.ArrowException, OverflowError, TypeError):
            columns[name] = pa.array(given)
    return of_table(pa.table(columns))


def _tables(opened: Callable[[], Any], exact: Sequence[str] = ()) -> Iterator[pa.Table]:
    """Yield JSON lines in tables, each with its own types; columns in ``exact`` must keep their integers."""
    start, rest = 0, b""
    with opened() as stream:
        while block := stream.read(BLOCK):
            cut = block.rfind(b"\n") + 1
            lines, rest = (rest + block[:cut], block[cut:]) if cut else (b"", rest + block)
            if len(rest) > BLOCK:
                raise ValueError(f"a row is longer than {BLOCK:,} bytes")
            if lines.strip():
                yield (table := _table(lines, start, exact))
                start += len(table)
    if rest.strip():
        yield _table(rest, start, exact)


def _table(lines: bytes, start: int, exact: Sequence[str]) -> pa.Table:
    import pyarrow.json as pj

    _check_depth(lines, start)
    reading_of = pj.ReadOptions(block_size=2 * BLOCK, use_threads=False)
    try:
        table = pj.read_json(pa.BufferReader(lines), reading_of)
        if dates := [(one.name, _as_text(one.type)) for one in table.schema if _as_text(one.type) != one.type]:
            table = pj.read_json(pa.BufferReader(lines), reading_of, pj.ParseOptions(explicit_schema=pa.schema(dates)))
    except pa.ArrowInvalid as error:
        raise ValueError(re.sub(r"in row (\d+)", lambda row: f"in row {start + int(row[1])}", str(error))) from None
    _check_integers(table.select([name for name in table.column_names if name in exact]), lines, start)
    return table


def _check_integers(table: pa.Table, lines: bytes, start: int) -> None:
    """Raise ``ValueError`` if Arrow made an integer another number, which stands by fractions or is of over 64 bits."""
    import pyarrow.compute as pc

    wide = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        values = pc.list_flatten(column) if pa.types.is_list(column.type) else column
        if pa.types.is_floating(values.type) and (pc.max(pc.abs(values)).as_py() or 0) >= 2**53:
            wide.append(name)
    for row, line in enumerate(filter(bytes.strip, lines.split(b"\n") if wide else ()), start):
        given = json.loads(line)
        for name in wide:
            for one in given[name] if isinstance(given.get(name), list) else [given.get(name)]:
                if type(one) is int and (one.bit_length() > 1023 or Decimal(repr(float(one))) != one):
                    said = f"column {name!r} is {one} in row {row}, which a column of fractions would change"
                    raise ValueError(f"{said}; write it as a text")


def _as_text(kind: pa.DataType) -> pa.DataType:
    """Return a type with text in place of times: Arrow reads some texts as times, and two texts may be one time."""
    if pa.types.is_list(kind):
        return pa.list_(_as_text(kind.value_type))
    return pa.string() if pa.types.is_timestamp(kind) else kind


def _check_depth(text: bytes, start: int) -> None:
    """Raise ``ValueError`` if a line nests so deep that Arrow's parser would crash; the first line is row ``start``."""
    data = np.frombuffer(text, np.uint8)
    opens = np.flatnonzero((data == ord("[")) | (data == ord("{")))
    ends = np.append(np.flatnonzero(data == ord("\n")), len(data))
    counts = np.bincount(np.searchsorted(ends, opens), minlength=len(ends))
    for line in np.flatnonzero(counts > _DEEPEST).tolist():  # only these can be too deep
        begin = int(ends[line - 1]) + 1 if line else 0
        marks = re.sub(rb'"(?:[^"\\]|\\.)*"|[^][{}"]+', b"", text[begin : ends[line]])
        steps = np.where(np.isin(np.frombuffer(marks, np.uint8), (ord("["), ord("{"))), 1, -1)
        if np.cumsum(steps).max(initial=0) > _DEEPEST:
            raise ValueError(f"row {start + line} has lists or objects more than {_DEEPEST} deep in each other")
