"""CSV files."""

from __future__ import annotations

import csv
import io
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from lbhash.utils.table_files import suffix_of
from lbhash.utils.tables.source import Read, Source, say
from lbhash.utils.tables.text_files import BLOCK, HEAD, MISSING, opener

_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*|[-+]?(nan|inf|infinity)", re.IGNORECASE)
_COMMA, _POINT = (re.compile(rf"[-+]?\d*{mark}\d+(e[-+]?\d+)?", re.IGNORECASE) for mark in (",", r"\."))
_SEPARATORS = {"\t": "tabs", ";": "';'", "|": "'|'", ",": "','"}
_UNCLOSED = "perhaps by a quote that is not closed"


def open_csv(file: Path, said: str) -> Source:
    """Open a CSV file; its separator, decimal mark and types are guessed from the first hundred rows."""
    import pyarrow.csv as pc

    usual = "\t" if suffix_of(file).startswith(".tsv") else ","
    opened = opener(file, said)
    with opened() as stream:
        head = stream.read(HEAD)
    text = head.decode(errors="ignore")  # a character may be cut
    samples = {one: _sample(text, one, whole=len(head) < HEAD) for one in _SEPARATORS}
    separator = max(samples, key=lambda one: _regularity(samples[one], one))
    names, *rows = samples[separator] or [[]]
    names = [one.strip() for one in names]
    if not any(names):
        raise ValueError(f"{said}, which has no row, or a first line of more than {HEAD:,} bytes")
    if not rows and len(head) == HEAD:  # the first row is cut
        raise ValueError(f"{said}, whose first row is longer than {HEAD:,} bytes, {_UNCLOSED}")
    numbers = [one for one in names if _NUMBER.fullmatch(one) or _COMMA.fullmatch(one)]
    places = ([str(at) for at in range(first, first + len(numbers))] for first in (0, 1))
    if numbers and (len(names) == 1 or numbers not in places):
        raise ValueError(f"{said}, whose first line has the number {numbers[0]} for a name; name all columns there")
    columns = [[row[at] for row in rows if at < len(row)] for at in range(len(names))]
    cells = {cell for column in columns for cell in column}
    comma = separator != "," and any(map(_COMMA.fullmatch, cells)) and not any(map(_POINT.fullmatch, cells))
    schema = pa.schema([(one, _kind(column, comma)) for one, column in zip(names, columns, strict=True)])
    assumed = [f"its columns are separated by {_SEPARATORS[separator]}"] * (separator != usual)
    if assumed := assumed + ["its numbers have a decimal comma"] * comma:
        say(f"{said}: {', '.join(assumed)}")
    blank = len(head[: len(head) - len(head.lstrip(b"\r\n"))].splitlines())

    def read(columns: Sequence[str], types: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        _check_quotes(opened, separator)
        reader = pc.open_csv(
            opened(),
            pc.ReadOptions(
                block_size=BLOCK, column_names=names, skip_rows=blank, skip_rows_after_names=1, use_threads=False
            ),
            pc.ParseOptions(delimiter=separator, newlines_in_values=True),
            pc.ConvertOptions(
                column_types={one: types.get(one, pa.string()) for one in columns},
                include_columns=list(columns),
                decimal_point="," if comma else ".",
                null_values=[
                    *{form(one) for one in MISSING for form in (str.lower, str.upper, str.title)},
                    "NaN",
                    "<NA>",
                ],
            ),
        )
        yield from (batch for batch in reader if len(batch))

    return Source(schema, partial(_rows, read, names), decimal="," if comma else ".")


def _rows(
    read: Read, names: Sequence[str], columns: Sequence[str], types: Mapping[str, Any]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches; errors name the column and count rows without the first line, unlike Arrow's."""
    try:
        yield from read(columns, types)
    except pa.ArrowInvalid as error:
        line = str(error)
        if found := re.search(r"column #(\d+): Row #(\d+): .* to (\w+): invalid value '(.*)'", line, re.DOTALL):
            at, row, kind, cell = found.groups()
            must = "true or false" if kind == "bool" else "a number"
            line = f"column {names[int(at)]!r} is {cell[:40]!r} in row {int(row) - 2}; it must be {must}"
        elif found := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+): (.*)", line, re.DOTALL):
            row, wanted, count, cells = found.groups()
            line = f"row {int(row) - 2} has {count} cells, and the first line names {wanted} columns: {cells[:80]!r}"
            line += f", {_UNCLOSED}" if "\n" in cells else ""
        elif "straddling" in line or "CSV parser got out of sync" in line:
            line = f"a row is longer than {BLOCK:,} bytes, {_UNCLOSED}"
        raise ValueError(line) from None


def _check_quotes(opened: Callable[[], Any], separator: str) -> None:
    """Raise ``ValueError`` if the last row has a quote that is not closed: Arrow takes all that follows as its cell."""
    with opened() as stream:
        if sum(block.count(b'"') for block in iter(partial(stream.read, BLOCK), b"")) % 2 == 0:
            return
    usual = csv.field_size_limit(BLOCK)
    try:
        with opened() as stream, io.TextIOWrapper(stream, "utf-8", "replace", newline="") as text:
            deque(csv.reader(text, delimiter=separator, strict=True), 0)
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise ValueError(f"the last row does not end, {_UNCLOSED}; is the file whole?") from None
    finally:
        csv.field_size_limit(usual)


def _sample(text: str, separator: str, *, whole: bool) -> list[list[str]]:
    """Return the first hundred rows, without one that is cut off."""
    usual = csv.field_size_limit(HEAD)
    try:
        rows = [row for row in islice(csv.reader(io.StringIO(text, newline=""), delimiter=separator), 101) if row]
    finally:
        csv.field_size_limit(usual)
    return rows if whole or len(rows) > 100 else rows[:-1]


def _regularity(rows: list[list[str]], separator: str) -> tuple[int, int]:
    """Return how many rows are as wide as the first, and its width; commas, which may be decimal marks, weigh half."""
    width = len(rows[0]) if rows else 0
    return sum(len(row) == width for row in rows) if width > 1 else 0, (width - 1) * (1 if separator == "," else 2)


def _kind(cells: list[str], comma: bool) -> pa.DataType:
    """Return the type that a column of CSV seems to have."""
    known = [one.replace(",", ".") if comma else one for one in cells if one.strip().lower() not in MISSING]
    if known and all(map(_NUMBER.fullmatch, known)):
        return pa.int64() if all(re.fullmatch(r"\s*[-+]?\d+\s*", one) for one in known) else pa.float64()
    return pa.bool_() if known and {one.lower() for one in known} <= {"true", "false"} else pa.string()
