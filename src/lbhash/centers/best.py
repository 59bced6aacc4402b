"""The best centers of all constructions: the largest minimum distance, and then few opposites, then another measure.

Theory bounds every construction's distance from below (``Plan.distance``). Only constructions whose bound is the
largest, or up to two less, are made, as the counted distance may exceed the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

from lbhash.centers.choose import choose, opposite_pairs
from lbhash.centers.constructions.bch import bch_centers
from lbhash.centers.constructions.blocks import MAX_DROPPED, Block, Plan, best_plan
from lbhash.centers.constructions.hadamard import hadamard_centers
from lbhash.centers.constructions.levenshtein import levenshtein_blocks
from lbhash.centers.constructions.random import bernoulli_centers
from lbhash.centers.constructions.reed_solomon import reed_solomon_centers
from lbhash.centers.constructions.stored import stored_blocks
from lbhash.centers.distance import (
    Centers,
    bit_balance,
    maximum_distance,
    mean_distance,
    minimum_distance,
)

BLOCKS: dict[str, Callable[[int, int], Iterator[Block]]] = {
    "levenshtein": levenshtein_blocks,
    "stored": stored_blocks,
}
"""The kinds that consist of blocks; each function yields the blocks of a kind."""

PAPER = {"hadamard": hadamard_centers, "bch": bch_centers, "reed-solomon": reed_solomon_centers}
"""The paper's three constructions, each of which chooses its words itself."""

_MAX_COUNTED_CLASSES, _MARGIN = 1024, 2


def plan_for(kind: str, classes: int, bits: int) -> Plan | None:
    """Return the best plan of one kind of blocks, or None if the kind has none."""
    return best_plan(BLOCKS[kind](classes, bits + MAX_DROPPED), bits)


def best_centers(classes: int, bits: int) -> tuple[Centers, str]:
    """Return the centers with the largest minimum distance, and their construction.

    Among equals, those with the fewest opposites win, then the largest mean distance, then the best balance.
    """
    found = _farthest(classes, bits)
    if len(found) > 1:
        found = [max(found, key=lambda made: (*merit(made.centers), made.promised))]
    return found[0].centers, found[0].construction


def best_ratio_centers(classes: int, bits: int) -> tuple[Centers, str]:
    """Return the centers with the largest minimum distance, then the smallest maximum distance, and their construction.

    A code that is assigned to the wrong class lies at that class's center, so the largest distance between centers
    bounds max D_intra, and with it the ratio min D_inter / max D_intra.
    """

    def ratio_merit(made: Made) -> tuple[float, ...]:
        smallest, *others = merit(made.centers)
        return smallest, -maximum_distance(made.centers), *others

    found = _farthest(classes, bits)
    if len(found) > 1:
        found = [max(found, key=ratio_merit)]
    return found[0].centers, found[0].construction


class Made(NamedTuple):
    """Centers, their construction's name, and the distance that its theory promises."""

    centers: Centers
    construction: str
    promised: int


def merit(centers: Centers) -> tuple[int, int, float, float]:
    """Return the key by which centers are compared; larger is better."""
    return minimum_distance(centers), -opposite_pairs(centers), mean_distance(centers), -bit_balance(centers)


def _farthest(classes: int, bits: int) -> list[Made]:
    """Return centers of all constructions that may have the largest minimum distance."""
    blocks = [list(make(classes, bits + MAX_DROPPED)) for make in BLOCKS.values()]
    # The best plan of each kind alone, then of all together.
    found = [best_plan(some, bits) for some in (*blocks, [*chain(*blocks)])]
    plans = {plan.name: plan for plan in found if plan is not None}
    if not plans:  # more classes than the linear codes have words, and too many to count their pairs
        return [Made(bernoulli_centers(classes, bits), "random", 0)]
    # The counted distance can be larger than the plan's.
    margin = _MARGIN if classes <= _MAX_COUNTED_CLASSES else 0
    least = max(plan.distance for plan in plans.values()) - margin
    likely = [plan for plan in plans.values() if plan.distance >= least]
    made = [Made(choose(plan.words(), classes), plan.name, plan.distance) for plan in likely]
    if classes <= _MAX_COUNTED_CLASSES:
        made.extend(Made(make(classes, bits), kind, 0) for kind, make in PAPER.items())
    return made
