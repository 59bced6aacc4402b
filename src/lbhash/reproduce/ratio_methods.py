"""The paper's figure of mAP against the ratio over all methods, and what guidance does to both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lbhash.reproduce.ratio import quotients
from lbhash.reproduce.results import Record, Regression, Result, plots
from lbhash.reproduce.runs import Settings
from lbhash.reproduce.runs.trained import RunConfig, completed, grid, pairs, with_setting
from lbhash.reproduce.texts import text
from lbhash.trials.intervals import Interval

BITS = (64,)
RATIOS = {"max D_intra": ("bound", "ratio"), "99.9 %": ("bound_99.9", "ratio, 99.9 %")}
"""The two ratios: where a report has them, and their column."""


def configs(settings: Settings) -> list[RunConfig]:
    """Return the runs, which are some of those of ``map``."""
    return grid(settings, BITS, pairs(settings))


def run(settings: Settings) -> Result:
    """Return ratio and mAP of every method, and the line through them."""
    records: list[Record] = []
    for done in completed(settings, configs(settings)):
        record = done.config.head | {"mAP": Interval.of(100 * done.values("report", "map"))}
        for bound, column in RATIOS.values():
            ends = (done.values("report", bound, end) for end in ("inter", "intra"))
            record[column] = Interval.of_known(quotients(*ends))
        records.append(record)
    fits: list[Record] = []
    for data, bits in dict.fromkeys((record["data"], record["bits"]) for record in records):
        own = [record for record in records if (record["data"], record["bits"]) == (data, bits)]
        for name, (_, column) in RATIOS.items():
            line = regression(own, column)
            fit: Record = {"data": data, "bits": bits, "ratio": name, "points": len(line.x) if line else None}
            fit |= {"slope": line.slope if line else None, "Pearson's r": line.pearson if line else None}
            fits.append(fit | {"Spearman's ρ": line.spearman if line else None})
    figures = [partial(ratio_figure, records, column) for _, column in RATIOS.values()]
    more = Result.of("The line through all methods", fits, text("ratio-methods-line"), figures[1], digits=3)
    about, title = with_setting(text("ratio-methods"), settings), "mAP against the ratio, all methods"
    return Result.of(title, records, about, figures[0], {"line": more}, digits=3)


def regression(records: Sequence[Mapping[str, Any]], column: str) -> Regression | None:
    """Return the line through the means."""
    means = [[np.nan if record[name] is None else record[name].mean for record in records] for name in (column, "mAP")]
    return Regression.of(*means)


def ratio_figure(records: Sequence[Record], column: str) -> Figure:
    """Draw an arrow for each method from host to guided, and the regression line with its 95 % band."""

    def draw(axes: Axes, own: plots.Records, x: str, y: str, name: str, looks: plots.Looks) -> None:
        plots.draw_dots(axes, own, x, y, name, looks)
        ends = {record[name]: (record[x].mean, record[y].mean) for record in own if record[x] is not None}
        for method, end in ends.items():
            start = ends.get(method.removesuffix("_D"), end)
            if start != end and np.isfinite([start, end]).all():
                axes.annotate("", end, start, arrowprops={"arrowstyle": "->", **looks[method]})
        plots.regression_line(axes, regression(own, x))

    return plots.panel_figure(records, draw, column, "mAP", "method")
