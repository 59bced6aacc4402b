"""Asymmetric search: the real outputs of a query against all stored codes, exactly, by a table for each byte of a code.

A. Gordo et al., "Asymmetric distances for binary embeddings", IEEE TPAMI 36 (2014), with the look-up tables of product
quantization.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, hamming_distances, unpack
from lbhash.index.results import SearchResult
from lbhash.utils.threads import in_threads

Floats = npt.NDArray[np.float32]

_SIGNS = unpack(np.arange(256, dtype=np.uint8)[:, None], 8).astype(np.float32)


def agreeing(outputs: Floats, queries: PackedCodes, codes: PackedCodes, k: int) -> SearchResult:
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
    return SearchResult(scores, places, distances)


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
