"""Codes in the layout of FAISS's fast scan, which finds candidates for queries given as real outputs.

Codes form a product quantizer: each group of four bits is one of 16 sign patterns. FAISS's fast scan (F. André et al.,
"Quicker ADC", IEEE TPAMI 43, 2021) looks up the products with them in 8-bit tables. The candidates' distances are then
computed in double precision (``lbhash.codes.real``). The error of the tables is bounded; if it could change the answer,
all codes are compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes
from lbhash.codes.real import Asked, Floats, Positions

FEW = 1_000
"""Up to this many codes, all are compared."""
MORE = 4
"""Candidates per requested neighbor; at least ``LEAST`` in all."""
LEAST = 64
_BLOCK = 32  # codes that FAISS keeps together
_PLACES = np.argsort([0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15])  # place of each code among 16 of a block
_PATTERNS = np.unpackbits(np.arange(0, 256, 16, dtype=np.uint8)[:, None], axis=1)[:, :4] * np.float32(2) - 1


class Blocks:
    """Codes, ``uint8 [n, bytes]``, in the layout of FAISS's fast scan."""

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
        packed = packed.reshape(-1, 2 * self.width, _BLOCK // 2)
        block, place = np.divmod(positions, _BLOCK)
        half, at = np.divmod(place, _BLOCK // 2)
        groups = packed[block, :, _PLACES[at]] >> (4 * half[..., None]).astype(np.uint8) & 15
        return np.asarray(groups[..., 0::2] << 4 | groups[..., 1::2])

    def whole(self) -> PackedCodes:
        """Return all codes."""
        return self.rows(np.arange(self.count))

    def candidates(self, asked: Asked, k: int) -> tuple[Positions, Floats]:
        """Return positions of candidates, ``[n, c]``, and a lower bound on the distances of all other codes."""
        count = min(self.count, max(LEAST, MORE * k))
        similar, found = self._index.search(asked.padded, count)
        if count == self.count:
            return found, np.full(len(asked), np.inf)
        sums = np.abs(asked.padded).sum(axis=1, dtype=np.float64)
        return found, (sums - similar[:, -1] - _error(asked.padded)) / 2 * asked.sizes


def quantizer(bits: int) -> Any:
    """Return an empty FAISS fast scan whose centroids are the 16 sign patterns of four bits."""
    import faiss

    index = faiss.IndexPQFastScan(bits, bits // 4, 4, faiss.METRIC_INNER_PRODUCT, _BLOCK)
    take_signs(index)
    return index


def take_signs(index: Any) -> None:
    """Set the centroids of a FAISS product quantizer to the 16 sign patterns of four bits."""
    import faiss

    faiss.copy_array_to_vector(np.tile(_PATTERNS.ravel(), index.pq.M), index.pq.centroids)
    index.is_trained = True


def _fill(index: Any, codes: PackedCodes) -> None:
    """Put codes into a fast scan as ``add`` does, but without a float32 for each bit."""
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
    """Return the largest error of a product that is computed by the tables.

    Table entries are rounded to 255 steps. All groups share one step width, set by the group with the largest span.
    """
    spans = 2 * np.abs(padded).reshape(len(padded), padded.shape[1] // 4, 4).sum(axis=2, dtype=np.float64)
    rounded = spans.shape[1] * spans.max(axis=1) / 510
    return rounded + 1e-5 * spans.sum(axis=1)  # error of single-precision sums
