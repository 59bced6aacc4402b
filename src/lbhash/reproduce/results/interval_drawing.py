"""Intervals in figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lbhash.reproduce.results.interval import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def interval_points(
    axes: Axes, names: Sequence[str], values: Sequence[Interval], colors: Sequence[Any], back: Sequence[Interval] = ()
) -> None:
    """KLs by name from the top down on a logarithmic axis; ``back`` are those of the other direction, hollow."""
    places = np.arange(len(names))
    style: dict[str, Any] = {"fmt": "o", "capsize": 3, "markersize": 7}
    for place, value, color in zip(places, values, colors, strict=True):
        if np.isfinite(value.mean):
            axes.errorbar(value.mean, place, xerr=value.half, color=color, **style)
        if value.infinite:
            said = f"∞ in {value.infinite} of {value.count}"
            words: dict[str, Any] = {
                "ha": "right",
                "va": "center",
                "color": "0.3",
                "backgroundcolor": "white",
                "fontsize": 9,
            }
            axes.text(0.98, float(place) - 0.25, said, transform=axes.get_yaxis_transform(), **words)
    for place, value, color in zip(places, back, colors, strict=False):
        axes.errorbar(value.mean, place + 0.22, xerr=value.half, color=color, markerfacecolor="white", **style)
    axes.set(xscale="log", yticks=places, ylim=(len(names) - 0.5, -0.5), xlabel="nats")
    axes.set_yticklabels(names)
    axes.plot([], [], "o", color="0.3", label="KL(truth ‖ estimate)")
    if back:
        axes.plot([], [], "o", color="0.3", markerfacecolor="white", label="KL(estimate ‖ truth)")


def interval_line(axes: Axes, at: Sequence[int], values: Sequence[Interval], **style: Any) -> None:
    """A line with a band of its intervals; it has a gap where the mean is infinite."""
    mean = np.array([value.mean if np.isfinite(value.mean) else np.nan for value in values])
    half = np.array([value.half or 0.0 for value in values])
    (line,) = axes.plot(at, mean, **{"marker": "o", "markersize": 4, **style})
    low = mean - half
    if axes.get_yscale() == "log":
        low = np.maximum(low, mean / 10)  # of few seeds it may reach below 0, where the axis has no place
    axes.fill_between(at, low, mean + half, color=line.get_color(), alpha=0.2, linewidth=0)
