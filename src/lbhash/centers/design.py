"""Class centers, and what is known about them: their construction, and how far apart they are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lbhash.centers import store
from lbhash.centers.best import BLOCKS, PAPER, best_centers, best_ratio_centers, plan_for
from lbhash.centers.choose import choose
from lbhash.centers.constructions.random import bernoulli_centers
from lbhash.centers.distance import Centers, describe
from lbhash.codes import pack, unpack

_OTHERS = {**PAPER, "random": bernoulli_centers}

COMPARED = {"best": best_centers, "best-ratio": best_ratio_centers}  # of all constructions; they are cached
KINDS = (*COMPARED, *BLOCKS, *_OTHERS)


@dataclass(frozen=True, eq=False)
class CenterDesign:
    """Class centers and what is known about them.

    Attributes:
        centers: ``int8 [C, bits]`` of -1 and +1, read-only.
        kind: the kind that was asked for.
        construction: how they were made, in the literature's terms.
        minimum_distance: smallest Hamming distance between two of them, counted over all pairs.
        bound: a bound by which no C words of this length are all farther apart, or None: then better ones may exist.
    """

    centers: Centers
    kind: str
    construction: str
    minimum_distance: int
    bound: str | None

    @property
    def optimal(self) -> bool:
        """Return whether the minimum distance is proven to be the largest possible."""
        return self.bound is not None

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the centers, and the measures of ``describe``."""
        known = {"bound": self.bound, "optimal": self.optimal}
        return {"kind": self.kind, "construction": self.construction, **describe(self.centers), **known}


def make_centers(classes: int, bits: int, kind: str, seed: int) -> tuple[Centers, str]:
    """Return centers and the name of their construction; raises ``ValueError`` if the kind has too few words."""
    if kind in COMPARED:
        return _cached_centers(kind, classes, bits)
    if kind in BLOCKS:
        plan = plan_for(kind, classes, bits)
        if plan is None:
            raise ValueError(f"kind is {kind!r}, which has no {classes} words of {bits} bits; take 'best'")
        return choose(plan.words(), classes), plan.name
    return _OTHERS[kind](classes, bits, seed), kind


@lru_cache(maxsize=256)
def _cached_centers(kind: str, classes: int, bits: int) -> tuple[Centers, str]:
    if found := store.load(kind, classes, bits):
        centers, construction = unpack(found["codes"], bits), str(found["construction"])
    else:
        centers, construction = COMPARED[kind](classes, bits)
        store.save(kind, classes, bits, codes=pack(centers), construction=construction)
    centers.setflags(write=False)
    return centers, construction
