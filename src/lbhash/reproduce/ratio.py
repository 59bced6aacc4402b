"""The paper's figure of mAP against min D_inter / max D_intra while CSQ_D learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.evaluation.bound import quotient
from lbhash.reproduce.results.interval import Interval, interval_of_some
from lbhash.reproduce.results.interval_drawing import interval_line
from lbhash.reproduce.results.regression import Regression
from lbhash.reproduce.results.result import Cell, Result
from lbhash.reproduce.runs.config import TRAJECTORY
from lbhash.reproduce.runs.config import Cell as Run
from lbhash.reproduce.runs.grid import cell, completed, setting_text
from lbhash.reproduce.runs.settings import Settings
from lbhash.reproduce.runs.sources import Source
from lbhash.utils.plotting import new_grid, palette, whole_numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BITS = (16, 32, 64)

TEXT = """CSQ_D is evaluated after each epoch: mAP in % of the queries, and the ratio of the base's codes, the smallest
distance of two classes' centers over the largest distance of a code from its own class's center. Spearman's ρ is the
correlation of their ranks and Pearson's r that of the values, over the epochs of a seed, mean over the seeds ± half a
95 % confidence interval (Student's t). "ρ, 99.9 %" takes the 99.9th percentile of D_intra in the place of its maximum,
which a single code decides. "ρ, all" is over the epochs of all seeds together, and the slope, in points of mAP for a
ratio that is larger by 1, that of the line through them. A cell is empty where ratio or mAP is the same throughout."""

EPOCHS_TEXT = "The same figures by epoch, mean over the seeds ± half a 95 % confidence interval."


@dataclass(frozen=True)
class Path:
    """What CSQ_D went through with each seed, ``[seeds, epochs]``: mAP in %, and both ratios."""

    map: npt.NDArray[np.float64]
    ratio: npt.NDArray[np.float64]
    ratio_of_most: npt.NDArray[np.float64]


Paths = Mapping[tuple[Source, int], Path]


def cells(settings: Settings) -> list[Run]:
    """The trainings, with figures by epoch."""
    return [
        cell(settings, source, "csq", "guided", bits).wanting(TRAJECTORY)
        for source in settings.all_sources()
        for bits in settings.bits_or(*BITS)
    ]


def run(settings: Settings) -> Result:
    """The correlations, and the figures by epoch."""
    wanted = cells(settings)
    runs = completed(settings, wanted)
    paths = {(c.source, c.bits): path_of([runs.trajectory(c, seed) for seed in settings.all_seeds()]) for c in wanted}
    columns = ("data", "bits", "points", "Spearman's ρ", "ρ, 99.9 %", "Pearson's r", "ρ, all", "slope, all")
    by_epoch = epoch_rows(paths)
    more = Result(
        "CSQ_D by epoch",
        ("data", "bits", "epoch", "mAP", "ratio", "ratio, 99.9 %"),
        by_epoch,
        EPOCHS_TEXT,
        lambda: draw_epochs({key: {"CSQ_D": path} for key, path in paths.items()}),
        digits=3,
    )
    return Result(
        "mAP against min D_inter / max D_intra of each epoch",
        columns,
        [correlations(source, bits, path) for (source, bits), path in paths.items()],
        "\n\n".join([TEXT, setting_text(settings, settings.all_sources())]),
        lambda: draw(paths),
        {"epochs": more},
        digits=3,
    )


def path_of(trajectories: Sequence[Sequence[Mapping[str, Any]]]) -> Path:
    """Of the seeds' figures by epoch."""
    values = [
        [(100 * at["map"], quotient(at["inter"], at["intra"]), quotient(at["inter"], at["intra_99.9"])) for at in seed]
        for seed in trajectories
    ]
    return Path(*np.moveaxis(np.array(values, np.float64), -1, 0))


def correlations(source: Source, bits: int, path: Path) -> list[Cell]:
    """The row of a length of code."""
    of_seeds = [Regression.of(ratio, found) for ratio, found in zip(path.ratio, path.map, strict=True)]
    of_most = [Regression.of(ratio, found) for ratio, found in zip(path.ratio_of_most, path.map, strict=True)]
    pooled = Regression.of(path.ratio, path.map)
    return [
        source.name,
        bits,
        path.map.size,
        interval_of_some(line.spearman for line in of_seeds if line),
        interval_of_some(line.spearman for line in of_most if line),
        interval_of_some(line.pearson for line in of_seeds if line),
        pooled.spearman if pooled else None,
        pooled.slope if pooled else None,
    ]


def epoch_rows(paths: Paths) -> list[list[Cell]]:
    """mAP and ratios of every epoch."""
    rows: list[list[Cell]] = []
    for (source, bits), path in paths.items():
        for epoch, values in enumerate(zip(path.map.T, path.ratio.T, path.ratio_of_most.T, strict=True), start=1):
            rows.append([source.name, bits, epoch, *(interval_of_some(of_seeds) for of_seeds in values)])
    return rows


def draw(paths: Paths) -> Figure:
    """A point an epoch and seed, a row of panels a set of data, a column a length of code; later epochs are darker."""
    sources, lengths = (list(dict.fromkeys(keys)) for keys in zip(*paths, strict=True))
    figure, axes = new_grid(len(sources), len(lengths), 4.4, 3.6)
    for (source, bits), path in paths.items():
        axis = axes[sources.index(source), lengths.index(bits)]
        epochs = np.broadcast_to(np.arange(1, path.map.shape[1] + 1), path.map.shape)
        points = axis.scatter(
            path.ratio.ravel(), path.map.ravel(), c=epochs.ravel(), cmap="viridis_r", s=22, alpha=0.8, linewidth=0
        )
        line = Regression.of(path.ratio, path.map)
        said = f"{source.name}, {bits} bits"
        if line is not None:
            ends = np.array([line.x.min(), line.x.max()])
            axis.plot(ends, line.line(ends), color="0.2", linewidth=1.2)
            said += f": r = {line.pearson:.2f}, ρ = {line.spearman:.2f}"
        axis.set(title=said, xlabel="min D_inter / max D_intra", ylabel="mAP, %")
    whole_numbers(figure.colorbar(points, ax=axes.ravel().tolist(), label="epoch", shrink=0.8).ax.yaxis)
    return figure


def draw_epochs(curves: Mapping[tuple[Source, int], Mapping[str, Path]]) -> Figure:
    """mAP and below it the ratio, by epoch, with a curve a name; a pair of panels a set of data and length of code."""
    columns = min(len(curves), 3)
    figure, axes = new_grid(2 * -(-len(curves) // columns), columns, 4.8, 3)
    names = list(dict.fromkeys(name for paths in curves.values() for name in paths))
    colors = dict(zip(names, palette(len(names)), strict=True))
    for place, ((source, bits), paths) in enumerate(curves.items()):
        row, column = divmod(place, columns)
        above, below = axes[2 * row : 2 * row + 2, column]
        for name, path in paths.items():
            epochs = range(1, path.map.shape[1] + 1)
            for axis, values in ((above, path.map), (below, path.ratio_of_most)):
                interval_line(axis, epochs, [Interval.of(of_seeds) for of_seeds in values.T], color=colors[name])
            above.plot([], [], "o-", color=colors[name], label=name)
        above.set(title=f"{source.name}, {bits} bits", ylabel="mAP, %")
        below.set(xlabel="epoch", ylabel="min D_inter / 99.9 % of D_intra")
        for axis in (above, below):
            whole_numbers(axis.xaxis)
        above.legend()
    for spare in axes.T.ravel():
        spare.set_axis_on() if spare.lines else spare.set_axis_off()
    return figure
