"""Codes and queries in real outputs: a bit in which a code differs counts as much as the query's output is large.

The distance of a code b from outputs ℓ is the sum of abs(ℓ) over the bits in which b is not the sign of ℓ, which is
(Σ abs(ℓ) − ⟨ℓ, b⟩) / 2: it ranks as the product ⟨ℓ, b⟩ does, is never negative, and is the Hamming distance if all
outputs are ±1. (A. Gordo et al., "Asymmetric distances for binary embeddings", IEEE TPAMI 36, 2014.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from lbhash.codes.packing import PackedCodes, pack_outputs
from lbhash.utils.arrays import as_numbers, check_finite
from lbhash.utils.threads import in_threads

Floats = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]

_TOGETHER = 64  # queries whose tables are in memory at a time
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float64)


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


def outputs_bits(outputs: Any) -> int | None:
    """Return the length of a code that outputs ``[n, bits]`` tell; None without any."""
    return None if np.ndim(outputs) != 2 else int(np.shape(outputs)[1])


def check_outputs(outputs: npt.ArrayLike, codes: PackedCodes, bits: int, name: str = "query_outputs") -> Asked:
    """Return queries by real outputs, or raise ``ValueError`` unless these are ``[n, bits]`` with the codes' signs."""
    rows = as_numbers(outputs, name, len(codes), bits).astype(np.float32, copy=False)
    check_finite(rows, name)
    asked = Asked(rows)
    if (other := (asked.codes != codes).any(axis=1)).any():
        row = int(other.argmax())
        raise ValueError(f"{name} and the codes are of different queries: the signs of row {row} are not its code")
    return asked


def signs_of(codes: PackedCodes) -> npt.NDArray[np.float32]:
    """Return packed codes as ±1, ``float32 [n, 8 · bytes]``."""
    return np.unpackbits(codes, axis=-1).astype(np.float32) * 2 - 1


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
