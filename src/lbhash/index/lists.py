"""An inverted file over codes; FAISS's fast scan searches each list (explained in ``lbhash.index.blocks``)."""

from __future__ import annotations

from typing import Any, BinaryIO

import faiss
import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes
from lbhash.codes.real import Asked, Positions, signs_of
from lbhash.index.blocks import LEAST, MORE, take_signs

SAMPLE = 64
"""Codes per list that k-means is trained on."""
_TOGETHER = 1 << 24  # float values (codes × bits) that are added at a time


class Lists:
    """FAISS's ``IndexIVFPQFastScan`` over codes; k-means on the codes as ±1 gives the lists' centroids."""

    def __init__(self, index: Any) -> None:
        self._index = index

    @classmethod
    def build(cls, codes: PackedCodes, count: int) -> Lists:
        """Divide codes into ``count`` lists."""
        bits = 8 * codes.shape[1]
        threads = faiss.omp_get_max_threads()
        # With more threads k-means is slower: they wait for each other (benchmarks/threads.py).
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
        """Read what ``write`` wrote; ``RuntimeError`` if FAISS cannot read it."""
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
        """Set how many lists a search scans."""
        self._index.nprobe = count

    def candidates(self, asked: Asked, k: int) -> Positions:
        """Return candidates for the k nearest from the nearest lists: positions ``[n, c]``; −1 for none.

        Lists are chosen by the queries' codes, so a code that equals the query is always scanned.
        """
        near, lists = self._index.quantizer.search(signs_of(asked.codes), self._index.nprobe)
        found: Positions = self._index.search_preassigned(asked.padded, max(LEAST, MORE * k), lists, near)[1]
        return found
