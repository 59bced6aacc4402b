"""Vectors by key in one SQLite file, which several processes may read and write at once."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import xxhash

from lbhash.utils.files import exclusive, make_folder
from lbhash.utils.formatting import one_line

Result = TypeVar("Result")

PATIENCE = 60
"""Seconds that a process waits for another one that writes."""
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}  # the last: another table


def key_of(*content: bytes | bytearray | memoryview) -> bytes:
    """Return 16 bytes that identify a content."""
    digest = blake2b(digest_size=16)
    for part in content:
        digest.update(part)
    return digest.digest()


class Vectors:
    """Vectors ``float32 [dim]`` by keys of bytes, in a file, or nowhere if ``file`` is None.

    As a context it holds the lock file ``lock`` beside it; others with the same lock wait and print ``busy``. Each
    vector is stored with a checksum: a damaged vector counts as missing, and a damaged file is made anew. An empty key
    means unknown content and has no vector. If the file cannot be read or written, a line on standard error says so,
    and nothing is stored.
    """

    def __init__(self, file: Path | None, dim: int, lock: str, busy: str) -> None:
        self._file, self._dim, self._lock, self._busy = file, dim, lock, busy
        self._opened: sqlite3.Connection | None = None
        self._held = ExitStack()

    def __enter__(self) -> Vectors:
        if self._file is not None:
            with self._said():
                make_folder(self._file.parent)
                self._held.enter_context(exclusive(self._file.parent, self._lock, self._busy, None))
                self._or_anew(self._open)
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self._held.close()

    def get(self, keys: Sequence[bytes]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
        """Return vectors ``[n, dim]``, zeros for missing ones, and which are stored, ``bool [n]``."""
        if self._opened is not None:
            with self._said():
                return self._or_anew(lambda: self._get(keys))
        return np.zeros((len(keys), self._dim), np.float32), np.zeros(len(keys), bool)

    def put(self, keys: Sequence[bytes], vectors: npt.NDArray[np.float32]) -> None:
        """Store vectors ``[n, dim]``, all of them or none; when this returns, they are on the disk."""
        if self._opened is not None:
            rows = [(key, _sealed(key, vector.tobytes())) for key, vector in zip(keys, vectors, strict=True) if key]
            with self._said():
                self._or_anew(lambda: self._put(rows))

    def _open(self) -> None:
        self._opened = sqlite3.connect(str(self._file), timeout=PATIENCE)
        self._opened.text_factory = bytes  # a flipped bit can turn a blob into text
        self._place = self._inode()
        with self._opened:
            self._opened.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL)")

    def _get(self, keys: Sequence[bytes]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
        found, there = np.zeros((len(keys), self._dim), np.float32), np.zeros(len(keys), bool)
        assert self._opened is not None
        for at, key in enumerate(keys):
            row = self._opened.execute("SELECT vector FROM vectors WHERE key = ?", (key,)).fetchone()
            content = row[0][:-8] if row is not None and isinstance(row[0], bytes) else b""
            if len(content) == 4 * self._dim and row[0] == _sealed(key, content):
                found[at], there[at] = np.frombuffer(content, np.float32), True
        return found, there

    def _put(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        assert self._opened is not None
        with self._opened:
            self._opened.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)

    def _or_anew(self, action: Callable[[], Result]) -> Result:
        """Return the result of an action, with a new file if it is damaged; processes with the old file open keep it.

        A file that another process has locked, or that cannot be written, does not count as damaged.
        """
        try:
            return action()
        except sqlite3.Error as error:
            assert self._file is not None
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # higher bits are details
            writable = all(os.access(path, os.W_OK) for path in (self._file, self._file.parent))
            if code not in _DAMAGED and not (code == sqlite3.SQLITE_READONLY and writable):  # or a damaged header
                raise
            print(f"the cached embeddings are damaged, and made anew: {self._file}", file=sys.stderr)
            self._close()
            if self._inode() == self._place:  # otherwise another process has made it anew
                for name in (str(self._file), f"{self._file}-journal"):
                    Path(name).unlink(missing_ok=True)
            self._open()
            return action()

    def _inode(self) -> int | None:
        assert self._file is not None
        return self._file.stat().st_ino if self._file.exists() else None

    def _close(self) -> None:
        if self._opened is not None:
            self._opened.close()
        self._opened = None

    @contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            print(f"the embeddings are not cached: {one_line(error)} ({self._file})", file=sys.stderr)
            self._close()


def _sealed(key: bytes, content: bytes) -> bytes:
    return content + xxhash.xxh3_64_digest(key + content)
