"""What else could be stored of a row, beside the codes of a training, and how well it finds the same new rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lbhash.comparison import ways
from lbhash.comparison.ways import Rows, Stored
from lbhash.data import Dataset, EmbeddingSplit
from lbhash.evaluation.metrics import average_precision
from lbhash.evaluation.neighbors import expected_recall
from lbhash.evaluation.ranking import ranking_of
from lbhash.evaluation.report import class_means
from lbhash.utils.labels import share_a_label

if TYPE_CHECKING:
    from lbhash.hasher import Hasher

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

_PAIRS = 4_000_000  # at a time


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
    rows = Rows(train, base, query.subsample(max(1, MOST_PAIRS // len(base))))
    found: list[dict[str, Any]] = []
    left_out: list[str] = []
    for names, make in _kinds(rows, hasher):
        some = [name for name in names if name != _METHODS.get(hasher.method_)]
        try:
            if time.perf_counter() - started > limit:
                raise ValueError("there is no time left")
            found += [
                _measured(name, one, rows, top_k) for name, one in zip(names, make(), strict=True) if name in some
            ]
        except ValueError:  # a logistic regression that has too few rows of each class, too
            left_out += some
    found.sort(key=lambda one: (one["name"] != CODES, not one["name"].startswith("  ")))
    return {"queries": len(rows.query), "base": len(rows.base), "rows": found, "left_out": left_out}


def _kinds(rows: Rows, hasher: Hasher) -> Iterator[tuple[list[str], Callable[[], Iterator[Stored]]]]:
    """Yield what is made together: the names that are shown, and what makes them."""
    codes = partial(ways.codes, CODES, hasher.bits, "", hasher.model_, 0.0, rows)
    settings: dict[str, Any] = {"bits": hasher.bits, "seed": hasher.seed, "counts": ()}
    few = replace(rows, train=rows.train.subsample(MOST_TRAIN))
    yield [CODES], partial(codes, counts=())
    yield [COSINE], lambda: iter([ways.embeddings(few)])
    yield [SIGNS], partial(ways.signs, few, counts=())
    yield [_METHODS["itq"]], partial(ways.coder, rows, method="itq", **settings)
    if rows.classes:
        single = np.asarray(rows.train.labels).ndim == 1
        names = [_METHODS["logistic"], *([CLASS] if single else [])]
        yield names, partial(ways.logistic, rows, class_number=True, **settings)
    counts = [min(count, len(rows.base)) for count in COUNTS]
    yield (
        [f"  {count} re-ranked by embeddings" for count in COUNTS],
        lambda: (one for one in codes(counts=counts) if one.rerank),
    )


def _measured(name: str, one: Stored, rows: Rows, top_k: int | None) -> dict[str, Any]:
    values, recalls = [], []
    labels, base = (None if part.labels is None else np.asarray(part.labels) for part in (rows.query, rows.base))
    most = None if top_k is None else min(top_k, len(rows.base))
    step = max(1, _PAIRS // len(rows.base))
    for start in range(0, len(rows.query), step):
        some = slice(start, start + step)
        scores = one.scores(some)
        recalls.append(expected_recall(scores, rows.nearest[some]))
        if labels is not None and base is not None:
            values.append(average_precision(ranking_of(scores, share_a_label(labels[some], base)), most))
    found = {"name": name, "bytes": one.memory + one.disk, "map": None, "map_macro": None}
    if labels is not None:
        precision = np.concatenate(values)
        scored = ~np.isnan(precision)
        by_class = class_means(labels[scored], precision[scored])[2]
        found |= {"map": float(precision[scored].mean()), "map_macro": float(by_class.mean())}
    return found | {"recall": float(np.concatenate(recalls).mean())}
