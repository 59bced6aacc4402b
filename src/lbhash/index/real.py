"""Search by real outputs: the stored bits that differ from a query's signs count as much as its outputs are large.

The distance of a code b from outputs ℓ is the sum of abs(ℓ) over the bits in which b is not the sign of ℓ, which is
(Σ abs(ℓ) − ⟨ℓ, b⟩) / 2: it ranks as the product ⟨ℓ, b⟩ does, is never negative, and is the Hamming distance if all
outputs are ±1. (A. Gordo et al., "Asymmetric distances for binary embeddings", IEEE TPAMI 36, 2014.)

Codes are a product quantizer: four bits are one of 16 patterns of signs. FAISS's fast scan (F. André et al., "Quicker
ADC", IEEE TPAMI 43, 2021) finds candidates among these with tables of 8 bits; their distances are then computed in
double precision. What the tables may be wrong by is known: where it could change the answer, all codes are compared.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, pack_outputs
from lbhash.utils.threads import in_threads

Floats = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]

FEW = 1_000
"""Codes up to which all are compared."""
MORE = 4
"""Candidates for each neighbor that is asked for, and ``LEAST`` at least."""
LEAST = 64
_TOGETHER = 64  # queries whose tables are in memory at a time
_BLOCK = 32  # codes that FAISS keeps together
_PLACES = np.argsort([0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15])  # of a code among 16 of a block
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float64)
_PATTERNS = np.unpackbits(np.arange(0, 256, 16, dtype=np.uint8)[:, None], axis=1)[:, :4] * np.float32(2) - 1


class Found(NamedTuple):
    """The nearest codes of n queries: ``distances``, ``float64 [n, k]``, and ``ids``, ``int64 [n, k]``."""

    distances: Floats
    ids: Positions

    def select(self, queries: Any) -> Found:
        """Return what some of the queries found."""
        return Found(self.distances[queries], self.ids[queries])

    def among(self, queries: npt.NDArray[np.bool_], others: Found) -> Found:
        """Return these, which are of the queries for which ``queries`` is true, and those of the others."""
        shape = len(queries), self.ids.shape[1]
        whole = Found(np.empty(shape), np.empty(shape, np.int64))
        for part, mine, rest in zip(whole, self, others, strict=True):
            part[queries], part[~queries] = mine, rest
        return whole

    def first(self, k: int) -> Found:
        """Return the first k of each query by distance, then id."""
        order = np.arange(len(self.ids))[:, None], np.lexsort((self.ids, self.distances), axis=1)[:, :k]
        return self.select(order)


class Asked:
    """Queries by real outputs: ``outputs``, ``float32 [n, bits]``, and their signs as ``codes``."""

    def __init__(self, outputs: npt.NDArray[np.float32]) -> None:
        self.outputs, self.codes = outputs, pack_outputs(outputs)
        self.padded = np.zeros((len(outputs), 8 * self.codes.shape[1]), np.float32)
        self.padded[:, : outputs.shape[1]] = outputs

    def __len__(self) -> int:
        return len(self.outputs)

    def some(self, queries: Any) -> Asked:
        """Return some of the queries."""
        return Asked(self.outputs[queries])

    def tables(self, start: int) -> Floats:
        """Return the distances that each byte of a code adds, ``[queries, bytes, 256]``, of the next few queries."""
        weights = np.abs(self.padded[start : start + _TOGETHER]).astype(np.float64)
        codes = self.codes[start : start + _TOGETHER]
        sums = weights.reshape(*codes.shape, 8) @ _BITS.T  # of the bytes in which a code differs
        return np.take_along_axis(sums, codes[:, :, None] ^ np.arange(256), 2)

    def distances(self, codes: PackedCodes) -> Floats:
        """Return the distances of all queries from all codes, ``[n, m]``; equal codes have equal distances."""
        found = np.empty((len(self), len(codes)))

        def compute(start: int) -> None:
            for row, table in enumerate(self.tables(start), start):
                _sums(table, codes, found[row])

        in_threads(compute, range(0, len(self), _TOGETHER))
        return found

    def nearest(self, codes: PackedCodes, k: int) -> Found:
        """Return the k nearest codes by a comparison with all, with their positions as ids."""
        found = Found(np.empty((len(self), k)), np.empty((len(self), k), np.int64))

        def search(start: int) -> None:
            distances = np.empty(len(codes))
            for row, table in enumerate(self.tables(start), start):
                _sums(table, codes, distances)
                near = np.flatnonzero(distances <= np.partition(distances, k - 1)[k - 1])
                near = near[np.argsort(distances[near], kind="stable")][:k]
                found.distances[row], found.ids[row] = distances[near], near

        if k:
            in_threads(search, range(0, len(self), _TOGETHER))
        return found

    def ordered(self, candidates: Positions, codes: PackedCodes) -> Found:
        """Return each query's candidates, ``[n, c]``, by distance, then position; their codes are ``[n, c, bytes]``.

        −1 stands for no candidate, and comes last, at an infinite distance.
        """
        distances = np.empty(candidates.shape)
        weights = np.abs(self.padded, dtype=np.float64)
        _of_candidates(weights, self.codes, codes, distances)
        distances[candidates < 0] = np.inf
        return Found(distances, candidates).first(candidates.shape[1])


class Blocks:
    """Codes, ``uint8 [n, bytes]``, as FAISS's fast scan keeps them."""

    def __init__(self, codes: PackedCodes) -> None:
        self.count, self.width = codes.shape
        self._index = quantizer(8 * self.width)
        _fill(self._index, codes)

    def __len__(self) -> int:
        return self.count

    def rows(self, positions: Positions) -> PackedCodes:
        """Return the codes at some positions, ``uint8 [..., bytes]``."""
        import faiss

        packed = faiss.rev_swig_ptr(self._index.codes.data(), self._index.codes.size())
        found = np.empty((positions.size, self.width), np.uint8)
        _gather(packed.reshape(-1, 2 * self.width, _BLOCK // 2), positions.ravel(), _PLACES, found)
        return found.reshape(*positions.shape, self.width)

    def whole(self) -> PackedCodes:
        """Return all codes."""
        return self.rows(np.arange(self.count))

    def candidates(self, asked: Asked, k: int) -> tuple[Positions, Floats]:
        """Return the positions of candidates for the k nearest, ``[n, c]``, and how near any other code may be."""
        count = min(self.count, max(LEAST, MORE * k))
        similar, found = self._index.search(asked.padded, count)
        if count == self.count:
            return found, np.full(len(asked), np.inf)
        sums = np.abs(asked.padded).sum(axis=1, dtype=np.float64)
        return found, (sums - similar[:, -1] - _error(asked.padded)) / 2


def quantizer(bits: int) -> Any:
    """Return FAISS's fast scan of codes, empty: the signs of four bits each are its centroids."""
    import faiss

    index = faiss.IndexPQFastScan(bits, bits // 4, 4, faiss.METRIC_INNER_PRODUCT, _BLOCK)
    take_signs(index)
    return index


def take_signs(index: Any) -> None:
    """Make the signs of four bits each the centroids of a product quantizer of FAISS."""
    import faiss

    faiss.copy_array_to_vector(np.tile(_PATTERNS.ravel(), index.pq.M), index.pq.centroids)
    index.is_trained = True


def signs_of(codes: PackedCodes) -> npt.NDArray[np.float32]:
    """Return packed codes as ±1, ``float32 [n, 8 · bytes]``."""
    return np.unpackbits(codes, axis=-1).astype(np.float32) * 2 - 1


def _fill(index: Any, codes: PackedCodes) -> None:
    """Put codes into a fast scan, as its ``add`` would, without making 32 bits of each bit."""
    import faiss

    blocks = -(-len(codes) // _BLOCK)
    index.codes.resize(blocks * _BLOCK * codes.shape[1])
    packed = faiss.rev_swig_ptr(index.codes.data(), index.codes.size())
    packed = packed.reshape(blocks, 2 * codes.shape[1], _BLOCK // 2)
    for start in range(0, blocks, 1 << 12):
        some = codes[start * _BLOCK :][: _BLOCK << 12]
        groups = np.zeros((min(1 << 12, blocks - start) * _BLOCK, 2 * codes.shape[1]), np.uint8)
        groups[: len(some), 0::2], groups[: len(some), 1::2] = some >> 4, some & 15
        halves = groups.reshape(-1, 2, _BLOCK // 2, groups.shape[1])
        both = halves[:, 0] | halves[:, 1] << 4
        packed[start : start + (1 << 12), :, _PLACES] = both.transpose(0, 2, 1)
    index.ntotal, index.ntotal2 = len(codes), blocks * _BLOCK


def _error(padded: npt.NDArray[np.float32]) -> Floats:
    """Return by how much a product by the tables may be too small or too large.

    A table's entries are rounded to one of 255 steps, as wide for each group as the group with the largest span needs.
    """
    spans = 2 * np.abs(padded).reshape(len(padded), -1, 4).sum(axis=2, dtype=np.float64)
    rounded = spans.shape[1] * spans.max(axis=1) / 510
    return rounded + 1e-5 * spans.sum(axis=1)  # sums of single precision


def differing(queries: PackedCodes, codes: PackedCodes) -> npt.NDArray[np.int32]:
    """Return the Hamming distance of each query, ``[n, bytes]``, from each of its codes, ``[n, k, bytes]``."""
    return np.unpackbits(queries[:, None] ^ codes, axis=-1).sum(axis=-1, dtype=np.int32)


@numba.njit(nogil=True, cache=True)
def _sums(table: Floats, codes: PackedCodes, found: Floats) -> None:
    """Write the sum of each code's entries of a table ``[bytes, 256]`` to ``found`` ``[n]``."""
    for row in range(len(codes)):
        total = 0.0
        for byte in range(codes.shape[1]):
            total += table[byte, codes[row, byte]]
        found[row] = total


@numba.njit(nogil=True, cache=True)
def _of_candidates(weights: Floats, queries: PackedCodes, codes: PackedCodes, found: Floats) -> None:
    """Write the distance of each query's codes, ``[n, c, bytes]``, by weights of the bits, to ``found`` ``[n, c]``."""
    width = queries.shape[1]
    table = np.empty((2 * width, 16))  # what four bits add that differ where a number has ones
    for query in range(len(queries)):
        for group in range(2 * width):
            for differing in range(16):
                total = 0.0
                for bit in range(4):
                    if differing >> (3 - bit) & 1:
                        total += weights[query, 4 * group + bit]
                table[group, differing] = total
        for candidate in range(codes.shape[1]):
            total = 0.0
            for byte in range(width):
                differing = codes[query, candidate, byte] ^ queries[query, byte]
                total += table[2 * byte, differing >> 4] + table[2 * byte + 1, differing & 15]
            found[query, candidate] = total


@numba.njit(nogil=True, cache=True)
def _gather(packed: PackedCodes, positions: Positions, places: Positions, found: PackedCodes) -> None:
    """Write the codes at some positions of blocks, ``[blocks, 2 · bytes, 16]``, to ``found`` ``[n, bytes]``."""
    for row in range(len(positions)):
        block, place = positions[row] // 32, positions[row] % 32
        at, shift = places[place % 16], 4 * (place // 16)
        for byte in range(found.shape[1]):
            high = packed[block, 2 * byte, at] >> shift & 15
            found[row, byte] = high << 4 | packed[block, 2 * byte + 1, at] >> shift & 15
