"""Evaluation without labels: how many of the embeddings' nearest neighbors by cosine the codes keep."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, as_packed_alike, hamming_distances
from lbhash.codes.real import Asked, check_outputs, outputs_bits
from lbhash.data.readers import check_embeddings
from lbhash.evaluation.metrics import average_precision, recall_at
from lbhash.evaluation.ranking import Ranking, distance_counts, ranking_of
from lbhash.utils.arrays import as_numbers, unit_rows
from lbhash.utils.validation import check_filled, check_ints

NEIGHBORS = (10, 100)
ENOUGH = 0.95
"""The recall for which a report says how many candidates are needed."""
_CHUNK = 1 << 16  # base rows at a time


@dataclass(frozen=True)
class NeighborReport:
    """How many of the embeddings' nearest neighbors the codes keep.

    The base is ranked by the real outputs of the queries if these were given, else by Hamming distance.

    Attributes:
        k: the numbers of neighbors.
        recall: for each of them, the share of the k nearest by cosine that is among the first k codes.
        map: for each of them, the mAP over the whole base with the k nearest by cosine as relevant.
        rerank: numbers of candidates.
        reranked: for each number of neighbors and of candidates, the recall after the nearest codes are re-ranked by
            cosine.
        candidates: for each number of neighbors the fewest candidates that bring this recall to ``ENOUGH``.
        queries, base, bits: the numbers of codes, and their length.
        by_bits: the same by Hamming distance, if the other figures are by the queries' real outputs; else None.
    """

    k: tuple[int, ...]
    recall: tuple[float, ...]
    map: tuple[float, ...]
    rerank: tuple[int, ...]
    reranked: tuple[tuple[float, ...], ...]
    candidates: tuple[int, ...]
    queries: int
    base: int
    bits: int
    by_bits: NeighborReport | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return all values by name, as JSON holds them."""
        values = {
            "neighbors": self.k,
            "neighbor_recall": self.recall,
            "neighbor_map": self.map,
            "rerank": self.rerank,
            "neighbor_reranked": map(list, self.reranked),
            "neighbor_candidates": self.candidates,
        }
        return {name: list(value) for name, value in values.items()} | {
            **{name: getattr(self, name) for name in ("queries", "base", "bits")},
            **({} if self.by_bits is None else {"by_bits": self.by_bits.as_dict()}),
        }


def evaluate_neighbors(
    query_codes: npt.ArrayLike,
    query_embeddings: npt.ArrayLike,
    base_codes: npt.ArrayLike,
    base_embeddings: npt.ArrayLike,
    k: Sequence[int] | None = None,
    bits: int | None = None,
    rerank: Sequence[int] = (),
    *,
    query_outputs: npt.ArrayLike | None = None,
) -> NeighborReport:
    """Return recall@k and mAP with the k nearest by cosine as relevant, in expectation over tied codes.

    A second stage ranks candidates again by the cosines of these embeddings.

    Args:
        query_codes: packed, ``uint8 [n, bytes]``, or a column for each bit (``lbhash.codes.as_packed_alike``).
        query_embeddings: the rows that were encoded, ``[n, dim]``.
        base_codes: as the query codes.
        base_embeddings: the rows that were encoded, ``[m, dim]``.
        k: numbers of neighbors, each at most the size of the base; by default 10 and 100, or all of a smaller base.
            Among equal cosines any may count.
        bits: the length of a code; by default 8 · bytes.
        rerank: numbers of candidates to rank again, each at most the size of the base.
        query_outputs: the real outputs of the queries, ``[n, bits]``, whose signs are their codes: the base is ranked
            by these, as searches rank it, and ``by_bits`` has the figures by Hamming distance.

    Raises:
        TypeError, ValueError: codes or embeddings are not as above, or do not fit each other.
    """
    bits = outputs_bits(query_outputs) if bits is None else bits
    (query, base), length = as_packed_alike(bits, query_codes=query_codes, base_codes=base_codes)
    held = as_numbers(base_embeddings, "base_embeddings", len(base))
    asked = as_numbers(query_embeddings, "query_embeddings", len(query), held.shape[1])
    for rows, name in ((asked, "query_embeddings"), (held, "base_embeddings")):
        check_filled(rows, name)
        check_embeddings(rows, name)
    k = sorted({min(count, len(base)) for count in NEIGHBORS}) if k is None else k
    k = check_ints(k, "k", 1, len(base), "the size of the base")
    check_filled(k, "k", "number of neighbors")
    rerank = check_ints(rerank, "rerank", 1, len(base), "the size of the base")
    nearest = nearest_by_cosine(asked, held, max(k))
    rankings = neighbor_rankings(query, base, nearest, k, length)
    by_bits = NeighborReport(
        tuple(k),
        tuple(float(recall_at(ranking, count).mean()) for ranking, count in zip(rankings, k, strict=True)),
        tuple(float(average_precision(ranking).mean()) for ranking in rankings),
        tuple(rerank),
        tuple(tuple(float(recall_at(ranking, count).mean()) for count in rerank) for ranking in rankings),
        tuple(map(_candidates, rankings)),
        len(query),
        len(base),
        length,
    )
    if query_outputs is None:
        return by_bits
    real = _by_outputs(check_outputs(query_outputs, query, length), base, nearest, k, rerank)
    return replace(real, by_bits=by_bits)


def _by_outputs(
    asked: Asked, base: PackedCodes, nearest: npt.NDArray[np.int64], k: Sequence[int], rerank: Sequence[int]
) -> NeighborReport:
    """Return the report of the rankings by real outputs."""
    ends, precisions = np.zeros((len(k), len(base) + 2)), np.zeros(len(k))
    for some, scores in asked.blocks(base):
        wanted = nearest[some]
        rows = np.arange(len(scores))[:, None]
        ordered, found = np.sort(scores, axis=1), scores[rows, wanted]
        before = np.stack([np.searchsorted(*pair) for pair in zip(ordered, found, strict=True)])
        upto = np.stack([np.searchsorted(*pair, side="right") for pair in zip(ordered, found, strict=True)])
        for at, count in enumerate(k):
            # In a random order of ties a neighbor is on each place from ``before`` to ``upto`` with equal probability.
            nearer, last = before[:, :count], upto[:, :count]
            np.add.at(ends[at], nearer + 1, 1 / (last - nearer) / count)
            np.add.at(ends[at], last + 1, -1 / (last - nearer) / count)
            relevant = np.zeros(scores.shape, bool)
            relevant[rows, wanted[:, :count]] = True
            precisions[at] += average_precision(ranking_of(scores, relevant)).sum()
    curves = np.cumsum(np.cumsum(ends, axis=1), axis=1) / len(asked)  # the recall of the first 0, 1, … codes
    return NeighborReport(
        tuple(k),
        tuple(float(curve[count]) for curve, count in zip(curves, k, strict=True)),
        tuple((precisions / len(asked)).tolist()),
        tuple(rerank),
        tuple(tuple(float(curve[count]) for count in rerank) for curve in curves),
        tuple(min(len(base), int(np.argmax(curve >= ENOUGH - 1e-12))) for curve in curves),
        len(asked),
        len(base),
        asked.outputs.shape[1],
    )


def neighbor_rankings(
    query: PackedCodes, base: PackedCodes, nearest: npt.NDArray[np.int64], k: Sequence[int], bits: int
) -> list[Ranking]:
    """Return the rankings of the base by code, one for each number of relevant neighbors.

    ``nearest`` has the positions of the base rows that are nearest to each query, ``int64 [queries, max(k)]``, the
    nearest first. A second stage of c candidates orders the first c of a ranking by cosine, so ``recall_at(ranking,
    c)`` is the recall after it.
    """
    total = distance_counts(query, base, bits)
    pairs = zip(query, nearest, strict=True)
    distances = np.stack([hamming_distances(code[None], base[found])[0] for code, found in pairs])
    return [Ranking(total, _counts(distances[:, :count], bits)[:, None]) for count in k]


def nearest_by_cosine(queries: npt.NDArray, base: npt.NDArray, k: int) -> npt.NDArray[np.int64]:
    """Return the positions of the k base rows with the highest cosine with each query, ``int64 [queries, k]``."""
    import faiss

    wanted = unit_rows(queries)
    best, found = np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
    for start in range(0, len(base), _CHUNK):
        chunk = unit_rows(base[start : start + _CHUNK])
        cosines, places = faiss.knn(wanted, chunk, min(k, len(chunk)), metric=faiss.METRIC_INNER_PRODUCT)
        best, found = np.hstack([best, cosines]), np.hstack([found, places + start])
        order = np.argsort(-best, axis=1, kind="stable")[:, :k]
        best, found = np.take_along_axis(best, order, 1), np.take_along_axis(found, order, 1)
    return found


def recall_of_others(outputs: npt.NDArray[np.float32], rows: npt.NDArray, k: int) -> float:
    """Return the share of each row's k nearest by cosine that is among the first k by outputs, both among other rows.

    It is the mean over the rows, in expectation over ties. A row is looked for by its real outputs ``[n, bits]``.
    """
    found = nearest_by_cosine(rows, rows, k + 1)
    itself = found == np.arange(len(rows))[:, None]
    itself[~itself.any(axis=1), -1] = True  # more than k rows are as near as it is
    nearest, asked = found[~itself].reshape(len(rows), k), Asked(outputs)
    recalls = []
    for some, scores in asked.blocks(asked.codes):
        scores[np.arange(len(scores)), np.arange(some.start, some.stop)] = np.inf
        recalls.append(expected_recall(scores, nearest[some]))
    return float(np.concatenate(recalls).mean())


def expected_recall(
    scores: npt.NDArray, wanted: npt.NDArray[np.int64], first: int | None = None
) -> npt.NDArray[np.float64]:
    """Return the share of wanted rows among the first k of a ranking, ``float64 [queries]``.

    Rows of equal scores count as in a random order, in expectation: of n rows that share the k-th score, m have a place
    among the first k, and a wanted one of them counts m/n.

    Args:
        scores: ``[queries, base]``, lower is nearer.
        wanted: positions of base rows, ``int64 [queries, m]``.
        first: k, by default m.
    """
    k = first or wanted.shape[1]
    last = np.partition(scores, k - 1, axis=1)[:, k - 1 : k]
    nearer, tied = (scores < last).sum(axis=1), (scores == last).sum(axis=1)
    of_wanted = np.take_along_axis(scores, wanted, 1)
    found = (of_wanted < last).sum(axis=1) + (of_wanted == last).sum(axis=1) * (k - nearer) / tied
    recall: npt.NDArray[np.float64] = found / wanted.shape[1]
    return recall


def _candidates(ranking: Ranking) -> int:
    """Return the fewest candidates among which ``ENOUGH`` of the relevant rows are, as a mean over queries."""
    counts = range(1, ranking.base)
    return 1 + bisect_left(counts, ENOUGH, key=lambda count: float(recall_at(ranking, count).mean()))


def _counts(distances: npt.NDArray[np.int32], bits: int) -> npt.NDArray[np.int64]:
    """Return how many of each row's distances are 0, 1, … bits, ``int64 [n, bits + 1]``."""
    places = np.arange(len(distances))[:, None] * (bits + 1) + distances
    return np.bincount(places.ravel(), minlength=len(distances) * (bits + 1)).reshape(-1, bits + 1)
