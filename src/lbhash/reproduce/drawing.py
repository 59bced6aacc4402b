"""What the experiments' figures share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.reproduce.interval import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


def new_figure(width: float, height: float, *widths: float, **options: Any) -> tuple[Figure, list[Axes]]:
    """A figure in inches with axes side by side of these relative widths, a single one where there is none."""
    import seaborn as sns
    from matplotlib.figure import Figure

    with sns.axes_style("whitegrid"):
        figure = Figure(figsize=(width, height), layout="constrained")
        ratios = widths or (1,)
        axes = figure.subplots(1, len(ratios), squeeze=False, gridspec_kw={"width_ratios": ratios}, **options)
    return figure, list(axes[0])


def new_grid(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Figure, npt.NDArray]:
    """A figure of panels of this size in inches each, and its axes ``[rows, columns]``."""
    import seaborn as sns
    from matplotlib.figure import Figure

    with sns.axes_style("whitegrid"):
        figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
        return figure, figure.subplots(rows, columns, squeeze=False, **options)


def new_panels(count: int, width: float, height: float, **options: Any) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels of this size in inches each, at most three beside each other."""
    columns = min(count, 3)
    figure, grid = new_grid(-(-count // columns), columns, width, height, **options)
    for spare in grid.ravel()[count:]:
        spare.set_axis_off()
    return figure, list(grid.ravel()[:count])


def whole_numbers(axis: Axis) -> None:
    """Ticks at whole numbers only, as of epochs."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def palette(count: int) -> list[Any]:
    """So many colours that people with any kind of sight can tell apart."""
    import seaborn as sns

    return list(sns.color_palette("colorblind", count))


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
