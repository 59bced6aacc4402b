"""The kinds of index that search in this process, by FAISS."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from lbhash.codes import PackedCodes
from lbhash.index.store import LocalIndex
from lbhash.utils.validation import check_int


class FlatIndex(LocalIndex):
    """Exact search: every query is compared with every distinct code.

    Opening ten million codes in a folder reads none of them, and a search needs no more memory than the codes.

    >>> import numpy as np
    >>> index = FlatIndex(bits=8)
    >>> index.add(np.array([[0], [3], [255]], np.uint8))
    >>> distances, ids = index.search(np.array([[1]], np.uint8), k=2)
    >>> distances.tolist(), ids.tolist()
    ([[1, 1]], [[0, 1]])
    """

    kind = "flat"


class MultiIndexHashing(LocalIndex):
    """Multi-index hashing: a code is cut into ``nhash`` substrings, each with a hash table of its own.

    A query looks up each of its substrings with up to ``nflip`` bits flipped. Two codes within r bits agree in one of m
    substrings up to ⌊r / m⌋ bits, so that the result is exact if the k-th distance is below ``nhash * (nflip + 1)``.

    Source: Norouzi, Punjani, Fleet, "Fast Exact Search in Hamming Space with Multi-Index Hashing", PAMI 2014.

    Options: ``nhash``, the number of substrings; by default they get a length of about log2(n) bits for n codes, as the
    authors advise. ``nflip``, the largest number of flipped bits.
    """

    kind = "mih"
    OPTIONS: ClassVar = {"nhash": (None, 1), "nflip": (1, 0)}

    def _build(self, codes: PackedCodes) -> Any:
        import faiss

        tables = self.options["nhash"] or max(1, round(self.bits / math.log2(len(codes))))
        check_int(tables, "option nhash", 1, self.bits, "the length of a code")
        length = min(self.bits // tables, 62)  # a substring is a 64-bit key
        index = faiss.IndexBinaryMultiHash(8 * codes.shape[1], tables, length)
        index.add(codes)
        return index

    def _tune(self, structure: Any) -> None:
        structure.nflip = min(self.options["nflip"], structure.b)


class InvertedFile(LocalIndex):
    """An inverted file: binary k-means divides the codes into ``nlist`` lists; a search scans the ``nprobe`` nearest.

    Options: ``nlist``, by default about 4 √n for n codes. ``nprobe``; the search is exact if it is ``nlist``.
    """

    kind = "ivf"
    OPTIONS: ClassVar = {"nlist": (None, 1), "nprobe": (16, 1)}

    def _build(self, codes: PackedCodes) -> Any:
        import faiss

        most = max(1, len(codes) // 39)  # FAISS asks for 39 codes a centroid
        lists = min(self.options["nlist"] or round(4 * math.sqrt(len(codes))), most)
        quantizer = faiss.IndexBinaryFlat(8 * codes.shape[1])
        index = faiss.IndexBinaryIVF(quantizer, 8 * codes.shape[1], lists)
        threads = faiss.omp_get_max_threads()
        # With more, k-means takes longer: they wait for each other (benchmarks/threads.py).
        faiss.omp_set_num_threads(1)
        try:
            index.train(codes)
            index.add(codes)
        finally:
            faiss.omp_set_num_threads(threads)
        return index

    def _tune(self, structure: Any) -> None:
        structure.nprobe = min(self.options["nprobe"], structure.nlist)


class SmallWorldGraph(LocalIndex):
    """A graph (HNSW): every code is linked to ``m`` near ones, and a search walks from neighbor to neighbor.

    If many codes are equal, the links of a code would all lead to its equals; so the graph is of the distinct ones. A
    walk may pass by the query's own code; so it is looked up besides.

    Source: Malkov, Yashunin, "Efficient and Robust Approximate Nearest Neighbor Search Using Hierarchical Navigable
    Small World Graphs", PAMI 2020.

    Options: ``m``, the links of a code. ``ef_construction`` and ``ef_search``, the number of candidates while the graph
    is built and searched.
    """

    kind = "hnsw"
    OPTIONS: ClassVar = {"m": (32, 2), "ef_construction": (64, 1), "ef_search": (64, 1)}

    def _build(self, codes: PackedCodes) -> Any:
        import faiss

        index = faiss.IndexBinaryHNSW(8 * codes.shape[1], self.options["m"])
        index.hnsw.efConstruction = self.options["ef_construction"]
        index.add(codes)
        return index

    def _tune(self, structure: Any) -> None:
        structure.hnsw.efSearch = self.options["ef_search"]


KINDS: dict[str, type[LocalIndex]] = {
    kind.kind: kind for kind in (FlatIndex, MultiIndexHashing, InvertedFile, SmallWorldGraph)
}
"""The kinds by name."""
