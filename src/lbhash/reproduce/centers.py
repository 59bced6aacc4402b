"""The paper's ablation of the class centers: CSQ_D with the centers of several constructions."""

from __future__ import annotations

import numpy as np

from lbhash.centers import class_centers, minimum_distance
from lbhash.reproduce import paper
from lbhash.reproduce.results import Interval, Record, Result, plots
from lbhash.reproduce.runs import Settings, Source
from lbhash.reproduce.runs.runner import RunConfig, completed, grid, with_setting
from lbhash.reproduce.texts import text

BITS = (16, 32, 48)
KINDS = ("reed-solomon", "bch", "hadamard", "best")


def all_configs(settings: Settings) -> list[RunConfig]:
    """Return a run for each kind of centers, also those that have too few words."""
    return grid(settings, BITS, [("csq", "guided", kind) for kind in KINDS])


def configs(settings: Settings) -> list[RunConfig]:
    """Return the runs, without those of constructions that have too few words."""
    return [config for config in all_configs(settings) if distance_of(settings, config) is not None]


def run(settings: Settings) -> Result:
    """Return mAP and distance of every kind of centers."""
    finals = completed(settings, configs(settings))
    maps = {_key(config): [100 * final["report"]["map"] for final in of_seeds] for config, of_seeds in finals.items()}
    records: list[Record] = []
    for config in all_configs(settings):
        source, bits, kind = _key(config)
        known = paper.CENTERS.get(source.column or "", {}).get(kind, {}).get(bits, (None, None))
        own, best = maps.get((source, bits, kind)), maps.get((source, bits, "best"))
        record: Record = {"data": source.name, "bits": bits, "centers": kind}
        record |= {"distance": distance_of(settings, config), "distance, paper": known[1]}
        record |= {"mAP": Interval.of(own) if own else None, "mAP, paper": known[0]}
        less = Interval.of(np.subtract(own, best)) if own and best and kind != "best" else None
        records.append(record | {"− best": less})
    return Result.of(
        "CSQ_D by the construction of the class centers",
        records,
        with_setting(text("centers"), settings),
        lambda: plots.panel_figure(records, plots.draw_points, "bits", ["mAP", "distance"], "centers", panels=["data"]),
    )


def distance_of(settings: Settings, config: RunConfig) -> int | None:
    """Return the smallest distance of two centers with any seed; ``None`` if the construction has too few words."""
    classes = config.source.classes()
    try:
        made = [class_centers(classes, config.bits, config.centers, seed) for seed in settings.all_seeds()]
    except ValueError:
        return None
    return min(minimum_distance(centers) for centers in made)


def _key(config: RunConfig) -> tuple[Source, int, str]:
    return config.source, config.bits, config.centers
