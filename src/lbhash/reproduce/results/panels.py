"""Figures of data frames, drawn by seaborn: a panel for each group of rows and each value, and one legend for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lbhash.reproduce.results.regression import Regression
from lbhash.trials.intervals import Interval
from lbhash.utils.plotting import common_legend, new_panels, palette

Frame: TypeAlias = "pd.DataFrame | Sequence[dict[str, Any]]"
"""Rows of numbers, words and intervals."""

_MEAN_AND_ENDS: dict[str, Any] = {"estimator": "median", "errorbar": ("pi", 100)}
"""How seaborn draws an interval that stands in three rows (``_spread``): the median is its mean."""


def figure_of(
    rows: Frame,
    draw: Callable[[Axes, pd.DataFrame, str], None],
    values: Sequence[str],
    *,
    by: Sequence[str] = ("data", "bits"),
    height: float = 3.6,
    columns: int = 3,
    **settings: Any,
) -> Figure:
    """Return a figure with a panel for each group of the columns ``by`` and each of the ``values``.

    ``draw`` draws a group's value, and ``settings`` are those of the axes.
    """
    frame = _frame(rows)
    groups = list(frame.groupby(list(by), sort=False)) if by else [((), frame)]
    count = len(groups) * len(values)
    figure, panels = new_panels(count, 7 if count == 1 else 4.7, height, columns=columns)
    for axes, (value, (key, own)) in zip(panels, product(values, groups), strict=True):
        axes.set_title(", ".join(map(str, key)))
        draw(axes, own, value)
        axes.set(**settings)
    common_legend(figure)
    return figure


def lines(rows: Frame, x: str, values: Sequence[str], name: str, **options: Any) -> Figure:
    """Draw a line for each name, with a band for intervals; X and X_D share a color, and the line of X is dashed."""
    names = _names(rows, name)
    hosts = list(dict.fromkeys(one.removesuffix("_D") for one in names))
    colors = dict(zip(hosts, palette(len(hosts)), strict=True))
    looks: dict[str, Any] = {"palette": {one: colors[one.removesuffix("_D")] for one in names}}
    looks["dashes"] = {one: (4, 2) if f"{one}_D" in names else "" for one in names}

    def draw(axes: Axes, own: pd.DataFrame, value: str) -> None:
        means = _MEAN_AND_ENDS if own[value].dtype == object else {"estimator": None, "sort": False}
        marker = "o" if own[x].nunique() < 40 else ""
        given = {"x": x, "y": value, "hue": name, "style": name, "hue_order": names, "style_order": names}
        sns.lineplot(
            _spread(own, value), **given, **looks, **means, marker=marker, markersize=5, markeredgewidth=0, ax=axes
        )

    return figure_of(rows, draw, values, **options)


def points(rows: Frame, values: Sequence[str], category: str, name: str, **options: Any) -> Figure:
    """Draw values with their intervals from left to right, and categories from the top down."""
    categories, names = _names(rows, category), _names(rows, name)

    def draw(axes: Axes, own: pd.DataFrame, value: str) -> None:
        draw_points(axes, own, value, category, name)

    height = 2.4 + 0.12 * len(categories) * len(names)
    return figure_of(rows, draw, values, **{"by": ("data",), "height": height, **options})


def draw_points(axes: Axes, rows: Frame, value: str, category: str, name: str) -> None:
    """Draw a panel of ``points``; a star marks a value of the column "VALUE, paper"."""
    frame, categories, names = _frame(rows), _names(rows, category), _names(rows, name)
    looks: dict[str, Any] = {"y": category, "hue": name, "order": categories, "hue_order": names, "orient": "y"}
    looks |= {"dodge": 0.6 if len(names) > 1 else False, "linestyle": "none", "ax": axes}
    looks["palette"] = palette(len(names))
    bars: dict[str, Any] = {"capsize": 0.2 / len(names), "err_kws": {"linewidth": 1.5}}
    sns.pointplot(_spread(frame, value), x=value, **looks, **bars, **_MEAN_AND_ENDS, markersize=5)
    stars = f"{value}, paper"
    if stars in frame and frame[stars].notna().any():
        edge = {"markeredgecolor": "black", "markeredgewidth": 0.7, "zorder": 3}
        sns.pointplot(frame, x=stars, **looks, errorbar=None, marker="*", markersize=9, legend=False, **edge)
        axes.plot([], [], "*", color="0.6", markersize=9, markeredgecolor="black", label="in the paper")
    axes.set(xlabel=value, ylabel="")
    axes.grid(visible=False, axis="y")


def dots(rows: Frame, x: str, y: str, name: str, **options: Any) -> Figure:
    """Draw a dot for each row."""
    return figure_of(rows, lambda axes, own, _: draw_dots(axes, own, x, y, name), [y], **options)


def draw_dots(axes: Axes, rows: Frame, x: str, y: str, name: str) -> None:
    """Draw a panel of ``dots``."""
    looks: dict[str, Any] = {"hue": name, "hue_order": _names(rows, name), "s": 18, "alpha": 0.7, "linewidth": 0}
    sns.scatterplot(_frame(rows), x=x, y=y, **looks, palette=palette(len(looks["hue_order"])), ax=axes)


def draw_regression(axes: Axes, own: pd.DataFrame, x: str, y: str) -> None:
    """Draw the line of least squares, and add the correlations to the panel's title."""
    line, finite = Regression.of(own[x], own[y]), np.isfinite(own[[x, y]]).all(axis=1)
    if line is not None:
        sns.regplot(own[finite], x=x, y=y, scatter=False, ci=None, color="0.3", line_kws={"linewidth": 1.2}, ax=axes)
        axes.set_title(f"{axes.get_title()}: r = {line.pearson:.2f}, ρ = {line.spearman:.2f}")


def mean_of(cell: Any) -> Any:
    """Return the mean of an interval; return anything else unchanged."""
    return cell.mean if isinstance(cell, Interval) else cell


def _frame(rows: Frame) -> pd.DataFrame:
    frame = pd.DataFrame(rows)
    if "bits" in frame and frame["bits"].dtype != object and pd.api.types.is_integer_dtype(frame["bits"]):
        frame["bits"] = frame["bits"].map("{} bits".format)
    return frame


def _names(rows: Frame, column: str) -> list[str]:
    return [str(one) for one in _frame(rows)[column].unique()]


def _spread(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return a row for the mean and each end of an interval; none for infinite means."""

    def ends(cell: Interval | float | None) -> list[float]:
        mean, half = mean_of(cell), getattr(cell, "half", None)
        values = [mean] if mean is None or half is None else [mean - half, mean, mean + half]
        return [value for value in values if value is not None and np.isfinite(value)]

    return frame.assign(**{column: frame[column].map(ends)}).explode(column, ignore_index=True).astype({column: float})
