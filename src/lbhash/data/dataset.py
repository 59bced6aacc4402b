"""A data set as training and evaluation see it: embeddings, labels, and who is train, base and query."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

SPLITS = ("train", "base", "query")


@dataclass(frozen=True)
class Table:
    """Rows as a file holds them.

    Attributes:
        embeddings: ``[n, dim]`` of uint8, float16 or float32, in memory, memory-mapped, or read from a file where they
            are looked at (``lbhash.data.readers.StreamedEmbeddings``). Other number types are taken and cast to float32
            as they are used, so that float64 keeps seven digits: center numbers that vary less than that before they
            come here.
        labels: ``int64 [n]``, or multi-hot ``uint8 [n, C]``; ``None`` where the file has none.
        flags: split name to ``bool [n]``, where the file says which rows belong to which split.
        name: where the rows come from, for messages.
    """

    embeddings: npt.NDArray
    labels: npt.NDArray | None
    flags: dict[str, npt.NDArray[np.bool_]]
    name: str


@dataclass(frozen=True)
class EmbeddingSplit:
    """One split: some rows of a table, without a copy of their embeddings.

    Attributes:
        embeddings: the whole table's, ``[N, dim]``.
        rows: which of them, ``int64 [n]``.
        labels: of these rows, ``int64 [n]`` or multi-hot ``uint8 [n, C]``; ``None`` where there are none.
    """

    embeddings: npt.NDArray
    rows: npt.NDArray[np.int64]
    labels: npt.NDArray | None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def dim(self) -> int:
        """Length of an embedding."""
        return int(self.embeddings.shape[1])

    def take(self, index: slice | npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Embeddings at these positions of the split, ``float32 [m, dim]``."""
        return self.embeddings[self.rows[index]].astype(np.float32)

    def chunks(self, size: int = 8192) -> Iterator[npt.NDArray[np.float32]]:
        """The embeddings in order, ``float32 [up to size, dim]`` at a time."""
        for start in range(0, len(self), size):
            yield self.take(slice(start, start + size))

    def where(self, chosen: npt.NDArray[np.bool_]) -> EmbeddingSplit:
        """Some of the rows, in their order; ``chosen`` is ``bool [n]``."""
        return replace(self, rows=self.rows[chosen], labels=None if self.labels is None else self.labels[chosen])

    def compact(self) -> tuple[EmbeddingSplit, npt.NDArray[np.int64]]:
        """The split with its classes numbered 0 … C − 1 without gaps, and what their numbers were.

        Raises:
            ValueError: no row has a label.
        """
        labels, classes = numbered(self.labels)
        return replace(self, labels=labels), classes

    def fingerprint(self) -> str:
        """16 hexadecimal digits that identify the split: of a SHA-256 of its embeddings and labels, in their order."""
        digest = hashlib.sha256()
        for chunk in self.chunks():
            digest.update(chunk.tobytes())
        if self.labels is not None:
            digest.update(np.ascontiguousarray(self.labels).tobytes())
        return digest.hexdigest()[:16]

    def standardization(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Mean and standard deviation of every feature, ``float64 [dim]`` each."""
        total, squares = np.zeros(self.dim), np.zeros(self.dim)
        shift = self.take(slice(0, 1))[0].astype(np.float64)  # so that far-off data keep their digits in the squares
        for chunk in self.chunks():
            centered = chunk - shift
            total += centered.sum(axis=0)
            squares += np.square(centered).sum(axis=0)
        mean = total / len(self)
        return shift + mean, np.sqrt(np.maximum(squares / len(self) - mean**2, 0))


class Rows(Protocol):
    """Rows that may have labels."""

    @property
    def labels(self) -> npt.NDArray | None:
        """``int64 [n]`` or multi-hot ``uint8 [n, C]``; ``None`` where there are none."""

    def __len__(self) -> int: ...


RowsT = TypeVar("RowsT", bound=Rows)


@dataclass(frozen=True)
class Splits(Generic[RowsT]):
    """Train, base and query of one data set under one protocol, of whatever the rows are.

    Raises:
        ValueError: a split is empty, the splits differ in kind of labels, or a class of the training split has no
            query, so that no figure would tell how it is found.
    """

    name: str
    protocol: str
    train: RowsT
    base: RowsT
    query: RowsT

    def __post_init__(self) -> None:
        for split in SPLITS:
            part = self.part(split)
            if not len(part):
                raise ValueError(f"the {split} split of {self.name} has no row")
            if part.labels is None:
                raise ValueError(f"the {split} split of {self.name} has no labels")
            if part.labels.ndim != self.train.labels.ndim:  # type: ignore[union-attr]
                raise ValueError(f"the {split} split is labeled otherwise than the train split: one has several a row")
        absent = np.setdiff1d(_classes(self.train.labels), _classes(self.query.labels))
        if len(absent):
            raise ValueError(
                f"class {absent[0]} has no query in {self.name} ({len(absent)} of {self.classes} classes have none); "
                "every class of the train split must have one: leave such a class out, or mark one of its rows in_query"
            )

    def part(self, split: str) -> RowsT:
        """The split of that name: train, base or query."""
        if split not in SPLITS:
            raise ValueError(f"split is {split!r}; it must be one of {', '.join(SPLITS)}")
        return getattr(self, split)

    @property
    def multi_label(self) -> bool:
        """Whether a row may have several labels."""
        return self.train.labels is not None and self.train.labels.ndim == 2

    @property
    def classes(self) -> int:
        """C, the number of classes: one more than the largest label."""
        parts = [self.part(split).labels for split in SPLITS]
        return max(part.shape[1] if part.ndim == 2 else int(part.max()) + 1 for part in parts if part is not None)


@dataclass(frozen=True)
class Dataset(Splits[EmbeddingSplit]):
    """Train, base and query of embeddings.

    Raises:
        ValueError: as of all splits, or they differ in dimension.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        for split in SPLITS:
            if self.part(split).dim != self.train.dim:
                raise ValueError(
                    f"embeddings of the {split} split have {self.part(split).dim} numbers and those of the train split "
                    f"{self.train.dim}; they must be equal"
                )


def numbered(labels: npt.NDArray | None) -> tuple[npt.NDArray, npt.NDArray[np.int64]]:
    """Labels with their classes numbered 0 … C − 1 without gaps, and what the classes' numbers were.

    Raises:
        ValueError: no row has a label.
    """
    classes = _classes(labels)
    assert labels is not None
    if not len(classes):
        raise ValueError("no row of the split has a label")
    made = labels[:, classes] if labels.ndim == 2 else np.searchsorted(classes, labels)
    return np.ascontiguousarray(made), classes


def _classes(labels: npt.NDArray | None) -> npt.NDArray[np.int64]:
    assert labels is not None
    return np.unique(labels) if labels.ndim == 1 else np.flatnonzero(labels.any(axis=0))
