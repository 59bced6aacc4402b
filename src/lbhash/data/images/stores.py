"""Image stores: separate files, memory, or a temporary file (Parquet: see ``parquet.py``)."""

from __future__ import annotations

import hashlib
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.data.images.decoding import as_image, read_file
from lbhash.utils.fingerprint import fingerprint, sampled
from lbhash.utils.vectors import key_of

if TYPE_CHECKING:
    from PIL import Image


class ImageStore(ABC):
    """Images that are read one by one; a row is one image."""

    unit = "images"
    at_once = 32  # images that a backbone embeds together
    name: str  # where the images come from, for messages

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def stored(self, row: int) -> Image.Image | bytes:
        """Return the image of a row as it is stored: a PIL image, or the bytes of a file."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that change when an image does."""

    def keys(self) -> list[bytes]:
        """Return the key of each image in the cache (``key_of``): a hash of its file, or of its pixels."""
        forward = self.in_order()
        return [_key(forward, row) for row in range(len(self))]

    def sample(self) -> Iterator[bytes]:
        """Yield a sample of the images' bytes, if the fingerprint covers files only by size and time of change."""
        return iter(())

    def read(self, row: int) -> Image.Image:
        """Return the image of a row, upright and in RGB; ``ValueError`` names one that is damaged or missing."""
        return as_image(self.stored(row), self.where(row))

    def where(self, row: int) -> str:
        """Return the name of a row's image for messages."""
        return f"image {row} of {self.name}"

    def missing(self) -> npt.NDArray[np.int64]:
        """Return the rows whose image is missing, without decoding any."""
        return np.empty(0, np.int64)

    def in_order(self) -> ImageStore:
        """Return the same images for reading in the order of the rows, with only a few of them in memory."""
        return self

    def in_any_order(self, rows: npt.NDArray[np.int64]) -> ImageStore:
        """Return the same images for reading these rows often and in any order."""
        return self


class FileImages(ImageStore):
    """Images in separate files: for each row a path relative to the folder."""

    def __init__(self, folder: Path, files: Sequence[str]) -> None:
        self.folder, self.files, self.name = folder, files, folder.name

    def __len__(self) -> int:
        return len(self.files)

    def stored(self, row: int) -> bytes:
        """Return the file of a row."""
        return read_file(self.folder / self.files[row], self.where(row))

    def where(self, row: int) -> str:
        """Return the file's path."""
        return f"image {self.files[row]!r}"

    def missing(self) -> npt.NDArray[np.int64]:
        """Return the rows whose file is missing."""
        there = [os.path.isfile(os.path.join(self.folder, file)) for file in self.files]
        return np.flatnonzero(~np.array(there, bool))

    def fingerprint(self) -> str:
        """Return the fingerprint of paths, sizes and times of change; no file is read."""
        return fingerprint(file_facts(self.folder, file) for file in self.files)

    def sample(self) -> Iterator[bytes]:
        """Yield parts of some files."""
        return sampled(self.folder, self.files)


class ListedImages(ImageStore):
    """A list of images in memory: PIL images, bytes of files, or their paths."""

    def __init__(self, images: Sequence[Image.Image | bytes | str | Path]) -> None:
        self.images, self.name = images, "images"

    def __len__(self) -> int:
        return len(self.images)

    def stored(self, row: int) -> Any:
        """Return the image of a row."""
        return self.images[row]

    def where(self, row: int) -> str:
        """Return the image's place in the list."""
        return f"image {row}"

    def fingerprint(self) -> str:
        """Return the fingerprint of pixels, bytes, or paths with sizes and times of change."""
        parts: list[bytes | str] = []
        for image in self.images:
            if isinstance(image, (str, Path)):
                parts.append(file_facts(Path(), str(image)))
            elif isinstance(image, (bytes, bytearray, memoryview)):
                parts.append(hashlib.sha256(image).digest())
            else:
                with suppress(ValueError):  # a damaged image is reported when it is read
                    seen = as_image(image)
                    parts += [f"{seen.mode} {seen.size}", hashlib.sha256(seen.tobytes()).digest()]
        return fingerprint(*parts)


class SpooledImages(ImageStore):
    """Some images of a source that is only fast to read forward, copied to an unnamed temporary file.

    Training takes rows in any order, and for one row a Parquet file must read its whole row group. The file is
    memory-mapped: the system keeps what fits in memory, and all reading processes share it. It disappears with the last
    of them, however that ends. It lies in the folder of temporary files (``$TMPDIR``).
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
        """Return the source's name for the image."""
        return self._source.where(row)

    def fingerprint(self) -> str:
        """Return the fingerprint of the source."""
        return self._source.fingerprint()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._source, self._rows)  # a process that was not forked makes its own copy


def _key(store: ImageStore, row: int) -> bytes:
    try:
        image: Any = store.stored(row)
        if isinstance(image, (bytes, bytearray, memoryview)):
            return key_of(image)
        seen = as_image(image, store.where(row))
        return key_of(f"{seen.mode} {seen.size}".encode(), seen.tobytes())
    except ValueError:  # reported when it is read
        return b""


def file_facts(folder: Path, file: str) -> bytes:
    """Return the path, size and time of change of a file; a changed file differs in them."""
    try:
        facts = os.stat(os.path.join(folder, file))
        said = f"{file}\0{facts.st_size}\0{facts.st_mtime_ns}\n"
    except OSError:
        said = f"{file}\0missing\n"
    return said.encode(errors="surrogateescape")
