"""Arrow files and streams: how much memory they ask for is checked before they are read."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from lbhash.utils.memory import check_memory
from lbhash.utils.tables.source import ROWS, Source


def open_arrow(file: Path, said: str) -> Source:
    """Open an Arrow file, or a file that holds a stream."""
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
