"""What a linear model says of a training row whose label it has not seen.

A network knows the labels of its training rows by heart; what can be told of a row's class from its embedding, it does
not show. A ridge regression from embeddings onto the labels' indicators has the answer in closed form: with the hat
matrix H = 11ᵀ/n + X(XᵀX + λ)⁻¹Xᵀ of the centred embeddings X, the prediction for row i of the model that is fitted
without it is

    ŷ₋ᵢ = yᵢ − (yᵢ − ŷᵢ) / (1 − Hᵢᵢ)

(D. M. Allen, "The relationship between variable selection and data augmentation and a method for prediction",
Technometrics 1974). λ is the one with the least squared error of these predictions. A softmax makes probabilities of
them, or of several labels a row a logistic function, with the temperature that makes the labels likeliest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, softmax

from lbhash.data.dataset import Part
from lbhash.labels import one_hot

PENALTIES = tuple(float(10 ** (k / 2)) for k in range(-2, 5))
"""λ in units of ``dim``, which is what a row's squared length is on average once it is standardised."""

_SAMPLE = 20_000  # rows by which λ and the temperature are chosen

Floats = npt.NDArray[np.float64]
Indicators = npt.NDArray[np.uint8]  # of labels, [n, C]


def leave_one_out(part: Part, classes: int) -> npt.NDArray[np.float32]:
    """p(class | row) of every row, by a linear model fitted to all the others.

    Args:
        part: embeddings, and labels from 0 to ``classes`` − 1 or multi-hot. The embeddings are read a chunk at a time,
            three times, and standardised.
        classes: C.

    Returns:
        ``float32 [n, C]``; of one label a row each row sums to 1, of several each number is a probability of its own.
        A class that no row has is 0.
    """
    hot = one_hot(part.labels, classes)
    rows = np.empty(hot.shape, np.float32)
    for own, found in _posteriors(part, hot):
        rows[own] = found
    return rows


def confusion(part: Part, classes: int) -> npt.NDArray[np.float64]:
    """How much of each class a linear model takes for each other, where it has not seen the row's label.

    Args:
        part: as of ``leave_one_out``.
        classes: C.

    Returns:
        ``float64 [C, C]``: in row c and column d the sum of p(d | row) over the rows that have the label c.
    """
    hot = one_hot(part.labels, classes)
    taken = np.zeros((classes, classes))
    for own, found in _posteriors(part, hot):
        taken += hot[own].T @ found
    return taken


def _posteriors(part: Part, hot: Indicators) -> Iterator[tuple[slice, npt.NDArray[np.floating]]]:
    """p(class | row) a chunk of rows at a time, and which these are."""
    ridge = _Ridge.of(part, hot)
    step = -(-len(part) // _SAMPLE)
    sample = np.arange(0, len(part), step)
    x, y = part.take(sample), hot[sample]
    errors = {penalty: np.square(ridge.without_own_row(x, y, penalty * part.dim) - y).mean() for penalty in PENALTIES}
    penalty = min(errors, key=errors.__getitem__) * part.dim
    found = ridge.without_own_row(x, y, penalty)
    single = part.labels is not None and part.labels.ndim == 1
    scale = _temperature(found, y) if single else _logistic(found, y)
    start = 0
    for chunk in part.chunks():
        own = slice(start, start + len(chunk))
        found = ridge.without_own_row(chunk, hot[own], penalty)
        found[:, ridge.share == 0] = -np.inf
        yield own, softmax(scale[0] * found, axis=1) if single else expit(scale[0] * found + scale[1])
        start += len(chunk)


@dataclass(frozen=True)
class _Ridge:
    """Ridge regressions with every λ at once, by the eigenvectors of XᵀX."""

    rows: int
    mean: Floats
    scale: Floats
    share: Floats
    """Of the rows, that have each label, ``[C]``."""
    values: Floats
    vectors: Floats
    weights: Floats
    """XᵀY in the eigenvectors' axes, ``[dim, C]``."""

    @classmethod
    def of(cls, part: Part, hot: Indicators) -> _Ridge:
        mean, deviation = part.standardisation()
        scale = np.where(deviation > 0, deviation, 1.0)
        gram, products = np.zeros((part.dim, part.dim)), np.zeros((part.dim, hot.shape[1]))
        share = hot.mean(axis=0)
        start = 0
        for chunk in part.chunks():
            x = (chunk - mean) / scale
            gram += x.T @ x
            products += x.T @ (hot[start : start + len(chunk)] - share)
            start += len(chunk)
        values, vectors = np.linalg.eigh(gram)
        return cls(len(part), mean, scale, share, values.clip(min=0), vectors, vectors.T @ products)

    def without_own_row(self, x: npt.NDArray, y: Indicators, penalty: float) -> Floats:
        """ŷ₋ᵢ of some of the rows, ``[m, C]``."""
        z = ((x - self.mean) / self.scale) @ self.vectors
        shrunk = z / (self.values + penalty)
        leverage = (shrunk * z).sum(axis=1, keepdims=True) + 1 / self.rows
        residual = y - self.share - shrunk @ self.weights
        return y - residual / np.maximum(1 - leverage, 1e-6)  # 0 where there is no other row to learn from


def _temperature(scores: Floats, y: Indicators) -> Floats:
    """The factor t of softmax(t · scores) with the greatest likelihood of the labels, ``[1]``."""

    def loss(log_t: Floats) -> float:
        return -float((y * log_softmax(np.exp(log_t[0]) * scores, axis=1)).sum()) / len(y)

    found = minimize(loss, [np.log(5.0)], method="Nelder-Mead", bounds=[(-3, 7)])
    return np.exp(found.x)


def _logistic(scores: Floats, y: Indicators) -> Floats:
    """a and b of 1 / (1 + exp(−a · score − b)), common to all labels, with the greatest likelihood."""

    def loss(ab: Floats) -> float:
        z = ab[0] * scores + ab[1]
        return float((np.logaddexp(0, z) - y * z).mean())

    return minimize(loss, [5.0, -2.0], method="Nelder-Mead", bounds=[(1e-6, 1000), (-100, 100)]).x
