"""The rows of a question as a way and a second stage store them: their bytes, their cost and their ranking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes
from lbhash.data.split import EmbeddingSplit
from lbhash.index.quantized import scales_of, to_float16, to_int8
from lbhash.utils.arrays import unit_rows

Floats: TypeAlias = "npt.NDArray[np.float32]"
Positions: TypeAlias = "npt.NDArray[np.int64]"
Rows: TypeAlias = "slice | npt.NDArray[np.intp]"
Scores: TypeAlias = "npt.NDArray[np.float32] | npt.NDArray[np.float64] | npt.NDArray[np.int32]"

EMBEDDINGS = "embeddings"
"""The name of the way that keeps all numbers."""


@dataclass(frozen=True)
class Stage:
    """A second stage re-ranks ``candidates`` by stored ``vectors``: "embeddings", or "int8" with a byte a number."""

    vectors: str
    candidates: int


@dataclass(frozen=True)
class Kept:
    """The base as a second stage keeps it: ``rows`` ``[base, dim]``, their ``scales`` and ``lengths``.

    As in an index, rows are float16, int8 by the scales, or uint8 if the embeddings are. ``cosines`` are those with all
    queries.
    """

    rows: npt.NDArray[Any]
    scales: Floats
    lengths: Floats
    cosines: Floats

    @classmethod
    def of(cls, base: EmbeddingSplit, queries: Floats, vectors: str) -> Kept:
        """Keep a base; ``queries`` have length 1."""
        rows = base.embeddings[base.rows]
        scales = scales_of(rows) if vectors == "int8" else np.ones(base.dim, np.float32)
        if vectors == "int8":
            rows = to_int8(rows, scales)
        elif rows.dtype != np.uint8:
            rows = to_float16(rows)
        scaled = rows * scales
        return cls(rows, scales, np.linalg.norm(scaled, axis=1), queries @ unit_rows(scaled).T)


@dataclass(frozen=True)
class Way:
    """A way to store rows, its bytes and its cost.

    Attributes:
        name: name of the way.
        bits: the length of a code, if the way has several.
        memory: bytes a row that a search keeps in memory.
        labels: whether the way learns from labels.
        take: a command that makes it, or FAISS's name of it.
        fit: seconds to fit it.
        encode: seconds to encode the base.
        recipe: lines of Python that find ``{candidates}`` rows for ``queries`` among ``rows``, both of length 1; "" if
            ``take`` is a command.
        vectors: vectors of the second stage, "int8" or "embeddings"; "" without one.
        rerank: number of candidates that it ranks.
        disk: bytes a row that it reads from disk.
    """

    name: str
    bits: int | None
    memory: int
    labels: bool
    take: str
    fit: float
    encode: float
    recipe: str = field(default="", kw_only=True)
    vectors: str = field(default="", kw_only=True)
    rerank: int = field(default=0, kw_only=True)
    disk: int = field(default=0, kw_only=True)

    @property
    def title(self) -> str:
        """The way with its size and its second stage."""
        size = "" if self.bits is None else f", {self.bits} bits"
        return f"{self.name}{size}" + (f" + {self.rerank} by {self.vectors}" if self.rerank else "")

    @property
    def weight(self) -> float:
        """Bytes a row: those on disk count an eighth, since they cost less."""
        return self.memory + self.disk / 8


@dataclass(frozen=True)
class Stored(Way):
    """The base of a question as one way stores it.

    Attributes:
        scores: returns scores of some queries and all base rows, ``[queries, base]``; lower is nearer.
        find: returns the nearest base rows of some queries, ``int64 [queries, count]``, as a user's search does.
        apart: for some queries and base rows of each, ``int64 [queries, count]``, returns numbers from 0 to 1, larger
            if the way takes both for different classes. A second stage adds them to the cosine. None if the way learns
            no classes.
        codes: codes of the queries and the base, and their bits; None if the way has none.
        by: the form of a query: ``itself``, or a network's or coder's real ``outputs``, whose signs are its code.
    """

    scores: Callable[[Rows], Scores]
    find: Callable[[Rows, int], Positions]
    apart: Callable[[Rows, Positions], npt.NDArray[np.floating[Any]]] | None = None
    codes: tuple[PackedCodes, PackedCodes, int] | None = None
    by: str = "itself"

    def remembered(self, queries: int) -> Stored:
        """Return the same with cached scores of consecutive queries; callers must not write into them."""
        kept = cache(lambda start, stop: self.scores(slice(start, stop)))

        def scores(some: Rows) -> Scores:
            return kept(*some.indices(queries)[:2]) if isinstance(some, slice) else self.scores(some)

        return replace(self, scores=scores)
