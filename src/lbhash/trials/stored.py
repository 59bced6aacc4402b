"""What a way stores of the rows of a question, what it weighs and takes, and how it ranks them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes

Positions: TypeAlias = "npt.NDArray[np.int64]"
Rows: TypeAlias = "slice | npt.NDArray[np.intp]"
Scores: TypeAlias = "npt.NDArray[np.float32] | npt.NDArray[np.float64] | npt.NDArray[np.int32]"

EMBEDDINGS = "embeddings"
"""The name of the way that keeps all numbers."""


@dataclass(frozen=True)
class Way:
    """A way to store rows, and what it weighs and takes.

    Attributes:
        name: of the way.
        bits: the length of a code, if the way has several.
        memory: bytes a row that a search keeps in memory.
        labels: whether the way learns from labels.
        take: what gives a user the same: a command, or FAISS's name of it.
        fit: seconds to fit it.
        encode: seconds to encode the base.
        recipe: lines of Python that find ``{candidates}`` rows for ``queries`` among ``rows``, both of length 1; "" if
            ``take`` is a command.
        vectors: what a second stage ranks candidates by, "int8" or "embeddings"; "" without one.
        rerank: how many candidates it ranks.
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
        scores: of some queries and all base rows, ``[queries, base]``; lower is nearer.
        find: the nearest base rows of some queries, ``int64 [queries, count]``, as a user would ask for them.
        apart: of some queries and base rows of each, ``int64 [queries, count]``, a number from 0 to 1, how far the way
            takes them to be of two classes; a second stage weighs it beside the cosine. None if it learns no classes.
        codes: of the queries and the base, and their bits; None if they are no codes.
        by: what a query is to the search: itself, or of a network or coder the real ``outputs`` whose signs are its
            code.
    """

    scores: Callable[[Rows], Scores]
    find: Callable[[Rows, int], Positions]
    apart: Callable[[Rows, Positions], npt.NDArray[np.float32]] | None = None
    codes: tuple[PackedCodes, PackedCodes, int] | None = None
    by: str = "itself"
