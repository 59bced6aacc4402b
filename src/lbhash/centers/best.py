"""The best centres of all constructions: the largest minimum distance, then the largest mean distance, then balance.

Theory gives every construction's distance beforehand (``Plan.distance``), so that only those with the largest are made.
From their words the classes' are chosen with balanced bits, and what is returned was counted. Where a distance is still
below the upper bound and the words are few, a bounded search tries for one more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lbhash.centers.bch import bch_centers
from lbhash.centers.bernoulli import bernoulli_centers
from lbhash.centers.bounds import upper_bound
from lbhash.centers.choose import choose_balanced
from lbhash.centers.conference import conference_blocks
from lbhash.centers.coset_search import coset_search
from lbhash.centers.distance import Centers, bit_balance, mean_distance, minimum_distance
from lbhash.centers.hadamard import hadamard_centers
from lbhash.centers.juxtaposition import MAX_DROPPED, Block, Plan, best_plan
from lbhash.centers.kerdock import kerdock_blocks
from lbhash.centers.levenshtein import hadamard_blocks
from lbhash.centers.linear import dimension_for
from lbhash.centers.linear_table import best_linear_code, linear_blocks
from lbhash.centers.reed_solomon import reed_solomon_centers

BLOCKS: dict[str, Callable[[int, int], Iterator[Block]]] = {
    "levenshtein": hadamard_blocks,
    "conference": conference_blocks,
    "kerdock": kerdock_blocks,
    "linear": linear_blocks,
}
"""Codes with words enough for a number of classes, up to a length, by the kind that uses them alone."""

PAPER = {"hadamard": hadamard_centers, "bch": bch_centers, "reed-solomon": reed_solomon_centers}
"""The paper's three constructions, each with a choice of words of its own."""

_MAX_PAPER_CLASSES = 1024
_MAX_SEARCHED_CLASSES = 256
_MAX_SEARCHED_BITS = 32
_SEARCH_STEPS = 3000


def plan_for(kind: str, classes: int, bits: int) -> Plan | None:
    """The best plan of one kind of blocks, or None where the kind has none."""
    return best_plan(BLOCKS[kind](classes, bits + MAX_DROPPED), bits)


def best_centers(classes: int, bits: int) -> tuple[Centers, str]:
    """The best centres, and how they were made.

    Args:
        classes: number of centres C, at most ``2**bits``.
        bits: length h of a centre.

    Returns:
        ``int8 [C, bits]`` of -1 and +1, distinct, and the name of the construction.
    """
    plans = {plan.name: plan for plan in _plans(classes, bits) if plan is not None}
    farthest = max((plan.distance for plan in plans.values()), default=0)
    made = [(choose_balanced(plan.words(), classes), name) for name, plan in plans.items() if plan.distance == farthest]
    if not made:  # more classes than the linear codes have words, and too many to count their pairs
        return bernoulli_centers(classes, bits), "random"
    if classes <= _MAX_PAPER_CLASSES:
        made.extend((make(classes, bits), f"{kind} (the paper's)") for kind, make in PAPER.items())
    centers, name = max(made, key=lambda found: merit(found[0]))
    while (better := _searched(classes, bits, minimum_distance(centers) + 1)) is not None:
        centers, name = better
    return centers, name


def merit(centers: Centers) -> tuple[int, float, float]:
    """What centres are compared by, larger is better; ``max`` keeps the first of equals."""
    return minimum_distance(centers), mean_distance(centers), -bit_balance(centers)


def _plans(classes: int, bits: int) -> Iterator[Plan | None]:
    """Of every kind of blocks alone, then of all of them together, the simpler first."""
    blocks = {kind: list(make(classes, bits + MAX_DROPPED)) for kind, make in BLOCKS.items()}
    for alone in blocks.values():
        yield best_plan(alone, bits)
    yield best_plan([block for alone in blocks.values() for block in alone], bits)


def _searched(classes: int, bits: int, distance: int) -> tuple[Centers, str] | None:
    """Centres by ``coset_search``, if any are found; cosets of the largest linear codes are tried first."""
    if classes > _MAX_SEARCHED_CLASSES or bits > _MAX_SEARCHED_BITS or distance > upper_bound(classes, bits).distance:
        return None
    odd = distance % 2
    for dimension in range(dimension_for(classes) - 1, 0, -1):
        code = best_linear_code(bits + odd, dimension)
        if code is not None and code.d >= distance + odd:
            generator = code.generator()
            if (generator.sum(axis=1) % 2 == 0).all():
                words = coset_search(generator, classes, distance + odd, _SEARCH_STEPS)
                if words is not None:
                    return choose_balanced(words[:, :bits], classes), f"search among cosets of {code}"
    return None
