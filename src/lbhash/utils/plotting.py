"""What all figures share: panels on a white grid, and colors that everybody can tell apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy.typing as npt

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
    """So many colors that people with any kind of sight can tell apart."""
    import seaborn as sns

    return list(sns.color_palette("colorblind", count))
