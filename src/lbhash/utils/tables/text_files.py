"""Text files as streams of UTF-8, whatever their encoding."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from lbhash.utils.tables.source import say

MISSING = {"", "#n/a", "na", "n/a", "<na>", "nan", "null", "none"}
"""Texts that mean a missing number in a text file, in lower case."""

BLOCK = 1 << 24  # bytes of text that are parsed at once; the limit for a row
HEAD = 1 << 20  # bytes from which a text file's form is guessed
_MOST_WIDE = 1 << 30  # most bytes of a text file that is not UTF-8: it is read at once
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


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


def opener(file: Path, said: str) -> Callable[[], Any]:
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
