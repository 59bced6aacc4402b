"""An inverted file: the codes are divided among centroids, and only the lists of the nearest few are scanned."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from lbhash.codes import PackedCodes
from lbhash.index.local import LocalIndex


class InvertedFile(LocalIndex):
    """Binary k-means divides the codes into ``nlist`` lists, of which a search scans the ``nprobe`` nearest.

    Args:
        bits: h, the length of a code.
        model: fingerprint of the model that makes the codes.
        options: ``nlist``, by default about 4 √n for n codes. ``nprobe``; with as many as there are lists the search is
            exact.
    """

    kind = "ivf"
    OPTIONS: ClassVar = {"nlist": (None, 1), "nprobe": (16, 1)}

    def _build(self, codes: PackedCodes) -> Any:
        import faiss

        most = max(1, len(codes) // 39)  # FAISS asks for 39 codes a centroid
        lists = min(self.options["nlist"] or round(4 * math.sqrt(len(codes))), most)
        quantizer = faiss.IndexBinaryFlat(8 * codes.shape[1])
        index = faiss.IndexBinaryIVF(quantizer, 8 * codes.shape[1], lists)
        index.train(codes)
        index.add(codes)
        return index

    def _tune(self, structure: Any) -> None:
        structure.nprobe = min(self.options["nprobe"], structure.nlist)
