"""Distances of codes from real-valued queries: a bit that differs counts the size of the query's output.

The distance of a code b from outputs ℓ is the sum of abs(ℓ) over the bits in which b is not the sign of ℓ. It equals (Σ
abs(ℓ) − ⟨ℓ, b⟩) / 2, ranks like the product ⟨ℓ, b⟩, is never negative, and is the Hamming distance if all outputs are
±1. (A. Gordo et al., "Asymmetric distances for binary embeddings", IEEE TPAMI 36, 2014.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lbhash.codes.packing import PackedCodes, pack_outputs
from lbhash.utils.arrays import as_numbers, check_finite
from lbhash.utils.threads import in_threads

Floats = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]

FEW = 4_096
"""Number of codes up to which NumPy, not Numba, adds the distances of bytes."""
_TOGETHER = 64  # queries whose tables are in memory at a time
_PAIRS = 1 << 22  # pairs of a query and a code whose distances are in memory at a time
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float64)


class Found(NamedTuple):
    """The nearest codes of n queries: ``distances``, ``float64 [n, k]``, and ``ids``, ``int64 [n, k]``."""

    distances: Floats
    ids: Positions

    def select(self, queries: Any) -> Found:
        """Return the results of some of the queries."""
        return Found(self.distances[queries], self.ids[queries])

    def among(self, queries: npt.NDArray[np.bool_], others: Found) -> Found:
        """Return results of all queries: its own where ``queries`` is true, ``others`` elsewhere."""
        shape = len(queries), self.ids.shape[1]
        whole = Found(np.empty(shape), np.empty(shape, np.int64))
        for part, mine, rest in zip(whole, self, others, strict=True):
            part[queries], part[~queries] = mine, rest
        return whole

    def first(self, k: int) -> Found:
        """Return the nearest k of each query, by distance, then id."""
        order = np.arange(len(self.ids))[:, None], np.lexsort((self.ids, self.distances), axis=1)[:, :k]
        return self.select(order)


class Asked:
    """Queries given by real outputs: ``outputs``, ``float32 [n, bits]``, and their signs as ``codes``.

    ``padded``, ``float32 [n, 8 · bytes]``, has the outputs divided by ``sizes``, ``[n]``: FAISS computes with numbers
    up to 1.
    """

    def __init__(self, outputs: npt.NDArray[np.float32]) -> None:
        self.outputs, self.codes = outputs, pack_outputs(outputs)
        self.padded = np.zeros((len(outputs), 8 * self.codes.shape[1]), np.float32)
        powers = np.frexp(np.abs(outputs).max(axis=1, initial=0))[1]
        self.padded[:, : outputs.shape[1]] = np.ldexp(outputs, -powers[:, None])
        self.sizes = np.ldexp(1.0, powers)

    @cached_property
    def weights(self) -> Floats:
        """The weight of each bit, ``float64 [n, 8 · bytes]``; padding weighs 0."""
        found = np.zeros(self.padded.shape)
        found[:, : self.outputs.shape[1]] = np.abs(self.outputs)
        return found

    def __len__(self) -> int:
        return len(self.outputs)

    def some(self, queries: Any) -> Asked:
        """Return some of the queries."""
        return Asked(self.outputs[queries])

    def tables(self, start: int) -> Floats:
        """Return the distance that each value of a byte adds, ``[queries, bytes, 256]``, for the next few queries."""
        weights = self.weights[start : start + _TOGETHER]
        codes = self.codes[start : start + _TOGETHER]
        sums = weights.reshape(*codes.shape, 8) @ _BITS.T  # by the bits in which a byte differs
        return np.take_along_axis(sums, codes[:, :, None] ^ np.arange(256), 2)

    def distances(self, codes: PackedCodes) -> Floats:
        """Return the distances of all queries from all codes, ``[n, m]``; equal codes have equal distances."""
        found = np.empty((len(self), len(codes)))
        add: Callable[..., None] = _sums
        if len(codes) > FEW:
            from lbhash.codes.real_kernel import sums  # importing Numba takes time

            add = sums

        def compute(start: int) -> None:
            for row, table in enumerate(self.tables(start), start):
                add(table, codes, found[row])

        in_threads(compute, range(0, len(self), _TOGETHER))
        return found

    def blocks(self, codes: PackedCodes) -> Iterator[tuple[slice, Floats]]:
        """Yield consecutive queries, and their distances from all codes, ``[queries, m]``, with bounded memory."""
        step = max(1, _PAIRS // max(1, len(codes)))
        for start in range(0, len(self), step):
            some = slice(start, min(start + step, len(self)))
            yield some, self.some(some).distances(codes)

    def nearest(self, codes: PackedCodes, k: int) -> Found:
        """Return the k nearest of all codes, with their positions as ids."""
        found = Found(np.empty((len(self), k)), np.empty((len(self), k), np.int64))
        for some, block in self.blocks(codes) if k else ():
            found.ids[some] = first_places(block, k)
            found.distances[some] = np.take_along_axis(block, found.ids[some], 1)
        return found

    def ordered(self, candidates: Positions, codes: PackedCodes) -> Found:
        """Return each query's candidates, ``[n, c]``, by distance, then position; their codes are ``[n, c, bytes]``.

        −1 means no candidate; it comes last, at an infinite distance.
        """
        distances = np.array([_between(*each) for each in zip(self.weights, self.codes, codes, strict=True)])
        distances = np.where(candidates < 0, np.inf, distances.reshape(candidates.shape))
        return Found(distances, candidates).first(candidates.shape[1])


def first_places(distances: npt.NDArray[Any], k: int) -> Positions:
    """Return the positions of each row's k smallest distances, ``[n, k]``, by distance, then position."""
    found = np.empty((len(distances), k), np.int64)
    for row, each in zip(found, distances, strict=True):
        near = np.flatnonzero(each <= np.partition(each, k - 1)[k - 1])
        row[:] = near[np.argsort(each[near], kind="stable")][:k]
    return found


def outputs_bits(outputs: Any) -> int | None:
    """Return the code length of outputs ``[n, bits]``; None without outputs."""
    return None if np.ndim(outputs) != 2 else int(np.shape(outputs)[1])


def check_outputs(outputs: npt.ArrayLike, codes: PackedCodes, bits: int, name: str = "query_outputs") -> Asked:
    """Return queries given by real outputs; ``ValueError`` unless these are ``[n, bits]`` with the codes' signs."""
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


def _sums(table: Floats, codes: PackedCodes, found: Floats) -> None:
    """Write each code's sum of the entries for its bytes."""
    found[:] = table[np.arange(codes.shape[1]), codes].sum(axis=1)


def _between(weights: Floats, query: PackedCodes, codes: PackedCodes) -> Floats:
    """Return, for each of a few codes, the sum of the weights of the bits that differ from a query."""
    differ = np.unpackbits(query ^ codes, axis=1)
    return np.where(differ, weights, 0.0).sum(axis=1)
