"""A graph of neighbors: Malkov, Yashunin, "Efficient and Robust Approximate Nearest Neighbor Search Using Hierarchical
Navigable Small World Graphs", PAMI 2020."""

from __future__ import annotations

from typing import Any, ClassVar

from lbhash.codes import PackedCodes
from lbhash.index.local import LocalIndex


class SmallWorldGraph(LocalIndex):
    """Every code is linked to ``m`` near ones, and a search walks from neighbor to neighbor.

    Where many codes are equal the links of a code all go to its equals: the graph then falls apart, and recall with it.

    Args:
        bits: h, the length of a code.
        model: fingerprint of the model that makes the codes.
        options: ``m``, links of a code. ``ef_construction`` and ``ef_search``, how many candidates are kept while the
            graph is built and searched.
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
