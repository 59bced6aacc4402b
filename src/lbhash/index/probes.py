"""How many lists of an inverted file a search scans: the smallest number that misses few neighbors.

Lists divide the codes of some models better than those of others: the same number of lists may find nearly all
neighbors, or three of four. So the number is chosen for the codes at hand, and its recall is stored.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes
from lbhash.codes.real import Asked, differing, signs_of
from lbhash.index import scan

if TYPE_CHECKING:
    from lbhash.index.lists import Lists

NEAREST = 10
"""Neighbors searched for each row."""
FOUND = 0.98
"""Smallest share of these neighbors that must be found."""
ROWS = 256
"""Largest number of rows used as queries."""


@dataclass(frozen=True)
class Probes:
    """How many lists a search scans, and the share of neighbors that it finds."""

    nprobe: int
    nlist: int
    """The number of all lists."""
    rows: int
    """How many of the segment's own rows were queries."""
    recall: float
    """The mean share found of each query's ten nearest other rows."""

    def __str__(self) -> str:
        probed = f"{self.nprobe:,} of {self.nlist:,} lists are probed"
        return f"{probed}; on {self.rows:,} of its own rows that finds {self.recall:.1%} of the nearest ten"


def choose(lists: Lists, codes: PackedCodes, sizes: npt.NDArray[np.int64], nprobe: int | None = None) -> Probes:
    """Choose how many lists of an inverted file to scan, by the share of neighbors found on a sample.

    Randomly chosen rows are the queries; a row is not its own neighbor. A neighbor counts as found if it is no farther
    than the tenth of an exact search, so any choice among equally distant rows is right.

    Args:
        lists: the inverted file over ``codes``.
        codes: distinct or not, ``uint8 [n, bytes]``.
        sizes: how many rows have each code, ``[n]``.
        nprobe: the number to use; if None, the smallest one that finds ``FOUND``.
    """
    count = int(sizes.sum())
    rows = np.random.default_rng(0).choice(count, min(ROWS, count), replace=False, shuffle=False)
    own = codes[np.searchsorted(np.cumsum(sizes), rows, side="right")]
    wanted = min(NEAREST + 1, count)  # with the query itself
    asked = min(wanted, len(codes))
    exact = scan.nearest(own, scan.padded(codes), asked)
    enough = np.argmax(np.cumsum(sizes[exact.ids], axis=1) >= wanted, axis=1)
    farthest = np.take_along_axis(exact.distances, enough[:, None], axis=1)

    queries = Asked(signs_of(own))

    def recall(probed: int) -> float:
        lists.probe(probed)
        found = lists.candidates(queries, wanted)  # −1 where it finds fewer
        near = (found >= 0) & (differing(own, codes[found]) <= farthest)
        counts = np.where(near, sizes[found], 0).sum(axis=1)
        return float(np.mean(np.minimum(counts, wanted) - 1)) / (wanted - 1)

    if nprobe is None:
        nprobe = 1 + bisect_left(range(1, len(lists) + 1), FOUND, key=recall)  # recall hardly ever falls
    nprobe = min(nprobe, len(lists))
    return Probes(nprobe, len(lists), len(own), recall(nprobe))
