"""The paper's figure of mAP against the ratio over all methods, and what guidance does to both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lbhash.reproduce.ratio import quotients
from lbhash.reproduce.results import Record, Regression, Result, panels
from lbhash.reproduce.runs import Settings
from lbhash.reproduce.runs.trained import completed, grid, pairs, with_setting
from lbhash.reproduce.texts import text
from lbhash.trials.intervals import Interval
from lbhash.utils.plotting import palette

BITS = (64,)
RATIOS = {"max D_intra": ("bound", "ratio"), "99.9 %": ("bound_99.9", "ratio, 99.9 %")}
"""The two ratios: their name in a report, and their column."""


def run(settings: Settings) -> Result:
    """Return ratio and mAP of every method, and the line through them."""
    records: list[Record] = []
    for done in completed(settings, grid(settings, BITS, pairs(settings))):
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
            fit: Record = {"data": data, "bits": bits, "ratio": name, "points": line.points if line else None}
            fit |= {"slope": line.slope if line else None, "Pearson's r": line.pearson if line else None}
            fits.append(fit | {"Spearman's ρ": line.spearman if line else None})
    figures = [ratio_figure(records, column) for _, column in RATIOS.values()]
    more = Result.of("The line through all methods", fits, text("ratio-methods-line"), figures[1], digits=3)
    about, title = with_setting(text("ratio-methods"), settings), "mAP against the ratio, all methods"
    return Result.of(title, records, about, figures[0], {"line": more}, digits=3)


def regression(records: Sequence[Mapping[str, Any]], column: str) -> Regression | None:
    """Return the line through the means."""
    means = pd.DataFrame(records)[[column, "mAP"]].map(panels.mean_of).astype(float)
    return Regression.of(means[column], means["mAP"])


def ratio_figure(records: Sequence[Record], column: str) -> Figure:
    """Draw an arrow for each method from host to guided, and the regression line."""

    def draw(axes: Axes, own: pd.DataFrame, value: str) -> None:
        hosts = own["method"].str.removesuffix("_D")
        panels.draw_dots(axes, own.assign(method=hosts), column, value, "method")
        for (_, ends), color in zip(own.groupby(hosts, sort=False), palette(hosts.nunique()), strict=True):
            start, *end = ends[[column, value]].to_numpy(float)
            if end and np.isfinite([start, *end]).all():
                axes.annotate("", end[0], start, arrowprops={"arrowstyle": "->", "color": color})
        panels.draw_regression(axes, own, column, value)

    means = [{name: panels.mean_of(cell) for name, cell in record.items()} for record in records]
    return panels.figure_of(means, draw, ["mAP"])
