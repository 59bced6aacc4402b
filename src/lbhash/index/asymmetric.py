"""Asymmetric search: the real outputs of a query against all stored codes, exactly, by a table for each byte of a code.

A. Gordo et al., "Asymmetric distances for binary embeddings", IEEE TPAMI 36 (2014), with the look-up tables of product
quantization.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, hamming_distances, pack, unpack
from lbhash.index.attributes import check_where
from lbhash.index.base import Index
from lbhash.index.rerank import Reranked, check_real
from lbhash.index.store import LocalIndex
from lbhash.index.where import Where, conditions
from lbhash.utils.threads import in_threads

Floats = npt.NDArray[np.float32]

_SIGNS = unpack(np.arange(256, dtype=np.uint8)[:, None], 8).astype(np.float32)


def search_outputs(index: Index, outputs: npt.ArrayLike, k: int, *, where: Where | None = None) -> Reranked:
    """Return the k codes that agree best with the real outputs of each query; all codes are compared.

    Args:
        index: of any kind but Milvus. It needs nothing but its codes.
        outputs: ℓ of the queries, ``[n, bits]``, whose signs are the queries' codes: ``HashModel.outputs`` of a coder,
            and of a network its tanh, which is what the training took for bits.
        k: how many, from 1 on; if fewer codes are stored, or pass the filter, all of them are returned.
        where: as for ``Index.search``.

    Returns:
        The scores −⟨ℓ, b⟩ with a code b of ±1, which increase; the Hamming distances from the queries' codes; and the
        ids. Among equal scores the ids increase.

    Raises:
        TypeError, ValueError: an argument is not as above.
    """
    k = index.at_most(k)
    if not isinstance(index, LocalIndex):
        raise ValueError(f"index is of kind {index.kind}, which compares codes only; rank its candidates by asymmetric")
    rows = check_real(outputs, "outputs")
    codes, state = index.check(pack(rows), "outputs"), index.state
    chosen = conditions(where)
    check_where(chosen, state.schema)
    parts = [agreeing(rows, codes, codes[:0], 0)]  # nothing, for an index without segments
    for segment in state.segments:
        stored, positions = segment.scanned(chosen)
        found = agreeing(rows, codes, stored[:, : codes.shape[1]], min(k, len(stored)))
        parts.append(found._replace(ids=segment.ids_at(positions(found.ids))))
    scores, distances, ids = map(np.hstack, zip(*parts, strict=True))
    order = np.lexsort((ids, scores), axis=1)[:, :k]
    taken = np.take_along_axis
    return Reranked(taken(scores, order, 1), taken(distances, order, 1), state.named(taken(ids, order, 1)))


def agreeing(outputs: Floats, queries: PackedCodes, codes: PackedCodes, k: int) -> Reranked:
    """Return the k codes that agree best with the outputs, whose codes are ``queries``, with their positions as ids."""
    padded = np.pad(outputs, ((0, 0), (0, -outputs.shape[1] % 8)))
    places = np.empty((len(outputs), k), np.int64)
    scores, distances = np.empty(places.shape, np.float32), np.empty(places.shape, np.int32)

    def search(row: int) -> None:
        found = _scores(-padded[row].reshape(-1, 8) @ _SIGNS.T, codes)
        near = np.flatnonzero(found <= np.partition(found, k - 1)[k - 1])
        near = near[np.argsort(found[near], kind="stable")][:k]
        places[row], scores[row], distances[row] = near, found[near], hamming_distances(queries[row, None], codes[near])

    if k:
        in_threads(search, range(len(outputs)))
    return Reranked(scores, distances, places)


def scores_of(outputs: Floats, codes: PackedCodes) -> Floats:
    """Return −⟨ℓ, b⟩ of real outputs ``[n, bits]`` and all codes, ``float32 [n, m]``; equal codes have equal scores."""
    padded = np.pad(outputs, ((0, 0), (0, -outputs.shape[1] % 8)))
    found = np.empty((len(outputs), len(codes)), np.float32)

    def score(row: int) -> None:
        found[row] = _scores(-padded[row].reshape(-1, 8) @ _SIGNS.T, codes)

    in_threads(score, range(len(outputs)))
    return found


@numba.njit(nogil=True, cache=True)
def _scores(table: Floats, codes: PackedCodes) -> Floats:
    """Return the sum of each code's entries of a table ``[bytes, 256]``, ``float32 [n]``."""
    found = np.empty(len(codes), np.float32)
    for row in range(len(codes)):
        score = np.float32(0)
        for byte in range(codes.shape[1]):
            score += table[byte, codes[row, byte]]
        found[row] = score
    return found
