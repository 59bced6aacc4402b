"""Figures from records: panels of lines, of points with intervals, or of dots, and what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lbhash.reproduce.results.result import Regression
from lbhash.trials.intervals import Interval
from lbhash.utils.plotting import new_grid, palette

Records = Sequence[dict[str, Any]]
Looks = Mapping[Any, Mapping[str, Any]]


def panel_figure(
    records: Iterable[dict[str, Any]],
    draw: Callable[[Axes, Records, str, str, str, Looks], None],
    x: str,
    y: str | Sequence[str],
    name: str,
    *,
    panels: Sequence[str] = ("data", "bits"),
    columns: int = 3,
    **settings: Any,
) -> Figure:
    """Draw records with a panel for each value of the columns ``panels`` and each ``y``, and a color for each ``name``.

    ``draw`` is one of the functions below, and ``settings`` are those of the axes.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        title = ", ".join(_words(key, record[key]) for key in panels)
        groups.setdefault(title, []).append(record)
    looks = looks_of(record[name] for group in groups.values() for record in group)
    columns, values = min(columns, len(groups)), [y] if isinstance(y, str) else y
    rows = -(-len(groups) // columns)
    points = max(len({record[x] for record in group}) for group in groups.values()) * len(looks)
    height = 2.4 + 0.12 * points if draw is draw_points else 3.6
    figure, grid = new_grid(rows * len(values), columns, 4.7 if columns > 1 else 7, height)
    for axes in grid.ravel():
        axes.set_axis_off()
    for place, value in enumerate(values):
        for axes, (title, group) in zip(grid[place * rows : (place + 1) * rows].ravel(), groups.items(), strict=False):
            axes.set_axis_on()
            labels = {} if draw is draw_points else {"xlabel": x, "ylabel": value}
            axes.set(title=title, **{**labels, **settings})
            draw(axes, group, x, value, name, looks)
    common_legend(figure)
    return figure


def panels(
    records: Iterable[dict[str, Any]], draw: Callable[..., None], x: str, y: str | Sequence[str], name: str, **more: Any
) -> Callable[[], Figure]:
    """Return a function that draws the ``panel_figure`` of these arguments when the figure is written."""
    return partial(panel_figure, records, draw, x, y, name, **more)


def looks_of(names: Iterable[Any]) -> Looks:
    """Return a color for each name; X and X_D share one, and the line of X is dashed then."""
    distinct = list(dict.fromkeys(names))
    hosts = list(dict.fromkeys(str(name).removesuffix("_D") for name in distinct))
    colors = dict(zip(hosts, palette(len(hosts)), strict=True))
    return {
        name: {"color": colors[str(name).removesuffix("_D")], "linestyle": "--" if f"{name}_D" in distinct else "-"}
        for name in distinct
    }


def draw_lines(axes: Axes, records: Records, x: str, y: str, name: str, looks: Looks) -> None:
    """Draw a line for each name, with a band for intervals and a gap where the mean is infinite."""
    for label, look in looks.items():
        own = [record for record in records if record[name] == label and record[y] is not None]
        places, (mean, half) = [record[x] for record in own], _means(own, y)
        axes.plot(places, mean, marker="o" if len(own) < 40 else "", markersize=4, label=label, **look)
        if half.any():
            axes.fill_between(places, mean - half, mean + half, color=look["color"], alpha=0.2, linewidth=0)


def draw_points(axes: Axes, records: Records, x: str, y: str, name: str, looks: Looks) -> None:
    """Draw the values ``y`` from left to right with their intervals, and the categories ``x`` from the top down.

    A star marks a value of the column "Y, paper".
    """
    categories = list(dict.fromkeys(record[x] for record in records))
    for label, shift in zip(looks, np.linspace(-0.3, 0.3, len(looks)) * (len(looks) > 1), strict=True):
        own = [record for record in records if record[name] == label and record[y] is not None]
        places, (mean, half) = [categories.index(record[x]) + shift for record in own], _means(own, y)
        color = looks[label]["color"]
        axes.errorbar(mean, places, xerr=half, fmt="o", capsize=3, markersize=5, color=color, label=_words(name, label))
        stars = [(record.get(f"{y}, paper"), place) for record, place in zip(own, places, strict=True)]
        stars = [star for star in stars if star[0] is not None]
        if stars:
            style = {"color": color, "markeredgecolor": "black", "linestyle": "", "label": "in the paper"}
            axes.plot(*zip(*stars, strict=True), "*", markersize=9, **style)
    axes.set(yticks=range(len(categories)), ylim=(len(categories) - 0.5, -0.5))
    axes.set_yticklabels([_words(x, category) for category in categories])
    axes.grid(visible=False, axis="y")


def draw_dots(axes: Axes, records: Records, x: str, y: str, name: str, looks: Looks) -> None:
    """Draw a dot for each record."""
    for label, look in looks.items():
        own = [record for record in records if record[name] == label]
        places, values = _means(own, x)[0], _means(own, y)[0]
        axes.plot(places, values, "o", markersize=3.5, alpha=0.7, markeredgewidth=0, color=look["color"], label=label)


def common_legend(figure: Figure, **options: Any) -> None:
    """Put one legend for all panels below them, with each label once."""
    found = [axes.get_legend_handles_labels() for axes in figure.axes]
    handles = {label: handle for own, labels in reversed(found) for handle, label in zip(own, labels, strict=True)}
    legend = {"loc": "outside lower center", "ncols": min(6, len(handles)), "frameon": False, "fontsize": 9}
    figure.legend(handles.values(), handles, **{**legend, **options})


def long_records(records: Iterable[Mapping[str, Any]], keys: Sequence[str], name: str, value: str) -> Records:
    """Return a record for each cell that is not in the columns ``keys``, with the column's ``name`` and its ``value``.

    A column "NAME, paper" goes to the record of NAME.
    """
    return [
        {key: record[key] for key in keys}
        | {name: column, value: cell, f"{value}, paper": record.get(f"{column}, paper")}
        for record in records
        for column, cell in record.items()
        if column not in keys and not column.endswith(", paper")
    ]


def regression_line(axes: Axes, line: Regression | None) -> None:
    """Draw a regression line with its 95 % band, and add its correlations to the panel's title."""
    if line is None:
        return
    x = np.linspace(line.x.min(), line.x.max(), 100)
    half = line.band(x)
    axes.plot(x, line.line(x), color="0.3", linewidth=1.2)
    axes.fill_between(x, line.line(x) - half, line.line(x) + half, color="0.5", alpha=0.2, linewidth=0)
    axes.set_title(f"{axes.get_title()}: r = {line.pearson:.2f}, ρ = {line.spearman:.2f}")


def _words(column: str, value: Any) -> str:
    return f"{value} bits" if column == "bits" else str(value)


def _means(records: Records, column: str) -> npt.NDArray[np.float64]:
    """Return means and half intervals, ``[2, n]``; NaN for infinite means."""
    cells = [record[column] for record in records]
    pairs = [(cell.mean, cell.half or 0) if isinstance(cell, Interval) else (cell, 0) for cell in cells]
    found = np.array(pairs, np.float64).reshape(-1, 2).T
    found[0, ~np.isfinite(found[0])] = np.nan
    return found
