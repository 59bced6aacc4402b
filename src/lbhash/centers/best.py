"""The best centers of all constructions: the largest minimum distance, and among those the best by another measure.

Theory gives a lower bound of every construction's distance beforehand (``Plan.distance``), so only those with the
largest are made, or with up to two less, as the counted distance may exceed the bound. If the distance is still below
the upper bound and the words are few, a bounded search tries for one more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from lbhash.centers.bounds import upper_bound
from lbhash.centers.choose import choose_balanced, choose_one_sided
from lbhash.centers.constructions.bch import bch_centers
from lbhash.centers.constructions.conference import conference_blocks
from lbhash.centers.constructions.coset_search import coset_search
from lbhash.centers.constructions.hadamard import hadamard_centers
from lbhash.centers.constructions.juxtaposition import MAX_DROPPED, Block, Plan, best_plan
from lbhash.centers.constructions.kerdock import kerdock_blocks
from lbhash.centers.constructions.levenshtein import hadamard_blocks
from lbhash.centers.constructions.linear import dimension_for
from lbhash.centers.constructions.linear_table import best_linear_code, linear_blocks
from lbhash.centers.constructions.random import bernoulli_centers
from lbhash.centers.constructions.reed_solomon import reed_solomon_centers
from lbhash.centers.distance import (
    Centers,
    bit_balance,
    largest_mean_distance,
    maximum_distance,
    mean_distance,
    minimum_distance,
)

BLOCKS: dict[str, Callable[[int, int], Iterator[Block]]] = {
    "levenshtein": hadamard_blocks,
    "conference": conference_blocks,
    "kerdock": kerdock_blocks,
    "linear": linear_blocks,
}
"""The kinds that consist of blocks; each function yields the blocks of a kind."""

PAPER = {"hadamard": hadamard_centers, "bch": bch_centers, "reed-solomon": reed_solomon_centers}
"""The paper's three constructions, each of which chooses its words itself."""

Chooser = Callable[[Centers, int], Centers]

_QUICK = ("levenshtein", "conference", "kerdock")
_MAX_COUNTED_CLASSES, _MARGIN = 1024, 2
_MAX_SEARCHED_CLASSES, _MAX_SEARCHED_BITS, _SEARCH_STEPS = 256, 32, 3000


def plan_for(kind: str, classes: int, bits: int) -> Plan | None:
    """Return the best plan of one kind of blocks, or None if the kind has none."""
    return best_plan(BLOCKS[kind](classes, bits + MAX_DROPPED), bits)


def best_centers(classes: int, bits: int) -> tuple[Centers, str]:
    """Return the centers with the largest minimum distance, then mean distance, then balance; and how they are made."""
    for kind in _QUICK:
        plan = plan_for(kind, classes, bits)
        if plan is not None and plan.distance == upper_bound(classes, bits).distance:
            centers = choose_balanced(plan.words(), classes)
            if mean_distance(centers) == largest_mean_distance(classes, bits):
                return centers, plan.name  # nothing can be better
    found = _farthest(classes, bits)
    return found[0] if len(found) == 1 else max(found, key=lambda made: merit(made[0]))


def best_ratio_centers(classes: int, bits: int) -> tuple[Centers, str]:
    """Return the centers with the largest minimum distance, then the smallest maximum distance, and their construction.

    A code that is assigned to the wrong class lies at that class's center, so the largest distance between centers
    bounds max D_intra, and with it the ratio min D_inter / max D_intra. Opposite words hurt it most.
    """

    def ratio_merit(made: tuple[Centers, str]) -> tuple[float, ...]:
        smallest, *others = merit(made[0])
        return smallest, -maximum_distance(made[0]), *others

    found = _farthest(classes, bits, choose_one_sided)
    return found[0] if len(found) == 1 else max(found + _farthest(classes, bits), key=ratio_merit)


def _farthest(classes: int, bits: int, choose: Chooser = choose_balanced) -> list[tuple[Centers, str]]:
    """Return centers of all constructions that may have the largest minimum distance, and the constructions' names."""
    plans = {plan.name: plan for plan in _plans(classes, bits) if plan is not None}
    farthest = max((plan.distance for plan in plans.values()), default=0)
    if not plans:  # more classes than the linear codes have words, and too many to count their pairs
        return [(bernoulli_centers(classes, bits), "random")]
    # The counted distance can be larger than the plan's.
    margin = _MARGIN if classes <= _MAX_COUNTED_CLASSES else 0
    made = [(choose(plan.words(), classes), name) for name, plan in plans.items() if plan.distance >= farthest - margin]
    if classes <= _MAX_COUNTED_CLASSES:
        made.extend((make(classes, bits), kind) for kind, make in PAPER.items())
    if classes > _MAX_SEARCHED_CLASSES or bits > _MAX_SEARCHED_BITS:
        return made
    distance = max(minimum_distance(centers) for centers, _ in made)
    while distance < upper_bound(classes, bits).distance and (better := _searched(classes, bits, distance + 1)):
        made.append((choose(better[0], classes), better[1]))
        distance = minimum_distance(made[-1][0])
    return made


def merit(centers: Centers) -> tuple[int, float, float]:
    """Return what centers are compared by; larger is better."""
    return minimum_distance(centers), mean_distance(centers), -bit_balance(centers)


def _plans(classes: int, bits: int) -> Iterator[Plan | None]:
    """Yield the best plan of every kind of blocks alone, then of all of them together."""
    blocks = {kind: list(make(classes, bits + MAX_DROPPED)) for kind, make in BLOCKS.items()}
    for alone in blocks.values():
        yield best_plan(alone, bits)
    yield best_plan([block for alone in blocks.values() for block in alone], bits)


@lru_cache(maxsize=16)  # "best-ratio" asks twice, and it can take seconds
def _searched(classes: int, bits: int, distance: int) -> tuple[Centers, str] | None:
    """Return words found by ``coset_search``, if any; cosets of the largest linear codes are tried first."""
    odd = distance % 2
    for dimension in range(dimension_for(classes) - 1, 0, -1):
        code = best_linear_code(bits + odd, dimension)
        if code is None or code.d < distance + odd or (code.generator().sum(axis=1) % 2).any():
            continue
        words = coset_search(code.generator(), classes, distance + odd, _SEARCH_STEPS)
        if words is not None:
            return words[:, :bits], f"search among cosets of {code}"
    return None
