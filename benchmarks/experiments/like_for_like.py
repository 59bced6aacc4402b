"""What the paper's guidance adds to a host method, and to a pull bit by bit: the same centers, seeds and budget.

    python -m benchmarks.experiments.like_for_like --data cifar10=FILE --data tiny-imagenet=FILE --data mosaic=FILE \
        --data clinc=FILE --out FOLDER --page docs/guidance.md

Every method, as the paper sets it and with its own recommended settings, is trained guided and, on the same (arranged)
centers with the same seeds, with no pull and with the pull "bits" where it has settings of its own; all are asked the
data's own queries. Each run leaves the average precision of every query for every seed in a file, and a grid that was
interrupted goes on.

A cell's lift is the mean over seeds and queries of the guided form's average precision less the other's. Its interval
is that of a nested bootstrap: seeds and queries are drawn with replacement, and both forms keep the same draws. The
p-values of all cells that compare with the same pull are corrected by Holm's method. ``--page`` names a page whose part
"like-for-like" becomes both tables as soon as a cell has been run, with a picture of the means and the cells as CSV
beside it. A cell that this CSV has is not run again: take its line out where its settings have changed.
Without ``--data`` nothing is run, and the part and the picture are made from the CSV.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from benchmarks.experiments.page import check_part, markdown_table, read_csv, replace_part, write_csv
from benchmarks.experiments.seeds import precision_of

from lbhash.hasher import Hasher
from lbhash.losses import METHODS as LOSSES
from lbhash.losses import recommended
from lbhash.reproduce.runs.experiment_settings import METHODS
from lbhash.reproduce.runs.sources import Source
from lbhash.training.defaults import full_name
from lbhash.trials.intervals import bootstrap, holm, p_value
from lbhash.utils.checksums import read_npz, write_npz
from lbhash.utils.files import replacing
from lbhash.utils.parallel import in_processes, print_progress
from lbhash.utils.plotting import common_legend, new_grid, palette

PART = "like-for-like"
RECIPES = ("paper", "tuned")
OVER = ("none", "bits")
"""The pulls that the guidance is compared with."""
FORMS = "alone", "pull bits", "guidance"
KINDS = {name: "with centers" if LOSSES[name].uses_centers else "without centers" for name in METHODS}
WORDS = ("data", "recipe", "method", "over")
KEY = (*WORDS, "bits", "epochs", "seeds")

Row = dict[str, Any]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Cell:
    """What is trained with every seed, but for the recipe's settings."""

    source: Source
    recipe: str
    method: str
    over: str
    bits: int
    epochs: int
    seeds: int

    def key(self) -> Row:
        """What its line of the table begins with."""
        made = self.source.name, self.recipe, self.method, self.over, self.bits, self.epochs, self.seeds
        return dict(zip(KEY, made, strict=True))

    def file(self, pull: str, folder: Path) -> Path:
        """Return the file that keeps the precision of its method with this pull."""
        form = full_name(self.method, pull)
        return folder / f"{self.source.name}-{self.recipe}-{form}-{self.bits}bits-{self.epochs}epochs.npz"


def precision(cell: Cell, pull: str, folder: Path) -> Floats:
    """Return the average precision of every query for every seed, ``[seeds, queries]``; train them if none is kept."""
    file = cell.file(pull, folder)
    if file.exists():
        return read_npz(file)["average_precision"]
    hasher = Hasher(cell.bits, cell.method, cell.epochs, pull=pull, recipe=cell.recipe, device="cpu")
    found = precision_of(hasher, cell.source, range(cell.seeds))
    write_npz(file, {"average_precision": found})
    return found


def row(cell: Cell, folder: Path) -> Row:
    """Return a cell's line: mean average precision of both forms in percent, the lift's interval and its p-value."""
    other, guided = (precision(cell, pull, folder) for pull in (cell.over, "surrogate"))
    asked = ~np.isnan(other).any(axis=0)  # a query without a relevant code has no precision
    means = 100 * bootstrap((guided - other)[:, asked])
    low, high = np.quantile(means, [0.025, 0.975])
    found = {"other": 100 * other[:, asked].mean(), "guided": 100 * guided[:, asked].mean(), "low": low, "high": high}
    return {**cell.key(), **{name: round(float(value), 3) for name, value in found.items()}, "p": p_value(means)}


def read_rows(file: Path) -> list[Row]:
    """Return the lines of a CSV file; none where there is no file."""
    return [
        {name: value if name in WORDS else json.loads(value) for name, value in line.items()} for line in read_csv(file)
    ]


def in_order(line: Row) -> tuple[Any, ...]:
    """Return what a line is sorted by."""
    return (
        OVER.index(line["over"]),
        RECIPES.index(line["recipe"]),
        line["data"],
        METHODS.index(line["method"]),
        line["bits"],
    )


def corrected(made: list[Row]) -> list[Row]:
    """Return the lines with kind, lift, and whether it is other than 0 by Holm's method over all of the same pull."""
    found = []
    for _, own in _groups(made, "over"):
        sure = holm(np.array([one["p"] for one in own])) < 0.05
        pairs = zip(own, sure, strict=True)
        found += [
            one | {"lift": one["guided"] - one["other"], "sure": bool(known), "kind": KINDS[one["method"]]}
            for one, known in pairs
        ]
    return found


def summary(made: list[Row]) -> str:
    """Return, for each pull and recipe, in how many cells the guidance gains or loses, and the mean lift."""
    columns = ["guidance over", "recipe", "methods", "lift > 0", "gains (Holm)", "loses (Holm)", "mean lift"]
    lines = []
    for (over, *key), own in _groups(made, "over", "recipe", "kind"):
        lifts, sure = np.array([one["lift"] for one in own]), np.array([one["sure"] for one in own])
        counts = [(lifts > 0).sum(), (sure & (lifts > 0)).sum(), (sure & (lifts < 0)).sum()]
        lines.append(
            [
                FORMS[OVER.index(over)],
                *key,
                *(f"{n} of {len(own)}" for n in counts),
                f"{lifts.mean().round(1) + 0.0:+.1f}",
            ]
        )
    return markdown_table(columns, lines, 2)


def means(made: list[Row]) -> str:
    """Return the mAP of every form on every set of data, means over methods and lengths with the recipe "paper"."""
    lines = []
    for key, own in _groups(_by_paper(made), "data", "kind"):
        lifts = [one["lift"] for one in own if one["over"] == "bits"]
        spread = f"{min(lifts):+.1f} to {max(lifts):+.1f}" if lifts else "–"
        maps = [f"{np.mean(values):.1f}" if values else "–" for values in _forms(own).values()]
        lines.append([*key, *maps, spread])
    return markdown_table(["data", "methods", *FORMS, "guidance less pull bits, by cell"], lines, 0)


def _by_paper(made: list[Row]) -> list[Row]:
    return [one for one in made if one["recipe"] == "paper"]


def _forms(own: list[Row]) -> dict[str, list[float]]:
    """Return the mAP of each form; both comparisons have the guided one."""
    found = {
        form: [one["other"] for one in own if one["over"] == over] for form, over in zip(FORMS, OVER, strict=False)
    }
    return {**found, FORMS[-1]: [one["guided"] for one in own if one["over"] == own[0]["over"]]}


def _groups(made: list[Row], *names: str) -> Iterable[tuple[tuple[Any, ...], list[Row]]]:
    """Yield the lines that have these values in common, in the order of the first of each."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for one in made:
        found.setdefault(tuple(one[name] for name in names), []).append(one)
    return found.items()


def both_tables(made: list[Row]) -> str:
    """Return the means and the summary."""
    return f"{means(made)}\n\n{summary(made)}"


def draw(made: list[Row], file: Path) -> None:
    """Draw the mAP of every method and form, with the recipe "paper", means over the lengths."""
    sets = _groups(_by_paper(made), "data")
    figure, grid = new_grid(-(-len(sets) // 2), min(2, len(sets)), 5.2, 2.6)
    for axes, ((data,), rows) in zip(grid.ravel(), sets, strict=False):
        methods = _groups(rows, "method")
        for place, (_, own) in enumerate(methods):
            for (form, values), color, marker in zip(_forms(own).items(), palette(3), "oDx", strict=True):
                if values:
                    axes.plot(np.mean(values), -place, marker, color=color, markersize=7, label=form)
        axes.set_yticks([-place for place in range(len(methods))], [method for (method,), _ in methods])
        axes.set(title=data, xlabel="mAP, %, mean over the lengths")
    common_legend(figure)
    with replacing(file) as temporary:
        figure.savefig(temporary, format="png", dpi=110)


def write_page(lines: list[Row], page: Path) -> None:
    """Write the cells so far: as CSV, as a picture, and into the page."""
    write_csv(page.with_suffix(".csv"), lines)
    made = corrected(lines)
    draw(made, page.with_suffix(".png"))
    replace_part(page, PART, both_tables(made))


def main(arguments: list[str] | None = None) -> None:
    """Train what is missing, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", default=[], metavar="NAME=FILE", type=Source.of)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--over", nargs="+", choices=OVER, default=OVER)
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 32, 64])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--page", type=Path)
    given = parser.parse_args(arguments)
    if given.page:
        check_part(given.page, PART)
    given.out.mkdir(parents=True, exist_ok=True)
    lines = read_rows(given.page.with_suffix(".csv")) if given.page else []
    done = [{name: one[name] for name in KEY} for one in lines]
    cells = [
        Cell(source, recipe, method, over, bits, given.epochs, given.seeds)
        for over, recipe, source, bits, method in product(given.over, RECIPES, given.data, given.bits, given.methods)
        if recipe == "paper" or recommended(method, over, bits)
    ]
    cells = [cell for cell in cells if cell.key() not in done]
    tasks = {" ".join(map(str, cell.key().values())): (cell, given.out) for cell in cells}
    for _, line in print_progress(in_processes(tasks, row, given.workers), len(tasks), lambda name, _: name):
        lines = sorted([*lines, line], key=in_order)
        if given.page:
            write_page(lines, given.page)
    if given.page and lines and not tasks:
        write_page(lines, given.page)
    print(both_tables(corrected(lines)))


if __name__ == "__main__":
    main()
