"""The data files of an index: written once, flushed to disk, described by their size and block checksums.

No file is ever overwritten. Its name contains its generation, and a manifest lists it only after it is on disk. Data
that is read is compared with the checksums and kept in memory. Files are not mapped: truncating a mapped file ends the
process, and a mapped page may be read again after its check.
"""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import xxhash

from lbhash.utils.files import naming
from lbhash.utils.memory import available_memory

Entry = dict[str, Any]
"""The entry of a file in a manifest: its name as ``file``, its size as ``bytes``, and as ``xxh3`` the XXH3 checksums of
its blocks, 16 hexadecimal digits each."""

BLOCK = 1 << 20
"""Bytes of a block; a file's last block may be shorter."""

HELD = 0.25
"""Largest share of the free memory for an array whose rows are read one by one."""

_HEADER = 128  # bytes of the header of an ``.npy`` file with one or two axes


class DamagedIndexError(ValueError):
    """A file of an index has changed since it was written.

    >>> raise DamagedIndexError("codes.npy is missing")
    Traceback (most recent call last):
    lbhash.index.files.DamagedIndexError: index is damaged: codes.npy is missing
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"index is damaged: {what}")


def write_new(path: Path, write: Callable[[BinaryIO], object]) -> Entry:
    """Write a file by ``write(opened)``, wait until it is on the disk, and return its entry."""
    path.unlink(missing_ok=True)  # never write into a file that a killed writer left: a reader may have it open
    with naming(path, RuntimeError), path.open("x+b") as opened:
        write(opened)
        opened.flush()
        os.fsync(opened.fileno())
        opened.seek(0)
        sums = []
        while block := opened.read(BLOCK):
            sums.append(xxhash.xxh3_64_hexdigest(block))
        return {"file": path.name, "bytes": opened.tell(), "xxh3": "".join(sums)}


def write_array(path: Path, array: npt.NDArray) -> Entry:
    """Write an ``.npy`` file, and return its entry."""
    return write_new(path, lambda opened: np.save(opened, np.ascontiguousarray(array)))


class Stored:
    """An open data file, readable even after it is deleted; ``DamagedIndexError`` if it is damaged."""

    def __init__(self, folder: Path, entry: Entry) -> None:
        self.path, self.size = folder / entry["file"], entry["bytes"]
        self._sums = [entry["xxh3"][at : at + 16] for at in range(0, len(entry["xxh3"]), 16)]
        if self.path.exists() and not self.path.is_file():
            raise DamagedIndexError(f"{self.path.name} is not a file")  # a pipe would be waited for
        self._opened = self.path.open("rb", buffering=0)
        self.close = weakref.finalize(self, self._opened.close)
        self._lock = Lock()
        self._intact: set[int] = set()
        if (size := os.fstat(self._opened.fileno()).st_size) != self.size:
            raise DamagedIndexError(f"{self.path.name} has {size} bytes and not {self.size}")

    def read(self) -> npt.NDArray[np.uint8]:
        """Return all bytes."""
        content = np.empty(self.size, np.uint8)
        with self._lock:
            for number in range(len(self._sums)):
                self._check(number, content[number * BLOCK :][:BLOCK])
        content.flags.writeable = False
        return content

    def check(self) -> None:
        """Read all bytes, and keep none."""
        with self._lock:
            for number in range(len(self._sums)):
                self._check(number)

    def pieces(self, starts: npt.NDArray[np.int64], length: int) -> npt.NDArray[np.uint8]:
        """Return the ``length`` bytes after each start, ``uint8 [n, length]``.

        A block is checked when it is first read.
        """
        found = np.empty((len(starts), length), np.uint8)
        with self._lock:
            for start, piece in zip(starts.tolist(), found, strict=True):
                for number in range(start // BLOCK, (start + length - 1) // BLOCK + 1):
                    if number not in self._intact:
                        self._check(number)
                self._fill(start, piece)
        return found

    def _check(self, number: int, into: npt.NDArray[np.uint8] | None = None) -> None:
        """Read a block, and check its checksum."""
        start = number * BLOCK
        block = np.empty(min(BLOCK, self.size - start), np.uint8) if into is None else into
        self._fill(start, block)
        if xxhash.xxh3_64_hexdigest(block.data) != self._sums[number]:
            raise DamagedIndexError(f"the checksum of {self.path.name} is wrong")
        self._intact.add(number)

    def _fill(self, start: int, into: npt.NDArray[np.uint8]) -> None:
        """Fill a buffer with the bytes from ``start`` on."""
        try:
            self._opened.seek(start)
            count = self._opened.readinto(into)
        except OSError as error:
            raise DamagedIndexError(f"{self.path.name} cannot be read: {error.strerror}") from None
        if count != len(into):
            raise DamagedIndexError(f"{self.path.name} has been cut to {os.fstat(self._opened.fileno()).st_size} bytes")


class StoredArray:
    """The array of an ``.npy`` file of an index, ``[n, …]``; ``DamagedIndexError`` if the file has another size."""

    def __init__(self, file: Stored, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> None:
        self.file, self.dtype, self.shape = file, np.dtype(dtype), shape
        if file.size != _HEADER + self.dtype.itemsize * math.prod(shape):
            raise DamagedIndexError(f"{file.path.name} does not hold {self.dtype} {list(shape)}")
        self._whole: npt.NDArray | None = None
        self._small: bool | None = None
        self._lock = Lock()

    def __len__(self) -> int:
        return self.shape[0]

    def read(self) -> npt.NDArray:
        """Return the whole array without keeping it; return it from memory if it is there (the file is closed then)."""
        with self._lock:
            return self._read() if self._whole is None else self._whole

    def _read(self) -> npt.NDArray:
        return self.file.read()[_HEADER:].view(self.dtype).reshape(self.shape)

    def whole(self) -> npt.NDArray:
        """Read the whole array once, keep it in memory, close the file, and return the array."""
        with self._lock:
            if self._whole is None:
                self._whole = self._read()
                self.file.close()
            return self._whole

    def check(self) -> None:
        """Compare the whole array with its checksums, unless it is in memory already; keep nothing."""
        with self._lock:
            if self._whole is None:
                self.file.check()

    def rows(self, positions: npt.NDArray[np.int64]) -> npt.NDArray:
        """Return the rows at some positions.

        The first call decides: if all rows fit into a share (``HELD``) of the free memory, they are read and kept,
        which makes later rows much faster. Otherwise only the requested rows are read.
        """
        if self._small is None:
            free = available_memory()
            self._small = free is not None and self.file.size <= HELD * free
        if self._small:
            found: npt.NDArray = self.whole()[positions]
            return found
        length = self.dtype.itemsize * math.prod(self.shape[1:])
        read = self.file.pieces(_HEADER + length * positions, length)
        return read.view(self.dtype).reshape(len(positions), *self.shape[1:])


def whole(array: Any, keep: bool = True) -> npt.NDArray:
    """Return a whole array from memory, a file or ``Blocks``; with ``keep``, a file's array stays in memory."""
    if isinstance(array, np.ndarray):
        return array
    return array.whole() if keep or not isinstance(array, StoredArray) else array.read()
