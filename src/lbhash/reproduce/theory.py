"""The lowest average precision, by the closed form and by going through all lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lbhash.evaluation.metrics import (
    average_precision,
    average_precision_floor,
    largest_misrank,
    lowest_average_precision,
)
from lbhash.evaluation.ranking import Ranking
from lbhash.reproduce.ranked_lists import direct_average_precision, groups, lowest_of_all, orders
from lbhash.reproduce.results.result import Cell, Result
from lbhash.reproduce.runs.settings import Settings
from lbhash.utils.plotting import new_figure, palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
"""A list by what it shows: + relevant, − irrelevant, in their order; tied ones in parentheses."""

LARGEST = 12
"""Longest list of which all orders are gone through."""

CURVE_LENGTH = 12
CURVE_RELEVANT = (1, 2, 4, 6)

TEXT = """The mis-rank m of a relevant item is the number of irrelevant ones before it. At rank i the precision is (i −
m) / i, so AP is the mean of that over the relevant items. Of all lists with K relevant items whose mis-ranks are at
most m, the lowest AP is 1 − (m / K) (H_{m+K} − H_m), reached where the K stand without a gap behind m irrelevant ones
(`lbhash.evaluation.metrics.lowest_average_precision`, with its proof).

- **list**: + relevant, − irrelevant; items in parentheses are tied (duplicated or mixed codes at one distance).
- **AP** in expectation over a random order of ties, **worst** and **best** order, by
  `lbhash.evaluation.metrics.average_precision`; "**orders**" are all orders of the ties, gone through one by one, with
  the lowest and the highest AP found.
- **m** is the largest mis-rank in the worst order of ties, **floor** the closed form for it, **all lists** the lowest
  AP of all lists of that length with K relevant items and no mis-rank above m, gone through one by one.

A gap costs: it makes m larger for the items behind it, while those before it keep their precision, so AP lies above the
floor. Where all mis-ranks are equal, AP is the floor. Lists of more than {largest} items are not gone through."""

CURVE_TEXT = """Lists of {length} items of which K are relevant: the closed form, and the lowest AP of all lists whose
mis-ranks are at most m."""


def run(settings: Settings, lists: dict[str, str] | None = None) -> Result:
    """The table of examples, and the floor for all m; nothing in it is random, so that seeds do not matter."""
    given = LISTS if lists is None else lists
    rows = [example(name, text) for name, text in given.items()]
    curve = curve_rows(CURVE_LENGTH, CURVE_RELEVANT)
    more = Result(
        "The lowest AP by the largest mis-rank",
        ("K", "m", "floor", "all lists", "lists"),
        curve,
        CURVE_TEXT.format(length=CURVE_LENGTH),
        lambda: draw_curve(curve),
    )
    columns = ("example", "list", "K", "AP", "worst", "best", "orders: lowest", "highest", "m", "floor", "all lists")
    return Result(
        "The lowest average precision",
        columns,
        rows,
        TEXT.replace("{largest}", str(LARGEST)),
        lambda: draw_examples(given, rows),
        {"curve": more},
    )


def example(name: str, text: str) -> list[Cell]:
    """The row of a list."""
    tied = groups(text)
    ranking = Ranking(np.array([[len(group) for group in tied]]), np.array([[[group.count("+") for group in tied]]]))
    relevant, items, misrank = int(ranking.relevant.sum()), ranking.base, int(largest_misrank(ranking)[0])
    expected, worst, best = (float(average_precision(ranking, ties=ties)[0]) for ties in ("expected", "worst", "best"))
    floor = float(average_precision_floor(ranking)[0])
    lowest = highest = of_all = None
    if items <= LARGEST:
        found = [direct_average_precision(order) for order in orders(tied)]
        lowest, highest = min(found), max(found)
        of_all, _ = lowest_of_all(items, relevant, misrank)
    return [
        name,
        text if len(text) <= 2 * LARGEST else f"{text[:6]}…",
        relevant,
        expected,
        worst,
        best,
        lowest,
        highest,
        misrank,
        floor,
        of_all,
    ]


def curve_rows(items: int, relevant: Sequence[int]) -> list[list[Cell]]:
    """K, m, the closed form, the lowest AP of all lists and their number."""
    rows: list[list[Cell]] = []
    for k in relevant:
        for m in range(items - k + 1):
            found, lists = lowest_of_all(items, k, m)
            rows.append([k, m, float(lowest_average_precision(k, m)), found, lists])
    return rows


def draw_examples(lists: dict[str, str], rows: Sequence[Sequence[Cell]]) -> Figure:
    """The short lists as squares; beside each its AP over ties and its floor."""
    shown = [(row, groups(lists[str(row[0])])) for row in rows if row[10] is not None]
    figure, (left, right) = new_figure(13, 0.42 * len(shown) + 1.4, 1.1, 1)
    blue, orange, green, *_ = palette(3)
    for place, (_, tied) in enumerate(shown):
        at = 0.0
        for group in tied:
            for sign in sorted(group):  # "+" comes before "-"
                left.barh(place, 0.9, left=at + 0.05, height=0.62, color=blue if sign == "+" else "0.85")
                at += 1
            if len(group) > 1:
                box: dict[str, Any] = {"height": 0.84, "fill": False, "edgecolor": "0.2", "linewidth": 1.2}
                left.barh(place, len(group) - 0.02, left=at - len(group) + 0.01, **box)
    names = [str(row[0]) for row, _ in shown]
    left.set(yticks=range(len(shown)), ylim=(len(shown) - 0.5, -0.5), xlabel="rank", xlim=(0, None))
    left.set_yticklabels(names)
    width = int(max(sum(map(len, tied)) for _, tied in shown))
    left.set_xticks(np.arange(width) + 0.5, [str(rank + 1) for rank in range(width)])
    left.grid(visible=False)
    left.set_title("Lists: relevant (blue) and irrelevant items, ties framed")
    places = np.arange(len(shown))
    values = np.array([[row[i] for i in (3, 4, 5, 9, 10)] for row, _ in shown], float)
    right.hlines(
        places, values[:, 1], values[:, 2], color=blue, linewidth=5, alpha=0.35, label="AP, worst to best order"
    )
    right.plot(values[:, 0], places, "o", color=blue, label="AP, expected")
    right.plot(values[:, 3], places, "|", color=orange, markersize=18, markeredgewidth=3, label="floor, closed form")
    right.plot(values[:, 4], places, "x", color=green, markersize=6, label="floor, all lists gone through")
    right.set(yticks=places, ylim=(len(shown) - 0.5, -0.5), xlim=(0, 1.03), xlabel="average precision")
    right.set_yticklabels([])
    right.legend(loc="upper left", fontsize=9)
    right.set_title("Average precision and its floor")
    return figure


def draw_curve(rows: Sequence[Sequence[Cell]]) -> Figure:
    """The floor against m, a curve a K, with crosses where all lists were gone through."""
    figure, (axes,) = new_figure(8, 4.5)
    numbers = np.array(rows, float)
    sizes = np.unique(numbers[:, 0])
    for k, color in zip(sizes, palette(len(sizes)), strict=True):
        own = numbers[numbers[:, 0] == k]
        axes.plot(own[:, 1], own[:, 2], color=color, label=f"K = {k:.0f}")
        axes.plot(own[:, 1], own[:, 3], "x", color=color)
    axes.plot([], [], "x", color="0.3", label="all lists")
    axes.set(xlabel="m, the largest mis-rank", ylabel="lowest average precision", ylim=(0, 1.03))
    axes.legend()
    return figure
