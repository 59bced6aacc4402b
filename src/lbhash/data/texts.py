"""Texts of a table, and their embeddings, which an encoder computes on access."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from lbhash.utils.fingerprint import fingerprint
from lbhash.utils.vectors import key_of

TEXT_COLUMNS = ("text", "sentence", "document", "content")

SORTED = 256
"""Number of texts that an encoder sorts by length together, so that a batch holds texts of similar length."""

_CHUNK = 256


class TextEmbedder(Protocol):
    """Turns texts into embeddings; ``lbhash.models.texts.TextEncoder`` is one."""

    name: str

    @property
    def dim(self) -> int:
        """Length of an embedding."""

    def embed(self, texts: Sequence[str], at_once: int = ...) -> npt.NDArray[np.float32]:
        """Embeddings ``float32 [n, dim]`` of texts."""

    def fingerprint(self) -> str:
        """The encoder's fingerprint."""


class EmbeddedTexts:
    """The embeddings of texts: an array ``[n, dim]`` that is computed on access and not kept.

    Args:
        texts: an Arrow dictionary column of texts or nulls.
        encoder: embeds the texts.
        column: the name of the column.
    """

    unit = "texts"
    at_once = SORTED
    ndim = 2
    dtype = np.dtype(np.float32)

    def __init__(self, texts: Any, encoder: TextEmbedder, column: str) -> None:
        self.texts, self.encoder, self.column = texts, encoder, column
        self.shape = (len(texts), encoder.dim)

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, rows: int | slice | npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        places = np.arange(len(self))[rows]
        found = self.encoder.embed([self.read(row) for row in np.atleast_1d(places).tolist()])
        return found if places.ndim else found[0]

    def read(self, row: int) -> str:
        """Return the text of a row; "" if it is null."""
        return self.texts[row].as_py() or ""

    def blank(self) -> npt.NDArray[np.int64]:
        """Return the rows without a text: null, or nothing but spaces."""
        import pyarrow.compute as pc

        blank = pc.equal(pc.utf8_trim_whitespace(self.texts.dictionary), "").take(self.texts.indices)
        return np.flatnonzero(pc.fill_null(blank, True).to_numpy(zero_copy_only=False))

    def keys(self) -> list[bytes]:
        """Return the key of each text in the cache (``key_of``)."""
        known = [key_of((text or "").encode()) for text in self.texts.dictionary.to_pylist()]
        return [key_of(b"") if at is None else known[at] for at in self.texts.indices.to_pylist()]

    def fingerprint(self) -> str:
        """Return the fingerprint of the texts, in their order."""
        return fingerprint(self.texts.slice(at, _CHUNK).to_pylist() for at in range(0, len(self), _CHUNK))
