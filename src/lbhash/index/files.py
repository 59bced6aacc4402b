"""The data files of an index: written once, flushed to the disk, described by size and checksum, mapped into memory.

No file is ever overwritten: it belongs to the generation in its name; a manifest names it once it is on the disk.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

Entry = dict[str, Any]
"""The entry of a file in a manifest: its name, its size in bytes and its SHA-256."""


def write_new(path: Path, write: Callable[[BinaryIO], object]) -> Entry:
    """Write a file by ``write(opened)``, wait until it is on the disk, and return its entry."""
    with path.open("w+b") as opened:
        write(opened)
        opened.flush()
        os.fsync(opened.fileno())
        opened.seek(0)
        digest = sha256()
        while chunk := opened.read(1 << 22):
            digest.update(chunk)
        return {"file": path.name, "bytes": opened.tell(), "sha256": digest.hexdigest()}


def write_array(path: Path, array: npt.NDArray) -> Entry:
    """Write an ``.npy`` file, and return its entry."""
    return write_new(path, lambda opened: np.save(opened, np.ascontiguousarray(array)))


def sync_folder(folder: Path) -> None:
    """Wait until the names of the folder's files are on the disk. On Windows this does nothing."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Mapped:
    """A file that is mapped into memory, so that it can be read even after its name is gone."""

    def __init__(self, folder: Path, entry: Entry) -> None:
        self.path, self.entry = folder / entry["file"], entry
        size = self.path.stat().st_size
        if size != entry["bytes"] or not size:
            raise ValueError(f"index is damaged: {self.path.name} has {size} bytes and not {entry['bytes']}")
        self.content = np.memmap(self.path, np.uint8, "r")

    def checked(self) -> npt.NDArray[np.uint8]:
        """Return all bytes, or raise ``ValueError`` if their checksum is wrong."""
        if sha256(self.content.data).hexdigest() != self.entry["sha256"]:
            raise ValueError(f"index is damaged: the checksum of {self.path.name} is wrong")
        return self.content

    def array(self, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> npt.NDArray:
        """Return the array of an ``.npy`` file without reading it, or raise ``ValueError`` if it is another one."""
        header = io.BytesIO()
        facts = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": tuple(map(int, shape))}
        np.lib.format.write_array_header_1_0(header, facts)
        expected = header.getvalue()
        body = self.content[len(expected) :]
        size = np.dtype(dtype).itemsize * int(np.prod(shape))
        if self.content[: len(expected)].tobytes() != expected or len(body) != size:
            raise ValueError(f"index is damaged: {self.path.name} does not hold {np.dtype(dtype)} {list(shape)}")
        return np.asarray(body).view(dtype).reshape(shape)
