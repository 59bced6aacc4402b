"""What the figures of several experiments have in common: their panels, intervals, bars and methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lbhash.reproduce.results.interval import Interval
from lbhash.reproduce.results.regression import Regression
from lbhash.reproduce.runs.settings import METHOD_TITLES, METHODS
from lbhash.reproduce.runs.sources import Source
from lbhash.utils.plotting import new_grid, new_panels, palette


def method_color(method: str) -> Any:
    """Return the color that a method has in every figure."""
    return palette(len(METHODS))[METHODS.index(method)]


def source_panels(sources: Iterable[Source], *size: float, **options: Any) -> tuple[Figure, dict[Source, Axes]]:
    """Return a figure with a panel of this size in inches for each set of data."""
    distinct = list(dict.fromkeys(sources))
    figure, panels = new_panels(len(distinct), *size, **options)
    for axes, source in zip(panels, distinct, strict=True):
        axes.set_title(source.name)
    return figure, dict(zip(distinct, panels, strict=True))


def source_grid(
    keys: Iterable[tuple[Source, int]], *size: float, **options: Any
) -> tuple[Figure, dict[tuple[Source, int], Axes]]:
    """Return a figure with a row of panels for each set of data, and a column for each number of bits."""
    sources, lengths = (list(dict.fromkeys(values)) for values in zip(*keys, strict=True))
    figure, grid = new_grid(len(sources), len(lengths), *size, **options)
    panels = {}
    for source, row in zip(sources, grid, strict=True):
        for bits, axes in zip(lengths, row, strict=True):
            panels[source, bits] = axes
            axes.set_title(f"{source.name}, {bits} bits")
    return figure, panels


def grouped_bars(
    found: Mapping[tuple[Source, int, str], Sequence[float]], names: Sequence[str], ylabel: str, *size: float
) -> tuple[Figure, list[Axes], dict[tuple[Source, int, str], tuple[Axes, float, Any]]]:
    """Draw a bar with its interval for each set of data (a panel), number of bits (a group) and name (a color).

    Returns:
        The figure, its panels, and for each bar its axes, its place and its color.
    """
    figure, panels = source_panels((source for source, _, _ in found), *size)
    lengths = list(dict.fromkeys(bits for _, bits, _ in found))
    colors = dict(zip(names, palette(len(names)), strict=True))
    width = 0.8 / len(names)
    bars = {}
    for (source, bits, name), values in found.items():
        place = lengths.index(bits) + width * (names.index(name) - (len(names) - 1) / 2)
        mean, label = Interval.of(values), name if bits == lengths[0] else None
        style: dict[str, Any] = {"capsize": 3, "color": colors[name], "label": label}
        panels[source].bar(place, mean.mean, 0.95 * width, yerr=mean.half, **style)
        bars[source, bits, name] = (panels[source], place, colors[name])
    for axes in panels.values():
        axes.set(ylabel=ylabel, xticks=range(len(lengths)))
        axes.set_xticklabels([f"{length} bits" for length in lengths])
        axes.grid(visible=False, axis="x")
    return figure, list(panels.values()), bars


def paper_star(axes: Axes, x: Any, y: Any, color: Any, label: str | None = None) -> None:
    """Mark figures of the paper's with stars."""
    axes.plot(x, y, "*", color=color, markeredgecolor="black", markersize=9, label=label)


def name_methods(axes: Axes, methods: Sequence[str]) -> None:
    """Name the methods from the top down."""
    axes.set(yticks=range(len(methods)), ylim=(len(methods) - 0.5, -0.5))
    axes.set_yticklabels([METHOD_TITLES[method] for method in methods])
    axes.grid(visible=False, axis="y")


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], color: Any, **style: Any) -> None:
    """Draw an arrow from one point to another; the axes reach both."""
    axes.plot(*zip(start, end, strict=True), alpha=0)
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": color, "shrinkA": 4, "shrinkB": 4, **style})


def regression_line(axes: Axes, line: Regression | None, *, band: bool = False) -> None:
    """Draw a regression line, if wanted with its 95 % band, and add its correlations to the panel's title."""
    if line is None:
        return
    x = np.linspace(line.x.min(), line.x.max(), 100)
    axes.plot(x, line.line(x), color="0.3", linewidth=1.2)
    if band:
        half = line.band(x)
        axes.fill_between(x, line.line(x) - half, line.line(x) + half, color="0.5", alpha=0.2, linewidth=0)
    axes.set_title(f"{axes.get_title()}: r = {line.pearson:.2f}, ρ = {line.spearman:.2f}")


def interval_points(
    axes: Axes, found: Mapping[str, Interval], backward: Mapping[str, Interval], colors: Sequence[Any]
) -> None:
    """Draw KLs by name from the top down on a logarithmic axis; those of the other direction are hollow."""
    style: dict[str, Any] = {"fmt": "o", "capsize": 3, "markersize": 7}
    for place, (name, color) in enumerate(zip(found, colors, strict=True)):
        value, other = found[name], backward[name]
        if np.isfinite(value.mean):
            axes.errorbar(value.mean, place, xerr=value.half, color=color, **style)
        if value.infinite:
            text = f"∞ in {value.infinite} of {value.count}"
            words: dict[str, Any] = {"ha": "right", "va": "center", "color": "0.3", "fontsize": 9}
            across = axes.get_yaxis_transform()
            axes.text(0.98, place - 0.25, text, transform=across, backgroundcolor="white", **words)
        axes.errorbar(other.mean, place + 0.22, xerr=other.half, color=color, markerfacecolor="white", **style)
    axes.set(xscale="log", yticks=range(len(found)), ylim=(len(found) - 0.5, -0.5), xlabel="nats")
    axes.set_yticklabels(list(found))
    axes.plot([], [], "o", color="0.3", label="KL(truth ‖ estimate)")
    axes.plot([], [], "o", color="0.3", markerfacecolor="white", label="KL(estimate ‖ truth)")


def interval_line(axes: Axes, x: Sequence[int], values: Sequence[Interval], **style: Any) -> None:
    """Draw a line with a band of its intervals; it has a gap where the mean is infinite."""
    mean = np.array([value.mean if np.isfinite(value.mean) else np.nan for value in values])
    half = np.array([value.half or 0.0 for value in values])
    (line,) = axes.plot(x, mean, **{"marker": "o", "markersize": 4, **style})
    low = mean - half
    if axes.get_yscale() == "log":
        low = np.maximum(low, mean / 10)  # with few seeds the interval may reach below 0, which the axis cannot show
    axes.fill_between(x, low, mean + half, color=line.get_color(), alpha=0.2, linewidth=0)
