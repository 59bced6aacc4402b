"""What else could be stored of a row, beside the codes of a training, and how well it finds the same new rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.centers.targets import DESIGNED
from lbhash.codes import PackedCodes, code_bytes, hamming_distances
from lbhash.data import Dataset, EmbeddingSplit
from lbhash.evaluation.metrics import average_precision
from lbhash.evaluation.neighbors import expected_recall, nearest_by_cosine, unit_rows
from lbhash.evaluation.ranking import ranking_of
from lbhash.evaluation.report import class_means
from lbhash.index import FlatIndex
from lbhash.index.rerank import ranks_of_all
from lbhash.utils.labels import share_a_label

if TYPE_CHECKING:
    from lbhash.hasher import Hasher
    from lbhash.models.encoder import Encoder

CANDIDATES = (50, 100, 200)
NEAREST = 10
MOST_BASE, MOST_PAIRS = 10_000, 10_000_000
"""The most new rows, and pairs of a query and such a row, that are compared; of more, as many are sampled."""
SHARE, LEAST_SECONDS = 1 / 3, 2.0
"""Of the training's seconds, after which no further alternative is begun; but so many seconds it may take."""

_PAIRS = 4_000_000  # at a time

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Alternative:
    """A way to store rows: its name, bytes a row, and scores ``[q, base]`` of some queries, lower is nearer."""

    name: str
    bytes: int
    scores: Callable[[slice], npt.NDArray]


class _Work:
    """The rows that all alternatives store and search: some queries, some new rows, and the labels of both, if any."""

    def __init__(self, dataset: Dataset, hasher: Hasher, new: EmbeddingSplit) -> None:
        asked: Any = dataset.query.labeled()
        self.hasher, self.labeled = hasher, dataset.train.labels is not None
        self.train, self.classes = dataset.train, np.arange(0)
        if self.labeled:
            self.train, self.classes = dataset.train.labeled().compact()
        self.base: EmbeddingSplit = new.subsample(MOST_BASE)
        self.query: EmbeddingSplit = asked.subsample(max(1, MOST_PAIRS // len(self.base)))
        self.asked, self.held = (part.take(slice(None)) for part in (self.query, self.base))
        self.units = [unit_rows(rows) for rows in (self.asked, self.held)]
        self.codes = self.encoded(hasher.model_)
        self.row_bytes = self.base.dim * self.base.embeddings.dtype.itemsize

    def encoded(self, model: Encoder) -> list[PackedCodes]:
        """Return the codes of queries and new rows."""
        return [model.encode(rows) for rows in (self.asked, self.held)]


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
    work = _Work(dataset, hasher, new)
    nearest = nearest_by_cosine(work.asked, work.held, min(NEAREST, len(work.held)))
    rows: list[dict[str, Any]] = []
    left_out: list[str] = []
    for names, make in _KINDS.items():
        some = [name for name in names if name != _METHODS.get(hasher.method_)]
        if CLASS in names and not work.labeled:
            continue
        if CLASS in names and dataset.multi_label:
            some.remove(CLASS)
        try:
            if time.perf_counter() - started > limit:
                raise ValueError("there is no time left")
            rows += [_measured(one, work, nearest, top_k) for one in make(work) if one.name in some]
        except ValueError:  # a logistic regression that has too few rows of each class, too
            left_out += some
    rows.sort(key=lambda one: (one["name"] != CODES, not one["name"].startswith("  ")))
    return {"queries": len(work.query), "base": len(work.base), "rows": rows, "left_out": left_out}


def _measured(one: Alternative, work: _Work, nearest: npt.NDArray[np.int64], top_k: int | None) -> dict[str, Any]:
    values, recalls = [], []
    most = None if top_k is None else min(top_k, len(work.base))
    step = max(1, _PAIRS // len(work.base))
    for start in range(0, len(work.query), step):
        some = slice(start, start + step)
        scores = one.scores(some)
        recalls.append(expected_recall(scores, nearest[some]))
        if work.labeled:
            relevant = share_a_label(np.asarray(work.query.labels)[some], np.asarray(work.base.labels))
            values.append(average_precision(ranking_of(scores, relevant), most))
    found = {"name": one.name, "bytes": one.bytes, "map": None, "map_macro": None}
    if work.labeled:
        precision, labels = np.concatenate(values), np.asarray(work.query.labels)
        scored = ~np.isnan(precision)
        by_class = class_means(labels[scored], precision[scored])[2]
        found |= {"map": float(precision[scored].mean()), "map_macro": float(by_class.mean())}
    return found | {"recall": float(np.concatenate(recalls).mean())}


CODES, CLASS = "these codes", "class number by logistic regression"
COSINE, SIGNS = "embeddings, exact cosine", "one bit a dimension"
_METHODS = {"itq": "ITQ, no labels", "logistic": "logistic regression onto centers"}


def _these(work: _Work) -> Iterator[Alternative]:
    query, base = work.codes
    yield Alternative(CODES, base.shape[1], lambda some: hamming_distances(query[some], base))


def _exact(work: _Work) -> Iterator[Alternative]:
    query, base = work.units
    yield Alternative(COSINE, work.row_bytes, lambda some: -(query[some] @ base.T))


def _reranked(work: _Work) -> Iterator[Alternative]:
    """The second stage (``lbhash.index.rerank``): the nearest codes in a finer order, and then all others."""
    query, base = work.codes
    index = FlatIndex(work.hasher.bits, store_vectors="embeddings", learns_classes=work.hasher.model_.learns_classes)
    index.add(base, vectors=work.base.embeddings[work.base.rows])
    size = base.shape[1] + index.vectors_of([0]).nbytes
    for count in (min(one, len(base)) for one in CANDIDATES):

        def scores(some: slice, count: int = count) -> npt.NDArray:
            return ranks_of_all(index, query[some], work.asked[some], count)

        yield Alternative(_second(count), size, scores)


def _second(count: int) -> str:
    return f"  {count} re-ranked by vectors"


def _signs(work: _Work) -> Iterator[Alternative]:
    mean = sum(chunk.sum(axis=0, dtype=np.float64) for chunk in work.train.chunks()) / len(work.train)
    query, base = (np.where(rows >= mean, np.float32(1), np.float32(-1)) for rows in (work.asked, work.held))
    dim = base.shape[1]
    yield Alternative(SIGNS, code_bytes(dim), lambda some: ((dim - query[some] @ base.T) / 2).astype(np.int32))


def _itq(work: _Work) -> Iterator[Alternative]:
    query, base = work.encoded(_fitted(work, "itq"))
    yield Alternative(_METHODS["itq"], base.shape[1], lambda some: hamming_distances(query[some], base))


def _logistic(work: _Work) -> Iterator[Alternative]:
    from lbhash.models.hash_model import HashModel
    from lbhash.training.posterior import predicted

    model = _fitted(work, "logistic", centers=DESIGNED)
    query, base = work.encoded(model)
    yield Alternative(_METHODS["logistic"], base.shape[1], lambda some: hamming_distances(query[some], base))
    posterior = HashModel.of(model).posterior
    assert posterior is not None
    asked, held = (predicted(posterior, rows) for rows in (work.query, work.base))
    size = 1 if len(work.classes) <= 256 else 2
    yield Alternative(CLASS, size, lambda some: (asked[some, None] != held).astype(np.int32))


def _fitted(work: _Work, method: str, **settings: Any) -> Encoder:
    """Fit a coder with the bits, the seed and the threads of the hasher."""
    from lbhash.training.arguments import TrainingArguments
    from lbhash.training.fit import fit_split

    ours = work.hasher
    settings |= {"bits": ours.bits, "method": method, "seed": ours.seed, "threads": ours.threads, "progress": False}
    return fit_split(TrainingArguments(**settings), work.train, len(work.classes)).model


_KINDS: dict[tuple[str, ...], Callable[[_Work], Iterator[Alternative]]] = {
    (CODES,): _these,
    (COSINE,): _exact,
    (SIGNS,): _signs,
    (_METHODS["itq"],): _itq,
    (_METHODS["logistic"], CLASS): _logistic,
    tuple(map(_second, CANDIDATES)): _reranked,
}
"""What is made together, by the names."""
