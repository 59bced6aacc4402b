"""The paper's ablation of the class centers: CSQ_D with the centers of several constructions."""

from __future__ import annotations

from dataclasses import replace

from lbhash.centers import class_centers
from lbhash.centers.distance import minimum_distance
from lbhash.reproduce import paper
from lbhash.reproduce.results import Record, Result, panels
from lbhash.reproduce.runs import Settings
from lbhash.reproduce.runs.trained import RunConfig, completed, grid, with_setting
from lbhash.reproduce.texts import text
from lbhash.trials.intervals import Interval

BITS = (16, 32, 48)
KINDS = ("reed-solomon", "bch", "hadamard", "best")


def run(settings: Settings) -> Result:
    """Return mAP and distance of every kind of centers."""
    configs = grid(settings, BITS, [("csq", "guided", kind) for kind in KINDS])
    distances = {config: distance_of(settings, config) for config in configs}
    done = completed(settings, [config for config in configs if distances[config] is not None])
    maps = {one.config: 100 * one.values("report", "map") for one in done}
    records: list[Record] = []
    for config in configs:
        known = paper.CENTERS.get(config.source.column or "", {}).get(config.centers, {}).get(config.bits, (None, None))
        own, best = maps.get(config), maps.get(replace(config, centers="best"))
        record: Record = {"data": config.source.name, "bits": config.bits, "centers": config.centers}
        record |= {"distance": distances[config], "distance, paper": known[1]}
        record |= {"mAP": None if own is None else Interval.of(own), "mAP, paper": known[0]}
        less = None if own is None or best is None or config.centers == "best" else Interval.of(own - best)
        records.append(record | {"− best": less})
    figure = panels.points(records, ["mAP", "distance"], "bits", "centers")
    about = with_setting(text("centers"), settings)
    return Result.of("CSQ_D by the construction of the class centers", records, about, figure)


def distance_of(settings: Settings, config: RunConfig) -> int | None:
    """Return the smallest distance of two centers with any seed; ``None`` if the construction has too few words."""
    classes = config.source.classes()
    try:
        made = [class_centers(classes, config.bits, config.centers, seed) for seed in settings.all_seeds()]
    except ValueError:
        return None
    return min(minimum_distance(centers) for centers in made)
