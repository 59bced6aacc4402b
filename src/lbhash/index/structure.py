"""What finds candidates among the codes of a segment: a FAISS index over their positions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from lbhash.codes import PackedCodes
from lbhash.index.base import Neighbors
from lbhash.index.files import Mapped

MIN_ROWS = 1_000
"""Codes of which a segment gets a structure; fewer are scanned, which is as quick."""


class Structure:
    """A FAISS index, built from codes or read from its file when it is first needed.

    Args:
        held: the FAISS index, or its file.
        rows: number of codes that it must hold.
        width: bytes of a code.
        tune: sets what a search is to do.
    """

    def __init__(self, held: Any, rows: int, width: int, tune: Callable[[Any], None]) -> None:
        self._held = held
        self._rows, self._width, self._tune = rows, width, tune
        self._ready = False
        self._lock = Lock()

    def search(self, queries: PackedCodes, k: int) -> Neighbors:
        """Distances and positions of the k nearest that it finds; −1 where it finds fewer."""
        return Neighbors(*self.index().search(queries, k))

    def write(self, path: Path) -> None:
        """Write FAISS's file."""
        import faiss

        faiss.write_index_binary(self.index(), str(path))

    def index(self) -> Any:
        """The FAISS index.

        Raises:
            ValueError: its file is not as it was written. FAISS trusts what it reads, so that the checksum comes first.
        """
        with self._lock:
            if not self._ready:
                if isinstance(self._held, Mapped):
                    self._held = self._read(self._held)
                self._tune(self._held)
                self._ready = True
            return self._held

    def _read(self, mapped: Mapped) -> Any:
        import faiss

        try:
            index = faiss.deserialize_index_binary(np.asarray(mapped.checked()))
        except RuntimeError:
            raise ValueError(f"index is damaged: FAISS cannot read {mapped.path.name}") from None
        if (index.ntotal, index.code_size) != (self._rows, self._width):
            raise ValueError(f"index is damaged: {mapped.path.name} does not hold the codes of its segment")
        return index
