"""Splits of a data set: rows of a table, embeddings or images, for training and evaluation."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from lbhash.utils.fingerprint import fingerprint
from lbhash.utils.labels import has_label

SplitT = TypeVar("SplitT", bound="Split")


class Embedder(Protocol):
    """Turns images into embeddings, and has an image processor; ``lbhash.models.backbone.Backbone`` is one."""

    processor: Any
    name: str

    @property
    def dim(self) -> int:
        """Length of an embedding."""

    def embed_pixels(self, pixels: Any) -> npt.NDArray[np.float32]:
        """Embeddings ``float32 [n, dim]`` of preprocessed images, a tensor ``[n, channels, height, width]``."""


@runtime_checkable
class TrainingRows(Protocol):
    """Rows to learn from, embeddings or images; ``EmbeddingSplit`` is one."""

    @property
    def labels(self) -> Any:
        """Labels of all rows: integers ``[n]``, or multi-hot ``[n, C]``; a tensor or an array."""

    def __len__(self) -> int: ...

    def inputs(self, index: npt.NDArray[np.int64], epoch: int) -> Any:
        """Return the model's input of the rows at these positions, ``float32 [m, ...]``; a tensor or an array.

        Randomness, such as augmentation, must depend on the seed, the epoch and the row alone: a resumed run reads its
        rows in other processes.
        """

    def fingerprint(self) -> str:
        """Return a fingerprint of the rows, so that a run is never resumed with other rows."""


class Split(ABC):
    """Some rows of a table, in any order, without a copy of the table; subclasses are frozen dataclasses."""

    rows: npt.NDArray[np.int64]  # their positions in the table, [n]
    labels: npt.NDArray | None  # of these rows, int64 [n] (a row may be UNLABELED) or multi-hot uint8 [n, C]; or None
    needs_backbone: ClassVar[bool]  # whether its rows are images, which need a backbone to become embeddings

    def __len__(self) -> int:
        return len(self.rows)

    @abstractmethod
    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that identify the rows and their labels, in their order."""

    @abstractmethod
    def input_dim(self, backbone: Embedder | None = None) -> int:
        """Return the length of an embedding; that of images depends on the backbone."""

    @abstractmethod
    def chunks(
        self, backbone: Embedder | None = None, *, size: int = ..., workers: int = 0, progress: str = ""
    ) -> Iterator[npt.NDArray[np.float32]]:
        """Yield the embeddings in order, ``float32 [up to size, dim]`` at a time.

        The backbone embeds images, and ``workers`` processes read ahead. A bar named ``progress`` counts the images
        unless the name is empty. ``ValueError`` names an image that is damaged or missing.
        """

    @abstractmethod
    def embedded(self, backbone: Embedder | None = None, *, workers: int = 0, progress: str = "") -> EmbeddingSplit:
        """Return the split as embeddings: itself, or its images embedded by ``chunks`` and held in memory."""

    def with_rows(self: SplitT, rows: npt.NDArray[np.int64], labels: npt.NDArray | None) -> SplitT:
        """Return a split of the same table with other rows and labels."""
        return dataclasses.replace(self, rows=rows, labels=labels)  # type: ignore[type-var]  # it is a dataclass

    def where(self: SplitT, chosen: npt.NDArray[np.bool_]) -> SplitT:
        """Return the rows that are true in ``chosen``, ``bool [n]``, in their order."""
        return self.with_rows(self.rows[chosen], None if self.labels is None else self.labels[chosen])

    def subsample(self: SplitT, most: int, seed: int | Sequence[int] = 0) -> SplitT:
        """Return at most ``most`` of the rows, chosen at random, in their order."""
        if len(self) <= most:
            return self
        chosen = np.zeros(len(self), bool)
        chosen[np.random.default_rng(seed).permutation(len(self))[:most]] = True
        return self.where(chosen)

    def compact(self: SplitT) -> tuple[SplitT, npt.NDArray[np.int64]]:
        """Return the split with its classes numbered 0 … C − 1 without gaps, and their former numbers."""
        assert self.labels is not None
        classes = classes_of(self.labels)
        if not len(classes):
            raise ValueError("no row of the split has a label")
        if self.labels.ndim == 2:
            return self.with_rows(self.rows, np.ascontiguousarray(self.labels[:, classes])), classes
        numbered = np.where(has_label(self.labels), np.searchsorted(classes, self.labels), self.labels)
        return self.with_rows(self.rows, numbered), classes

    def labeled(self: SplitT) -> SplitT:
        """Return the rows that have a label, in their order: the split itself if all have one or labels are None."""
        known = np.ones(0, bool) if self.labels is None else has_label(self.labels)
        return self if known.all() else self.where(known)


@dataclass(frozen=True)
class EmbeddingSplit(Split):
    """Some rows of a table whose ``embeddings`` are ``[N, dim]``; they can be used as ``TrainingRows``."""

    embeddings: npt.NDArray
    rows: npt.NDArray[np.int64]
    labels: npt.NDArray | None
    needs_backbone = False

    def __repr__(self) -> str:
        return f"EmbeddingSplit({len(self):,} rows of {self.dim} numbers)"

    @property
    def dim(self) -> int:
        """Length of an embedding."""
        return int(self.embeddings.shape[1])

    def input_dim(self, backbone: Embedder | None = None) -> int:
        """Return the length of an embedding."""
        return self.dim

    def take(self, index: slice | npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return the embeddings at these positions of the split, ``float32 [m, dim]``."""
        return self.embeddings[self.rows[index]].astype(np.float32)

    def inputs(self, index: npt.NDArray[np.int64], epoch: int) -> npt.NDArray[np.float32]:
        """Return the embeddings at these positions, ``float32 [m, dim]``; they are the same in every epoch."""
        return self.take(index)

    def chunks(
        self, backbone: Embedder | None = None, *, size: int = 8192, workers: int = 0, progress: str = ""
    ) -> Iterator[npt.NDArray[np.float32]]:
        """Yield the embeddings in order, ``float32 [up to size, dim]`` at a time."""
        for start in range(0, len(self), size):
            yield self.take(slice(start, start + size))

    def embedded(self, backbone: Embedder | None = None, *, workers: int = 0, progress: str = "") -> EmbeddingSplit:
        """Return the split itself."""
        return self

    def fingerprint(self) -> str:
        """Return the fingerprint of the embeddings and labels, in their order."""
        return fingerprint(self.chunks(), b"" if self.labels is None else self.labels)

    def standardization(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return mean and standard deviation of every feature, ``float64 [dim]`` each."""
        total, squares = np.zeros(self.dim), np.zeros(self.dim)
        shift = self.take(slice(0, 1))[0].astype(np.float64)  # keeps the squares precise if the data are far from 0
        for chunk in self.chunks():
            centered = chunk - shift
            total += centered.sum(axis=0)
            squares += np.square(centered).sum(axis=0)
        mean = total / len(self)
        return shift + mean, np.sqrt(np.maximum(squares / len(self) - mean**2, 0))


def classes_of(labels: npt.NDArray) -> npt.NDArray[np.int64]:
    """Return the classes that occur, in ascending order."""
    return np.unique(labels[has_label(labels)]) if labels.ndim == 1 else np.flatnonzero(labels.any(axis=0))
