"""The paper's figure of mAP against min D_inter / max D_intra while CSQ_D learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from lbhash.evaluation.bound import quotient
from lbhash.reproduce.results import Interval, Record, Regression, Result
from lbhash.reproduce.results.plots import interval_line, regression_line, source_grid
from lbhash.reproduce.runs import BITS, TRAJECTORY, RunConfig, Settings, Source, completed, grid, with_setting
from lbhash.reproduce.texts import text
from lbhash.utils.plotting import new_grid, palette, whole_numbers


@dataclass(frozen=True)
class Course:
    """A run's mAP in % and both ratios, ``[seeds, epochs]``."""

    map: npt.NDArray[np.float64]
    ratio: npt.NDArray[np.float64]
    ratio_of_most: npt.NDArray[np.float64]

    @classmethod
    def of(cls, trajectories: Sequence[Sequence[Mapping[str, Any]]]) -> Course:
        """Return the course of a run with several seeds."""
        values = [
            [
                (100 * epoch["map"], *(quotient(epoch["inter"], epoch[intra]) for intra in ("intra", "intra_99.9")))
                for epoch in trajectory
            ]
            for trajectory in trajectories
        ]
        return cls(*np.moveaxis(np.array(values, np.float64), -1, 0))


Courses = Mapping[tuple[Source, int], Course]


def configs(settings: Settings) -> list[RunConfig]:
    """Return the runs, with metrics by epoch."""
    return grid(settings, BITS, [("csq", "guided")], TRAJECTORY)


def run(settings: Settings) -> Result:
    """Return the correlations, and the metrics by epoch."""
    found = completed(settings, configs(settings), TRAJECTORY)
    courses = {(config.source, config.bits): Course.of(of_seeds) for config, of_seeds in found.items()}
    epochs: list[Record] = [
        {
            "data": source.name,
            "bits": bits,
            "epoch": epoch + 1,
            "mAP": Interval.of_known(course.map[:, epoch]),
            "ratio": Interval.of_known(course.ratio[:, epoch]),
            "ratio, 99.9 %": Interval.of_known(course.ratio_of_most[:, epoch]),
        }
        for (source, bits), course in courses.items()
        for epoch in range(course.map.shape[1])
    ]
    by_epoch = {key: {"CSQ_D": course} for key, course in courses.items()}
    more = Result.of("CSQ_D by epoch", epochs, text("ratio-epochs"), lambda: epochs_figure(by_epoch), digits=3)
    return Result.of(
        "mAP against min D_inter / max D_intra of each epoch",
        [correlations(source, bits, course) for (source, bits), course in courses.items()],
        with_setting(text("ratio"), settings),
        lambda: points_figure(courses),
        {"epochs": more},
        digits=3,
    )


def correlations(source: Source, bits: int, course: Course) -> Record:
    """Return the row of a set of data and number of bits."""
    of_seeds = [Regression.of(*values) for values in zip(course.ratio, course.map, strict=True)]
    of_most = [Regression.of(*values) for values in zip(course.ratio_of_most, course.map, strict=True)]
    pooled = Regression.of(course.ratio, course.map)
    return {
        "data": source.name,
        "bits": bits,
        "points": course.map.size,
        "Spearman's ρ": Interval.of_known(line.spearman for line in of_seeds if line),
        "ρ, 99.9 %": Interval.of_known(line.spearman for line in of_most if line),
        "Pearson's r": Interval.of_known(line.pearson for line in of_seeds if line),
        "ρ, all": pooled.spearman if pooled else None,
        "slope, all": pooled.slope if pooled else None,
    }


def points_figure(courses: Courses) -> Figure:
    """Draw a point for each epoch and seed; later epochs are darker."""
    figure, panels = source_grid(courses, 4.4, 3.6)
    for key, course in courses.items():
        axes, epochs = panels[key], np.broadcast_to(np.arange(1, course.map.shape[1] + 1), course.map.shape)
        style: dict[str, Any] = {"c": epochs.ravel(), "cmap": "viridis_r", "s": 22, "alpha": 0.8, "linewidth": 0}
        points = axes.scatter(course.ratio.ravel(), course.map.ravel(), **style)
        regression_line(axes, Regression.of(course.ratio, course.map))
        axes.set(xlabel="min D_inter / max D_intra", ylabel="mAP, %")
    whole_numbers(figure.colorbar(points, ax=list(panels.values()), label="epoch", shrink=0.8).ax.yaxis)
    return figure


def epochs_figure(curves: Mapping[tuple[Source, int], Mapping[str, Course]]) -> Figure:
    """Draw mAP and below it the ratio by epoch, with a curve a name, for each set of data and number of bits."""
    columns = min(len(curves), 3)
    figure, grid = new_grid(2 * -(-len(curves) // columns), columns, 4.8, 3)
    names = list(dict.fromkeys(name for courses in curves.values() for name in courses))
    colors = dict(zip(names, palette(len(names)), strict=True))
    for place, ((source, bits), courses) in enumerate(curves.items()):
        row, column = divmod(place, columns)
        above, below = grid[2 * row : 2 * row + 2, column]
        for name, course in courses.items():
            epochs = range(1, course.map.shape[1] + 1)
            for axes, values in ((above, course.map), (below, course.ratio_of_most)):
                interval_line(axes, epochs, [Interval.of(of_seeds) for of_seeds in values.T], color=colors[name])
            above.plot([], [], "o-", color=colors[name], label=name)
        above.set(title=f"{source.name}, {bits} bits", ylabel="mAP, %")
        below.set(xlabel="epoch", ylabel="min D_inter / 99.9 % of D_intra")
        for axes in (above, below):
            whole_numbers(axes.xaxis)
        above.legend()
    for spare in grid.T.ravel():
        spare.set_axis_on() if spare.lines else spare.set_axis_off()
    return figure
