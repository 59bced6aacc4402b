"""Short ranked lists, written as + (relevant) and - (irrelevant), with parentheses around tied items."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import combinations, product


def groups(text: str) -> list[str]:
    """Return the tied groups of a list in their order: ``"+(+-)"`` to ``["+", "+-"]``."""
    if not re.fullmatch(r"([+-]|\([+-]*\))*", text):
        raise ValueError(f"list is {text!r}; it must be of + and -, with parentheses around items that are tied")
    return [group.strip("()") for group in re.findall(r"[+-]|\([+-]+\)", text)]


def orders(tied: Sequence[str]) -> Iterator[list[bool]]:
    """Yield every order that the ties allow."""
    for chosen in product(*(list(_arrangements(len(group), group.count("+"))) for group in tied)):
        yield [hit for group in chosen for hit in group]


def lowest_of_all(items: int, relevant: int, misrank: int) -> tuple[float, int]:
    """Return the lowest AP of lists with so many relevant items and mis-ranks up to ``misrank``, and their number."""
    allowed = [order for order in _arrangements(items, relevant) if _largest_misrank(order) <= misrank]
    return min(direct_average_precision(order) for order in allowed), len(allowed)


def direct_average_precision(relevant: Sequence[bool]) -> float:
    """Return the AP of a list without ties by its definition."""
    ranks = [rank for rank, hit in enumerate(relevant, start=1) if hit]
    return math.fsum(found / rank for found, rank in enumerate(ranks, start=1)) / len(ranks)


def _arrangements(items: int, relevant: int) -> Iterator[list[bool]]:
    for places in combinations(range(items), relevant):
        yield [place in places for place in range(items)]


def _largest_misrank(order: Sequence[bool]) -> int:
    last = max((place for place, hit in enumerate(order) if hit), default=0)  # it has the most before it
    return order[:last].count(False)
