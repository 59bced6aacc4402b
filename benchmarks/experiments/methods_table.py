"""All methods with labels, plain and guided, and coders, under one protocol: mAP, unseen classes, k-NN and seconds.

    python -m benchmarks.experiments.methods_table --data clinc=FILE --data tiny-imagenet@1000=FILE --bits 32

A data set is NAME=FILE, or NAME@R=FILE where its mAP looks at the first R of a ranking; FILE may be "digits".
``--page`` names a page whose part "methods-table" becomes the tables of mAP, with pictures and each cell in a CSV file
beside it: all are written as soon as a cell has been run. A cell that the CSV has of as many seeds is not run again:
take its line out where its settings have changed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from functools import cache
from itertools import chain, product
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.experiments.data import Data
from benchmarks.experiments.page import check_part, markdown_table, read_csv, replace_part, write_csv
from benchmarks.experiments.seeds import fit_seeds

from lbhash.losses import METHODS
from lbhash.reproduce.results import Interval, plots
from lbhash.training.coders import CODERS, LABEL_FREE
from lbhash.utils.files import replacing
from lbhash.utils.parallel import in_processes, print_progress
from lbhash.utils.plotting import new_panels, palette

PART = "methods-table"
BITS = (16, 32, 64)
UNSEEN = "unseen"
MARKERS = "os^"  # one for each ten methods
KEY = ("data", "at", "protocol", "method", "bits", "epochs")

WITHOUT_LABELS = "itq", LABEL_FREE  # the usual one, and the default
NAMES = [*METHODS, *(name for name, kind in CODERS.items() if kind.needs_labels), *WITHOUT_LABELS]

Row = dict[str, str]


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
    training = {} if host in CODERS else {"guided": guided, "epochs": int(cell["epochs"])}
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


def _interval(line: Row) -> Interval:
    return Interval(float(line["map"]), float(line["half"]) if line["half"] else None, int(line["seeds"]))


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing, and write the tables, the picture and the CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, metavar="NAME[@R]=FILE")
    parser.add_argument("--methods", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--bits", nargs="+", type=int, default=list(BITS))
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--protocols", nargs="+", choices=["own", UNSEEN], default=["own", UNSEEN])
    parser.add_argument("--page", type=Path, default=Path("docs/methods.md"))
    parser.add_argument("--workers", type=int, default=1, help="cells at a time, one thread each")
    given = parser.parse_args(arguments)
    table, tasks = given.page.with_name("methods-table.csv"), {}
    try:
        check_part(given.page, PART)
        lines = read_csv(table)
        done = {tuple(line[name] for name in KEY): line for line in lines}
        wanted = [name for name in forms() if name.removesuffix("_d") in given.methods]
        for source, bits, protocol, method in product(map(Data.of, given.data), given.bits, given.protocols, wanted):
            rule = UNSEEN if protocol == UNSEEN else ""
            _dataset(source.file, rule or None)
            cell = (source.name, str(source.at or ""), rule, method, str(bits), str(given.epochs))
            before = done.get(cell)
            if before is None or int(before["seeds"]) < given.seeds:
                task = dict(zip(KEY, cell, strict=True)) | {"seeds": str(given.seeds)}
                tasks[" ".join(filter(None, cell))] = source.file, task
    except (TypeError, ValueError) as error:
        parser.error(str(error))
    found = print_progress(
        in_processes(tasks, execute, given.workers), len(tasks), lambda name, line: f"{name}: mAP {line['map']}"
    )
    for _, line in found:
        done[tuple(line[name] for name in KEY)] = line
        lines = in_order(done.values())
        write_csv(table, lines)
        write(lines, given.page, table.with_suffix(".png"))
    if lines and not tasks:
        write(in_order(lines), given.page, table.with_suffix(".png"))


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


def write(lines: list[Row], file: Path, picture: Path) -> None:
    """Write the page's part and the pictures."""
    replace_part(file, PART, page(lines))
    draw(lines, picture)
    draw_unseen(lines, picture.with_stem(picture.stem + "-unseen"))


def page(lines: list[Row]) -> str:
    """The tables in Markdown, one for each data set and protocol: mAP in percent, plain and guided, by length."""
    parts = []
    table_of = itemgetter("data", "at", "epochs", "protocol")
    for table in dict.fromkeys(map(table_of, lines)):
        data, at, epochs, protocol = table
        own = {(int(line["bits"]), line["method"]): line for line in lines if table_of(line) == table}
        lengths = sorted({bits for bits, _ in own})
        columns, rows = ["method", *chain.from_iterable((str(bits), "guided") for bits in lengths)], []
        for host in NAMES:
            cells = [own.get((bits, host + form)) for bits in lengths for form in ("", "_d")]
            if any(cells):
                rows.append([host, *map(_percent, cells)])
        seeds = {bits: sorted({line["seeds"] for (one, _), line in own.items() if one == bits}) for bits in lengths}
        said = ", ".join(f"{bits} bits {'/'.join(counts)}" for bits, counts in seeds.items())
        what = f"**{data}**{', classes never seen' if protocol else ''}, mAP{f'@{int(at):,}' if at else ''} in percent"
        parts.append(f"{what}, {epochs} epochs; seeds: {said}\n\n{markdown_table(columns, rows, left=0)}\n")
    return "\n".join(parts)


def _percent(line: Row | None) -> str:
    if line is None:
        return "–"
    half = f" ± {100 * float(line['half']):.1f}" if line["half"] else ""
    return f"{100 * float(line['map']):.1f}{half}"


def draw(lines: list[Row], file: Path) -> None:
    """Draw the mAP of every method, plain and guided, a panel for each data set and length of a code."""
    records = [
        {
            "data": line["data"],
            "bits": int(line["bits"]),
            "method": line["method"].removesuffix("_d"),
            "form": "guided" if line["method"].endswith("_d") else "plain",
            "mAP": _interval(line),
        }
        for line in lines
        if not line["protocol"]
    ]
    if not records:
        return
    figure = plots.panel_figure(records, plots.draw_points, "method", "mAP", "form", xlabel="mAP")
    with replacing(file) as temporary:
        figure.savefig(temporary, format="png", dpi=110)


def draw_unseen(lines: list[Row], file: Path) -> None:
    """Draw the mAP of classes seen against that of classes never seen, a panel for each data set and length."""
    from matplotlib.lines import Line2D

    maps = {(line["protocol"], line["data"], int(line["bits"]), line["method"]): float(line["map"]) for line in lines}
    drawn = list(dict.fromkeys((data, bits) for protocol, data, bits, _ in maps if protocol))
    if not drawn:
        return
    figure, panels = new_panels(len(drawn), 5.2, 5.2)
    colors = palette(10)
    hosts = [host for host in NAMES if any(key[0] and key[3] == host for key in maps)]
    looks = {host: (colors[at % 10], MARKERS[at // 10]) for at, host in enumerate(hosts)}
    for axes, (data, bits) in zip(panels, drawn, strict=True):
        for (host, (color, marker)), form in product(looks.items(), ("", "_d")):
            point = [maps.get((rule, data, bits, host + form)) for rule in (UNSEEN, "")]
            if None not in point:
                axes.plot(*point, color=color, marker=marker, markerfacecolor=color if form else "white", linestyle="")
        axes.set(title=f"{data}, {bits} bits", xlabel="mAP, classes never seen", ylabel="mAP, classes seen")
    handles = [
        Line2D([], [], color=color, marker=marker, linestyle="", label=host) for host, (color, marker) in looks.items()
    ]
    said = "hollow: plain; filled: guided"
    figure.legend(handles=handles, loc="outside lower center", ncols=9, frameon=False, fontsize=9, title=said)
    with replacing(file) as temporary:
        figure.savefig(temporary, format="png", dpi=110)


if __name__ == "__main__":
    main()
