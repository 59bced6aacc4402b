"""The kinds of index that search in this process, by FAISS."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes
from lbhash.index.probes import choose
from lbhash.index.segment import Structure
from lbhash.index.store import LocalIndex


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


class InvertedFile(LocalIndex):
    """An inverted file: binary k-means divides the codes into ``nlist`` lists; a search scans the ``nprobe`` nearest.

    Options: ``nlist``, by default about 4 √n for n codes. ``nprobe``, by default the least number that finds 98 % of
    the ten nearest of a sample of the codes (``lbhash.index.probes``); the search is exact if it is ``nlist``. Both are
    chosen again for each segment, when it is written.
    """

    kind = "ivf"
    OPTIONS: ClassVar = {"nlist": (None, 1), "nprobe": (None, 1)}

    def _build(self, codes: PackedCodes, sizes: npt.NDArray[np.int64]) -> Structure:
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
        return Structure(index, choose(index, codes, sizes, self.options["nprobe"]))

    def info(self) -> dict[str, Any]:
        """Return the facts about the index, with the ``Probes`` of each segment that is not scanned."""
        structures = (segment.structure for segment in self.state.segments)
        return super().info() | {"probes": [asdict(one.probes) for one in structures if one is not None]}


KINDS: dict[str, type[LocalIndex]] = {kind.kind: kind for kind in (FlatIndex, InvertedFile)}
"""The kinds by name."""
