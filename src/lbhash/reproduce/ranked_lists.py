"""Short ranked lists, written as + (relevant) and - (irrelevant), with parentheses around tied items."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, product


def groups(text: str) -> list[str]:
    """Return the tied groups of a list in their order: ``"+(+-)"`` to ``["+", "+-"]``."""
    found: list[str] = []
    tied = False
    for sign in text:
        if sign in "()":
            if (sign == "(") == tied:
                raise ValueError(f"list is {text!r}; parentheses must open and close in turn")
            tied = sign == "("
            found += [""] * tied
        elif sign not in "+-":
            raise ValueError(f"list is {text!r}; it must be of +, -, ( and )")
        elif tied:
            found[-1] += sign
        else:
            found.append(sign)
    if tied:
        raise ValueError(f"list is {text!r}; parentheses must open and close in turn")
    return [group for group in found if group]


def orders(tied: Sequence[str]) -> Iterator[list[bool]]:
    """Yield every order that the ties allow."""
    for parts in product(*(list(_arrangements(len(group), group.count("+"))) for group in tied)):
        yield [hit for part in parts for hit in part]


def lowest_of_all(items: int, relevant: int, misrank: int) -> tuple[float, int]:
    """Return the lowest AP of lists with so many relevant items and mis-ranks up to ``misrank``, and their number."""
    allowed = [order for order in _arrangements(items, relevant) if _largest_misrank(order) <= misrank]
    return min(direct_average_precision(order) for order in allowed), len(allowed)


def direct_average_precision(relevant: Sequence[bool]) -> float:
    """Return the AP of a list without ties by its definition."""
    found = 0
    precisions = []
    for rank, hit in enumerate(relevant, start=1):
        if hit:
            found += 1
            precisions.append(found / rank)
    return math.fsum(precisions) / len(precisions)


def _arrangements(items: int, relevant: int) -> Iterator[list[bool]]:
    for places in combinations(range(items), relevant):
        chosen = set(places)
        yield [place in chosen for place in range(items)]


def _largest_misrank(order: Sequence[bool]) -> int:
    wrong = largest = 0
    for hit in order:
        wrong += not hit
        if hit:
            largest = wrong
    return largest
