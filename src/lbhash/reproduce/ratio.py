"""The paper's figure of mAP against min D_inter / max D_intra while CSQ_D learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd  # type: ignore[import-untyped]
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lbhash.reproduce.results import Record, Regression, Result, panels
from lbhash.reproduce.runs import Settings
from lbhash.reproduce.runs.trained import BITS, TRAJECTORY, Done, RunConfig, completed, grid, with_setting
from lbhash.reproduce.texts import text
from lbhash.trials.intervals import Interval
from lbhash.utils.plotting import whole_numbers

MAP, RATIO, RATIO_OF_MOST = "mAP", "ratio", "ratio, 99.9 %"

Course = dict[str, npt.NDArray[np.float64]]
"""A run's mAP in % and both ratios by name, ``[seeds, epochs]``."""


def quotients(inter: npt.NDArray[np.float64], intra: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return D_inter / D_intra; if D_intra is 0, infinite, or NaN if D_inter is 0 too."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return inter / intra


def course_of(done: Done) -> Course:
    """Return the course of a run."""
    course = {MAP: 100 * done.values(TRAJECTORY, "map")}
    for name, of in ((RATIO, ""), (RATIO_OF_MOST, "_99.9")):
        course[name] = quotients(done.values(TRAJECTORY, f"inter{of}"), done.values(TRAJECTORY, f"intra{of}"))
    return course


def at_epoch(course: Course, epoch: int) -> Record:
    """Return the three metrics after an epoch, from 0; -1 is the last."""
    return {name: Interval.of_known(values[:, epoch]) for name, values in course.items()}


def by_epoch(course: Course) -> list[Record]:
    """Return the three metrics after each epoch, from 1."""
    return [{"epoch": epoch + 1} | at_epoch(course, epoch) for epoch in range(course[MAP].shape[1])]


def run(settings: Settings) -> Result:
    """Return the correlations, and the metrics by epoch."""
    done = completed(settings, grid(settings, BITS, [("csq", "guided")], TRAJECTORY))
    courses = {one.config: course_of(one) for one in done}
    heads: dict[RunConfig, Record] = {one: {"data": one.source.name, "bits": one.bits} for one in courses}
    epochs = [heads[one] | record for one, course in courses.items() for record in by_epoch(course)]
    curves: list[Record] = [record | {"method": "CSQ_D"} for record in epochs]
    figure = epochs_figure(curves, "method")
    more = {"epochs": Result.of("CSQ_D by epoch", epochs, text("ratio-epochs"), figure, digits=3)}
    records = [heads[one] | correlations(course) for one, course in courses.items()]
    about, title = with_setting(text("ratio"), settings), "mAP against min D_inter / max D_intra of each epoch"
    return Result.of(title, records, about, points_figure(courses), more, digits=3)


def correlations(course: Course) -> Record:
    """Return the correlations of ratio and mAP, for each seed and for all seeds together."""
    of_seeds, of_most = (
        [line for values in zip(ratios, course[MAP], strict=True) if (line := Regression.of(*values))]
        for ratios in (course[RATIO], course[RATIO_OF_MOST])
    )
    pooled = Regression.of(course[RATIO], course[MAP])
    return {
        "points": course[MAP].size,
        "Spearman's ρ": Interval.of_known(line.spearman for line in of_seeds),
        "ρ, 99.9 %": Interval.of_known(line.spearman for line in of_most),
        "Pearson's r": Interval.of_known(line.pearson for line in of_seeds),
        "ρ, all": pooled.spearman if pooled else None,
        "slope, all": pooled.slope if pooled else None,
    }


def points_figure(courses: Mapping[RunConfig, Course]) -> Figure:
    """Draw a dot for each epoch and seed, and the line through all of them."""
    x, y = "min D_inter / max D_intra", "mAP, %"
    dots = [
        {"data": one.source.name, "bits": one.bits, "seed": f"seed {place + 1}", x: ratio, y: value}
        for one, course in courses.items()
        for place, of_seed in enumerate(zip(course[RATIO], course[MAP], strict=True))
        for ratio, value in zip(*of_seed, strict=True)
    ]

    def draw(axes: Axes, own: pd.DataFrame, _: str) -> None:
        panels.draw_dots(axes, own, x, y, "seed")
        panels.draw_regression(axes, own, x, y)

    return panels.figure_of(dots, draw, [y])


def epochs_figure(records: Sequence[Record], name: str) -> Figure:
    """Draw mAP, and below it the ratio, by epoch, with a curve for each value of the column ``name``."""
    figure = panels.lines(records, "epoch", [MAP, RATIO_OF_MOST], name)
    for axes in figure.axes:
        whole_numbers(axes.xaxis)
    return figure
