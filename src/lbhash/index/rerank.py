"""Re-ranking: order the candidates of a search by Hamming distance again, by a finer score.

A search by codes returns many equal distances; a query's real numbers, before taking signs, rank more finely. Codes
trained with labels know the classes better than any vector: the cosine alone would rank rows of other classes first, so
the distance stays in the score. Codes trained without labels only approximate the vectors, so the cosine alone is
better.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.index.results import By, SearchResult
from lbhash.utils.arrays import as_numbers, check_finite, unit_rows
from lbhash.utils.threads import in_threads

DISTANCE_WEIGHT = 4.0
"""Weight of the distance beside the cosine: the smallest of 0.5, 1, 2, 4 … that loses no mAP on any set of held-out
rows (docs/search.md)."""


_TOGETHER = 1_600  # candidates, whose vectors fit into a core's cache


def reranked(index: Any, found: SearchResult, queries: npt.ArrayLike, k: int, by: By) -> SearchResult:
    """Re-rank the candidates of a search, and return the first k, or all if there are fewer.

    The score is 1 − cosine + weight · Hamming distance / bits. The weight is 4, or 0 if the codes were made without
    labels. Candidates with equal scores stay in the order of the search.

    Args:
        index: the index that was searched.
        found: c candidates per query.
        queries: ``[n, dim]``, of the kind of the stored vectors.
        k: how many, from 1 on.
        by: which vectors to compare; the index must store them.

    Raises:
        TypeError, ValueError: a number or shape is not valid, the index does not store these vectors, or it does not
            know whether its codes were made with labels.
    """
    if index.vectors != by:
        has = index.vectors or "no vectors"
        raise ValueError(f"rerank is {by!r} and the index stores {has}; make it with the vectors {by!r}")
    if index.learns_classes is None:
        raise ValueError(
            f"rerank is {by!r}, and the index does not know whether labels trained its codes; make it by "
            "Index.from_hasher, or with learns_classes=True or False"
        )
    weight = DISTANCE_WEIGHT * index.learns_classes
    rows = unit_rows(check_real(queries, "queries", len(found.ids)))
    scores = np.empty(found.ids.shape, np.float32)
    step = max(1, _TOGETHER // max(1, found.ids.shape[1]))

    def score(start: int) -> None:
        asked, ids = rows[start : start + step], found.ids[start : start + step]
        stored = index.vectors_of(ids.ravel())
        if stored.shape[1] != asked.shape[1]:
            raise ValueError(f"queries has {asked.shape[1]} numbers a row; the index holds {stored.shape[1]}")
        vectors = stored.astype(np.float32, copy=False).reshape(*ids.shape, -1)
        products = np.matmul(vectors, asked[:, :, None])[:, :, 0]
        # The cosine is 0 if either vector has no length.
        lengths = np.sqrt(np.einsum("ncd,ncd->nc", vectors, vectors))
        cosines = np.divide(products, lengths, out=np.zeros(ids.shape, np.float32), where=lengths > 0)
        scores[start : start + step] = 1 - cosines + weight / index.bits * found.hamming[start : start + step]

    if scores.size:
        in_threads(score, range(0, len(rows), step))
    order = np.argsort(scores, axis=1, kind="stable")[:, :k]
    return SearchResult(*(np.take_along_axis(part, order, 1) for part in (scores, found.ids, found.hamming)))


def check_real(rows: npt.ArrayLike, name: str, count: int | None = None) -> npt.NDArray[np.float32]:
    """Return rows as ``float32 [n, dim]``; ``ValueError`` unless they are finite and their number is ``count``."""
    with np.errstate(over="ignore"):
        found: npt.NDArray[np.float32] = as_numbers(rows, name, count).astype(np.float32, copy=False)
    check_finite(found, name)
    return found
