"""The second stage: the candidates of a search by Hamming distance, in the order of a finer score.

A search by codes returns few distances and many ties. What a query has before its signs are taken tells more.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from lbhash.codes import unpack
from lbhash.index.base import Index, Neighbors

By = Literal["asymmetric", "outputs", "embeddings"]
"""What candidates are ranked by."""


class Reranked(NamedTuple):
    """The k best of each query's candidates.

    Attributes:
        scores: ``float32 [n, k]``, rising; lower is nearer. By outputs or embeddings 1 − cosine, else −⟨ℓ, b⟩.
        distances: Hamming distances of the same, ``int32 [n, k]``.
        ids: ``int64 [n, k]``; where scores are equal, as the search had them.
    """

    scores: npt.NDArray[np.float32]
    distances: npt.NDArray[np.int32]
    ids: npt.NDArray[np.int64]


def rerank(index: Index, found: Neighbors, queries: npt.ArrayLike, k: int, by: By = "asymmetric") -> Reranked:
    """Rank candidates anew.

    Args:
        index: where they were found.
        found: c candidates a query (``Index.search``).
        queries: real numbers, ``[n, dim]``: the outputs ℓ of the model, or for ``embeddings`` the embeddings.
        k: how many to keep, from 1 to c.
        by: ``asymmetric``: −⟨ℓ, b⟩ with the code b of ±1, which needs nothing but the codes; it is how far b is from
            the query's signs with every bit weighted by |ℓ|, up to a constant. ``outputs`` or ``embeddings``: one minus
            the cosine with the vectors that the index keeps.

    Raises:
        TypeError, ValueError: a number or shape does not fit, or the index does not keep what is asked for.
    """
    if by not in get_args(By):
        raise ValueError(f"by is {by!r}; it must be one of {', '.join(get_args(By))}")
    if by != "asymmetric" and index.kept != by:
        has = f"keeps {index.kept}" if index.kept else "keeps no vectors"
        raise ValueError(f"rerank is {by!r} and the index {has}; build it with keep {by}")
    candidates = found.ids.shape[1]
    if not 1 <= k <= candidates:
        raise ValueError(f"k is {k}; it must be from 1 to the number of candidates ({candidates})")
    rows = np.asarray(queries, np.float32)
    if rows.ndim != 2 or len(rows) != len(found.ids) or not np.isfinite(rows).all():
        raise ValueError(f"queries has shape {rows.shape}; it must be [{len(found.ids)}, dim] of finite numbers")
    scores = np.empty(found.ids.shape, np.float32)
    for row, (query, ids) in enumerate(zip(rows, found.ids, strict=True)):
        held = unpack(index.codes_of(ids), index.bits) if by == "asymmetric" else index.vectors_of(ids)
        if held.shape[1] != len(query):
            raise ValueError(f"queries has {len(query)} numbers a row; the index holds {held.shape[1]}")
        vectors = held.astype(np.float32)
        scores[row] = -(vectors @ query) if by == "asymmetric" else 1 - _cosines(vectors, query)
    order = np.argsort(scores, axis=1, kind="stable")[:, :k]
    distances = np.take_along_axis(found.distances, order, 1)
    return Reranked(np.take_along_axis(scores, order, 1), distances, np.take_along_axis(found.ids, order, 1))


def _cosines(vectors: npt.NDArray[np.float32], query: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Cosine of each vector with the query; 0 where either has no length."""
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
    return np.divide(vectors @ query, lengths, out=np.zeros(len(vectors), np.float32), where=lengths > 0)
