"""Embeddings as NumPy arrays, from Arrow columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.utils.memory import check_memory

if TYPE_CHECKING:
    import pyarrow as pa


def numbers_of(
    array: pa.Array, rows: Sequence[int] | npt.NDArray[np.int64], dim: int | None, said: str
) -> npt.NDArray[Any] | None:
    """Return a column of lists of numbers, or of such lists as JSON, as ``[m, dim]``; missing rows are NaN.

    Args:
        array: lists of any Arrow type.
        rows: the number of each row, for messages.
        dim: numbers per row; if None, as many as in the first row that is not missing.
        said: name of the column, for messages.

    Returns:
        The numbers in their own type, or None if ``dim`` is None and all rows are missing.
    """
    from lbhash.utils.columns import content, plain

    array = plain(array)
    if content(array.type) == "text":
        array = _parsed(array, rows, said)
    if content(array.type) != "lists":
        if array.null_count == len(array) and dim is None:
            return None
        raise TypeError(f"{said} holds {array.type}; it must hold lists of numbers")
    there, lengths = np.asarray(array.is_valid()), np.asarray(array.value_lengths().fill_null(0))
    if dim is None and not there.any():
        return None
    values = plain(array.flatten())  # without those of missing rows
    dim = int(lengths[there][0]) if dim is None else dim
    if len(wrong := np.flatnonzero(there & (lengths != dim))):
        numbers = f"{lengths[wrong[0]]} numbers in row {rows[wrong[0]]}"
        raise ValueError(f"{said} has {numbers}; all rows must have as many as the first ({dim})")
    found = values.to_numpy(zero_copy_only=False)  # null becomes NaN
    if found.dtype.kind not in "uif":
        raise TypeError(f"{said} holds {array.type}; it must hold lists of numbers")
    if there.all():
        return found.reshape(len(array), dim)
    made = np.full((len(array), dim), np.nan, np.result_type(found, np.float16))
    made[there] = found.reshape(-1, dim)
    return made


def _parsed(texts: pa.Array, rows: Sequence[int] | npt.NDArray[np.int64], said: str) -> pa.Array:
    """Return lists of numbers from JSON text such as ``[0.5, 1]``."""
    import pyarrow as pa

    found: list[npt.NDArray[np.float64] | None] = []
    for row, one in zip(rows, texts, strict=True):
        text = (one.as_py() or "").strip()
        try:
            vector = np.array(json.loads(text), np.float64) if text not in ("", "null") else None
            if vector is not None and vector.ndim != 1:
                raise ValueError
        except (ValueError, TypeError, RecursionError):
            what = "it must hold lists of numbers, or such lists as JSON; name another by embedding_column"
            raise ValueError(f"{said} is {text[:40]!r} in row {row}; {what}") from None
        if not found and vector is not None:  # a text may repeat in many rows
            check_memory(len(texts) * vector.nbytes, f"{said}, whose {len(texts):,} rows")
        found.append(vector)
    return pa.array(found, pa.list_(pa.float64()))


class Growing:
    """Embeddings that are collected batch by batch, from one column of lists or from one column per dimension.

    Args:
        columns: names of the columns.
        rows: number of rows in the end, if known.
        name: name of the argument.
        said: what the argument is, for messages.
    """

    def __init__(self, columns: Sequence[str], rows: int | None, name: str, said: str) -> None:
        self.columns, self.expected, self.name, self.said = columns, rows, name, said
        self.rows = 0
        self._made: npt.NDArray[Any] | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch; missing rows are NaN."""
        start, self.rows = self.rows, self.rows + len(batch)
        found = self._of(batch, start)
        if found is None:  # the dimension is not known yet
            return
        made, late = self._made, self._made is None and start > 0
        kind = found.dtype if made is None else np.result_type(made, found)
        kind = np.result_type(kind, np.float16) if late else kind
        if made is None or self.rows > len(made):
            held = 0 if made is None else len(made)
            rows = max(self.rows, self.expected or 0, held * 5 // 4)
            what = f"{self.said}, whose {rows:,} embeddings"
            check_memory((rows - held) * found.shape[1] * kind.itemsize, what)
            if made is None:
                made = np.empty((rows, found.shape[1]), kind)
            else:
                made.resize((rows, made.shape[1]), refcheck=False)  # in place
        if kind != made.dtype:  # blocks of JSON, or files of a folder, may differ
            made = made.astype(kind)
        if late:
            made[:start] = np.nan
        made[start : self.rows] = found
        self._made = made

    def finish(self) -> npt.NDArray[Any]:
        """Return all rows ``[n, dim]``."""
        if self._made is None:
            return np.full((self.rows, 1), np.nan)
        if self.rows < len(self._made):
            self._made.resize((self.rows, self._made.shape[1]), refcheck=False)
        return self._made

    def _of(self, batch: pa.RecordBatch, start: int) -> npt.NDArray[Any] | None:
        from lbhash.utils.columns import content

        if len(self.columns) == 1:
            (column,), dim = self.columns, None if self._made is None else self._made.shape[1]
            rows = range(start, start + len(batch))
            return numbers_of(batch[column], rows, dim, f"column {column!r} of {self.name}")
        for column in self.columns:
            if content(batch[column].type) not in ("whole", "numbers"):
                kind = batch[column].type
                raise TypeError(f"column {column!r} of {self.name} holds {kind}; it must hold numbers")
        return np.column_stack([batch[column].to_numpy(zero_copy_only=False) for column in self.columns])
