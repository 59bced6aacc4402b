"""The alternatives to the codes of a training: what each stores of a row, and how well it finds the same new rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from lbhash.data import Dataset
from lbhash.data.split import EmbeddingSplit
from lbhash.evaluation.report import class_means
from lbhash.hasher import Hasher
from lbhash.trials import ways
from lbhash.trials.classifier import posterior
from lbhash.trials.questions import Question
from lbhash.trials.stored import Stage
from lbhash.trials.trial import Measured, Trial
from lbhash.trials.ways import Fit

AGAIN = Stage("embeddings", 100)
"""The second stage, after which recall is measured again."""
MOST_BASE, MOST_PAIRS = 10_000, 10_000_000
"""The most new rows, and pairs of a query and such a row, that are compared; of more, as many are sampled."""
MOST_TRAIN = 20_000
"""The most training rows by which medians are known; coders have a limit of their own."""
SHARE, LEAST_SECONDS = 1 / 3, 5.0
"""Of the training's seconds, after which no further alternative is begun; but so many seconds it may take."""
CODES, CLASS = "these codes", "a classifier's answer"
COSINE, SIGNS = "embeddings, exact cosine", "one bit a dimension"
_METHODS = {"itq": "ITQ, no labels", "logistic": "logistic onto centers"}


def alternatives(
    dataset: Dataset[EmbeddingSplit], hasher: Hasher, new: EmbeddingSplit, seconds: float, top_k: int | None = None
) -> dict[str, Any]:
    """Measure the codes of a fitted hasher and their alternatives on the same queries and rows.

    Args:
        dataset: embeddings, whose train split the hasher was fitted to.
        hasher: fitted.
        new: base rows that it was not fitted to, of which all have a label if those of the train split do.
        seconds: of the training; no alternative is begun after a third of them, or after five seconds if that is more.
        top_k: mAP@k; over all these rows if None, or if there are fewer.

    Returns:
        ``queries`` and ``base``, how many rows were compared; ``rows``, of each alternative its ``name``, the ``bytes``
        of a row, ``map`` and ``map_macro``, None without labels, ``recall``, the share of the ten nearest by cosine
        among the first ten, and ``reranked``, the same after 100 candidates are ranked again by embeddings, which no
        ``bytes`` count; and ``left_out``, the names of those for which there was no time, or too few rows.
    """
    started = time.perf_counter()
    limit = max(LEAST_SECONDS, SHARE * seconds)
    base = new.subsample(MOST_BASE)
    query: Any = dataset.query.labeled()
    train = dataset.train if dataset.train.labels is None else dataset.train.labeled().compact()[0]
    query = query.subsample(max(1, MOST_PAIRS // len(base)))
    question = Question("new rows", base, query, top_k=top_k, stages=(AGAIN,))
    found: list[dict[str, Any]] = []
    left_out: list[str] = []
    for name, fit, rows in _kinds(train, hasher):
        try:
            if time.perf_counter() - started > limit:
                raise ValueError("there is no time left")
            found.append(_line(name, list(Trial(fit, rows, (question,)).run()), question))
        except ValueError:  # a logistic regression that has too few rows of each class, too
            left_out.append(name)
    return {"queries": len(query), "base": len(base), "rows": found, "left_out": left_out}


def _kinds(train: EmbeddingSplit, hasher: Hasher) -> Iterator[tuple[str, Fit, EmbeddingSplit]]:
    """Yield what is compared: its name, what makes it, and the rows to fit to."""
    few = train.subsample(MOST_TRAIN)
    settings: dict[str, Any] = {"bits": hasher.bits, "seed": hasher.seed}

    def codes(_: EmbeddingSplit) -> Iterator[ways.Store]:
        yield ways.codes(CODES, hasher.bits, "", hasher.model_, 0.0)

    yield CODES, codes, few
    yield COSINE, ways.embeddings, few
    yield SIGNS, ways.signs, few
    if train.labels is not None:
        yield CLASS, partial(posterior, seed=hasher.seed, counts=(2,)), train
    for method, name in _METHODS.items():
        if method != hasher.method_ and (method == "itq" or train.labels is not None):
            yield name, partial(ways.hashed, hasher=Hasher(**settings, method=method)), train


def _line(name: str, found: Sequence[Measured], question: Question) -> dict[str, Any]:
    alone, again = found[0], found[-1]
    line = {"name": name, "bytes": alone.memory, "map": None, "map_macro": None}
    if "map" in alone.figures:
        precision, labels = alone.figures["map"], np.asarray(question.query.labels)
        scored = ~np.isnan(precision)
        by_class = class_means(labels[scored], precision[scored])[2]
        line |= {"map": float(precision[scored].mean()), "map_macro": float(by_class.mean())}
    recall = {"recall": alone, "reranked": again}
    return line | {figure: float(one.figures["recall"].mean()) for figure, one in recall.items()}
