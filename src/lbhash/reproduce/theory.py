"""The lowest average precision, by the closed form and by enumerating all lists."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import chain, combinations, product

import numpy as np

from lbhash.evaluation import metrics
from lbhash.evaluation.metrics import average_precision, lowest_average_precision
from lbhash.evaluation.ranking import Ranking
from lbhash.reproduce.results import Record, Result, panels
from lbhash.reproduce.runs import Settings
from lbhash.reproduce.texts import text

LISTS = {
    "perfect": "++++----",
    "one irrelevant item first": "-++++---",
    "the lowest with m = 2": "--++++--",
    "the lowest of all": "----++++",
    "mis-ranked at the end": "+++----+",
    "gaps": "+-+-+-+-",
    "gaps of two": "+--+--+--+",
    "gap in the middle": "++---++-",
    "duplicated positives": "(++)-(++)---",
    "duplicated and mixed": "(+-)(++-)(+--)",
    "mixed at the end": "++(++----)",
    "all tied": "(++++----)",
    "500 relevant, gaps of two": "+--" * 500,
}
"""Lists by what they show: + relevant, − irrelevant; tied items in parentheses."""

LARGEST = 12
"""The longest list whose orders are all enumerated."""

CURVE_LENGTH = 12
CURVE_RELEVANT = (1, 2, 4, 6)


def run(settings: Settings) -> Result:
    """Return the table of examples, and the floor for all m; nothing is random, so seeds do not matter."""
    curve = curve_records(CURVE_LENGTH, CURVE_RELEVANT)
    lines = [{**record, "K": f"K = {record['K']}"} for record in curve]
    figure = panels.lines(lines, "m", ["floor", "all lists"], "K", by=())
    about = text("theory-curve", length=CURVE_LENGTH)
    more = Result.of("The lowest AP by the largest mis-rank", curve, about, figure, digits=4)
    records = [example(name, signs) for name, signs in LISTS.items()]
    short = [record for record in records if record["all lists"] is not None]
    named = [{**record, "example": f"{record['example']}   {record['list']}"} for record in short]
    columns = ("best", "AP", "worst", "floor", "all lists")
    points = [{"example": one["example"], "order": name, "AP": one[name]} for one in named for name in columns]
    figure = panels.points(points, ["AP"], "example", "order", by=(), xlabel="average precision")
    about = text("theory", largest=LARGEST)
    return Result.of("The lowest average precision", records, about, figure, {"curve": more}, digits=4)


def example(name: str, signs: str) -> Record:
    """Return the table's row for a list."""
    tied = [group.strip("()") for group in re.findall(r"[+-]|\([+-]+\)", signs)]
    ranking = Ranking(np.array([[len(group) for group in tied]]), np.array([[[group.count("+") for group in tied]]]))
    relevant, items, misrank = int(ranking.relevant.sum()), ranking.base, int(metrics.largest_misrank(ranking)[0])
    worst = "".join("".join(sorted(group, reverse=True)) for group in tied)  # − before +
    head = len(worst) - len(worst.lstrip("+"))
    found = [direct_average_precision(order) for order in orders(tied)] if items <= LARGEST else []
    return {
        "example": name,
        "list": signs if len(signs) <= 2 * LARGEST else f"{signs[:6]}…",
        "K": relevant,
        "AP": float(average_precision(ranking, ties="expected")[0]),
        "worst": float(average_precision(ranking, ties="worst")[0]),
        "best": float(average_precision(ranking, ties="best")[0]),
        "orders: lowest": min(found, default=None),
        "highest": max(found, default=None),
        "m": misrank,
        "f": head,
        "floor": float(metrics.average_precision_floor(ranking)[0]),
        "all lists": lowest_of_all(items, relevant, misrank, head)[0] if found else None,
    }


def curve_records(items: int, relevant: Sequence[int]) -> list[Record]:
    """Return for each K and m the closed form, the lowest AP of all lists, and how many lists there are."""
    records: list[Record] = []
    for k, m in [(size, m) for size in relevant for m in range(items - size + 1)]:
        lowest, lists = lowest_of_all(items, k, m, 0)
        floor = float(lowest_average_precision(k, m))
        records.append({"K": k, "m": m, "floor": floor, "all lists": lowest, "lists": lists})
    return records


def orders(tied: Sequence[str]) -> Iterator[list[int]]:
    """Yield the places, from 0, of the relevant items in every order that the ties of a list allow."""
    ends = np.cumsum([len(group) for group in tied]).tolist()
    chosen = (
        combinations(range(end - len(group), end), group.count("+")) for group, end in zip(tied, ends, strict=True)
    )
    for places in product(*chosen):
        yield list(chain(*places))


def direct_average_precision(places: Sequence[int]) -> float:
    """Return the AP of a list without ties by its definition, from the places of its relevant items."""
    return math.fsum(found / (place + 1) for found, place in enumerate(places, start=1)) / len(places)


def lowest_of_all(items: int, relevant: int, misrank: int, head: int) -> tuple[float, int]:
    """Return the lowest AP of lists with ``relevant`` relevant items, ``head`` of them first, and the number of lists.

    Only lists without a mis-rank above ``misrank`` count.
    """
    lists = ((*range(head), *others) for others in combinations(range(head, items), relevant - head))
    allowed = [places for places in lists if places[-1] - (relevant - 1) <= misrank]  # the last mis-ranks most
    return min(map(direct_average_precision, allowed)), len(allowed)
