"""What else could be stored of a row, beside the codes of a training, and how well it finds the same new rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from lbhash.data import Dataset
from lbhash.data.split import EmbeddingSplit
from lbhash.evaluation.report import class_means
from lbhash.hasher import Hasher
from lbhash.trials import ways
from lbhash.trials.questions import Question
from lbhash.trials.trial import Measured, Trial
from lbhash.trials.ways import Fit

COUNTS = (50, 100, 200)
"""The candidates that are re-ranked."""
MOST_BASE, MOST_PAIRS = 10_000, 10_000_000
"""The most new rows, and pairs of a query and such a row, that are compared; of more, as many are sampled."""
MOST_TRAIN = 20_000
"""The most training rows by which medians are known; coders have a limit of their own."""
SHARE, LEAST_SECONDS = 1 / 3, 2.0
"""Of the training's seconds, after which no further alternative is begun; but so many seconds it may take."""
CODES, CLASS = "these codes", "class number by logistic regression"
COSINE, SIGNS = "embeddings, exact cosine", "one bit a dimension"
_METHODS = {"itq": "ITQ, no labels", "logistic": "logistic regression onto centers"}


def alternatives(
    dataset: Dataset[EmbeddingSplit], hasher: Hasher, new: EmbeddingSplit, seconds: float, top_k: int | None = None
) -> dict[str, Any]:
    """Measure the codes of a fitted hasher beside what else could be stored, on the same queries and the same rows.

    Args:
        dataset: embeddings, whose train split the hasher was fitted to.
        hasher: fitted.
        new: base rows that it was not fitted to, of which all have a label if those of the train split do.
        seconds: of the training; no alternative is begun after a third of them, or after two seconds if that is more.
        top_k: mAP@k; over all these rows if None, or if there are fewer.

    Returns:
        ``queries`` and ``base``, how many rows were compared; ``rows``, of each alternative its ``name``, the ``bytes``
        of a row, ``map`` and ``map_macro``, None without labels, and ``recall``, the share of the ten nearest by cosine
        among the first ten; and ``left_out``, the names of those for which there was no time, or too few rows.
    """
    started = time.perf_counter()
    limit = max(LEAST_SECONDS, SHARE * seconds)
    base = new.subsample(MOST_BASE)
    query: Any = dataset.query.labeled()
    train = dataset.train if dataset.train.labels is None else dataset.train.labeled().compact()[0]
    query = query.subsample(max(1, MOST_PAIRS // len(base)))
    question = Question("new rows", base, query, top_k=top_k)
    found: list[dict[str, Any]] = []
    left_out: list[str] = []
    for names, fit, rows in _kinds(train, len(base), hasher):
        try:
            if time.perf_counter() - started > limit:
                raise ValueError("there is no time left")
            made = Trial(fit, rows, (question,)).run()
            found += [_line(name, one, question) for name, one in zip(names, made, strict=True) if name]
        except ValueError:  # a logistic regression that has too few rows of each class, too
            left_out += filter(None, names)
    found.sort(key=lambda one: (one["name"] != CODES, not one["name"].startswith("  ")))
    return {"queries": len(query), "base": len(base), "rows": found, "left_out": left_out}


def _kinds(train: EmbeddingSplit, base: int, hasher: Hasher) -> Iterator[tuple[list[str], Fit, EmbeddingSplit]]:
    """Yield what is made together: the names that are shown, "" for none, what makes them, and the rows to fit to."""
    few = train.subsample(MOST_TRAIN)

    def codes(_: EmbeddingSplit) -> Iterator[ways.Store]:
        yield ways.codes(CODES, hasher.bits, "", hasher.model_, 0.0, counts=())

    def again(_: EmbeddingSplit) -> Iterator[ways.Store]:
        counts = [min(count, base) for count in COUNTS]
        stored = ways.codes(CODES, hasher.bits, "", hasher.model_, 0.0, counts=counts)
        yield lambda question: (one for one in stored(question) if one.rerank)

    def shown(method: str) -> str:
        return "" if method == hasher.method_ else _METHODS[method]

    yield [CODES], codes, few
    yield [COSINE], ways.embeddings, few
    yield [SIGNS], partial(ways.signs, counts=()), few
    if shown("itq"):
        itq = Hasher(hasher.bits, method="itq", seed=hasher.seed)
        yield [shown("itq")], partial(ways.hashed, hasher=itq, counts=()), train
    if train.labels is not None:
        names = [shown("logistic"), *([CLASS] if train.labels.ndim == 1 else [])]
        logistic = partial(
            ways.logistic, hasher=Hasher(hasher.bits, method="logistic", seed=hasher.seed), class_number=True, counts=()
        )
        yield names, logistic, train
    yield [f"  {count} re-ranked by embeddings" for count in COUNTS], again, few


def _line(name: str, one: Measured, question: Question) -> dict[str, Any]:
    found = {"name": name, "bytes": one.memory + one.disk, "map": None, "map_macro": None}
    if "map" in one.figures:
        precision, labels = one.figures["map"], np.asarray(question.query.labels)
        scored = ~np.isnan(precision)
        by_class = class_means(labels[scored], precision[scored])[2]
        found |= {"map": float(precision[scored].mean()), "map_macro": float(by_class.mean())}
    return found | {"recall": float(one.figures["recall"].mean())}
