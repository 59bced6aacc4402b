"""All host methods, plain and guided, under one protocol: mAP with its tie range, k-NN and seconds, over seeds.

    python -m benchmarks.experiments.methods_table --data cifar10=FILE --data tiny-imagenet@1000=FILE

A data set is NAME=FILE, or NAME@R=FILE where its mAP looks at the first R of a ranking; FILE may be "digits". The seeds
of a cell are trained together. Each cell leaves a JSON file under ``--runs``; an interrupted table goes on with the
cells that are missing. Writes ``--out``.
"""

from __future__ import annotations

import argparse
import time
from functools import cache
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks.experiments.page import markdown_table

from lbhash.centers.targets import centers_fingerprint
from lbhash.losses import METHODS, uses_centers
from lbhash.reproduce.results.interval import Interval
from lbhash.utils.files import write_text
from lbhash.utils.parallel import run_missing

BITS = (16, 32, 64)
CENTERS = "best"
INTRO = """# All methods under one protocol

Every method that `lbhash methods` lists, plain and guided (X_D), with its own default options: the same rows, head,
batches and class centers ("{centers}"), {epochs} epochs, the codes of the last one, seeds {seeds}.

Made by

    {command}

- **mAP** is the mean over the seeds with its 95 % interval, in expectation over the order of tied codes; "over ties"
  are the means in the worst and in the best order.
- **lift** is the guided mAP minus the host's, in points.
- **k-NN** is the accuracy of a vote of the 100 nearest base codes, where a row has one label.
- **seconds** are those of training all seeds together, one thread, {workers} cells at a time.
"""


class Cell(NamedTuple):
    """A cell of the table."""

    data: str
    at: int | None  # of mAP@R
    protocol: str | None
    method: str
    guided: bool
    bits: int
    epochs: int
    seeds: tuple[int, ...]

    @property
    def title(self) -> str:
        """Of the data."""
        return self.data + (f", mAP@{self.at:,}" if self.at else "") + (f", {self.protocol}" if self.protocol else "")

    def name(self, classes: int) -> str:
        """Of the cell's file."""
        data = "-".join(str(part) for part in (self.data, self.at, self.protocol) if part)
        seeds = "+".join(map(str, self.seeds))
        name = f"{data}-{self.method}{'_d' * self.guided}-{self.bits}bits-{self.epochs}epochs-seeds{seeds}"
        if not uses_centers(self.method, self.guided):
            return name
        return f"{name}-{'+'.join(centers_fingerprint(classes, self.bits, CENTERS, seed) for seed in self.seeds)}"


@cache
def _dataset(file: str, protocol: str | None) -> Any:
    from lbhash.data import load_dataset

    return load_dataset(file, protocol=protocol)


def execute(cell: Cell, file: str) -> dict[str, Any]:
    """Train all seeds, encode and evaluate."""
    from lbhash.evaluation.report import evaluate
    from lbhash.hasher import Hasher

    dataset = _dataset(file, cell.protocol)
    part, classes = dataset.train.compact()
    hasher = Hasher(cell.bits, cell.method, cell.guided, cell.epochs, centers=CENTERS, device="cpu")
    started = time.perf_counter()
    fitted = hasher.fit_seeds(part, len(classes), cell.seeds)
    result: dict[str, Any] = {**cell._asdict(), "train_seconds": time.perf_counter() - started}
    reports = [
        evaluate(one.encode_split(dataset.query), dataset.query.labels, one.encode_split(dataset.base),
                 dataset.base.labels, cell.at)
        for one in fitted
    ]  # fmt: skip
    for name in ("map", "map_worst", "map_best", "knn_accuracy"):
        result[name] = [report.as_dict()[name] for report in reports]
    return result


def main() -> None:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, metavar="NAME[@R]=FILE")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--bits", nargs="+", type=int, default=list(BITS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--protocol", help="of all data sets, such as 'unseen'; without it, the files' own")
    parser.add_argument("--out", type=Path, default=Path("docs/methods-table.md"))
    parser.add_argument("--runs", type=Path, default=Path("runs/methods"), help="folder of the cells' JSON files")
    parser.add_argument("--workers", type=int, default=2, help="cells at a time, one thread each")
    given = parser.parse_args()
    cells: dict[Cell, tuple[str, str]] = {}
    for one in given.data:
        head, _, file = one.partition("=")
        name, _, at = head.partition("@")
        if not (name and file) or not (at or "1").isdigit():
            parser.error(f"data is {one!r}; it must be NAME=FILE or NAME@R=FILE")
        try:
            classes = len(_dataset(file, given.protocol).train.compact()[1])
        except (TypeError, ValueError) as error:
            parser.error(str(error))
        for bits, method, guided in product(given.bits, given.methods, (False, True)):
            place = (name, int(at) if at else None, given.protocol)
            cell = Cell(*place, method, guided, bits, given.epochs, tuple(given.seeds))
            cells[cell] = (cell.name(classes), file)
    runs = {name: (cell, file) for cell, (name, file) in cells.items()}
    results, minutes = run_missing(
        runs, execute, given.runs, given.workers, lambda result: f"mAP {fmean(result['map']):.4f}"
    )
    options = " ".join(f"--data {one}" for one in given.data)
    intro = INTRO.format(
        centers=CENTERS,
        epochs=given.epochs,
        seeds=", ".join(map(str, given.seeds)),
        workers=given.workers,
        command=f"python -m benchmarks.experiments.methods_table {options}",
    )
    took = "" if minutes is None else f"\nThe whole table took {minutes:.0f} minutes.\n"
    write_text(given.out, intro + page({cell: results[name] for cell, (name, _) in cells.items()}) + took)


def page(results: dict[Cell, dict[str, Any]]) -> str:
    """The tables in Markdown, one for each data set."""
    parts = []
    hosts = {cell._replace(guided=True): fmean(result["map"]) for cell, result in results.items() if not cell.guided}
    for title in dict.fromkeys(cell.title for cell in results):
        rows = []
        for cell, result in results.items():
            if cell.title != title:
                continue
            mean, knn = fmean(result["map"]), result["knn_accuracy"]
            row = [str(cell.bits), cell.method + "_d" * cell.guided, Interval.of(result["map"]).shown(4)]
            row.append(f"{fmean(result['map_worst']):.4f}–{fmean(result['map_best']):.4f}")
            row.append(f"{100 * (mean - hosts[cell]):+.1f}" if cell in hosts else "")
            row.append("–" if None in knn else f"{fmean(knn):.4f}")
            rows.append([*row, f"{result['train_seconds']:.0f}"])
        columns = ["bits", "method", "mAP", "over ties", "lift", "k-NN", "seconds"]
        parts.append(f"\n## {title}\n\n{markdown_table(columns, rows, left=1)}\n")
    return "".join(parts)


if __name__ == "__main__":
    main()
