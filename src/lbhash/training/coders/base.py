"""The coders' base class, the linear map that most of them fit, and shared linear algebra."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from lbhash.data.split import EmbeddingSplit
from lbhash.models.hash_model import HashModel
from lbhash.models.posterior import ClassPosterior

MOST_ROWS = 100_000
"""The most rows that a coder is fitted to; larger data are sampled."""

MOST_TRAINED = 20_000
"""The most rows that a rotation or a small network is fitted to."""

Floats = npt.NDArray[np.floating]


@dataclass(frozen=True)
class LinearMap:
    """ℓ = W (x − mean) + bias, with W ``[bits, dim]``; the code is the sign of ℓ."""

    mean: Floats
    weight: Floats
    bias: Floats

    def outputs(self, x: npt.NDArray) -> Floats:
        """Return ℓ of embeddings ``[n, dim]``, ``[n, bits]``."""
        return (x - self.mean) @ self.weight.T + self.bias


class Coder(ABC):
    """A method that fits a small model to embeddings with its own settings.

    To add a coder, write a file with a subclass, and put its name into ``CODERS``.

    Args:
        bits: h, the length of a code.
        seed: the random seed.
        classes: C, the number of classes, if the coder needs labels.
        centers: the class centers ``[C, bits]`` of ±1, if the coder uses them.
    """

    needs_labels: ClassVar[bool] = True
    """Whether the coder learns from labels; otherwise it never reads them."""

    settings: ClassVar[frozenset[str]] = frozenset(
        {"bits", "encoder", "method", "seed", "device", "threads", "workers", "progress"}
    )
    """The settings of ``Hasher`` that the coder accepts; others are refused. With "centers", it gets class centers."""

    network: ClassVar[bool] = False
    """Whether the coder trains a network with a hidden layer."""

    takes_images: ClassVar[bool] = False
    """Whether the coder can also learn from images, using ``views`` of them if given."""

    views: npt.NDArray[np.float32] | None = None
    """Embeddings ``[n, views, dim]`` of augmented images, for each row of the fitted split."""

    def __init__(self, bits: int, seed: int = 0, classes: int = 0, centers: npt.NDArray[np.int8] | None = None) -> None:
        self.bits, self.classes, self.centers = bits, classes, centers
        self.rng = np.random.default_rng(seed)

    @abstractmethod
    def fit(self, rows: EmbeddingSplit) -> LinearMap | HashModel | ClassPosterior:
        """Fit the rows, and return a linear map, a trained model, or a class posterior.

        Labels, if the coder needs any, are from 0 to ``classes`` − 1 or multi-hot.
        """


def signs(values: Floats) -> npt.NDArray[np.float32]:
    """Return ±1 for each number, +1 for 0."""
    return np.where(values >= 0, np.float32(1), np.float32(-1))


def random_rotation(size: int, rng: np.random.Generator) -> Floats:
    """Return a uniformly random orthogonal matrix (F. Mezzadri, Notices of the AMS, 2007)."""
    q, r = np.linalg.qr(rng.standard_normal((size, size)))
    return q * np.sign(np.diag(r))


def mean_of(rows: EmbeddingSplit) -> Floats:
    """Return the mean of each dimension, ``float64 [dim]``."""
    return sum((chunk.sum(axis=0, dtype=np.float64) for chunk in rows.chunks()), np.zeros(rows.dim)) / len(rows)


def finite_standardization(rows: EmbeddingSplit) -> tuple[Floats, Floats]:
    """Return each dimension's mean and deviation, ``float64 [dim]``; ``ValueError`` if one is NaN or infinite."""
    mean, deviation = rows.standardization()
    if not (np.isfinite(mean).all() and np.isfinite(deviation).all()):
        raise ValueError("the rows have embeddings that are NaN or infinite; every number must be finite")
    return mean, deviation


def principal_axes(rows: EmbeddingSplit, most: int) -> tuple[Floats, Floats]:
    """Return the rows' mean ``[dim]`` and their first principal axes ``[dim, m]``, orthonormal columns.

    m is ``most``, or less if the rows vary in fewer directions.

    Raises:
        ValueError: an embedding is NaN or infinite, or all rows are equal.
    """
    mean = mean_of(rows)
    if not np.isfinite(mean).all():
        raise ValueError("the rows have embeddings that are NaN or infinite; every number must be finite")
    scatter = np.zeros((rows.dim, rows.dim))
    for chunk in rows.chunks():
        centered = (chunk - mean).astype(np.float32)
        scatter += centered.T @ centered
    values, vectors = np.linalg.eigh(scatter)
    kept = int((values > 1e-6 * values[-1]).sum()) if values[-1] > 0 else 0
    if not kept:
        raise ValueError("the rows are all equal; there is nothing to tell them apart by")
    return mean, vectors[:, ::-1][:, : min(most, kept)]


def projected(rows: EmbeddingSplit, mean: Floats, axes: Floats) -> npt.NDArray[np.float32]:
    """Return (x − mean) · axes of every row, ``float32 [n, m]``."""
    axes = axes.astype(np.float32)
    return np.concatenate([(chunk - mean).astype(np.float32) @ axes for chunk in rows.chunks()])
