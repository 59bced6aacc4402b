"""Images of a file that is only quick to read forward, copied to where they can be read in any order."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.data.images.stores import ImageStore


class SpooledImages(ImageStore):
    """Some images of a source, one after the other in a temporary file without a name.

    A step of training takes rows from anywhere, and a Parquet file gives one only with all of its row group. The
    file is memory-mapped, so that the system holds what memory allows, and processes that read together share it; it
    is gone when the last of them is, however that ends. It lies in the folder of temporary files (``$TMPDIR``).

    Args:
        source: the images, which are stored as bytes of files.
        rows: which of them; the others cannot be read.

    Raises:
        OSError: there is no room for them.
    """

    def __init__(self, source: ImageStore, rows: npt.NDArray[np.int64]) -> None:
        self._source, self._rows = source, np.unique(rows)
        self._ends = np.zeros(len(self._rows) + 1, np.int64)
        forward = source.in_order()
        try:
            with tempfile.TemporaryFile(prefix="lbhash-") as spool:
                for at, row in enumerate(self._rows.tolist()):
                    file = forward.stored(row)
                    assert isinstance(file, bytes)
                    self._ends[at + 1] = self._ends[at] + spool.write(file)
                spool.flush()
                self._bytes = np.memmap(spool, np.uint8, "r") if self._ends[-1] else np.empty(0, np.uint8)
        except OSError as error:
            raise OSError(error.errno, error.strerror, tempfile.gettempdir()) from None

    def __len__(self) -> int:
        return len(self._source)

    def stored(self, row: int) -> bytes:
        """Return the image of a row."""
        at = int(np.searchsorted(self._rows, row))
        if at == len(self._rows) or self._rows[at] != row:
            raise ValueError(f"{self.where(row)} is not among the {len(self._rows):,} images that were asked for")
        return self._bytes[self._ends[at] : self._ends[at + 1]].tobytes()

    def where(self, row: int) -> str:
        """Return what the source calls the image."""
        return self._source.where(row)

    def missing(self) -> npt.NDArray[np.int64]:
        """Return the rows whose image the source lacks."""
        return self._source.missing()

    def fingerprint(self) -> str:
        """Return the fingerprint of the source."""
        return self._source.fingerprint()

    def in_order(self) -> ImageStore:
        """Return the images of the source, in order."""
        return self._source.in_order()

    def in_any_order(self, rows: npt.NDArray[np.int64]) -> SpooledImages:
        """Return these images, if all of the rows are among them; else a copy that has them."""
        return self if np.isin(rows, self._rows).all() else SpooledImages(self._source, rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._source, self._rows)  # a process that was not forked makes a copy of its own
