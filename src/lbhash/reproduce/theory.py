"""The lowest average precision, by the closed form and by going through all lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from lbhash.evaluation.metrics import (
    average_precision,
    average_precision_floor,
    largest_misrank,
    lowest_average_precision,
)
from lbhash.evaluation.ranking import Ranking
from lbhash.reproduce.ranked_lists import direct_average_precision, groups, lowest_of_all, orders
from lbhash.reproduce.results import Record, Result
from lbhash.reproduce.runs import Settings
from lbhash.reproduce.texts import text
from lbhash.utils.plotting import new_figure, palette

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


def run(settings: Settings) -> Result:
    """Return the table of examples, and the floor for all m; nothing in it is random, so that seeds do not matter."""
    records = [example(name, signs) for name, signs in LISTS.items()]
    curve = curve_records(CURVE_LENGTH, CURVE_RELEVANT)
    more = Result.of(
        "The lowest AP by the largest mis-rank",
        curve,
        text("theory-curve", length=CURVE_LENGTH),
        lambda: curve_figure(curve),
        digits=4,
    )
    return Result.of(
        "The lowest average precision",
        records,
        text("theory", largest=LARGEST),
        lambda: examples_figure(records),
        {"curve": more},
        digits=4,
    )


def example(name: str, signs: str) -> Record:
    """Return the row of a list."""
    tied = groups(signs)
    ranking = Ranking(np.array([[len(group) for group in tied]]), np.array([[[group.count("+") for group in tied]]]))
    relevant, items, misrank = int(ranking.relevant.sum()), ranking.base, int(largest_misrank(ranking)[0])
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
        "floor": float(average_precision_floor(ranking)[0]),
        "all lists": lowest_of_all(items, relevant, misrank)[0] if found else None,
    }


def curve_records(items: int, relevant: Sequence[int]) -> list[Record]:
    """Return for each K and m the closed form, the lowest AP of all lists, and how many lists there are."""
    records: list[Record] = []
    for k in relevant:
        for m in range(items - k + 1):
            lowest, lists = lowest_of_all(items, k, m)
            floor = float(lowest_average_precision(k, m))
            records.append({"K": k, "m": m, "floor": floor, "all lists": lowest, "lists": lists})
    return records


def examples_figure(records: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw the short lists as squares; beside each its AP over ties and its floor."""
    shown = [record for record in records if record["all lists"] is not None]
    figure, (left, right) = new_figure(13, 0.42 * len(shown) + 1.4, 1.1, 1)
    blue, orange, green, *_ = palette(3)
    lists = [groups(LISTS[record["example"]]) for record in shown]
    for place, tied in enumerate(lists):
        x = 0.0
        for group in tied:
            for sign in sorted(group):  # "+" comes before "-"
                left.barh(place, 0.9, left=x + 0.05, height=0.62, color=blue if sign == "+" else "0.85")
                x += 1
            if len(group) > 1:
                box: dict[str, Any] = {"height": 0.84, "fill": False, "edgecolor": "0.2", "linewidth": 1.2}
                left.barh(place, len(group) - 0.02, left=x - len(group) + 0.01, **box)
    left.set(yticks=range(len(shown)), ylim=(len(shown) - 0.5, -0.5), xlabel="rank", xlim=(0, None))
    left.set_yticklabels([record["example"] for record in shown])
    width = max(sum(map(len, tied)) for tied in lists)
    left.set_xticks(np.arange(width) + 0.5, [str(rank + 1) for rank in range(width)])
    left.grid(visible=False)
    left.set_title("Lists: relevant (blue) and irrelevant items, ties framed")
    places = np.arange(len(shown))
    ap, worst, best, floor, lowest = (
        [record[name] for record in shown] for name in ("AP", "worst", "best", "floor", "all lists")
    )
    right.hlines(places, worst, best, color=blue, linewidth=5, alpha=0.35, label="AP, worst to best order")
    right.plot(ap, places, "o", color=blue, label="AP, expected")
    right.plot(floor, places, "|", color=orange, markersize=18, markeredgewidth=3, label="floor, closed form")
    right.plot(lowest, places, "x", color=green, markersize=6, label="floor, all lists gone through")
    right.set(yticks=places, ylim=(len(shown) - 0.5, -0.5), xlim=(0, 1.03), xlabel="average precision")
    right.set_yticklabels([])
    right.legend(loc="upper left", fontsize=9)
    right.set_title("Average precision and its floor")
    return figure


def curve_figure(records: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw the floor against m, with crosses where all lists were gone through, for each K."""
    figure, (axes,) = new_figure(8, 4.5)
    sizes = sorted({record["K"] for record in records})
    for k, color in zip(sizes, palette(len(sizes)), strict=True):
        own = [record for record in records if record["K"] == k]
        misranks = [record["m"] for record in own]
        axes.plot(misranks, [record["floor"] for record in own], color=color, label=f"K = {k}")
        axes.plot(misranks, [record["all lists"] for record in own], "x", color=color)
    axes.plot([], [], "x", color="0.3", label="all lists")
    axes.set(xlabel="m, the largest mis-rank", ylabel="lowest average precision", ylim=(0, 1.03))
    axes.legend()
    return figure
