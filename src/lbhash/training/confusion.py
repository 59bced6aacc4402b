"""The confusion matrix of a linear model on training rows, each predicted without its own label.

For a ridge regression from embeddings onto the labels' indicators there is a closed form. With the hat matrix H = 11ᵀ/n
+ X(XᵀX + λ)⁻¹Xᵀ of the centered embeddings X, the model fitted without row i predicts for row i

    ŷ₋ᵢ = yᵢ − (yᵢ − ŷᵢ) / (1 − Hᵢᵢ)

(D. M. Allen, "The relationship between variable selection and data augmentation and a method for prediction",
Technometrics 1974). λ minimizes the squared error of these predictions. A softmax (for several labels per row, a
logistic function) with the maximum-likelihood temperature turns them into probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lbhash.data.split import EmbeddingSplit
from lbhash.utils.labels import one_hot

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

PENALTIES = tuple(float(10 ** (k / 2)) for k in range(-2, 5))
"""λ in units of ``dim``, the mean squared length of a standardized row."""

MOST_DIM = 2048
"""The longest rows; longer ones are projected at random onto this many numbers (D. Achlioptas, "Database-friendly
random projections", JCSS 2003), because eigenvectors take cubic time."""

MOST_ROWS = 100_000
"""The most rows that are read; larger data are sampled."""

_SAMPLE = 20_000  # rows for choosing λ and the temperature
_ROWS, _NUMBERS = 8192, 1 << 24  # most rows and numbers at a time

Floats = npt.NDArray[np.float64]
Indicators = npt.NDArray[np.uint8]  # 0 or 1 for each label, [n, C]


def confusion(split: EmbeddingSplit, classes: int) -> npt.NDArray[np.float64]:
    """Return how often a linear model that was fitted without a row takes this row for another class.

    Args:
        split: embeddings, and labels from 0 to ``classes`` − 1 or multi-hot. More than ``MOST_ROWS`` rows are sampled;
            rows longer than ``MOST_DIM`` are projected.
        classes: C.

    Returns:
        ``float64 [C, C]``: row c, column d is the sum of p(d | row) over the rows with label c; 0 for a class without
        rows. With one label per row, the p(d | row) sum to 1.

    Raises:
        ValueError: an embedding is NaN or infinite.
    """
    split = split.subsample(MOST_ROWS)
    return sum((_sums(y, found) for y, found in _posteriors(split, classes)), np.zeros((classes, classes)))


def _posteriors(split: EmbeddingSplit, classes: int) -> Iterator[tuple[Indicators, npt.NDArray[np.floating]]]:
    """Yield the labels' indicators and p(class | row), in chunks of rows."""
    ridge = _Ridge.of(split, classes)
    chosen = split.subsample(min(_SAMPLE, 4 * _NUMBERS // max(len(ridge.values), classes)))
    assert chosen.labels is not None
    y = one_hot(chosen.labels, classes)
    z = np.concatenate([ridge.rotated(x) for x, _ in _chunks(chosen, classes)])
    errors = {penalty: np.square(ridge.without_own_row(z, y, penalty * split.dim) - y).mean() for penalty in PENALTIES}
    penalty = min(errors, key=errors.__getitem__) * split.dim
    found = ridge.without_own_row(z, y, penalty)
    single = split.labels is not None and split.labels.ndim == 1
    scale = _temperature(found, y) if single else _logistic(found, y)
    parts = [(z, y)] if chosen is split else ((ridge.rotated(x), y) for x, y in _chunks(split, classes))
    for z, y in parts:
        found = ridge.without_own_row(z, y, penalty)
        found[:, ridge.share == 0] = -np.inf
        yield y, _probabilities(found, scale)


def _sums(y: Indicators, values: npt.NDArray[np.floating]) -> Floats:
    """Return Yᵀ times the values: their sums by label, ``[C, k]``."""
    return np.stack([values[has_label].sum(axis=0) for has_label in y.T.astype(bool)])


def _chunks(split: EmbeddingSplit, classes: int) -> Iterator[tuple[npt.NDArray[np.float32], Indicators]]:
    """Yield embeddings and the labels' indicators, in chunks of rows."""
    start = 0
    for x in split.chunks(size=max(1, min(_ROWS, _NUMBERS // max(split.dim, classes)))):
        assert split.labels is not None
        yield x, one_hot(split.labels[start : start + len(x)], classes)
        start += len(x)


@dataclass(frozen=True)
class _Ridge:
    """Ridge regressions for any λ, using the eigenvectors of XᵀX."""

    rows: int
    mean: Floats
    scale: Floats
    directions: Floats | csr_matrix | None
    """The directions onto which standardized rows are projected if they are long or few, ``[axes, dim]``."""
    share: Floats
    """The share of the rows that have each label, ``[C]``."""
    values: Floats
    vectors: Floats
    weights: Floats
    """XᵀY in the eigenvectors' axes."""

    @classmethod
    def of(cls, split: EmbeddingSplit, classes: int) -> _Ridge:
        mean, deviation = split.standardization()
        if not (np.isfinite(mean).all() and np.isfinite(deviation).all()):
            raise ValueError("split has embeddings that are NaN or infinite; every number must be finite")
        scale = np.where(deviation > 0, deviation, 1.0)
        labels = np.asarray(split.labels)
        share = (np.bincount(labels, minlength=classes) if labels.ndim == 1 else labels.sum(axis=0)) / len(split)
        directions = None
        # n rows span at most n dimensions.
        if len(split) < min(split.dim, MOST_DIM) and len(split) * split.dim <= _NUMBERS:
            directions = np.linalg.qr(((split.take(slice(None)) - mean) / scale).T)[0].T
        elif split.dim > MOST_DIM:
            from sklearn.random_projection import SparseRandomProjection  # slow to import

            directions = SparseRandomProjection(MOST_DIM, random_state=0).fit(np.zeros((1, split.dim))).components_
        axes = split.dim if directions is None else directions.shape[0]
        gram, products = np.zeros((axes, axes)), np.zeros((axes, classes))
        for chunk, y in _chunks(split, classes):
            x = _projected((chunk - mean) / scale, directions)
            gram += x.T @ x
            products += _sums(y, x).T - np.outer(x.sum(axis=0), share)
        values, vectors = np.linalg.eigh(gram)
        return cls(len(split), mean, scale, directions, share, values.clip(min=0), vectors, vectors.T @ products)

    def rotated(self, x: npt.NDArray) -> Floats:
        """Return standardized rows in the eigenvectors' axes, ``[m, dim]``; this takes most of the time."""
        return _projected((x - self.mean) / self.scale, self.directions) @ self.vectors

    def without_own_row(self, z: Floats, y: Indicators, penalty: float) -> Floats:
        """Return ŷ₋ᵢ for rows that are ``rotated``, ``[m, C]``."""
        inverse = 1 / (self.values + penalty)
        leverage = np.square(z) @ inverse + 1 / self.rows
        residual = y - self.share - z @ (inverse[:, None] * self.weights)
        return y - residual / np.maximum(1 - leverage, 1e-6)[:, None]  # 0 if there is no other row


def _projected(x: Floats, directions: Floats | csr_matrix | None) -> Floats:
    return x if directions is None else (directions @ x.T).T


def _temperature(scores: Floats, y: Indicators) -> Floats:
    """Return the factor t of softmax(t · scores) that maximizes the labels' likelihood, ``[1]``."""
    from scipy.optimize import minimize  # slow to import

    def loss(log_t: Floats) -> float:
        return -float((y * _log_softmax(np.exp(log_t[0]) * scores)).sum()) / len(y)

    return np.exp(minimize(loss, [np.log(5.0)], method="Nelder-Mead", bounds=[(-3, 7)]).x)


def _logistic(scores: Floats, y: Indicators) -> Floats:
    """Return a and b of 1 / (1 + exp(−a · score − b)), common to all labels, that maximize the likelihood."""
    from scipy.optimize import minimize  # slow to import

    def loss(ab: Floats) -> float:
        z = ab[0] * scores + ab[1]
        return float((np.logaddexp(0, z) - y * z).mean())

    return minimize(loss, [5.0, -2.0], method="Nelder-Mead", bounds=[(1e-6, 1000), (-100, 100)]).x


def _probabilities(scores: Floats, scale: Floats) -> Floats:
    """Return p(class | row) by a softmax (one number in ``scale``) or a logistic function (two)."""
    if len(scale) == 1:
        return _softmax(scale[0] * scores)
    from scipy.special import expit

    return expit(scale[0] * scores + scale[1])


def _softmax(scores: Floats) -> Floats:
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def _log_softmax(scores: Floats) -> Floats:
    lower = scores - scores.max(axis=1, keepdims=True)
    return lower - np.log(np.exp(lower).sum(axis=1, keepdims=True))
