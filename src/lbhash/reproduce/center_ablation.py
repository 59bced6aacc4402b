"""The paper's ablation of the class centers: CSQ_D with the centers of several constructions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lbhash.centers import class_centers, minimum_distance
from lbhash.reproduce import paper
from lbhash.reproduce.results.interval import Interval
from lbhash.reproduce.results.result import Cell, Result
from lbhash.reproduce.runs.config import Cell as Run
from lbhash.reproduce.runs.grid import cell, completed, setting_text
from lbhash.reproduce.runs.settings import Settings
from lbhash.reproduce.runs.sources import Source
from lbhash.utils.plotting import new_panels, palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BITS = (16, 32, 48)
KINDS = ("reed-solomon", "bch", "hadamard", "best")

TEXT = """CSQ_D with class centers of four constructions, the paper's three and the best that the library has. mAP is
in %, mean over the seeds ± half a 95 % confidence interval (Student's t); "− best" is the mean difference from the best
centers with the same seed, in points. The distance is the smallest between two centers, in bits, of all the seeds'.
Where Hadamard's construction has too few words, random ones fill it up, as in the paper. A row without figures is a
construction that has no such words."""

Found = dict[tuple[Source, int, str], list[float]]


def cells(settings: Settings) -> list[Run]:
    """The trainings, without those of constructions that have not words enough."""
    return [
        cell(settings, source, "csq", "guided", bits, centers=kind)
        for source in settings.all_sources()
        for bits in settings.bits_or(*BITS)
        for kind in KINDS
        if distance_of(settings, source, bits, kind) is not None
    ]


def run(settings: Settings) -> Result:
    """mAP and distance of every kind of centers."""
    wanted = cells(settings)
    runs = completed(settings, wanted)
    found: Found = {
        (c.source, c.bits, c.centers): [100 * runs.final(c, seed)["report"]["map"] for seed in settings.all_seeds()]
        for c in wanted
    }
    distances = {
        (source, bits, kind): distance_of(settings, source, bits, kind)
        for source in settings.all_sources()
        for bits in settings.bits_or(*BITS)
        for kind in KINDS
    }
    in_paper = any(source.column in paper.CENTERS for source in settings.all_sources())
    columns = ["data", "bits", "centers", "distance", *["distance, paper"] * in_paper]
    columns += ["mAP", *["mAP, paper"] * in_paper, "− best"]
    return Result(
        "CSQ_D by the construction of the class centers",
        columns,
        rows_of(distances, found, in_paper),
        "\n\n".join([TEXT, setting_text(settings, settings.all_sources())]),
        lambda: draw(distances, found),
        digits=2,
        paper={"distance, paper": "distance", "mAP, paper": "mAP"} if in_paper else {},
    )


def distance_of(settings: Settings, source: Source, bits: int, kind: str) -> int | None:
    """The smallest distance of two centers of any seed; ``None`` where the kind has not that many words."""
    try:
        made = [class_centers(source.classes(), bits, kind, seed) for seed in settings.all_seeds()]
    except ValueError:
        return None
    return min(minimum_distance(centers) for centers in made)


def rows_of(distances: Mapping[tuple[Source, int, str], int | None], found: Found, in_paper: bool) -> list[list[Cell]]:
    """A row a kind."""
    rows: list[list[Cell]] = []
    for (source, bits, kind), distance in distances.items():
        known = paper.CENTERS.get(source.column or "", {}).get(kind, {}).get(bits, (None, None))
        row: list[Cell] = [source.name, bits, kind, distance, *[known[1]] * in_paper]
        values, best = found.get((source, bits, kind)), found.get((source, bits, "best"))
        row += [Interval.of(values) if values else None, *[known[0]] * in_paper]
        if values is None or best is None or kind == "best":
            rows.append([*row, None])
            continue
        rows.append([*row, Interval.of(own - other for own, other in zip(values, best, strict=True))])
    return rows


def draw(distances: Mapping[tuple[Source, int, str], int | None], found: Found) -> Figure:
    """Bars of mAP by length of code, a panel a set of data; in each its distance, above it the paper's mAP."""
    sources, lengths, _ = (list(dict.fromkeys(keys)) for keys in zip(*distances, strict=True))
    figure, panels = new_panels(len(sources), 5.5, 4.2)
    width = 0.8 / len(KINDS)
    colors = palette(len(KINDS))
    for (source, bits, kind), values in found.items():
        axis = panels[sources.index(source)]
        at = lengths.index(bits) + width * (KINDS.index(kind) - (len(KINDS) - 1) / 2)
        mean = Interval.of(values)
        label = kind if bits == lengths[0] else None
        axis.bar(at, mean.mean, 0.95 * width, yerr=mean.half, capsize=3, color=colors[KINDS.index(kind)], label=label)
        axis.text(at, 1, f"d {distances[source, bits, kind]}", ha="center", va="bottom", fontsize=8, color="white")
        known = paper.CENTERS.get(source.column or "", {}).get(kind, {}).get(bits)
        if known is not None:
            axis.plot(at, known[0], "*", color=colors[KINDS.index(kind)], markeredgecolor="black", markersize=9)
    for axis, source in zip(panels, sources, strict=True):
        axis.set(title=source.name, ylabel="mAP, %", xticks=range(len(lengths)), ylim=(0, 100))
        axis.set_xticklabels([f"{length} bits" for length in lengths])
        axis.grid(visible=False, axis="x")
    if any(source.column in paper.CENTERS for source in sources):
        panels[0].plot([], [], "*", color="white", markeredgecolor="black", markersize=9, label="in the paper")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return figure
