"""What a way stores of the rows of a question, what it weighs and takes, and how it ranks them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes

Rows: TypeAlias = "slice | npt.NDArray[np.intp]"
Scores: TypeAlias = "npt.NDArray[np.float32] | npt.NDArray[np.int32]"

EMBEDDINGS = "embeddings"
"""The name of the way that keeps all numbers."""


@dataclass(frozen=True)
class Way:
    """A way to store rows, and what it weighs and takes.

    Attributes:
        name: of the way.
        bits: the length of a code, if the way takes any.
        memory: bytes a row that a search keeps in memory.
        disk: bytes a row that it reads from disk besides.
        rerank: how many candidates are ranked again by the embeddings; 0 if none are.
        labels: whether the way learns from labels.
        take: what gives a user the same: a command, or FAISS's name of it.
        fit: seconds to fit it.
        encode: seconds to encode the base.
    """

    name: str
    bits: int | None
    memory: int
    disk: int
    rerank: int
    labels: bool
    take: str
    fit: float
    encode: float

    @property
    def title(self) -> str:
        """The way with its size and its second stage."""
        size = "" if self.bits is None else f", {self.bits} bits"
        return f"{self.name}{size}{' + embeddings' if self.rerank else ''}"

    @property
    def weight(self) -> float:
        """Bytes a row: those on disk count an eighth, since they cost less."""
        return self.memory + self.disk / 8


@dataclass(frozen=True)
class Stored(Way):
    """The base of a question as one way stores it.

    Attributes:
        scores: of some queries and all base rows, ``[queries, base]``; lower is nearer.
        search: asks for the nearest of all queries, as a user would.
        codes: of the queries and the base, and their bits; None if they are no codes.
        by: what a query is to the search: itself, or of a network or coder the real ``outputs`` whose signs are its
            code.
    """

    scores: Callable[[Rows], Scores]
    search: Callable[[], Any]
    codes: tuple[PackedCodes, PackedCodes, int] | None = None
    by: str = "itself"
