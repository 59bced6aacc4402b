"""The paper's ablation of the class centers: CSQ_D with the centers of several constructions."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from lbhash.centers import class_centers, minimum_distance
from lbhash.reproduce import paper
from lbhash.reproduce.results import Interval, Record, Result
from lbhash.reproduce.results.plots import grouped_bars, paper_star
from lbhash.reproduce.runs import RunConfig, Settings, Source, completed, grid, with_setting
from lbhash.reproduce.texts import text

BITS = (16, 32, 48)
KINDS = ("reed-solomon", "bch", "hadamard", "best")

Key = tuple[Source, int, str]


def all_configs(settings: Settings) -> list[RunConfig]:
    """Return a run for each kind of centers, also those that have too few words."""
    return grid(settings, BITS, [("csq", "guided", kind) for kind in KINDS])


def configs(settings: Settings) -> list[RunConfig]:
    """Return the runs, without those of constructions that have too few words."""
    return [config for config in all_configs(settings) if distance_of(settings, config) is not None]


def run(settings: Settings) -> Result:
    """Return mAP and distance of every kind of centers."""
    finals = completed(settings, configs(settings))
    maps: dict[Key, list[float]] = {
        _key(config): [100 * final["report"]["map"] for final in of_seeds] for config, of_seeds in finals.items()
    }
    distances = {_key(config): distance_of(settings, config) for config in all_configs(settings)}
    records: list[Record] = []
    for (source, bits, kind), distance in distances.items():
        paper_map, paper_distance = _known(source, bits, kind)
        own, best = maps.get((source, bits, kind)), maps.get((source, bits, "best"))
        less = [a - b for a, b in zip(own, best, strict=True)] if own and best and kind != "best" else None
        records.append(
            {
                "data": source.name,
                "bits": bits,
                "centers": kind,
                "distance": distance,
                "distance, paper": paper_distance,
                "mAP": Interval.of(own) if own else None,
                "mAP, paper": paper_map,
                "− best": Interval.of(less) if less else None,
            }
        )
    return Result.of(
        "CSQ_D by the construction of the class centers",
        records,
        with_setting(text("centers"), settings),
        lambda: map_figure(distances, maps),
    )


def distance_of(settings: Settings, config: RunConfig) -> int | None:
    """Return the smallest distance of two centers with any seed; ``None`` if the construction has too few words."""
    classes = config.source.classes()
    try:
        made = [class_centers(classes, config.bits, config.centers, seed) for seed in settings.all_seeds()]
    except ValueError:
        return None
    return min(minimum_distance(centers) for centers in made)


def map_figure(distances: Mapping[Key, int | None], maps: Mapping[Key, list[float]]) -> Figure:
    """Draw bars of mAP with the distance in each, and a star for the paper's mAP."""
    figure, panels, bars = grouped_bars(maps, KINDS, "mAP, %", 5.5, 4.2)
    for key, (axes, place, color) in bars.items():
        axes.text(place, 1, f"d {distances[key]}", ha="center", va="bottom", fontsize=8, color="white")
        paper_map, _ = _known(*key)
        if paper_map is not None:
            paper_star(axes, place, paper_map, color)
        axes.set_ylim(0, 100)
    if any(source.column in paper.CENTERS for source, _, _ in maps):
        paper_star(panels[0], [], [], "white", "in the paper")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return figure


def _key(config: RunConfig) -> Key:
    return config.source, config.bits, config.centers


def _known(source: Source, bits: int, kind: str) -> tuple[float, int] | tuple[None, None]:
    """Return the paper's mAP and distance."""
    return paper.CENTERS.get(source.column or "", {}).get(kind, {}).get(bits, (None, None))
