"""The style of all figures: panels on a white grid, and colors that everybody can tell apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


def new_figure(width: float, height: float, *widths: float, **options: Any) -> tuple[Figure, list[Axes]]:
    """Return a figure of a size in inches, and its axes side by side with these relative widths (default: one)."""
    columns = len(widths) or 1
    figure, grid = new_grid(1, columns, width / columns, height, width_ratios=widths or None, **options)
    return figure, list(grid[0])


def new_grid(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Figure, npt.NDArray]:
    """Return a figure of panels, with the size of a panel in inches, and its axes ``[rows, columns]``."""
    import seaborn as sns
    from matplotlib.figure import Figure

    with sns.axes_style("whitegrid"):
        figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
        return figure, figure.subplots(rows, columns, squeeze=False, **options)


def new_panels(
    count: int, width: float, height: float, *, columns: int = 3, **options: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its axes: panels of a size in inches, in rows of ``columns``."""
    columns = min(count, columns)
    figure, grid = new_grid(-(-count // columns), columns, width, height, **options)
    for spare in grid.ravel()[count:]:
        spare.set_axis_off()
    return figure, list(grid.ravel()[:count])


def common_legend(figure: Figure, **options: Any) -> None:
    """Replace the legends of all panels by one below them, with each label once."""
    found = [axes.get_legend_handles_labels() for axes in figure.axes]
    handles = {label: handle for own, labels in reversed(found) for handle, label in zip(own, labels, strict=True)}
    for axes in figure.axes:
        if (own := axes.get_legend()) is not None:
            own.remove()
    columns = min(len(handles), int(figure.get_figwidth() // 1.7))
    legend = {"loc": "outside lower center", "ncols": columns, "frameon": False, "fontsize": 9}
    figure.legend(handles.values(), handles, **{**legend, **options})


def whole_numbers(axis: Axis) -> None:
    """Put ticks at whole numbers only, for example for epochs."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def palette(count: int) -> list[Any]:
    """Return ``count`` colors that people with any kind of color vision can tell apart."""
    import seaborn as sns

    return list(sns.color_palette("colorblind", count))
