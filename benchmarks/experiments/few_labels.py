"""What labels buy: mAP of held-out rows against the share of rows that have a label. Writes a part of ``--page``.

    python -m benchmarks.experiments.few_labels --data clinc=FILE --data cifar10=FILE

A data set is NAME=FILE; FILE may be "digits". Only its train split is used: a fifth of every class is held out, and its
codes are evaluated, each row a query to the others. Of every class of the other rows a share keeps its labels, at least
one row. A cell that the CSV beside the page has is not run again: take its line out where its settings have changed.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from benchmarks.experiments.page import check_part, markdown_table, read_csv, replace_part, write_csv

from lbhash.data import EmbeddingSplit, hold_out, load_dataset
from lbhash.evaluation.held_out import leave_one_out_map
from lbhash.hasher import Hasher
from lbhash.reproduce.results import Interval, plots
from lbhash.training.partial import with_guesses
from lbhash.utils.files import replacing
from lbhash.utils.labels import UNLABELED, has_label
from lbhash.utils.parallel import in_processes, print_progress

PART = "few-labels"
SHARES = (0.01, 0.03, 0.1, 0.3, 1.0)
KEY = ("data", "method", "share", "seed", "bits", "epochs")
MOST_EPOCHS = 10
"""How many times the epochs a network has at most that sees the labeled rows alone, so that it has as many steps."""


def network(rows: EmbeddingSplit, settings: dict[str, Any], classes: int) -> Hasher:
    """The guided CSQ with its recommended settings."""
    return Hasher(method="csq_d", recipe="tuned", device="cpu", **settings).fit_split(rows, classes)


def of_labeled_rows(rows: EmbeddingSplit, settings: dict[str, Any], classes: int) -> Hasher:
    """The same network on the labeled rows alone."""
    labeled = rows.labeled()
    times = min(MOST_EPOCHS, round(len(rows) / len(labeled)))
    return network(labeled, settings | {"epochs": times * settings["epochs"]}, classes)


def of_guessed_labels(rows: EmbeddingSplit, settings: dict[str, Any], classes: int) -> Hasher:
    """The same network, after rows without a label were given the one that a logistic regression finds."""
    return network(with_guesses(rows, classes), settings, classes)


def ridge_of_guessed_labels(rows: EmbeddingSplit, settings: dict[str, Any], classes: int) -> Hasher:
    """Ridge regression on these."""
    guessed = with_guesses(rows, classes)
    return Hasher(settings["bits"], "ridge", seed=settings["seed"]).fit_split(guessed, classes)


def coder(name: str) -> Callable[..., Hasher]:
    """A coder on the rows that it learns from."""

    def fitted(rows: EmbeddingSplit, settings: dict[str, Any], classes: int) -> Hasher:
        given = rows.with_rows(rows.rows, None) if name == "sne" else rows.labeled()
        return Hasher(settings["bits"], name, seed=settings["seed"]).fit_split(given, classes)

    return fitted


METHODS: dict[str, Callable[..., Hasher]] = {
    "csq_d, all rows": network,
    "csq_d, labeled rows": of_labeled_rows,
    "csq_d, guessed labels": of_guessed_labels,
    "ridge, labeled rows": coder("ridge"),
    "ridge, guessed labels": ridge_of_guessed_labels,
    "logistic, labeled rows": coder("logistic"),
    "sne, no labels": coder("sne"),
}


def run(file: str, cell: dict[str, Any]) -> dict[str, Any]:
    """Fit one method, and return the cell with its mAP; none where the method cannot learn from so few rows."""
    train, classes = load_dataset(file).train.compact()
    fitted, held_out = hold_out(train, 0.2, 0)
    labels, rng = np.full(len(fitted), UNLABELED), np.random.default_rng(cell["seed"])
    for label in range(len(classes)):
        rows = rng.permutation(np.flatnonzero(fitted.labels == label))
        labels[rows[: max(1, round(cell["share"] * len(rows)))]] = label
    settings = {name: cell[name] for name in ("bits", "epochs", "seed")}
    try:
        hasher = METHODS[cell["method"]](fitted.with_rows(fitted.rows, labels), settings, len(classes))
    except ValueError as error:  # of a class with one row none can be held out
        return {**cell, "labels": int(has_label(labels).sum()), "map": "", "why": str(error)}
    found = leave_one_out_map(hasher.encode_split(held_out), held_out.labels, cell["bits"])
    return {**cell, "labels": int(has_label(labels).sum()), "map": round(found, 5), "why": ""}


def main() -> None:
    """Run what is missing, and write table, picture and CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, metavar="NAME=FILE", help="may be given often")
    parser.add_argument("--shares", nargs="+", type=float, default=list(SHARES))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--bits", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--page", type=Path, default=Path("docs/training.md"))
    parser.add_argument("--workers", type=int, default=1, help="cells at a time, one thread each")
    given = parser.parse_args()
    try:
        check_part(given.page, PART)
    except ValueError as error:
        parser.error(str(error))
    table = given.page.with_name("few-labels.csv")
    lines: list[dict[str, Any]] = list(read_csv(table))
    done = {tuple(line[name] for name in KEY) for line in lines}
    tasks = {}
    for seed, share, one, method in product(given.seeds, given.shares, given.data, given.methods):
        name, _, file = one.partition("=")
        if not (name and file):
            parser.error(f"data is {one!r}; it must be NAME=FILE")
        cell = dict(zip(KEY, (name, method, share, seed, given.bits, given.epochs), strict=True))
        if method.startswith("sne") and share != min(given.shares):
            continue  # it is the same for every share
        if share == 1 and method in ("csq_d, all rows", "csq_d, guessed labels", "ridge, guessed labels"):
            continue  # every row has its label
        if tuple(map(str, cell.values())) not in done:
            tasks[" ".join(map(str, cell.values()))] = (file, cell)
    for _, line in print_progress(
        in_processes(tasks, run, given.workers), len(tasks), lambda name, line: f"{name}: {line['map'] or line['why']}"
    ):
        lines.append({name: str(value) for name, value in line.items()})
        write_csv(table, lines)
    words = [word for one in given.data for word in ("--data", f"{one.partition('=')[0]}=FILE")]
    words += ["--seeds", *map(str, given.seeds)]
    command = f"python -m benchmarks.experiments.few_labels {shlex.join(words)}"
    replace_part(given.page, PART, page(lines, command))
    draw(lines, table.with_suffix(".png"))


def means(lines: list[dict[str, Any]]) -> dict[tuple[str, str, float], list[float]]:
    """Return the mAP of every seed by data, method and share; a method without labels has all shares."""
    found: dict[tuple[str, str, float], list[float]] = {}
    shares = sorted({float(line["share"]) for line in lines})
    for line in lines:
        for share in shares if line["method"].startswith("sne") else [float(line["share"])]:
            if line["map"]:
                found.setdefault((line["data"], line["method"], share), []).append(float(line["map"]))
    return found


def page(lines: list[dict[str, Any]], command: str) -> str:
    """The tables in Markdown, one for each data set; the best of a column in bold."""
    found = means(lines)
    shares = sorted({share for _, _, share in found})
    parts = [f"Made by `{command}`.\n"]
    for data in dict.fromkeys(key[0] for key in found):
        best = {s: max(fmean(of) for (d, _, share), of in found.items() if (d, share) == (data, s)) for s in shares}
        counts = {float(line["share"]): line["labels"] for line in lines if line["data"] == data}
        rows = []
        for method in METHODS:
            row = [method]
            for share in shares:
                of = found.get((data, method, share))
                text = "–" if of is None else f"{fmean(of):.3f}"
                row.append(f"**{text}**" if of is not None and fmean(of) == best[share] else text)
            rows.append(row)
        columns = [f"{data}: share (rows) with a label", *(f"{100 * s:g} % ({int(counts[s]):,})" for s in shares)]
        parts.append(f"{markdown_table(columns, rows, left=0)}\n")
    return "\n".join(parts)


def draw(lines: list[dict[str, Any]], file: Path) -> None:
    """Draw mAP against the share of labels, a panel for each data set."""
    records = [
        {"data": data, "method": method, "labeled rows in percent": 100 * share, "mAP": Interval.of(of)}
        for (data, method, share), of in sorted(means(lines).items())
    ]
    figure = plots.panel_figure(
        records, plots.draw_lines, "labeled rows in percent", "mAP", "method", panels=["data"], xscale="log"
    )
    figure.legends[0].remove()
    plots.common_legend(figure, ncols=3)  # the names are long
    with replacing(file) as temporary:
        figure.savefig(temporary, format="png", dpi=110)


if __name__ == "__main__":
    main()
