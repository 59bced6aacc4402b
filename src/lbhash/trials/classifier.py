"""The answer of a classifier as a way to store rows: their first classes, each with its probability in four bits."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lbhash.codes.real import first_places
from lbhash.data.split import EmbeddingSplit
from lbhash.hasher import Hasher, fit_split
from lbhash.trials.questions import Question
from lbhash.trials.stored import Positions, Rows, Scores, Stored
from lbhash.trials.ways import Store, count_classes

if TYPE_CHECKING:
    from lbhash.models.encoder import Encoder

ANSWER = "a classifier's answer"
COUNTS = (1, 2, 3)
"""Numbers of stored classes per row."""
LEVELS = 15
"""Steps of a stored probability, which has four bits."""

_RECIPE = """\
from sklearn.linear_model import LogisticRegression
model = LogisticRegression(C=30, max_iter=1000).fit(rows, np.load("labels.npy"))
p, q = model.predict_proba(rows), model.predict_proba(queries)
first = np.argsort(-p, axis=1)[:, :{count}]  # stored: these classes, each with
steps = np.rint(15 * np.take_along_axis(p, first, 1))  # four bits of probability
known = np.repeat(np.clip(1 - steps.sum(axis=1, keepdims=True) / 15, 0, None) / {others}, p.shape[1], axis=1)
np.put_along_axis(known, first, steps / 15, 1)
apart = 1 - q @ known.T
found = np.argsort(apart, axis=1)[:, :{candidates}]
"""
_RECIPE_SEVERAL = """\
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
model = OneVsRestClassifier(LogisticRegression(C=30, max_iter=1000)).fit(rows, np.load("labels.npy"))
p, q = model.predict_proba(rows), model.predict_proba(queries)
first = np.argsort(-p, axis=1)[:, :{count}]  # stored: these classes, each with
steps = np.rint(15 * np.take_along_axis(p, first, 1))  # four bits of probability
known = np.zeros_like(p)
np.put_along_axis(known, first, steps / 15, 1)
apart = np.exp(sum(np.log1p(-np.outer(a, b).clip(0, 1 - 1e-6)) for a, b in zip(q.T, known.T)))
found = np.argsort(apart, axis=1)[:, :{candidates}]
"""

Floats = npt.NDArray[np.float32]


def posterior(train: EmbeddingSplit, seed: int, counts: Sequence[int] = COUNTS) -> Iterator[Store]:
    """Yield ways to store the first classes of a row's posterior by a logistic regression, one for each of ``counts``.

    A row is ranked by the probability that it shares a class with the query, whose full posterior is known. With one
    label a row, that is Σ q(c) p(c), where the classes that are not stored share the rest of p. With several labels, it
    is 1 − Π (1 − q(c) p(c)) over the stored classes.
    """
    classes, began = count_classes(train), time.perf_counter()
    hasher = Hasher(8, method="logistic", seed=seed)
    fit_split(hasher, train.labeled(), classes)
    fitted = time.perf_counter() - began
    for count in dict.fromkeys(min(count, classes - 1) for count in counts):
        yield _store(hasher, classes, count, fitted)


def _store(hasher: Hasher, classes: int, count: int, fitted: float) -> Store:
    """Return a function that stores ``count`` classes of each row."""
    several = bool((hasher.model_.layout.posterior or {})["several"])
    name = f"{ANSWER}, {count} class{'es' * (count > 1)}"
    size = math.ceil(count * (math.ceil(math.log2(classes)) + 4) / 8)

    def store(question: Question) -> Iterator[Stored]:
        began = time.perf_counter()
        base = kept(probabilities(hasher.model_, question.base), count, several=several)
        times = fitted, time.perf_counter() - began
        query = probabilities(hasher.model_, question.query)

        def scores(some: Rows) -> Scores:
            if not several:
                return 1 - query[some] @ base.T
            chances = np.zeros((len(query[some]), len(base)), np.float32)  # log probabilities that no class is shared
            for of_query, of_base in zip(query[some].T, base.T, strict=True):
                stored = np.flatnonzero(of_base)
                chances[:, stored] += np.log1p(-np.minimum(np.outer(of_query, of_base[stored]), 1 - 1e-6))
            return np.exp(chances)

        def find(some: Rows, number: int) -> Positions:
            return first_places(scores(some), number)

        def apart(some: Rows, found: Positions) -> Floats:
            return np.take_along_axis(scores(some), found, 1).astype(np.float32)

        lines = (_RECIPE_SEVERAL if several else _RECIPE).replace("{count}", str(count))
        lines = lines.replace("{others}", str(classes - count))
        yield Stored(name, None, size, True, "a logistic regression", *times, scores, find, apart, recipe=lines)

    return store


def probabilities(model: Encoder, rows: EmbeddingSplit) -> Floats:
    """Return the class posterior of rows, ``[n, C]``, of a model that has one."""
    import torch

    from lbhash.models.hash_model import HashModel

    branch = HashModel.of(model).posterior
    assert branch is not None
    with torch.inference_mode():
        return np.concatenate([branch.probabilities(torch.from_numpy(chunk)).numpy() for chunk in rows.chunks()])


def kept(probabilities: Floats, count: int, *, several: bool) -> Floats:
    """Return the class probabilities ``[n, C]`` that are known if only the first ``count`` of each row are stored."""
    first = np.argsort(-probabilities, axis=1, kind="stable")[:, :count]
    values = np.rint(np.take_along_axis(probabilities, first, 1) * LEVELS) / np.float32(LEVELS)
    found = np.zeros_like(probabilities)
    others = probabilities.shape[1] - count
    if not several and others:
        found[:] = np.clip(1 - values.sum(axis=1, keepdims=True), 0, None) / others
    np.put_along_axis(found, first, values, 1)
    return found
