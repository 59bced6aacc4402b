"""What every index of codes can do, wherever it keeps them.

The distance is Hamming's, in bits. An id is an integer from 0 to 2^63 − 1 that stays with its code. The ranking of a
query is by distance, then by id, and ``search`` returns its first k: where several codes are at the k-th distance,
those of the lowest ids. An approximate kind may miss some, and picks among tied codes those that it met.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, check_codes, check_width

if TYPE_CHECKING:
    import pyarrow as pa

Attributes = Mapping[str, Sequence[Any]]
"""Columns by name, each with a value for every code; a ``pyarrow.Table`` is taken too."""

Where = Mapping[str, Any]
"""A filter: names of columns, and for each the value, or the values, that a code must have one of."""


class Neighbors(NamedTuple):
    """The k nearest codes of n queries.

    Attributes:
        distances: in bits, ``int32 [n, k]``, rising.
        ids: ``int64 [n, k]``, rising where distances are equal.
    """

    distances: npt.NDArray[np.int32]
    ids: npt.NDArray[np.int64]


class Within(NamedTuple):
    """All codes within a radius of n queries, one query after the other.

    Attributes:
        limits: ``int64 [n + 1]``; the codes of query i are at ``limits[i]`` to ``limits[i + 1]``.
        distances: in bits, ``int32 [limits[n]]``, rising within a query.
        ids: ``int64 [limits[n]]``, rising where distances are equal.
    """

    limits: npt.NDArray[np.int64]
    distances: npt.NDArray[np.int32]
    ids: npt.NDArray[np.int64]

    def of(self, query: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Distances and ids of one query."""
        found = slice(self.limits[query], self.limits[query + 1])
        return self.distances[found], self.ids[found]


class Index(ABC):
    """Codes that are searched by Hamming distance, with their ids and attributes.

    Attributes:
        bits: h, the length of a code.
        kind: how it searches: flat, mih, ivf, hnsw or milvus.
        model: fingerprint of the model that made the codes; empty where it is not known.
        build: a random id of its building, which tells it from one that was built anew in its place; empty in memory.
        generation: grows with every change; two openings that say the same, of the same build, hold the same.
        label: the column of attributes with the label, ``label`` (an integer) or ``labels`` (a list); empty where
            there is none.
        kept: what real-valued vectors it holds for re-ranking, ``outputs`` or ``embeddings``; empty where none.

    ``search``, ``range_search`` and what else only reads may be called from several threads at once.
    """

    bits: int
    kind: str
    model: str
    build: str
    generation: int
    label: str
    kept: str

    @abstractmethod
    def __len__(self) -> int:
        """Number of codes."""

    @abstractmethod
    def add(
        self,
        codes: npt.ArrayLike,
        ids: npt.ArrayLike | None = None,
        attributes: pa.Table | Attributes | None = None,
        *,
        vectors: npt.ArrayLike | None = None,
    ) -> None:
        """Add codes, all of them or none.

        Args:
            codes: ``uint8 [n, ceil(bits / 8)]``.
            ids: ``int64 [n]``; where they are not given they count on from the largest that the index ever had.
            attributes: columns of n values each, of the names and types that the index has; the first codes say which.
            vectors: ``[n, dim]``, where the index keeps them.

        Raises:
            TypeError, ValueError: anything does not fit, or an id is there already.
        """

    @abstractmethod
    def search(self, codes: npt.ArrayLike, k: int, *, where: Where | None = None) -> Neighbors:
        """The k nearest codes of each query.

        Args:
            codes: ``uint8 [n, ceil(bits / 8)]``.
            k: from 1 to the size of the index.
            where: only codes that have one of these values in every column named, for instance ``{"label": [3, 5]}``;
                of a column of lists one value of the list must be among them. Fewer than k are returned where fewer
                codes are left.
        """

    @abstractmethod
    def range_search(self, codes: npt.ArrayLike, radius: int, *, where: Where | None = None) -> Within:
        """All codes within ``radius`` bits of each query, of every kind of index exactly."""

    @abstractmethod
    def remove(self, ids: npt.ArrayLike) -> int:
        """Remove the codes with these ids, all or none; returns their number.

        Raises:
            ValueError: the index does not have one of them.
        """

    @abstractmethod
    def ids(self) -> npt.NDArray[np.int64]:
        """All ids, ``int64 [len]``, rising."""

    @abstractmethod
    def codes_of(self, ids: npt.ArrayLike) -> PackedCodes:
        """Codes of these ids, ``uint8 [m, ceil(bits / 8)]``; ``ValueError`` where the index does not have one."""

    @abstractmethod
    def attributes_of(self, ids: npt.ArrayLike) -> pa.Table:
        """A row for each of these ids: the column ``id``, then the attributes."""

    def vectors_of(self, ids: npt.ArrayLike) -> npt.NDArray:
        """Kept vectors of these ids, ``[m, dim]`` of float16 or uint8."""
        raise ValueError(f"an index of kind {self.kind} keeps no vectors")

    @abstractmethod
    def save(self, path: str | Path) -> None:
        """Write all of it as a new index to ``path``, a folder."""

    @abstractmethod
    def verify(self) -> None:
        """Read all of it; ``ValueError`` where anything is not as it was written."""

    @abstractmethod
    def info(self) -> dict[str, Any]:
        """What there is to say of it, as JSON can hold it."""

    def outdated(self) -> bool:
        """Whether another generation, or another build, is by now where this one was opened."""
        return False

    def check(self, codes: npt.ArrayLike, name: str = "codes") -> PackedCodes:
        """Codes as ``uint8 [n, ceil(bits / 8)]``; an error where they do not fit the index."""
        rows = check_codes(codes, name)
        check_width(rows, self.bits, name)
        return rows

    def check_k(self, k: int) -> int:
        """``k``; an error where it is not from 1 to the size of the index."""
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)):
            raise TypeError(f"k is {k!r}; it must be an integer from 1 to the size of the index ({len(self)})")
        if not len(self):
            raise ValueError("index is empty: it has no code to search for; add some first")
        if not 1 <= k <= len(self):
            raise ValueError(f"k is {k}; it must be from 1 to the size of the index ({len(self)})")
        return int(k)

    def check_radius(self, radius: int) -> int:
        """``radius``; an error where it is not from 0 to the length of a code."""
        if isinstance(radius, bool) or not isinstance(radius, (int, np.integer)):
            raise TypeError(f"radius is {radius!r}; it must be an integer from 0 to {self.bits}")
        if not 0 <= radius <= self.bits:
            raise ValueError(f"radius is {radius}; it must be from 0 to the length of a code ({self.bits})")
        return int(radius)


def check_ids(ids: npt.ArrayLike, count: int | None = None, *, repeat: bool = False) -> npt.NDArray[np.int64]:
    """Ids as ``int64 [n]``.

    Args:
        ids: integers from 0 to 2^63 − 1.
        count: how many there must be, one for each code.
        repeat: whether two of them may be equal.

    Raises:
        TypeError: an id is not an integer.
        ValueError: there are not as many, two are equal, or one is out of range.
    """
    names = np.asarray(ids)
    if names.ndim != 1 or (count is not None and len(names) != count):
        wanted = "[m], a list of them" if count is None else f"[{count}], one for each code"
        raise ValueError(f"ids has shape {names.shape}; it must be {wanted}")
    if names.dtype.kind in "fO":  # what integers become that no 64 bits hold
        for value in ids if isinstance(ids, (list, tuple)) else names.tolist():
            if isinstance(value, int) and not 0 <= value < 2**63:
                raise ValueError(f"ids holds {value}; an id must be at least 0 and below 2^63")
    if len(names) and names.dtype.kind not in "iu":
        raise TypeError(f"ids holds {names.dtype}; it must hold integers")
    if len(names) and not 0 <= names.min() <= names.max() < 2**63:
        wrong = names.min() if names.min() < 0 else names.max()
        raise ValueError(f"ids holds {wrong}; an id must be at least 0 and below 2^63")
    ordered = names if repeat or (names[1:] > names[:-1]).all() else np.sort(names)
    if not repeat and (twice := np.flatnonzero(ordered[1:] == ordered[:-1])).size:
        raise ValueError(f"ids holds {ordered[twice[0]]} twice; every code must have an id of its own")
    return names.astype(np.int64)


def check_model(index: Index, model: str, bits: int, name: str = "the model") -> None:
    """Raise ``ValueError`` where ``index`` was made by another model.

    Args:
        index: of whatever kind.
        model: the fingerprint, for instance ``HashModel.fingerprint()``; empty where it is not known.
        bits: length of the model's codes.
        name: what to call it in the message.
    """
    if bits != index.bits:
        raise ValueError(f"index holds codes of {index.bits} bits and {name} makes {bits}; use one model for both")
    if model and index.model and model != index.model:
        raise ValueError(f"index was made by model {index.model} and {name} is {model}; use one model for both")
