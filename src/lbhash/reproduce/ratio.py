"""The paper's figure of mAP against min D_inter / max D_intra while CSQ_D learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from lbhash.evaluation.bound import quotient
from lbhash.reproduce.results import Interval, Record, Regression, Result, plots
from lbhash.reproduce.runs import Settings, Source
from lbhash.reproduce.runs.runner import BITS, TRAJECTORY, RunConfig, completed, grid, with_setting
from lbhash.reproduce.texts import text
from lbhash.utils.plotting import whole_numbers

MAP, RATIO, RATIO_OF_MOST = "mAP", "ratio", "ratio, 99.9 %"


class Course(NamedTuple):
    """A run's mAP in % and both ratios, ``[seeds, epochs]``."""

    map: npt.NDArray[np.float64]
    ratio: npt.NDArray[np.float64]
    ratio_of_most: npt.NDArray[np.float64]

    @classmethod
    def of(cls, runs: Sequence[Mapping[str, Any]]) -> Course:
        """Return the course of a run with several seeds."""
        values = [
            [
                (100 * epoch["map"], *(quotient(epoch[f"inter{of}"], epoch[f"intra{of}"]) for of in ("", "_99.9")))
                for epoch in run[TRAJECTORY]
            ]
            for run in runs
        ]
        return cls(*np.moveaxis(np.array(values, np.float64), -1, 0))

    def at(self, epoch: int) -> Record:
        """Return the three metrics after an epoch, from 0; -1 is the last."""
        names = (MAP, RATIO, RATIO_OF_MOST)
        return {name: Interval.of_known(values[:, epoch]) for name, values in zip(names, self, strict=True)}

    def epochs(self) -> list[Record]:
        """Return the three metrics after each epoch, from 1."""
        return [{"epoch": epoch + 1} | self.at(epoch) for epoch in range(self.map.shape[1])]


def configs(settings: Settings) -> list[RunConfig]:
    """Return the runs, with metrics by epoch."""
    return grid(settings, BITS, [("csq", "guided")], TRAJECTORY)


def run(settings: Settings) -> Result:
    """Return the correlations, and the metrics by epoch."""
    found = completed(settings, configs(settings))
    courses = {(config.source, config.bits): Course.of(of_seeds) for config, of_seeds in found.items()}
    heads: dict[tuple[Source, int], Record] = {key: {"data": key[0].name, "bits": key[1]} for key in courses}
    epochs = [heads[key] | record for key, course in courses.items() for record in course.epochs()]
    curves: list[Record] = [record | {"method": "CSQ_D"} for record in epochs]
    figure = partial(epochs_figure, curves, "method")
    more = {"epochs": Result.of("CSQ_D by epoch", epochs, text("ratio-epochs"), figure, digits=3)}
    records = [heads[key] | correlations(course) for key, course in courses.items()]
    about, title = with_setting(text("ratio"), settings), "mAP against min D_inter / max D_intra of each epoch"
    return Result.of(title, records, about, partial(points_figure, courses), more, digits=3)


def correlations(course: Course) -> Record:
    """Return the correlations of ratio and mAP, of each seed and of all together."""
    of_seeds, of_most = (
        [line for values in zip(ratios, course.map, strict=True) if (line := Regression.of(*values))]
        for ratios in (course.ratio, course.ratio_of_most)
    )
    pooled = Regression.of(course.ratio, course.map)
    return {
        "points": course.map.size,
        "Spearman's ρ": Interval.of_known(line.spearman for line in of_seeds),
        "ρ, 99.9 %": Interval.of_known(line.spearman for line in of_most),
        "Pearson's r": Interval.of_known(line.pearson for line in of_seeds),
        "ρ, all": pooled.spearman if pooled else None,
        "slope, all": pooled.slope if pooled else None,
    }


def points_figure(courses: Mapping[tuple[Source, int], Course]) -> Figure:
    """Draw a dot for each epoch and seed, and the line through all of them."""
    x, y = "min D_inter / max D_intra", "mAP, %"
    dots = [
        {"data": source.name, "bits": bits, "seed": f"seed {place + 1}", x: ratio, y: value}
        for (source, bits), course in courses.items()
        for place, of_seed in enumerate(zip(course.ratio, course.map, strict=True))
        for ratio, value in zip(*of_seed, strict=True)
    ]
    figure = plots.panel_figure(dots, plots.draw_dots, x, y, "seed")
    for axes, course in zip(figure.axes, courses.values(), strict=False):
        plots.regression_line(axes, Regression.of(course.ratio, course.map))
    return figure


def epochs_figure(records: Sequence[Record], name: str) -> Figure:
    """Draw mAP, and below it the ratio, by epoch, with a curve for each value of the column ``name``."""
    figure = plots.panel_figure(records, plots.draw_lines, "epoch", [MAP, RATIO_OF_MOST], name)
    for axes in figure.axes:
        whole_numbers(axes.xaxis)
    return figure
