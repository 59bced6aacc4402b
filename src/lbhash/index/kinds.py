"""The kinds of index that search in this process, by FAISS.

``flat`` compares every query with every distinct code. ``ivf`` is an inverted file: binary k-means divides the codes
into ``nlist`` lists; a search scans the ``nprobe`` nearest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes
from lbhash.index.base import OptionRanges
from lbhash.index.probes import choose
from lbhash.index.segment import Structure

Build = Callable[[PackedCodes, npt.NDArray[np.int64], dict[str, Any]], Structure]


class Kind(NamedTuple):
    """How an index finds candidates in a large segment.

    ``build`` makes a structure over codes, each of which so many rows have; None for a kind that scans.
    """

    options: OptionRanges
    build: Build | None


def build_lists(codes: PackedCodes, sizes: npt.NDArray[np.int64], options: dict[str, Any]) -> Structure:
    """Return an inverted file over codes.

    Options are ``nlist``, by default about 4 √n for n codes; and ``nprobe``, by default the least number that finds
    98 % of the ten nearest of a sample of the codes (``lbhash.index.probes``). The search is exact if it is ``nlist``.
    """
    import faiss

    most = max(1, len(codes) // 39)  # FAISS asks for 39 codes a centroid
    lists = min(options["nlist"] or round(4 * math.sqrt(len(codes))), most)
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
    return Structure(index, choose(index, codes, sizes, options["nprobe"]))


KINDS = {"flat": Kind({}, None), "ivf": Kind({"nlist": (None, 1), "nprobe": (None, 1)}, build_lists)}
"""The kinds by name; the numbers of their options are chosen again for each segment, when it is written."""
