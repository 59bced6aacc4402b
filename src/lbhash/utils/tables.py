"""Tables of Arrow from files as people have them (CSV with any separator, JSON, compressed), and from frames."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from lbhash.utils.formatting import one_line

_CSV, _JSON = (".csv", ".tsv"), (".json", ".jsonl", ".ndjson")
TEXTS = tuple(f"{suffix}{packed}" for packed in ("", ".gz") for suffix in (*_CSV, *_JSON))
ARROWS = (".arrow", ".feather")
_SEPARATORS = {"\t": "tabs", ";": "';'", "|": "'|'", ",": "','"}
_NUMBER = re.compile(r"[-+]?\d*\.\d+(e[-+]?\d+)?")
_COMMA = re.compile(r"[-+]?\d*,\d+(e[-+]?\d+)?")
_CODES = {"int64": r"^[-+]?0\d+$", "double": r"^[-+]?(0\d+|\d{16,})$"}  # as numbers they lose zeros, or last digits
_HEAD = 1 << 16  # bytes that are looked at


def suffix_of(path: str | Path) -> str:
    """Return the suffix of a file's name in lower case, with the one before ``.gz``.

    >>> suffix_of("rows.CSV.gz")
    '.csv.gz'
    """
    suffixes = [one.lower() for one in Path(path).suffixes]
    return "".join(suffixes[-2:] if suffixes[-1:] == [".gz"] else suffixes[-1:])


def read_text(file: Path, said: str) -> Any:
    """Return a CSV or JSON file as a table of Arrow, with its rows in their order.

    The separator is that of the first line, and a decimal comma is found in the second. JSON is a list of objects, or
    one a line. What is unusual is said on standard error after ``said``. An error is a ``ValueError`` or Arrow's.
    """
    import pyarrow as pa
    import pyarrow.json

    with pa.input_stream(str(file), compression="detect") as opened:
        head = opened.read(_HEAD)
    if suffix_of(file).removesuffix(".gz") in _CSV:
        return _read_csv(file, said, head)
    with pa.input_stream(str(file), compression="detect") as opened:
        if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
            table = pa.json.read_json(opened, pa.json.ReadOptions(block_size=1 << 26))
            try:
                table.validate(full=True)
            except pa.ArrowInvalid:
                raise ValueError(f"{said}, which is not UTF-8 (perhaps latin-1); save it as UTF-8") from None
            return table
        try:
            rows = json.loads(opened.read().decode("utf-8-sig"))
            names = dict.fromkeys(name for row in rows for name in row)
            return pa.table({name: [row.get(name) for row in rows] for name in names})
        except (ValueError, AttributeError, TypeError) as error:
            raise ValueError(f"{said}, which is no list of JSON objects: {error}") from None


def _read_csv(file: Path, said: str, head: bytes) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv

    encoding = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf8"
    lines = head.decode(encoding, errors="replace").splitlines()[:2] or [""]
    usual = "\t" if suffix_of(file).startswith(".tsv") else ","
    first, second = (re.sub(r'"[^"]*"', "", line) for line in (lines[0], lines[-1]))
    # Beside another separator in both lines, commas are of decimals.
    regular = [
        one for one in _SEPARATORS if one != "," and first.count(",") / 2 <= first.count(one) == second.count(one)
    ]
    separator = max([one for one in regular if one in first] or [usual, *_SEPARATORS], key=first.count)
    cells = second.split(separator)
    decimal = "," if separator != "," and any(map(_COMMA.fullmatch, cells)) else "."

    def read(encoding: str, **options: Any) -> Any:
        with pa.input_stream(str(file), compression="detect") as opened:
            return pa.csv.read_csv(
                opened,
                pa.csv.ReadOptions(encoding=encoding),
                pa.csv.ParseOptions(delimiter=separator, newlines_in_values=True),
                pa.csv.ConvertOptions(decimal_point=decimal, **options),
            )

    try:
        table = read(encoding)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        if encoding != "utf8" or not re.search("utf-?8", str(error), re.IGNORECASE):
            raise
        encoding, table = "latin-1", read("latin1")
    # Binary is a column with what is not UTF-8.
    if encoding == "utf8" and any(pa.types.is_binary(kind) for kind in table.schema.types):
        encoding, table = "latin-1", read("latin1")
    if wrong := [one for one in table.column_names if _NUMBER.fullmatch(one) or _COMMA.fullmatch(one)]:
        raise ValueError(f"{said}, whose first line has the number {wrong[0]} for a name; name all columns there")
    words = {name: name.rstrip("0123456789") for name in table.column_names}
    # Most columns of one word and a number: an embedding, whose numbers may have any width.
    embedding, count = Counter(words.values()).most_common(1)[0]
    numbers = {one.name: str(one.type) for one in table.schema if count == 1 or words[one.name] != embedding}
    if numbers := {name: kind for name, kind in numbers.items() if kind in _CODES}:
        as_text = dict.fromkeys(numbers, pa.string())
        texts = read(encoding, include_columns=list(numbers), column_types=as_text, strings_can_be_null=True)
        for name, kind in numbers.items():
            if pc.any(pc.match_substring_regex(texts[name], _CODES[kind])).as_py():
                table = table.set_column(table.column_names.index(name), name, texts[name])
    assumed = [f"its columns are separated by {_SEPARATORS[separator]}"] if separator != usual else []
    assumed += ["its numbers have a decimal comma"] if decimal == "," else []
    assumed += ["it is read as UTF-16"] if encoding == "utf-16" else []
    if encoding == "latin-1":
        assumed.append("it is not UTF-8 and read as latin-1 (save it as UTF-8 if a name looks wrong)")
    if assumed:
        _say(f"{said}: {', '.join(assumed)}")
    return table


@cache  # a file may be read several times
def _say(line: str) -> None:
    print(line, file=sys.stderr)


def read_arrow(file: Path) -> Any:
    """Return an Arrow or Feather file as a table; errors are Arrow's."""
    import pyarrow as pa

    try:
        return pa.ipc.open_file(pa.memory_map(str(file))).read_all()
    except pa.ArrowInvalid:  # a stream, as datasets writes it
        return pa.ipc.open_stream(pa.memory_map(str(file))).read_all()


def is_frame(data: Any) -> bool:
    """Return whether data are a frame of pandas or Polars, or a table of Arrow."""
    return len(getattr(data, "shape", ())) == 2 and hasattr(data, "columns")


def of_frame(data: Any, said: str) -> Any:
    """Return a frame as a table of Arrow; ``ValueError`` begins with ``said``."""
    import pyarrow as pa

    if isinstance(data, pa.Table):
        return data
    try:
        return data.to_arrow() if hasattr(data, "to_arrow") else pa.Table.from_pandas(data, preserve_index=False)
    except (pa.ArrowException, TypeError) as error:
        raise ValueError(f"{said} of which a column does not hold one type: {one_line(error)}") from None
