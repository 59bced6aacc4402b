"""Checksums in files that lbhash reads back, so that damage to any byte is noticed.

Files of other programs have no checksum and are read without this check.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_128

from lbhash.utils.files import replacing
from lbhash.utils.fingerprint import fingerprint
from lbhash.utils.formatting import one_line

CHECKSUM = "checksum"
"""The name of the checksum in JSON objects and ``.npz`` files."""

WRONG = "its checksum is wrong or missing"

_VALUE = "checked value"
_MARK = b"\nlbhash xxh3 "
_LENGTH = len(_MARK) + xxh3_128().digest_size


def add_checksum(path: Path) -> None:
    """Insert a file's checksum: before the footer of a Parquet file, where no reader looks, or at the end.

    Readers of ``.npy`` files and PyTorch checkpoints ignore bytes after the content.
    """
    with path.open("r+b") as opened:
        at = _end_of_data(opened)
        digest = _digest(opened, at, at)
        opened.seek(at)
        footer = opened.read()
        opened.seek(at)
        opened.write(_MARK + digest + footer)


def check_file(path: Path, *, own: bool = False) -> None:
    """Raise ``ValueError`` if the checksum of ``add_checksum`` is wrong, or one of lbhash's ``own`` files has none."""
    with path.open("rb") as opened:
        stop = _end_of_data(opened)
        start = max(0, stop - _LENGTH)
        opened.seek(start)
        held = opened.read(stop - start)
        marked = held.startswith(_MARK)
        if (own and not marked) or (marked and held[len(_MARK) :] != _digest(opened, start, stop)):
            raise ValueError(WRONG)


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write arrays to an ``.npz`` file, with their checksum; after an error the old file is unchanged."""
    with replacing(path) as temporary, temporary.open("wb") as opened:
        # First, so that damage to the file's directory does not drop the checksum along with the last arrays.
        np.savez(opened, **{CHECKSUM: _of_arrays(arrays), **arrays})


def read_npz(path: str | os.PathLike[str], *, own: bool = False) -> dict[str, npt.NDArray]:
    """Return the arrays of an ``.npz`` file; ``ValueError`` if it is damaged, ``OSError`` if it cannot be read.

    With ``own``, the file must have a checksum.
    """
    with Path(path).open("rb") as opened:
        try:
            with np.load(opened, allow_pickle=False) as stored:
                arrays = dict(stored)
        except Exception as error:  # NumPy and zipfile raise almost anything
            raise ValueError(one_line(error)) from None
    stated = arrays.pop(CHECKSUM, None)
    if (own and stated is None) or (stated is not None and str(stated) != _of_arrays(arrays)):
        raise ValueError(WRONG)
    return arrays


def with_checksum(value: Any, name: str = "") -> dict[str, Any]:
    """Return a value for JSON with its checksum: an object with one more key, or any other value in a new object.

    The checksum is also of ``name``, so that a file that was copied to another name is noticed.
    """
    held = json.loads(json.dumps(value))  # as it will be read: numbers as keys become text
    if not isinstance(held, dict) or _VALUE in held:
        held = {_VALUE: held}
    return {**held, CHECKSUM: fingerprint(held, name)}


def checked(value: Any, name: str = "") -> Any:
    """Return the value that ``with_checksum`` was given; raise ``ValueError`` if the checksum is wrong or missing."""
    if not isinstance(value, dict):
        raise ValueError(WRONG)
    held = {name: item for name, item in value.items() if name != CHECKSUM}
    if fingerprint(held, name) != value.get(CHECKSUM):
        raise ValueError(WRONG)
    return held.get(_VALUE, held)


def _end_of_data(opened: BinaryIO) -> int:
    """Return where the footer of a Parquet file begins; for any other file, its size."""
    size = opened.seek(0, os.SEEK_END)
    opened.seek(max(0, size - 8))
    tail = opened.read()
    footer = int.from_bytes(tail[:4], "little") + 8
    return size - footer if tail[4:] == b"PAR1" and footer <= size else size


def _digest(opened: BinaryIO, start: int, stop: int) -> bytes:
    """Return the checksum of a file without its bytes from ``start`` to ``stop``."""
    digest = xxh3_128()
    opened.seek(0)
    left = start
    while chunk := opened.read(min(1 << 20, left)):
        digest.update(chunk)
        left -= len(chunk)
    opened.seek(stop)
    while chunk := opened.read(1 << 20):
        digest.update(chunk)
    return digest.digest()


def _of_arrays(arrays: Mapping[str, Any]) -> str:
    parts: list[Any] = []
    for name, value in sorted(arrays.items()):
        array = np.asarray(value)
        parts += [f"{name} {array.dtype.str} {array.shape}", array]
    return fingerprint(*parts)
