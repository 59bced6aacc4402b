"""How many lists of an inverted file a search looks through: the least number with which few neighbors are missed.

Codes that a model makes differ in how well their lists divide them: the same number finds nearly all neighbors of
trained codes and three of four neighbors of others. So it is chosen for the codes at hand, and what it finds is kept.
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
"""How many neighbors of a row are looked for."""
FOUND = 0.98
"""Least share of them that must be found."""
ROWS = 256
"""Largest number of rows that are looked for."""


@dataclass(frozen=True)
class Probes:
    """How many lists a search looks through, and the share of neighbors that it finds."""

    nprobe: int
    nlist: int
    """The number of all lists."""
    rows: int
    """How many of the segment's own rows were queries."""
    recall: float
    """The mean share of their ten nearest other rows that were found."""

    def __str__(self) -> str:
        probed = f"{self.nprobe:,} of {self.nlist:,} lists are probed"
        return f"{probed}; on {self.rows:,} of its own rows that finds {self.recall:.1%} of the nearest ten"


def choose(lists: Lists, codes: PackedCodes, sizes: npt.NDArray[np.int64], nprobe: int | None = None) -> Probes:
    """Choose how many lists of an inverted file are probed, by the share of neighbors that a sample finds.

    Some rows, chosen at random, are queries; a row is no neighbor of its own. A neighbor counts as found if it is no
    farther than the tenth of an exact search, so that any choice among equally distant rows is right.

    Args:
        lists: of ``codes``.
        codes: distinct or not, ``uint8 [n, bytes]``.
        sizes: how many rows have each code, ``[n]``.
        nprobe: the number to take; if None, it is the least one that finds ``FOUND``.
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
        nprobe = 1 + bisect_left(range(1, len(lists) + 1), FOUND, key=recall)  # more probes hardly ever find less
    nprobe = min(nprobe, len(lists))
    return Probes(nprobe, len(lists), len(own), recall(nprobe))
