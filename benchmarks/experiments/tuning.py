"""Choosing settings by the held-out ratio against choosing by held-out mAP. Writes a part of ``docs/tuning.md``.

    python -m benchmarks.experiments.tuning --data cifar10=FILE --data tiny-imagenet=FILE

Random settings of every cell (data, method, bits) are trained once on a part of the training rows, and scored by the
ratio and by the mAP of the rest, and, for the judgment alone, by the mAP of the queries. Each run leaves a JSON file
under ``--runs``; an interrupted table goes on with the runs that are missing.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from benchmarks.experiments.page import check_part, replace_part

from lbhash.centers.targets import centers_fingerprint
from lbhash.evaluation.held_out import INTER_PERCENTILE, PERCENTILE, bounded_ratio
from lbhash.reproduce.results.interval import Interval
from lbhash.reproduce.runs.sources import Source
from lbhash.tuning.space import Space, check_space, default_space, from_entry, starting_point, with_params
from lbhash.utils.files import existing_file, replacing
from lbhash.utils.parallel import run_missing
from lbhash.utils.plotting import new_figure, palette

if TYPE_CHECKING:
    from lbhash.hasher import Hasher

PERCENTILES, INTER_PERCENTILES = (100.0, 99.9, 99.0, 95.0, 90.0, 75.0, 50.0), (0.0, 1.0, 10.0, 50.0)
"""Of D_intra and of D_inter, in the ratios that are compared; the first of each are the paper's."""

PERCENTILES_SAID = """Rank correlation of the ratio with the query mAP, mean over the cells, by the percentiles that
take the places of max D_intra (downwards) and of min D_inter (to the right):"""

CENTERS = {"choices": ["best", "best-ratio"]}

HELD_OUT = 0.2
PART = "tuning"

_QUERIES = 1000
_ROUNDS = 5
_DRAWS = 2000
_FEW = 5  # settings of the smaller choices
_CHUNK = 1 << 16

Floats = npt.NDArray[np.float64]


def ratio_name(percentile: float, inter: float) -> str:
    """Return the name of the ratio at these percentiles of D_intra and D_inter."""
    return f"{percentile:g}/{inter:g}"


DEFAULT = ratio_name(PERCENTILE, INTER_PERCENTILE)
PAPERS = {ratio_name(100, 0): "min D_inter / max D_intra", ratio_name(99.9, 0): "min D_inter / D_intra, 99.9 %"}


@dataclass(frozen=True)
class Cell:
    """What settings are searched for."""

    data: Source
    method: str
    guided: bool
    bits: int

    @property
    def title(self) -> str:
        """The method as the paper writes it."""
        return self.method + ("_d" if self.guided else "")

    @property
    def hasher(self) -> Hasher:
        """A hasher with the default settings."""
        from lbhash.hasher import Hasher

        return Hasher(self.bits, self.method, self.guided, recipe="paper", centers="best", device="cpu")

    def space(self, hidden: Sequence[int]) -> Space:
        """The default space, with these widths of the hidden layer, and with two kinds of centers where they matter."""
        from lbhash.losses import uses_centers

        space = default_space(self.method, self.guided, self.bits)
        space["hidden"] = from_entry({"choices": list(hidden)})
        if self.guided:
            space["guidance.weight"] = from_entry({"low": 0.03, "high": 3.0, "log": True})
        options = {name: space.pop(name) for name in list(space) if name.startswith("options.")}
        return space | ({"centers": from_entry(CENTERS)} if uses_centers(self.method, self.guided) else {}) | options

    def settings(self, number: int, hidden: Sequence[int], seed: int) -> dict[str, Any]:
        """The settings of this number: 0 are the defaults, whatever widths are searched, the others random."""
        if number == 0:
            return starting_point(self.hasher, self.space([self.hasher.hidden]))
        space = self.space(hidden)
        rng = np.random.default_rng([seed, number])
        return {name: sample(values, rng) for name, values in space.items()}


def sample(values: Any, rng: np.random.Generator) -> Any:
    """Return one of a distribution's values, all being as likely; on a logarithmic scale, all factors."""
    if hasattr(values, "choices"):
        return values.choices[int(rng.integers(len(values.choices)))]
    low, high = (math.log(values.low), math.log(values.high)) if values.log else (values.low, values.high)
    value = float(rng.uniform(low, high))
    value = min(max(math.exp(value) if values.log else value, values.low), values.high)
    return round(value) if isinstance(values.low, int) else value


@dataclass(frozen=True)
class Run:
    """One training."""

    cell: Cell
    number: int
    settings: dict[str, Any]
    epochs: int
    seed: int

    def name(self) -> str:
        """Return the name of the run's file."""
        cell, source = self.cell, self.cell.data
        mark = f"{zlib.crc32(json.dumps(self.settings, sort_keys=True).encode()):08x}"
        name = f"{source.name}-{cell.title}-{cell.bits}bits-{self.epochs}epochs-seed{self.seed}"
        name += f"-{self.number:03d}-settings{mark}-{source.fingerprint()}"
        if "centers" in self.settings:
            name += f"-{centers_fingerprint(source.classes(), cell.bits, self.settings['centers'], self.seed)}"
        return name


def execute(run: Run) -> dict[str, Any]:
    """Train on the rows to fit, and score the held-out rows and the queries."""
    from lbhash.data import hold_out
    from lbhash.evaluation.bound import bound
    from lbhash.evaluation.held_out import leave_one_out_map
    from lbhash.evaluation.metrics import mean_average_precision
    from lbhash.evaluation.ranking import RankHistogram

    cell, data = run.cell, run.cell.data.dataset()
    part, classes = data.train.compact()
    fitted, held = hold_out(part, HELD_OUT, run.seed)
    assert held.labels is not None
    hasher = with_params(cell.hasher, {**run.settings, "epochs": run.epochs, "seed": run.seed})
    started = time.perf_counter()
    hasher.fit_split(fitted, len(classes))
    seconds = time.perf_counter() - started
    codes = hasher.encode_split(held)
    found = bound(codes, held.labels, classes=len(classes), bits=cell.bits)
    at = cell.data.top_k()
    query, base = hasher.encode_split(data.query), hasher.encode_split(data.base)
    histogram = RankHistogram.from_codes(query, data.query.labels, base, data.base.labels, cell.bits)
    ratios = {}
    for percentile, inter in product(PERCENTILES, INTER_PERCENTILES):
        seen = found.at_percentile(percentile, inter)
        ratios[ratio_name(percentile, inter)] = bounded_ratio(seen.inter, seen.intra)
    result = {
        **asdict(run),
        "inter": found.inter,
        "ratio": ratios,
        "distinct": len(np.unique(codes, axis=0)),
        "held_out": len(held),
        "held_out_map": leave_one_out_map(codes, held.labels, cell.bits, at),
        "query_map": mean_average_precision(histogram, at),
        "train_seconds": seconds,
    }
    if run.number == 0:  # what the large bases of the clock are made of
        seen = bound(base, data.base.labels, bits=cell.bits)
        result["codes"] = {
            "centers": (seen.centers[seen.present] > 0).astype(int).tolist(),
            "intra_counts": seen.intra_counts[seen.present].tolist(),
        }
    return result


# ------------------------------------------------------------------------------------------------------- the clock


def synthetic(
    centers: npt.ArrayLike, intra_counts: npt.ArrayLike, count: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Codes of the distribution of others: their centers, and from them as far, in random bits, as those lie.

    Args:
        centers: ``[classes, bits]`` of 0 and 1.
        intra_counts: how many codes of each class lie at each distance from its center, ``[classes, bits + 1]``.
        count: of the codes.
        rng: of classes, distances and bits.

    Returns:
        Codes ``uint8 [count, bytes]``, packed, and their classes ``int64 [count]``.
    """
    ones, counts = np.asarray(centers, np.uint8), np.asarray(intra_counts, np.int64)
    bits = ones.shape[1]
    each = np.repeat(np.arange(counts.size), counts.ravel())
    codes, labels = [], []
    for start in range(0, count, _CHUNK):
        classes, distances = np.divmod(rng.choice(each, min(_CHUNK, count - start)), bits + 1)
        order = rng.random((len(classes), bits), np.float32).argsort(axis=1)
        flipped = ones[classes] ^ (order < distances[:, None])
        codes.append(np.packbits(flipped, axis=1, bitorder="little"))
        labels.append(classes)
    return np.concatenate(codes), np.concatenate(labels)


def measure(held: dict[str, Any], bits: int, size: int, at: int | None, seed: int) -> dict[str, Any]:
    """Seconds to score codes by the ratio and by mAP, in turns; each is the median of ``_ROUNDS``."""
    from lbhash.evaluation.bound import bound
    from lbhash.evaluation.metrics import mean_average_precision
    from lbhash.evaluation.ranking import RankHistogram

    rng = np.random.default_rng(seed)
    base, labels = synthetic(held["centers"], held["intra_counts"], size, rng)
    query, wanted = synthetic(held["centers"], held["intra_counts"], _QUERIES, rng)

    def by_map() -> None:
        mean_average_precision(RankHistogram.from_codes(query, wanted, base, labels, bits), at)

    tasks: dict[str, Callable[[], Any]] = {
        "ratio": lambda: bound(base, labels, PERCENTILE, inter_percentile=INTER_PERCENTILE, bits=bits),
        "ratio_of_held_out": lambda: bound(query, wanted, PERCENTILE, inter_percentile=INTER_PERCENTILE, bits=bits),
        "map": by_map,
    }
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for task in tasks.values():
        task()  # compiles, and warms the caches
    for _ in range(_ROUNDS):
        for name, task in tasks.items():
            started = time.perf_counter()
            task()
            seconds[name].append(time.perf_counter() - started)
    medians = {name: float(np.median(values)) for name, values in seconds.items()}
    return {"base": size, "bits": bits, "queries": _QUERIES, "at": at, "seconds": medians, "rounds": seconds}


# ------------------------------------------------------------------------------------------------------ the choices


@dataclass(frozen=True, eq=False)
class Choices:
    """What the criteria make of the settings of one cell.

    Attributes:
        values: of each criterion, ``[settings]``: "map", and the ratios by their percentiles (``ratio_name``).
        query_map: of each setting, for the judgment.
    """

    values: dict[str, Floats]
    query_map: Floats

    @classmethod
    def of(cls, results: Sequence[Mapping[str, Any]]) -> Choices:
        """Return the choices of a cell's results, in the order of their numbers."""
        values = {"map": np.array([result["held_out_map"] for result in results])}
        for name in results[0]["ratio"]:
            values[name] = np.array([result["ratio"][name] for result in results])
        return cls(values, np.array([result["query_map"] for result in results]))

    def chosen(self, criterion: str) -> int:
        """The setting with the largest value, the first of equals."""
        return int(self.values[criterion].argmax())

    def loss(self, criterion: str) -> float:
        """What the choice lacks of the best query mAP of all settings, in points."""
        return 100 * float(self.query_map.max() - self.query_map[self.chosen(criterion)])

    def regret(self, criterion: str) -> float:
        """Query mAP of the choice by held-out mAP minus that of this choice, in points."""
        return self.loss(criterion) - self.loss("map")

    def alike(self, criterion: str, size: int) -> float:
        """How often a criterion and held-out mAP choose the same of so many settings, drawn from all of them."""
        rng = np.random.default_rng(0)
        count = len(self.query_map)
        if size >= count:
            return float(self.chosen(criterion) == self.chosen("map"))
        drawn = np.sort(rng.random((_DRAWS, count)).argsort(axis=1)[:, :size], axis=1)
        left, right = (self.values[name][drawn].argmax(axis=1) for name in (criterion, "map"))
        return float(np.mean(left == right))

    def correlation(self, criterion: str, other: str = "query") -> float:
        """Spearman's rank correlation of a criterion with the query mAP, or with another criterion."""
        from scipy.stats import spearmanr

        a, b = self.values[criterion], self.query_map if other == "query" else self.values[other]
        return float(spearmanr(a, b).statistic) if np.ptp(a) > 0 and np.ptp(b) > 0 else float("nan")


def report(
    table: Mapping[Cell, Choices], clock: Sequence[Mapping[str, Any]], said: str, minutes: float | None = None
) -> str:
    """The part of the page in Markdown."""
    cells = list(table.values())
    count = len(cells[0].query_map)
    parts = [said + ("" if minutes is None else f" The runs took {minutes:.0f} minutes.")]
    parts += ["### What each criterion chooses", _summary(cells, count)]
    parts += ["### Which percentiles", PERCENTILES_SAID]
    parts += [_grid(cells, lambda cell, name: cell.correlation(name)), "And the points below the best setting:"]
    parts += [_grid(cells, lambda cell, name: cell.loss(name))]
    parts += ["### Cell by cell", _cells(table, DEFAULT), "### The time of a score", _clock(clock)]
    return "\n\n".join(parts)


def _summary(cells: Sequence[Choices], count: int) -> str:
    heads = ["chosen by held-out", f"as mAP of 2, of {_FEW}, of {count}", "rank correlation with held-out mAP"]
    heads += ["with query mAP", "regret, points", "below the best, points"]
    lines = [f"| {' | '.join(heads)} |", "|:--|" + "--:|" * (len(heads) - 1)]
    titles = {"map": "mAP", **PAPERS}
    titles[DEFAULT] = f"D_inter, {INTER_PERCENTILE:g} % / D_intra, {PERCENTILE:g} % (the default)"
    for name, title in titles.items():
        alike = [f"{np.mean([cell.alike(name, size) for cell in cells]):.0%}" for size in (2, _FEW, count)]
        same = name == "map"
        row = [title, "–" if same else ", ".join(alike)]
        row += ["–" if same else _mean([cell.correlation(name, "map") for cell in cells])]
        row += [_mean([cell.correlation(name) for cell in cells])]
        row += ["–" if same else f"{Interval.of([cell.regret(name) for cell in cells]).shown(2)}"]
        row += [f"{np.mean([cell.loss(name) for cell in cells]):.2f}"]
        lines.append(f"| {' | '.join(row)} |")
    best = [cell.query_map.max() for cell in cells]
    others = {
        "nothing: the defaults": [cell.query_map[0] for cell in cells],
        "chance: the mean of all settings": [cell.query_map.mean() for cell in cells],
    }
    for title, values in others.items():
        below = 100 * (np.array(best) - np.array(values)).mean()
        lines.append(f"| {title} | – | – | – | – | {below:.2f} |")
    return "\n".join(lines)


def _grid(cells: Sequence[Choices], value: Callable[[Choices, str], float]) -> str:
    """A mean over the cells, D_intra's percentile downwards and that of D_inter to the right."""
    heads = ["D_intra at"] + ["min D_inter" if inter == 0 else f"D_inter, {inter:g} %" for inter in INTER_PERCENTILES]
    lines = [f"| {' | '.join(heads)} |", "|:--|" + "--:|" * (len(heads) - 1)]
    for percentile in PERCENTILES:
        names = [ratio_name(percentile, inter) for inter in INTER_PERCENTILES]
        row = ["max" if percentile == 100 else f"{percentile:g} %"]
        row += [_mean([value(cell, name) for cell in cells]) for name in names]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def _cells(table: Mapping[Cell, Choices], criterion: str) -> str:
    heads = ["data", "method", "bits", "defaults", "by ratio", "by mAP", "best of all", "same", "rank correlation"]
    lines = [f"| {' | '.join(heads)} |", "|:--|:--|" + "--:|" * (len(heads) - 2)]
    for cell, found in table.items():
        ratio, mean = found.chosen(criterion), found.chosen("map")
        row = [cell.data.name, cell.title, str(cell.bits)]
        row += [f"{value:.4f}" for value in found.query_map[[0, ratio, mean]]] + [f"{found.query_map.max():.4f}"]
        row += ["yes" if ratio == mean else "no", f"{found.correlation(criterion):.2f}"]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def _clock(clock: Sequence[Mapping[str, Any]]) -> str:
    heads = ["base codes", "bits", f"mAP of {_QUERIES:,} queries, s", "ratio of these codes, s", "times as fast"]
    heads += [f"ratio of {_QUERIES:,} held-out codes, s"]
    lines = [f"| {' | '.join(heads)} |", "|" + "--:|" * len(heads)]
    for found in clock:
        taken = found["seconds"]
        row = [f"{found['base']:,}", str(found["bits"]), f"{taken['map']:.3f}", f"{taken['ratio']:.4f}"]
        row += [f"{taken['map'] / taken['ratio']:.0f}", f"{taken['ratio_of_held_out']:.5f}"]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def _mean(values: Sequence[float]) -> str:
    known = [value for value in values if np.isfinite(value)]
    return f"{np.mean(known):.2f}" if known else "–"


def draw(table: Mapping[Cell, Choices], image: Path) -> None:
    """Left, query mAP against the ratio, within each cell by rank; right, what each criterion costs."""
    figure, (left, right) = new_figure(11, 4.6, 1, 1)
    colors = palette(len(table))
    for (cell, found), color in zip(table.items(), colors, strict=True):
        x, y = (_ranks(values) for values in (found.values[DEFAULT], found.query_map))
        left.plot(x, y, "o", color=color, markersize=4, label=f"{cell.data.name}, {cell.title}, {cell.bits} bits")
    left.plot([0, 1], [0, 1], color="0.6", linewidth=1)
    left.set(xlabel="rank by the held-out ratio", ylabel="rank by query mAP")
    if len(table) <= 8:
        left.legend(fontsize=7)
    cells = list(table.values())
    shown = {"map": "held-out mAP"}
    shown |= {ratio_name(100, 0): "min / max", ratio_name(99.9, 0): "min / 99.9 %", DEFAULT: "the default"}
    names = list(shown)
    for place, name in enumerate(names):
        losses = [cell.loss(name) for cell in cells]
        right.plot(np.full(len(losses), place), losses, ".", color="0.6", markersize=4)
        right.plot(place, np.mean(losses), "o", color=palette(1)[0], markersize=8)
    right.axhline(float(np.mean([100 * (c.query_map.max() - c.query_map[0]) for c in cells])), color="0.3", ls=":")
    right.text(0.99, 0.98, "dotted: the defaults", transform=right.transAxes, ha="right", va="top", fontsize=8)
    right.set_xticks(np.arange(len(names)), list(shown.values()))
    right.set(
        xlabel="chosen by held-out mAP, or by D_inter / D_intra", ylabel="below the best setting, points of query mAP"
    )
    with replacing(image) as temporary:
        figure.savefig(temporary, format="png", dpi=150)


def _ranks(values: Floats) -> Floats:
    from scipy.stats import rankdata

    return (rankdata(values) - 1) / max(1, len(values) - 1)


def main() -> None:
    """Run what is missing, and write the page's part and its image."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, help="NAME=FILE, FILE or digits; may be given often")
    parser.add_argument("--methods", nargs="+", default=["csq", "hashnet", "dch"])
    parser.add_argument("--bits", nargs="+", type=int, default=[16, 64])
    parser.add_argument("--hidden", nargs="+", type=int, default=[0, 256, 1024], help="widths that are searched")
    parser.add_argument(
        "--settings", type=int, default=20, help="random settings of each cell, the defaults among them"
    )
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sizes", nargs="+", type=int, default=[50_000, 1_000_000], help="bases that are timed")
    parser.add_argument("--out", type=Path, default=Path("docs/tuning.md"))
    parser.add_argument("--image", type=Path, default=Path("docs/tuning.png"))
    parser.add_argument("--runs", type=Path, default=Path("runs/tuning"), help="folder of the runs' JSON files")
    parser.add_argument("--workers", type=int, default=2, help="runs at a time, one thread each")
    given = parser.parse_args()
    try:
        sources = [Source.of(data) for data in given.data]
        for source in sources:
            if source.file != "digits" and not Path(source.file).is_dir():
                existing_file(source.file, source.name)
        if given.settings < 3:
            raise ValueError(f"settings is {given.settings}; it must be at least 3, for a rank correlation")
        check_part(given.out, PART)
        cells = [
            Cell(source, method, guided, bits)
            for source in sources
            for method in given.methods
            for guided in (False, True)
            for bits in given.bits
        ]
        for cell in cells:
            check_space(cell.space(given.hidden), cell.hasher, cell.data.classes())
        runs = {
            cell: [
                Run(cell, number, cell.settings(number, given.hidden, given.seed), given.epochs, given.seed)
                for number in range(given.settings)
            ]
            for cell in cells
        }
    except ValueError as error:
        parser.error(str(error))
    names = {cell: [run.name() for run in of_cell] for cell, of_cell in runs.items()}
    tasks = {name: (run,) for cell in cells for name, run in zip(names[cell], runs[cell], strict=True)}
    results, minutes = run_missing(
        tasks,
        execute,
        given.runs,
        given.workers,
        lambda result: f"held-out mAP {result['held_out_map']:.4f}, query mAP {result['query_map']:.4f}",
    )
    timed = max(cells, key=lambda cell: cell.bits)
    made_of = results[names[timed][0]]["codes"]
    clock, _ = run_missing(
        {
            f"clock-{size}-{names[timed][0]}": (made_of, timed.bits, size, timed.data.top_k(), given.seed)
            for size in given.sizes
        },
        measure,
        given.runs,
        1,  # alone, for the clock
        lambda result: f"mAP {result['seconds']['map']:.2f} s, ratio {result['seconds']['ratio']:.4f} s",
    )
    table = {cell: Choices.of([results[name] for name in names[cell]]) for cell in cells}
    draw(table, given.image)
    said = (
        f"{len(cells)} cells of {given.settings} settings each ({', '.join(str(source) for source in sources)}), "
        f"{given.epochs} epochs, seed {given.seed}, hidden layers of {', '.join(map(str, given.hidden))}; a fifth of "
        f"every class is held out."
    )
    replace_part(given.out, PART, report(table, list(clock.values()), said, minutes))


if __name__ == "__main__":
    main()
