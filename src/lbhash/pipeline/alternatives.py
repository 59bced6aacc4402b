"""Compare trained codes with alternatives: the bytes that each stores per row, and how well it finds new rows."""

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
"""The second stage; recall is measured again after it."""
MOST_BASE, MOST_PAIRS = 10_000, 10_000_000
"""The most new rows, and the most pairs of a query and a new row, that are compared; larger data are sampled."""
MOST_TRAIN = 20_000
"""The most training rows for computing medians; coders have their own limit."""
SHARE, LEAST_SECONDS = 1 / 3, 5.0
"""After a third of the training's time, or 5 seconds if that is more, no further alternative is begun."""
CODES, CLASS = "these codes", "a classifier's answer"
COSINE, SIGNS = "embeddings, exact cosine", "one bit a dimension"
_METHODS = {"itq": "ITQ, no labels", "logistic": "logistic onto centers"}


def alternatives(
    dataset: Dataset[EmbeddingSplit], hasher: Hasher, new: EmbeddingSplit, seconds: float, top_k: int | None = None
) -> dict[str, Any]:
    """Measure the codes of a fitted hasher and their alternatives on the same queries and rows.

    Args:
        dataset: embeddings; the hasher was fitted to their train split.
        hasher: the fitted hasher.
        new: base rows that it was not fitted to; all have labels if the train split has labels.
        seconds: duration of the training. No alternative is begun after a third of it, or after five seconds if that is
            more.
        top_k: the k of mAP@k; if None or if there are fewer rows, all rows are ranked.

    Returns:
        ``queries`` and ``base``, the numbers of rows compared; ``rows``, a list with each alternative's ``name``,
        ``bytes`` per row, ``map`` and ``map_macro`` (None without labels), ``recall`` (share of the ten nearest by
        cosine among the first ten) and ``reranked`` (recall after re-ranking 100 candidates by embeddings, which
        ``bytes`` does not include); and ``left_out``, the names of alternatives that had no time or too few rows.
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
        except ValueError:  # also a logistic regression with too few rows per class
            left_out.append(name)
    return {"queries": len(query), "base": len(base), "rows": found, "left_out": left_out}


def _kinds(train: EmbeddingSplit, hasher: Hasher) -> Iterator[tuple[str, Fit, EmbeddingSplit]]:
    """Yield each alternative's name, its fitting function, and the rows to fit to."""
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
