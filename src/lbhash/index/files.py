"""The files of an index: written once, made durable, described by size and checksum, mapped into memory.

Nothing here is ever overwritten in place: a file belongs to the generation in its name, and a manifest that names it is
written only after it lies on the disk.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Entry = dict[str, Any]
"""What a manifest says of a file: its name, size in bytes and SHA-256."""

CHUNK = 1 << 22


def write_new(path: Path, write: Callable[[Path], object]) -> Entry:
    """Write a file by ``write(path)``, wait until the disk has it, and describe it."""
    write(path)
    with path.open("r+b") as opened:
        os.fsync(opened.fileno())
        digest = sha256()
        while chunk := opened.read(CHUNK):
            digest.update(chunk)
        return {"file": path.name, "bytes": opened.tell(), "sha256": digest.hexdigest()}


def write_array(path: Path, array: npt.NDArray) -> Entry:
    """Write an ``.npy``."""

    def write(target: Path) -> None:
        with target.open("wb") as opened:
            opened.write(npy_header(array.dtype, array.shape))
            for start in range(0, len(array), CHUNK):
                opened.write(np.ascontiguousarray(array[start : start + CHUNK]).data)

    return write_new(path, write)


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names of the folder's files; where folders cannot be synced this does nothing."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Mapped:
    """A file of an index, opened at once and read when it is needed, whatever becomes of its name until then.

    Args:
        folder: of the index.
        entry: what its manifest says of the file.

    Raises:
        ValueError: it has another size.
        FileNotFoundError: it is not there.
    """

    def __init__(self, folder: Path, entry: Entry) -> None:
        self.path = folder / entry["file"]
        self.entry = entry
        size = self.path.stat().st_size
        if size != entry["bytes"] or not size:
            raise ValueError(f"index is damaged: {self.path.name} has {size} bytes and not {entry['bytes']}")
        self.content = np.memmap(self.path, np.uint8, "r")

    def checked(self) -> npt.NDArray[np.uint8]:
        """All bytes, after their checksum has been compared."""
        if sha256(self.content.data).hexdigest() != self.entry["sha256"]:
            raise ValueError(f"index is damaged: the checksum of {self.path.name} is wrong")
        return self.content

    def array(self, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> npt.NDArray:
        """The array of an ``.npy``, still in the file.

        Raises:
            ValueError: it is an array of another type or shape.
        """
        header = npy_header(np.dtype(dtype), shape)
        if self.content[: len(header)].tobytes() != header:
            raise ValueError(f"index is damaged: {self.path.name} does not hold {np.dtype(dtype)} {list(shape)}")
        body = self.content[len(header) :]
        if len(body) != np.dtype(dtype).itemsize * int(np.prod(shape)):
            raise ValueError(f"index is damaged: {self.path.name} does not hold {np.dtype(dtype)} {list(shape)}")
        return np.asarray(body).view(dtype).reshape(shape)


def npy_header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """The bytes that an ``.npy`` of this type and shape begins with."""
    opened = io.BytesIO()
    facts = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": tuple(map(int, shape))}
    np.lib.format.write_array_header_1_0(opened, facts)
    return opened.getvalue()
