"""The kinds of index that search in this process, with FAISS.

``flat`` compares each query with every distinct code. ``ivf`` is an inverted file: k-means divides the codes into
``nlist`` lists, and a search scans the ``nprobe`` nearest lists.
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

_EACH = 39
"""Fewest codes per list that FAISS recommends."""
Build = Callable[[PackedCodes, npt.NDArray[np.int64], dict[str, Any]], Structure]


class Kind(NamedTuple):
    """How an index finds candidates in a large segment.

    ``build`` makes a structure from codes and the number of rows that have each code; None for a kind that scans.
    """

    options: OptionRanges
    build: Build | None


def build_lists(codes: PackedCodes, sizes: npt.NDArray[np.int64], options: dict[str, Any]) -> Structure:
    """Return an inverted file over codes.

    The option ``nlist`` is by default about √n for n codes. ``nprobe`` is by default the smallest number that finds 98
    % of the ten nearest neighbors on a sample of the codes (``lbhash.index.probes``). With all lists, a search misses
    almost nothing.
    """
    from lbhash.index.lists import Lists

    lists = Lists.build(codes, min(options["nlist"] or round(math.sqrt(len(codes))), max(1, len(codes) // _EACH)))
    return Structure(lists, choose(lists, codes, sizes, options["nprobe"]))


KINDS = {"flat": Kind({}, None), "ivf": Kind({"nlist": (None, 1), "nprobe": (None, 1)}, build_lists)}
"""The kinds by name. Default option values are chosen for each segment when it is written."""
