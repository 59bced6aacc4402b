"""The paper's figure of how fast guidance, BCE and Cauchy converge in the same model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lbhash.reproduce.losses import LOSSES
from lbhash.reproduce.losses import TEXT as LOSSES_TEXT
from lbhash.reproduce.ratio import Path, draw_epochs, path_of
from lbhash.reproduce.results.interval import Interval, interval_of_some
from lbhash.reproduce.results.result import Cell, Result
from lbhash.reproduce.runs.config import TRAJECTORY
from lbhash.reproduce.runs.config import Cell as Run
from lbhash.reproduce.runs.grid import cell, completed, setting_text
from lbhash.reproduce.runs.settings import Settings
from lbhash.reproduce.runs.sources import Source

BITS = (64,)
SHARE = 0.95

TEXT = """mAP, in %, and the ratio min D_inter / max D_intra of the base's codes are those after the last epoch;
"epochs to 95 %" is the first epoch after which mAP has 95 % of that, and "epochs to 95 % of the best" the first with 95
% of the largest mAP that any of the losses ends with for that seed (a seed that never gets there counts as infinite).
Mean over the seeds ± half a 95 % confidence interval (Student's t)."""

Paths = Mapping[tuple[Source, int, str], Path]


def cells(settings: Settings) -> list[Run]:
    """The trainings, with figures by epoch."""
    return [
        cell(settings, source, method, recipe, bits).wanting(TRAJECTORY)
        for source in settings.all_sources()
        for bits in settings.bits_or(*BITS)
        for method, recipe in LOSSES.values()
    ]


def run(settings: Settings) -> Result:
    """How far and how fast each loss comes, and its curves by epoch."""
    runs = completed(settings, cells(settings))
    paths = {
        (source, bits, name): path_of([runs.trajectory(c, seed) for seed in settings.all_seeds()])
        for source in settings.all_sources()
        for bits in settings.bits_or(*BITS)
        for name, (method, recipe) in LOSSES.items()
        for c in [cell(settings, source, method, recipe, bits)]
    }
    return Result(
        "Guidance, BCE and Cauchy, each alone in the same model",
        (
            "data",
            "bits",
            "loss",
            "mAP",
            "epochs to 95 %",
            "epochs to 95 % of the best",
            "ratio",
            "ratio, 99.9 %",
        ),
        rows_of(paths),
        "\n\n".join([LOSSES_TEXT, TEXT, setting_text(settings, settings.all_sources())]),
        lambda: draw_epochs(by_panel(paths)),
        digits=2,
    )


def rows_of(paths: Paths) -> list[list[Cell]]:
    """A row a loss."""
    rows: list[list[Cell]] = []
    for (source, bits, name), path in paths.items():
        best = np.max([paths[source, bits, other].map[:, -1] for other in LOSSES], axis=0)
        rows.append(
            [
                source.name,
                bits,
                name,
                Interval.of(path.map[:, -1]),
                Interval.of(first_reaching(path, SHARE * path.map[:, -1])),
                Interval.of(first_reaching(path, SHARE * best)),
                interval_of_some(path.ratio[:, -1]),
                interval_of_some(path.ratio_of_most[:, -1]),
            ]
        )
    return rows


def first_reaching(path: Path, level: np.ndarray) -> list[float]:
    """The first epoch, from 1, after which each seed's mAP is at its level; infinite where there is none."""
    reached = path.map >= level[:, None]
    return np.where(reached.any(axis=1), reached.argmax(axis=1) + 1.0, np.inf).tolist()


def by_panel(paths: Paths) -> dict[tuple[Source, int], dict[str, Path]]:
    """The losses' paths by data and length of code."""
    panels: dict[tuple[Source, int], dict[str, Path]] = {}
    for (source, bits, name), path in paths.items():
        panels.setdefault((source, bits), {})[name] = path
    return panels
