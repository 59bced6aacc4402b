"""The exact index: FAISS's exhaustive scan of binary codes."""

from __future__ import annotations

from pathlib import Path

import faiss
import numpy as np
import numpy.typing as npt

from lbhash.codes import check_codes
from lbhash.files import existing_file, replacing


class FlatIndex:
    """Exact nearest neighbours by Hamming distance (FAISS ``IndexBinaryFlat`` with ids).

    Args:
        code_bytes: bytes of a packed code; a code of h bits has ``ceil(h / 8)``.

    >>> index = FlatIndex(code_bytes=1)
    >>> index.add(np.array([[0], [3], [255]], np.uint8))
    >>> distances, ids = index.search(np.array([[1]], np.uint8), k=2)
    >>> distances.tolist(), ids.tolist()
    ([[1, 1]], [[0, 1]])
    """

    def __init__(self, code_bytes: int) -> None:
        if code_bytes < 1:
            raise ValueError(f"code_bytes is {code_bytes}; it must be at least 1")
        self.code_bytes = code_bytes
        self._index: faiss.IndexBinary = faiss.IndexBinaryIDMap2(faiss.IndexBinaryFlat(8 * code_bytes))

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def add(self, codes: npt.ArrayLike, ids: npt.ArrayLike | None = None) -> None:
        """Add codes ``uint8 [n, code_bytes]`` under ``ids`` ``int64 [n]``; by their position where none are given.

        Raises:
            TypeError: an id is not an integer.
            ValueError: there is not one id for each code, or two of them are equal.
        """
        rows = self._check(codes)
        names = np.arange(len(self), len(self) + len(rows)) if ids is None else np.asarray(ids)
        if names.shape != (len(rows),):
            raise ValueError(f"ids has shape {names.shape}; it must be [{len(rows)}], one for each code")
        if len(names) and names.dtype.kind not in "iu":
            raise TypeError(f"ids holds {names.dtype}; it must hold integers")
        if len(names) and names.max() >= 2**63:
            raise ValueError(f"ids holds {names.max()}; an id must be below 2^63")
        ordered = np.sort(names)
        if (twice := np.flatnonzero(ordered[1:] == ordered[:-1])).size:
            raise ValueError(f"ids holds {ordered[twice[0]]} twice; every code must have an id of its own")
        self._index.add_with_ids(rows, names.astype(np.int64))

    def search(self, codes: npt.ArrayLike, k: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """The k nearest codes of each query.

        Args:
            codes: ``uint8 [n, code_bytes]``.
            k: from 1 to the size of the index.

        Returns:
            Distances in bits, ``int32 [n, k]``, rising, and ids, ``int64 [n, k]``; equal distances by rising id.
            Which of several codes at the k-th distance are returned is FAISS's choice.
        """
        rows = self._check(codes)
        if not 1 <= k <= len(self):
            raise ValueError(f"k is {k}; it must be from 1 to the size of the index ({len(self)})")
        distances, ids = self._index.search(rows, k)
        order = np.lexsort((ids, distances), axis=1)
        return np.take_along_axis(distances, order, 1), np.take_along_axis(ids, order, 1)

    def save(self, path: str | Path) -> None:
        """Write the index to ``path``, whole or not at all."""
        with replacing(path) as temporary:
            faiss.write_index_binary(self._index, str(temporary))

    @classmethod
    def load(cls, path: str | Path) -> FlatIndex:
        """Read an index that ``save`` wrote."""
        file = existing_file(path, "index")
        try:
            held = faiss.read_index_binary(str(file))
        except RuntimeError:
            raise ValueError(f"index is {str(path)!r}, which is damaged or no index") from None
        index = cls(held.code_size)
        index._index = held
        return index

    def _check(self, codes: npt.ArrayLike) -> npt.NDArray[np.uint8]:
        rows = check_codes(codes)
        if rows.shape[1] != self.code_bytes:
            raise ValueError(f"codes has {rows.shape[1]} bytes a row; the index holds codes of {self.code_bytes}")
        return rows
