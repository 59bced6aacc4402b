"""Re-ranking: the candidates of a search by Hamming distance are ordered by a finer score.

A search by codes returns many equal distances. The real numbers of a query, before their signs are taken, tell more.
Codes that have learned classes know those better than any vector does: the cosine with stored vectors alone would put
rows of other classes in front, and so the distance keeps a weight beside it. Codes without classes stand for the
vectors themselves, which alone are better.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, hamming_distances, unpack
from lbhash.index.base import Index, Neighbors
from lbhash.index.ids import Names
from lbhash.utils.arrays import as_numbers, check_finite
from lbhash.utils.threads import in_threads
from lbhash.utils.validation import check_choice, check_float, check_int, check_type

By = Literal["asymmetric", "outputs", "embeddings"]
"""The score by which candidates are ranked."""

DISTANCE_WEIGHT = 4.0
"""Of the distance beside the cosine: the smallest of 0.5, 1, 2, 4 … with which no set of validation rows loses mAP
(docs/search.md)."""


_TOGETHER = 1_600  # candidates, whose vectors fit into a core's cache


class Reranked(NamedTuple):
    """The k best of each query's candidates: all arrays are ``[n, k]``, of float32, int32 and ids.

    The scores of a query increase: −⟨ℓ, b⟩, or by outputs or embeddings 1 − cosine + weight · distance / bits.
    Candidates with equal scores are in the order of the search.
    """

    scores: npt.NDArray[np.float32]
    distances: npt.NDArray[np.int32]
    ids: Names


def rerank(
    index: Index,
    found: Neighbors,
    queries: npt.ArrayLike,
    k: int,
    by: By = "asymmetric",
    weight: float | None = None,
) -> Reranked:
    """Order the candidates of a search by a finer score, and return the first k, or all if there are fewer.

    Args:
        index: the index in which they were found.
        found: c candidates of each query (``Index.search``).
        queries: real numbers, ``[n, dim]``: the outputs ℓ of the model, or for ``embeddings`` the embeddings.
        k: how many, from 1 on.
        by: ``asymmetric``: −⟨ℓ, b⟩ with the code b of ±1, which needs only the codes; up to a constant it is the
            distance of b from the query's signs with every bit weighted by |ℓ|. ``outputs`` or ``embeddings``: one
            minus the cosine with the vectors that the index stores, and the distance.
        weight: of the distance, as a share of the bits, beside the cosine; asymmetric scores have none. If None, it is
            that of the index: 4, or 0 if its codes were made without labels.

    Raises:
        TypeError, ValueError: a number or shape is not valid, the index does not store these vectors, or neither the
            caller nor the index says what the weight is.
    """
    check_type(index, "index", Index, "an index")
    check_type(found, "found", tuple, "what the search of an index returned")
    by = check_choice(by, "by", get_args(By))
    if by != "asymmetric" and index.store_vectors != by:
        has = index.store_vectors or "no vectors"
        raise ValueError(
            f"rerank is {by!r} and the index keeps {has}; build it with store_vectors (--store-vectors) {by}"
        )
    if weight is None and by != "asymmetric":
        if index.learns_classes is None:
            raise ValueError(
                "weight is not given, and the index does not know whether a method with labels made its codes; give "
                f"weight {DISTANCE_WEIGHT:g} if one did, else 0, or build the index with learns_classes"
            )
        weight = DISTANCE_WEIGHT * index.learns_classes
    weight = 0.0 if weight is None else check_float(weight, "weight", 0)
    check_int(k, "k", 1)
    rows = check_real(queries, "queries", len(found.ids))
    scores = np.empty(found.ids.shape, np.float32)
    step = max(1, _TOGETHER // max(1, found.ids.shape[1]))

    def score(start: int) -> None:
        asked, ids = rows[start : start + step], found.ids[start : start + step]
        names = ids.ravel()
        stored = unpack(index.codes_of(names), index.bits) if by == "asymmetric" else index.vectors_of(names)
        if stored.shape[1] != asked.shape[1]:
            raise ValueError(f"queries has {asked.shape[1]} numbers a row; the index holds {stored.shape[1]}")
        vectors = stored.astype(np.float32, copy=False).reshape(*ids.shape, -1)
        products = np.matmul(vectors, asked[:, :, None])[:, :, 0]
        if by == "asymmetric":
            scores[start : start + step] = -products
        else:  # the cosine is 0 if either vector has no length
            lengths = np.sqrt(np.einsum("ncd,ncd->nc", vectors, vectors)) * np.linalg.norm(asked, axis=1)[:, None]
            cosines = np.divide(products, lengths, out=np.zeros(ids.shape, np.float32), where=lengths > 0)
            scores[start : start + step] = 1 - cosines + weight / index.bits * found.distances[start : start + step]

    if scores.size:
        in_threads(score, range(0, len(rows), step))
    order = np.argsort(scores, axis=1, kind="stable")[:, :k]
    distances = np.take_along_axis(found.distances, order, 1)
    return Reranked(np.take_along_axis(scores, order, 1), distances, np.take_along_axis(found.ids, order, 1))


def ranks_of_all(index: Index, codes: PackedCodes, queries: npt.ArrayLike, count: int) -> npt.NDArray[np.int32]:
    """Rank all codes of an index for each query: its ``count`` candidates as ``rerank`` orders them, then the others.

    The others are in the order of their distances. Arguments are packed codes of the queries, their embeddings, and an
    index of the ids 0 … n − 1 that keeps embeddings; lower is nearer, ``int32 [queries, n]``.
    """
    found = rerank(index, index.search(codes, count), queries, count, "embeddings")
    whole = hamming_distances(codes, index.codes_of(index.ids())) + count
    np.put_along_axis(whole, found.ids, np.arange(found.ids.shape[1], dtype=np.int32)[None], 1)
    return whole


def check_real(rows: npt.ArrayLike, name: str, count: int | None = None) -> npt.NDArray[np.float32]:
    """Return rows as ``float32 [n, dim]``, or raise ``ValueError`` unless they are finite, and ``count`` of them."""
    found: npt.NDArray[np.float32] = as_numbers(rows, name, count).astype(np.float32, copy=False)
    check_finite(found, name)
    return found
