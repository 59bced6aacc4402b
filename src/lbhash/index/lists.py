"""An inverted file over codes: each list is scanned by FAISS's fast scan, as ``lbhash.codes.real`` explains it."""

from __future__ import annotations

from typing import Any, BinaryIO

import faiss
import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes
from lbhash.codes.real import Asked, Positions, signs_of
from lbhash.index.blocks import LEAST, MORE, take_signs

SAMPLE = 64
"""Codes for each list that k-means learns from."""
_TOGETHER = 1 << 24  # numbers of the codes that are added at a time


class Lists:
    """FAISS's ``IndexIVFPQFastScan`` of codes; the centroids of its lists are those of the codes as ±1."""

    def __init__(self, index: Any) -> None:
        self._index = index

    @classmethod
    def build(cls, codes: PackedCodes, count: int) -> Lists:
        """Divide codes into so many lists."""
        bits = 8 * codes.shape[1]
        threads = faiss.omp_get_max_threads()
        # With more, k-means takes longer: they wait for each other (benchmarks/threads.py).
        faiss.omp_set_num_threads(1)
        try:
            some = np.random.default_rng(0).permutation(len(codes))[: SAMPLE * count]
            kmeans: Any = faiss.Kmeans(bits, count, niter=10, seed=0, min_points_per_centroid=1)
            kmeans.train(signs_of(codes[some]))
            coarse = faiss.IndexFlatL2(bits)
            coarse.add(kmeans.centroids)
            index = faiss.IndexIVFPQFastScan(coarse, bits, count, bits // 4, 4, faiss.METRIC_INNER_PRODUCT)
            index.by_residual = False
            take_signs(index)
            step = max(1, _TOGETHER // bits)
            for start in range(0, len(codes), step):
                index.add(signs_of(codes[start : start + step]))
        finally:
            faiss.omp_set_num_threads(threads)
        return cls(index)

    @classmethod
    def read(cls, content: npt.NDArray[np.uint8]) -> Lists:
        """Return what ``write`` wrote; ``RuntimeError`` if FAISS cannot read it."""
        return cls(faiss.deserialize_index(content))

    def write(self, opened: BinaryIO) -> None:
        """Write the FAISS index to a file."""
        faiss.write_index(self._index, faiss.PyCallbackIOWriter(opened.write))  # type: ignore[attr-defined]

    def __len__(self) -> int:
        return self._index.nlist

    @property
    def count(self) -> int:
        """The number of codes."""
        return self._index.ntotal

    def probe(self, count: int) -> None:
        """Set how many lists a search looks through."""
        self._index.nprobe = count

    def candidates(self, asked: Asked, k: int) -> Positions:
        """Return the positions of candidates for the k nearest in the nearest lists, ``[n, c]``; −1 for none.

        The nearest lists are those of the queries' codes, so that a code that equals the query is always met.
        """
        near, lists = self._index.quantizer.search(signs_of(asked.codes), self._index.nprobe)
        found: Positions = self._index.search_preassigned(asked.padded, max(LEAST, MORE * k), lists, near)[1]
        return found
