"""Export an index to one file for a database or another program; ``docs/interop.md`` shows how to load it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lbhash.codes import PackedCodes, code_bytes, convert
from lbhash.codes.io import check_suffix, code_column, code_metadata
from lbhash.index.base import ORIGIN, BaseIndex
from lbhash.index.metadata import is_list, values_type
from lbhash.utils.checksums import add_checksum, write_npz
from lbhash.utils.files import replacing
from lbhash.utils.serialization import json_values
from lbhash.utils.validation import check_choice

ROWS = 1 << 16
"""How many codes are in memory at a time."""


def export_index(index: BaseIndex, out: str | Path, to: str = "parquet") -> dict[str, Any]:
    """Write a whole index to a file, and return a summary of the file.

    Args:
        index: the index.
        out: the file, with the suffix of its format; an SQL table gets the file's name.
        to: the format, one of ``FORMATS``. ``read_codes``, DuckDB and ClickHouse can read ``parquet``.

    Raises:
        ValueError: ``to`` is not a format, ``out`` has another suffix, or a text holds the character U+0000 where the
            format cannot store it: in SQL anywhere, in an ``.npz`` at the end of an id.

    >>> import tempfile
    >>> from lbhash import Index, pack
    >>> index = Index(bits=2)
    >>> ids = index.add(pack([[-1, 1], [1, 1]]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_index(index, f"{folder}/codes.parquet")["codes"]
    2
    """
    to = check_choice(to, "to", tuple(FORMATS))
    suffix, write = FORMATS[to]
    file = check_suffix(out, suffixes=(suffix,))
    write(index, file, to)
    columns = index.metadata_of([]).column_names
    return {"codes": len(index), "bits": index.bits, "columns": ["id", "code", *columns[1:]], "out": str(out), "to": to}


def _parts(index: BaseIndex) -> Iterator[tuple[PackedCodes, pa.Table]]:
    """Yield codes and their table of ids and metadata, part by part."""
    ids = index.ids()
    for start in range(0, len(ids), ROWS):
        some = ids[start : start + ROWS]
        yield index.codes_of(some), index.metadata_of(some)


def _write_parquet(index: BaseIndex, file: Path, to: str) -> None:
    """Write codes as binary values of fixed length; for LanceDB, as fixed-size lists."""
    metadata = {**code_metadata(index.bits, index.model), ORIGIN.decode(): json.dumps(index.state.origin)}

    def table(codes: PackedCodes, part: pa.Table) -> pa.Table:
        column = code_column(codes)
        if to == "lancedb":
            column = pa.FixedSizeListArray.from_arrays(pa.array(codes.reshape(-1)), codes.shape[1])
        return part.add_column(1, "code", column).replace_schema_metadata(metadata)

    schema = table(np.empty((0, code_bytes(index.bits)), np.uint8), index.metadata_of([])).schema
    with replacing(file) as temporary:
        with pq.ParquetWriter(temporary, schema, write_page_checksum=True) as writer:
            for codes, part in _parts(index):
                writer.write_table(table(codes, part))
        add_checksum(temporary)


def _write_npz(index: BaseIndex, file: Path, to: str) -> None:
    """Write the arrays ``ids`` and ``codes``."""
    ids = index.ids()
    codes = np.empty((len(ids), code_bytes(index.bits)), np.int8 if to == "binary" else np.uint8)
    for start in range(0, len(ids), ROWS):
        part = index.codes_of(ids[start : start + ROWS])
        codes[start : start + ROWS] = convert(part, index.bits, "binary") if to == "binary" else part
    given, ids = ids, ids.astype(str) if index.state.texts else ids
    if (cut := np.flatnonzero(ids != given)).size:
        said = f"ids holds {given[cut[0]]!r}, which ends in U+0000"
        raise ValueError(f"{said}; a NumPy array cannot store it: export to another format")
    write_npz(file, {"ids": ids, "codes": codes})


def _write_lines(index: BaseIndex, file: Path, to: str) -> None:
    """Write the lines of Elasticsearch's ``_bulk`` request: an action and a document, with the code in hexadecimal."""
    with _text_file(file) as opened:
        for codes, part in _parts(index):
            names = ["id", "code", *part.column_names[1:]]
            for id_, *values in _rows(part, convert(codes, index.bits, "hex")):
                document = dict(zip(names, [id_, *values], strict=True))
                opened.write(json.dumps({"index": {"_id": str(id_)}}) + "\n")
                opened.write(json.dumps(document, ensure_ascii=False) + "\n")


def _write_postgres(index: BaseIndex, file: Path, to: str) -> None:
    """Write one transaction for ``psql``: a table with a column ``code bit(n)``, and for pgvector its index."""
    schema = index.metadata_of([]).schema
    columns = "".join(f", {_name(field.name)} {_postgres_type(field.type)}" for field in list(schema)[1:])
    table, kind = _name(file.stem), _postgres_type(schema.field("id").type)
    with _text_file(file) as opened:
        opened.write("\\set ON_ERROR_STOP on\nSET client_encoding = 'UTF8';\nBEGIN;\n")
        opened.write("CREATE EXTENSION IF NOT EXISTS vector;\n" if to == "pgvector" else "")
        opened.write(f"CREATE TABLE {table} (id {kind} PRIMARY KEY, code bit({index.bits}) NOT NULL{columns});\n")
        opened.write(f"COPY {table} FROM stdin;\n")
        for codes, part in _parts(index):
            for row in _rows(part, convert(codes, index.bits, "bits"), sql=True):
                opened.write("\t".join("\\N" if v is None else _text(v).translate(_COPIED) for v in row) + "\n")
        opened.write("\\.\n")
        opened.write(f"CREATE INDEX ON {table} USING hnsw (code bit_hamming_ops);\n" if to == "pgvector" else "")
        opened.write("COMMIT;\n")


def _write_sqlite(index: BaseIndex, file: Path, to: str) -> None:
    """Write a table of ids and metadata, and a virtual table of sqlite-vec, ``NAME_codes``, with the codes.

    The metadata need their own table, because the virtual table takes neither quoted names nor missing values.
    """
    names = index.metadata_of([]).column_names[1:]
    known = {b"id": "id"}  # SQLite ignores the case of ASCII letters
    for name in names:
        if (other := known.setdefault(name.encode().lower(), name)) is not name:
            raise ValueError(f"columns are {other!r} and {name!r}, which SQLite takes for the same; rename one of them")
    table, virtual = _name(file.stem), _name(f"{file.stem}_codes")
    id_column = f"id {'TEXT' if index.state.texts else 'INTEGER'} PRIMARY KEY"
    with _text_file(file) as opened:
        opened.write("BEGIN;\n")
        opened.write(f"CREATE TABLE {table} ({id_column}{''.join(f', {_name(name)}' for name in names)});\n")
        bits = 8 * code_bytes(index.bits)
        opened.write(f"CREATE VIRTUAL TABLE {virtual} USING vec0({id_column}, code bit[{bits}]);\n")
        for codes, part in _parts(index):
            for id_, code, *values in _rows(part, convert(codes, index.bits, "hex"), sql=True):
                name, *literals = map(_sqlite_literal, [id_, *values])
                opened.write(f"INSERT INTO {table} VALUES ({', '.join([name, *literals])});\n")
                opened.write(f"INSERT INTO {virtual} (id, code) VALUES ({name}, vec_bit(X'{code}'));\n")
        opened.write("COMMIT;\n")


Writer = Callable[[BaseIndex, Path, str], None]

FORMATS: dict[str, tuple[str, Writer]] = {
    "parquet": (".parquet", _write_parquet),
    "postgres": (".sql", _write_postgres),
    "pgvector": (".sql", _write_postgres),
    "sqlite-vec": (".sql", _write_sqlite),
    "lancedb": (".parquet", _write_parquet),
    "elasticsearch": (".ndjson", _write_lines),
    "ubinary": (".npz", _write_npz),
    "binary": (".npz", _write_npz),
}
"""The formats, each with its file suffix and its writer."""

_COPIED = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


@contextmanager
def _text_file(file: Path) -> Iterator[TextIO]:
    with replacing(file) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as opened:
        yield opened


def _rows(part: pa.Table, codes: list[str], *, sql: bool = False) -> Iterator[tuple[Any, ...]]:
    """Yield the id, the code and the metadata of each row as JSON values; with ``sql``, NaN and infinity stay."""

    def values(column: pa.ChunkedArray) -> list[Any]:
        if sql and pa.types.is_floating(values_type(column.type)):
            return [None if one is None else float(one) for one in column.to_pylist()]
        return json_values(column)

    ids, *metadata = map(values, part.columns)
    return zip(ids, codes, *metadata, strict=True)


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if "\0" in text or (not isinstance(value, str) and "\\u0000" in text):
        raise ValueError(f"a column holds {text[:80]!r}, which has the character U+0000; SQL cannot hold it")
    return text


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _sqlite_literal(value: Any) -> str:
    if value is None or value != value:  # SQLite has no NaN
        return "NULL"
    text = _text(value)
    if isinstance(value, float):
        return text.replace("Infinity", "9e999")
    exact = isinstance(value, int) and value < 2**63  # SQLite would round others
    return text if exact else "'" + text.replace("'", "''") + "'"


def _postgres_type(kind: pa.DataType) -> str:
    kind = values_type(kind)
    if is_list(kind) or pa.types.is_struct(kind) or pa.types.is_map(kind):
        return "jsonb"
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return "numeric" if kind == pa.uint64() else "bigint"
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return "date" if pa.types.is_date(kind) else "time"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    return "double precision" if pa.types.is_floating(kind) else "text"
