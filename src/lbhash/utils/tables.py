"""Read any table as an Arrow schema and batches, with bounded memory.

CSV cells stay text, except in columns requested as numbers, and repeated texts stay dictionaries, so that no file takes
much more memory than it stores. Errors are one line (``lbhash.utils.reading``).
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lbhash.utils.files import Unchanged, existing_file, read_npy
from lbhash.utils.formatting import some_names
from lbhash.utils.memory import check_memory, check_npz
from lbhash.utils.parquet import check_rows, open_parquet
from lbhash.utils.reading import reading
from lbhash.utils.table_files import ARROWS, SUFFIXES, TABLES, is_frame, suffix_of, table_files
from lbhash.utils.validation import refusing

NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*|[-+]?(nan|inf|infinity)", re.IGNORECASE)
MISSING = {"", "#n/a", "na", "n/a", "<na>", "nan", "null", "none"}
"""Texts that mean a missing number in a text file, in lower case."""

ROWS = 65536  # rows of a batch without embeddings
BLOCK = 1 << 24  # bytes of text that are parsed at once; the limit for a row
_FEW = 128  # rows of a batch whose texts are not dictionaries
_HEAD = 1 << 20  # bytes from which a text file's form is guessed
_DEEPEST = 64  # levels of lists or objects in JSON
_MOST_WIDE = 1 << 30  # most bytes of a text file that is not UTF-8: it is read at once
_COMMA, _POINT = (re.compile(rf"[-+]?\d*{mark}\d+(e[-+]?\d+)?", re.IGNORECASE) for mark in (",", r"\."))
_SEPARATORS = {"\t": "tabs", ";": "';'", "|": "'|'", ",": "','"}
_UNCLOSED = "perhaps by a quote that is not closed"
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}

Read = Callable[[Sequence[str], Mapping[str, Any]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Source:
    """An open table.

    Attributes:
        schema: schema of the columns; for CSV, guessed from a sample of the rows. Arrays have the type null.
        read: takes column names, and types for some columns if cells are text (the others stay text); yields batches of
            these columns. All errors are one line.
        title: the name of the file or split.
        rows: number of rows, if known before they are read.
        parts: the tables that it consists of, if there are several.
        files: Parquet files, if it consists of nothing else.
        array: returns an array by its name, if the table consists of arrays.
        decimal: the decimal mark, if cells are text; ``lbhash.utils.columns`` then finds their types.
    """

    schema: pa.Schema
    read: Read
    title: str = "data"
    rows: int | None = None
    parts: tuple[Source, ...] = ()
    files: tuple[Path, ...] = ()
    array: Callable[[str], npt.NDArray[Any]] | None = None
    decimal: str = ""


def check_once(schema: pa.Schema, names: Sequence[str], said: str) -> None:
    """Raise ``ValueError``, which begins with ``said``, if a table has one of these columns several times."""
    for one in names:
        if (times := schema.names.count(one)) > 1:
            raise ValueError(f"{said}, which has the column {one!r} {times} times; give each a name of its own")


def open_table(data: Any, name: str = "data") -> Source:
    """Open a frame, a file, a folder of files that are one table, or a folder that ``datasets`` saved.

    Raises:
        ValueError: the file is missing, damaged or not a table; messages call it ``name``.
    """
    if is_frame(data):
        with reading(name, data):
            is_pandas = hasattr(data, "iloc")  # pandas has row names, which are not a column
            return _of_table(pa.Table.from_pandas(data, preserve_index=False) if is_pandas else pa.table(data))
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
            source = _ipc(file, said)
        elif kind in (".npy", ".npz"):
            source = _arrays(file, name)
        elif kind.startswith((".csv", ".tsv")):
            source = _csv(file, said)
        else:
            source = _json(file, said)

    def read(columns: Sequence[str], types: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        with reading(name, file), unchanged:
            yield from source.read(columns, types)

    def array(key: str) -> npt.NDArray[Any]:
        assert source.array is not None
        with unchanged:
            return source.array(key)

    return replace(source, read=read, title=file.name, array=array if source.array else None)


def _of_table(table: pa.Table) -> Source:
    def read(columns: Sequence[str], types: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        yield from table.select(list(columns)).to_batches(ROWS)

    return Source(table.schema, read, rows=len(table))


# ---------------------------------------------------------------------------------------------------- columns


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


def _ipc(file: Path, said: str) -> Source:
    with file.open("rb") as start:
        is_file = start.read(6) == b"ARROW1"  # with a list of its batches at the end; else they come one by one

    def opened(**options: Any) -> Any:  # not mapped: truncating a mapped file ends the process
        return (pa.ipc.open_file if is_file else pa.ipc.open_stream)(pa.OSFile(str(file)), **options)

    def read(columns: Sequence[str], types: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(str(file)) as source:
            for size in _unpacked_sizes(source, is_file):
                check_memory(size, f"{said}, of which a batch")
        chosen = [schema.get_field_index(one) for one in columns]
        reader = opened(options=pa.ipc.IpcReadOptions(included_fields=chosen, use_threads=False))
        for batch in map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader:
            found = batch.select(list(columns))
            found.validate(full=True)
            yield from (found.slice(start, ROWS) for start in range(0, len(found), ROWS))

    schema = opened().schema
    return Source(schema, read)


class _Flat:
    """The FlatBuffers tables in the metadata of Arrow, https://arrow.apache.org/docs/format/Columnar.html."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def get(self, form: str, at: int) -> int:
        """Return a number."""
        return struct.unpack_from(f"<{form}", self.data, at)[0]

    def field(self, table: int, number: int) -> int:
        """Return where a field of a table is, or 0."""
        known = table - self.get("i", table)
        inside = 4 + 2 * number < self.get("H", known)
        place = self.get("H", known + 4 + 2 * number) if inside else 0
        return table + place if place else 0

    def target(self, at: int) -> int:
        """Return the place that an offset points to."""
        return at + self.get("I", at)


def _unpacked_sizes(source: Any, is_file: bool) -> Iterator[int]:
    """Yield the bytes that each dictionary and batch of an Arrow file takes; packed buffers begin with their size."""
    for meta, body in map(partial(_message, source), _listed(source)) if is_file else _in_turn(source):
        kind, header = meta.get("B", meta.field(meta.target(0), 1)), meta.target(meta.field(meta.target(0), 2))
        if kind in (2, 3):  # DictionaryBatch, whose batch is its field 1, or RecordBatch
            batch = header if kind == 3 else meta.target(meta.field(header, 1))
            packed, buffers, total = meta.field(batch, 3), meta.target(meta.field(batch, 2)), 0
            for at in range(buffers + 4, buffers + 4 + 16 * meta.get("I", buffers), 16):
                start, length = meta.get("q", at), meta.get("q", at + 8)
                stated = struct.unpack("<q", source.read_at(8, body + start))[0] if packed and length else -1
                total += length if stated == -1 else stated
            yield total


def _listed(source: Any) -> Iterator[int]:
    """Yield where the messages are that the footer of an Arrow file lists: its dictionaries and batches."""
    end = source.size() - 10
    (size,) = struct.unpack("<i", source.read_at(4, end))
    footer = _Flat(source.read_at(size, end - size))
    for number in (2, 3):  # of Footer: dictionaries, recordBatches
        if place := footer.field(footer.target(0), number):
            blocks = footer.target(place)
            for at in range(blocks + 4, blocks + 4 + 24 * footer.get("I", blocks), 24):
                yield footer.get("q", at)


def _in_turn(source: Any) -> Iterator[tuple[_Flat, int]]:
    """Yield ``_message`` for each message of an Arrow stream, which a length of 0, or the end of the file, ends."""
    at = 0
    while len(head := source.read_at(8, at)) == 8 and head[4:] != bytes(4):
        meta, body = _message(source, at)
        yield meta, body
        length = meta.field(meta.target(0), 3)  # of Message: bodyLength
        at = body + (max(0, meta.get("q", length)) if length else 0)


def _message(source: Any, at: int) -> tuple[_Flat, int]:
    """Return the metadata of the Arrow message at a place, and the place of its body."""
    mark, size = struct.unpack("<Ii", source.read_at(8, at))
    start = at + 8
    if mark != 0xFFFFFFFF:  # before Arrow 0.15
        size, start = mark, at + 4
    return _Flat(source.read_at(min(size, source.size()), start)), start + size


# ----------------------------------------------------------------------------------------------------- arrays


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
            yield pa.record_batch({one: arrow_of(values) for one, values in found.items()})

    return Source(pa.schema([(one, pa.null()) for one in names]), read, array=array)


def arrow_of(array: npt.NDArray[Any]) -> pa.Array:
    """Return an array ``[n]`` or ``[n, 1]`` as a column, and ``[n, C]`` as one of lists of a fixed size."""
    if array.ndim == 2 and array.shape[1] != 1:
        return pa.FixedSizeListArray.from_arrays(pa.array(array.ravel()), array.shape[1])
    return pa.array(array.ravel() if array.ndim == 2 else array)


# ------------------------------------------------------------------------------------------------------- text


@cache  # a file may be read several times
def say(line: str) -> None:
    """Print a line on standard error, once."""
    print(line, file=sys.stderr)


def _encoding(file: Path) -> tuple[str, int]:
    """Return the encoding of a text file and the length of its mark; latin-1 if it has no mark and is not UTF-8."""
    with _unpacked_bytes(file) as stream:
        start = stream.read(1024)
        for mark, code in _MARKS.items():
            if start.startswith(mark):
                return code, len(mark)
        if start.count(0) > len(start) // 4:
            return "utf-16-be" if start[0] == 0 else "utf-16-le", 0
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            decoder.decode(start)
            while block := stream.read(BLOCK):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "latin-1", 0
    return "utf-8", 0


def _unpacked_bytes(file: Path) -> Any:
    return pa.input_stream(str(file), compression="gzip" if file.suffix.lower() == ".gz" else None)


def _opener(file: Path, said: str) -> Callable[[], Any]:
    """Return a function that opens a text file as a UTF-8 stream, unpacked and without a mark."""
    code, mark = _encoding(file)

    def opened() -> Any:
        stream = _unpacked_bytes(file)
        stream.read(mark)
        if code == "utf-8":
            return stream
        # Not pa.transcoding_input_stream: the process aborted in it a few times.
        whole = stream.read(_MOST_WIDE + 1)
        if len(whole) > _MOST_WIDE:
            raise ValueError(f"{said}, which is {code} and larger than {_MOST_WIDE:,} bytes; save it as UTF-8")
        return pa.BufferReader(whole.decode(code).encode())

    if code != "utf-8":
        say(f"{said}: it is not UTF-8 and read as {code} (save it as UTF-8 if a name looks wrong)")
    return opened


def _csv(file: Path, said: str) -> Source:
    """Open a CSV file; its separator, decimal mark and types are guessed from the first hundred rows."""
    import pyarrow.csv as pc

    usual = "\t" if suffix_of(file).startswith(".tsv") else ","
    opened = _opener(file, said)
    with opened() as stream:
        head = stream.read(_HEAD)
    text = head.decode(errors="ignore")  # a character may be cut
    samples = {one: _sample(text, one, whole=len(head) < _HEAD) for one in _SEPARATORS}
    separator = max(samples, key=lambda one: _regularity(samples[one], one))
    names, *rows = samples[separator] or [[]]
    names = [one.strip() for one in names]
    if not any(names):
        raise ValueError(f"{said}, which has no row, or a first line of more than {_HEAD:,} bytes")
    if not rows and len(head) == _HEAD:  # the first row is cut
        raise ValueError(f"{said}, whose first row is longer than {_HEAD:,} bytes, {_UNCLOSED}")
    numbers = [one for one in names if NUMBER.fullmatch(one) or _COMMA.fullmatch(one)]
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

    return Source(schema, partial(_csv_rows, read, names), decimal="," if comma else ".")


def _csv_rows(
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


def _sample(text: str, separator: str, *, whole: bool) -> list[list[str]]:
    """Return the first hundred rows, without one that is cut off."""
    usual = csv.field_size_limit(_HEAD)
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
    if known and all(map(NUMBER.fullmatch, known)):
        return pa.int64() if all(re.fullmatch(r"\s*[-+]?\d+\s*", one) for one in known) else pa.float64()
    return pa.bool_() if known and {one.lower() for one in known} <= {"true", "false"} else pa.string()


def _json(file: Path, said: str) -> Source:
    """Open JSON: a list of objects, or one a line."""
    opened = _opener(file, said)
    with opened() as stream:
        if stream.read(_HEAD).lstrip().startswith(b"["):
            return _json_list(opened, said)
    kinds: dict[str, pa.DataType] = {}
    for table in _json_tables(opened):
        for one in table.schema:  # a later row may have more columns, or fractions
            known = kinds.get(one.name, pa.null())
            if pa.types.is_null(known) or (pa.types.is_integer(known) and pa.types.is_floating(one.type)):
                kinds[one.name] = one.type
    if not kinds:
        raise ValueError(f"{said}, which has no row")

    def read(columns: Sequence[str], types: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        for table in _json_tables(opened, columns):
            absent = [one for one in columns if one not in table.column_names]
            for one in absent:
                table = table.append_column(one, pa.nulls(len(table)))
            yield from table.select(list(columns)).to_batches(ROWS)

    return Source(pa.schema(list(kinds.items())), read)


def _json_list(opened: Callable[[], Any], said: str) -> Source:
    with opened() as stream:
        text = stream.read()
    _check_depth(text.replace(b"\n", b" "), 0)
    try:
        rows = json.loads(text)
        names = dict.fromkeys(name for row in rows for name in dict(row))
        values = {name: [row.get(name) for row in rows] for name in names}
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{said}, which is not a list of JSON objects: {error}") from None
    columns = {}
    for name, given in values.items():
        must = f"{said}, whose column {name!r} must hold values of one type, integers of 64 bits"
        with refusing(must, pa.ArrowException, OverflowError, TypeError):
            columns[name] = pa.array(given)
    return _of_table(pa.table(columns))


def _json_tables(opened: Callable[[], Any], exact: Sequence[str] = ()) -> Iterator[pa.Table]:
    """Yield JSON lines in tables, each with its own types; columns in ``exact`` must keep their integers."""
    start, rest = 0, b""
    with opened() as stream:
        while block := stream.read(BLOCK):
            cut = block.rfind(b"\n") + 1
            lines, rest = (rest + block[:cut], block[cut:]) if cut else (b"", rest + block)
            if len(rest) > BLOCK:
                raise ValueError(f"a row is longer than {BLOCK:,} bytes")
            if lines.strip():
                yield (table := _json_table(lines, start, exact))
                start += len(table)
    if rest.strip():
        yield _json_table(rest, start, exact)


def _json_table(lines: bytes, start: int, exact: Sequence[str]) -> pa.Table:
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
