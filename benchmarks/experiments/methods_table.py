"""All methods with labels, plain and guided, and coders, under one protocol: mAP, new classes, k-NN and seconds.

    python -m benchmarks.experiments.methods_table --data clinc=FILE --data tiny-imagenet@1000=FILE --bits 32
    python -m benchmarks.experiments.methods_table

A data set is NAME=FILE, or NAME@R=FILE where its mAP looks at the first R of a ranking; FILE may be "digits".
``--page`` names a page whose part "methods-table" becomes the means over the data sets. Means for classes that are new
after training become the part "new-classes" of ``new-classes.md`` in the same folder. A CSV file with each cell and a
picture for each page lie beside them; all are written as soon as a cell has been run. A cell that the CSV has of as
many seeds is not run again: take its line out where its settings have changed. Without ``--data`` nothing is run, and
parts and pictures are made from the CSV.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterable
from functools import cache
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from benchmarks.experiments.page import check_part, markdown_table, read_csv, replace_part, write_csv
from benchmarks.experiments.seeds import fit_seeds

from lbhash.losses import METHODS
from lbhash.reproduce.runs import Source
from lbhash.training.coders import CODERS
from lbhash.training.settings import LABEL_FREE
from lbhash.trials.intervals import Interval
from lbhash.utils.files import replacing
from lbhash.utils.parallel import in_processes, print_progress
from lbhash.utils.plotting import common_legend, new_panels, palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PART, NEW = "methods-table", "new-classes"
BITS = (16, 32, 64)
UNSEEN = "unseen"
LEFT = ("ridge", "wccn-itq", "sne")  # their names stand left of their points
KEY = ("data", "at", "protocol", "method", "bits", "epochs")

WITHOUT_LABELS = "itq", LABEL_FREE  # the usual one, and the default
NAMES = [*METHODS, *(name for name, kind in CODERS.items() if kind.needs_labels), *WITHOUT_LABELS]

Row = dict[str, str]
Means = dict[tuple[str, int], Interval]
"""The mean of a method at a length of a code."""


def forms() -> list[str]:
    """Return the methods, each host and then its guided form, and the coders, which are not guided."""
    return [host + form for host in NAMES for form in ("", "_d") if not form or host in METHODS]


@cache
def _dataset(file: str, protocol: str | None) -> Any:
    from lbhash.data import load_dataset

    return load_dataset(file, protocol=protocol)


def execute(file: str, cell: Row) -> Row:
    """Train every seed, encode and evaluate, and return the cell's line."""
    from lbhash.evaluation.report import evaluate
    from lbhash.hasher import Hasher

    dataset = _dataset(file, cell["protocol"] or None)
    part, classes = dataset.train.compact()
    host, guided = cell["method"].removesuffix("_d"), cell["method"].endswith("_d")
    pull = "surrogate" if guided else "none"
    training: dict[str, Any] = {} if host in CODERS else {"pull": pull, "epochs": int(cell["epochs"])}
    hasher = Hasher(int(cell["bits"]), host, device="cpu", **training)
    started = time.perf_counter()
    fitted = fit_seeds(hasher, part, len(classes), range(int(cell["seeds"])))
    seconds = time.perf_counter() - started
    at = int(cell["at"]) if cell["at"] else None
    asked, held = dataset.query, dataset.base
    reports = [
        evaluate(one.encode_split(asked), asked.labels, one.encode_split(held), held.labels, at, bits=one.bits)
        for one in fitted
    ]
    maps = [report.map for report in reports]
    found = Interval.of(maps)
    line = {"map": found.mean, "half": found.half}
    for name in ("map_worst", "map_best", "knn_accuracy"):
        values = [report.as_dict()[name] for report in reports]
        line[name] = None if None in values else fmean(values)
    shown = {name: "" if value is None else f"{value:.5f}" for name, value in line.items()}
    return {**cell, **shown, "seconds": f"{seconds:.1f}"}


def parsed(given: str) -> tuple[str, str, str]:
    """Return name, R and file of a data set that is typed as NAME=FILE or NAME@R=FILE; R is "" without one."""
    names, _, file = given.partition("=")
    name, several, rank = names.partition("@")
    if several and not (rank.isdecimal() and int(rank) > 0):
        raise ValueError(f"data is {given!r}; its R must be an integer of at least 1")
    return Source.of(f"{name}={file}").name, rank, file


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing, and write the tables, the pictures and the CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", default=[], metavar="NAME[@R]=FILE")
    parser.add_argument("--methods", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--bits", nargs="+", type=int, default=list(BITS))
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--protocols", nargs="+", choices=["own", UNSEEN], default=["own", UNSEEN])
    parser.add_argument("--page", type=Path, default=Path("docs/numbers.md"))
    parser.add_argument("--workers", type=int, default=1, help="cells at a time, one thread each")
    given = parser.parse_args(arguments)
    table, tasks = given.page.with_name("methods-table.csv"), {}
    try:
        check_part(given.page, PART)
        check_part(given.page.with_stem(NEW), NEW)
        lines = read_csv(table)
        done = {tuple(line[name] for name in KEY): line for line in lines}
        wanted = [name for name in forms() if name.removesuffix("_d") in given.methods]
        for (name, at, file), bits, protocol, method in product(
            map(parsed, given.data), given.bits, given.protocols, wanted
        ):
            rule = UNSEEN if protocol == UNSEEN else ""
            _dataset(file, rule or None)
            cell = (name, at, rule, method, str(bits), str(given.epochs))
            before = done.get(cell)
            if before is None or int(before["seeds"]) < given.seeds:
                task = dict(zip(KEY, cell, strict=True)) | {"seeds": str(given.seeds)}
                tasks[" ".join(filter(None, cell))] = file, task
    except (TypeError, ValueError) as error:
        parser.error(str(error))
    found = print_progress(
        in_processes(tasks, execute, given.workers), len(tasks), lambda name, line: f"{name}: mAP {line['map']}"
    )
    for _, line in found:
        done[tuple(line[name] for name in KEY)] = line
        lines = in_order(done.values())
        write_csv(table, lines)
        write(lines, given)
    if lines and not tasks:
        write(in_order(lines), given)


def in_order(lines: Iterable[Row]) -> list[Row]:
    """Return the lines by data set, as these came first, then by protocol, length and method."""
    given, order = list(lines), forms()
    sets = list(dict.fromkeys(line["data"] for line in given))
    return sorted(
        given,
        key=lambda line: (
            sets.index(line["data"]),
            line["protocol"],
            int(line["bits"]),
            order.index(line["method"]),
        ),
    )


def write(lines: list[Row], given: argparse.Namespace) -> None:
    """Write the parts of both pages and the pictures, of trainings with as many epochs as asked for."""
    own = [line for line in lines if int(line["epochs"]) == given.epochs]
    trained, new = ([line for line in own if line["protocol"] == rule] for rule in ("", UNSEEN))
    if trained:
        found = means(trained)
        replace_part(given.page, PART, all_methods(found))
        draw(found, given.page.with_name(f"{PART}.png"))
    if new:
        page, found, sets = given.page.with_stem(NEW), means(new), {line["data"] for line in new}
        replace_part(page, NEW, beside_coders(found))
        draw_new(means([line for line in trained if line["data"] in sets]), found, page.with_suffix(".png"))


def means(lines: list[Row]) -> Means:
    """Return the mean over the data sets by method and length, where every set has the cell, in percent.

    The sets are those of the table and not drawn. The interval is that of the seeds, which are other in every set: half
    of it is the root of the sum of the squares of the sets' halves, over the number of sets.
    """
    sets, cells = {line["data"] for line in lines}, {}
    for line in lines:
        cells.setdefault((line["method"], int(line["bits"])), []).append(line)
    found = {}
    for cell, own in cells.items():
        if len(own) == len(sets):
            halves = [float(line["half"]) for line in own if line["half"]]
            half = 100 * math.hypot(*halves) / len(own) if len(halves) == len(own) else None
            found[cell] = Interval(fmean(100 * float(line["map"]) for line in own), half, len(own))
    return found


def all_methods(found: Means) -> str:
    """Return the table of all methods, plain and guided, by length."""
    rows = [[host, *_cells(found, host)] for host in NAMES]
    return markdown_table(_columns(found), [row for row in rows if set(row[1:]) != {"–"}], left=0)


def beside_coders(found: Means) -> str:
    """Return the table of coders, beside CSQ, and the mean and the best of all methods with a network, by length."""
    every = [f"mean of the {len(METHODS)} with a network"], [f"best of the {len(METHODS)} with a network"]
    for bits, form in _forms(found):
        cells = [found[host + form, bits].mean for host in METHODS if (host + form, bits) in found]
        for row, value in zip(every, (fmean(cells), max(cells)) if cells else (None, None), strict=True):
            row.append("–" if value is None else f"{value:.1f}")
    rows = [*every, *([name, *_cells(found, name)] for name in ("csq", *NAMES[len(METHODS) :]))]
    return markdown_table(_columns(found), [row for row in rows if set(row[1:]) != {"–"}], left=0)


def _forms(found: Means) -> list[tuple[int, str]]:
    """Return the lengths, each plain and then guided."""
    return list(product(sorted({bits for _, bits in found}), ("", "_d")))


def _columns(found: Means) -> list[str]:
    return ["method", *(f"{bits} bits" if not form else "guided" for bits, form in _forms(found))]


def _cells(found: Means, host: str) -> list[str]:
    cells = [found.get((host + form, bits)) for bits, form in _forms(found)]
    return ["–" if cell is None else cell.shown(1).replace(" ", "") for cell in cells]


def draw(found: Means, file: Path) -> None:
    """Draw the mean mAP of every method, plain and guided, a panel for each length, the best plain one on top."""
    lengths = sorted({bits for _, bits in found})
    order = sorted(
        (host for host in NAMES if (host, lengths[-1]) in found), key=lambda host: found[host, lengths[-1]].mean
    )
    figure, panels = new_panels(len(lengths), 4.2, 1.6 + 0.22 * len(order), sharey=True)
    plain, guided = palette(2)
    for axes, bits in zip(panels, lengths, strict=True):
        for place, host in enumerate(order):
            both = [found.get((host + form, bits)) for form in ("_d", "")]
            known = [cell.mean for cell in both if cell is not None]
            axes.plot(known, [place] * len(known), color="0.8", zorder=1)
            for cell, color, label in zip(both, (guided, plain), ("guided", "plain"), strict=True):
                if cell is not None:
                    axes.errorbar(cell.mean, place, xerr=cell.half, color=color, marker="o", markersize=5, label=label)
        axes.set(title=f"{bits} bits", xlabel="mAP, %, mean over the data sets")
        axes.set_yticks(range(len(order)), order)
    common_legend(figure)
    _save(figure, file)


def draw_new(seen: Means, new: Means, file: Path) -> None:
    """Draw the mean mAP of trained classes against that of new classes, a panel for each length."""
    lengths = sorted({bits for _, bits in new})
    figure, panels = new_panels(len(lengths), 4.8, 4.8)
    blue, orange, green = palette(3)
    for axes, bits in zip(panels, lengths, strict=True):
        for name in forms():
            if (name, bits) not in new or (name, bits) not in seen:
                continue
            point = new[name, bits].mean, seen[name, bits].mean
            if name not in CODERS:
                color, label = blue, "network, guided" if name.endswith("_d") else "network, plain"
            else:
                labeled = CODERS[name].needs_labels
                color, label = (orange, "no network, labels") if labeled else (green, "no network, no labels")
                side = {"xytext": (-6, 0), "ha": "right"} if name in LEFT else {"xytext": (6, 0)}
                axes.annotate(name, point, **side, textcoords="offset points", va="center", fontsize=9)
            inside = "white" if label == "network, plain" else color
            axes.plot(*point, "o", color=color, markerfacecolor=inside, label=label)
        axes.margins(x=0.12)
        axes.set(title=f"{bits} bits", xlabel="mAP of new classes, %", ylabel="mAP of trained classes, %")
    common_legend(figure)
    _save(figure, file)


def _save(figure: Figure, file: Path) -> None:
    with replacing(file) as temporary:
        figure.savefig(temporary, format="png", dpi=110)


if __name__ == "__main__":
    main()
