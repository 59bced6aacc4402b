"""The main table: six host methods, plain and guided, on two sets of embeddings. Writes ``docs/results.md``.

    python -m benchmarks.experiments.results --cifar10 FILE --tiny-imagenet FILE

Each run leaves a JSON file under ``--runs``; an interrupted table goes on with the runs that are missing.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.experiments.page import markdown_table

from lbhash.centers.targets import centers_fingerprint
from lbhash.utils.files import existing_file, write_text
from lbhash.utils.formatting import number
from lbhash.utils.parallel import run_missing
from lbhash.utils.system import peak_memory

METHODS = ("hashnet", "dbdh", "dsdh", "dch", "greedyhash", "csq")
BITS = (16, 32, 64)
AT = 1000
TITLES = {"cifar10": "CIFAR-10 embeddings", "tiny-imagenet": "Tiny ImageNet 100 embeddings"}
PROTOCOL_AT = {"cifar10": None, "tiny-imagenet": AT}

INTRO = """# Results

Six host methods, plain and with the guidance of "A Lower Bound of Hash Codes' Performance" (X_D), on fixed embeddings
of an ImageNet-trained MobileNetV2 (1,280 numbers, uint8): a head with one hidden layer of 1,024, {epochs} epochs, batch
64, Adam at 1e-3 with a decay of 0.1 every 10 epochs, class centers of the kind "best", seed {seed}. One
seed: differences of a point or so mean little.

Made by

    python -m benchmarks.experiments.results --cifar10 FILE --tiny-imagenet FILE --epochs {epochs} --seed {seed}

- mAP is in expectation over a random order of tied codes; "over ties" gives the worst and the best order.
- "lift" is the guided mAP minus its host's, in points.
- "ratio" is D_inter / D_intra of the base's codes, minimum over maximum.
- "k-NN" is the accuracy of a vote of the 100 nearest base codes.
- "seconds" is the training alone: one thread, {workers} runs at a time on a shared machine.
"""


@dataclass(frozen=True)
class Run:
    """One cell of the table."""

    data: str
    method: str
    guided: bool
    bits: int
    epochs: int
    seed: int

    def name(self, classes: int) -> str:
        """Of the run's file."""
        from lbhash.losses import uses_centers

        suffix = "_d" if self.guided else ""
        name = f"{self.data}-{self.method}{suffix}-{self.bits}bits-{self.epochs}epochs-seed{self.seed}"
        if uses_centers(self.method, self.guided):
            name += f"-{centers_fingerprint(classes, self.bits, 'best', self.seed)}"
        return name


@cache
def _dataset(file: str) -> Any:
    from lbhash.data import load_dataset

    return load_dataset(file)


def execute(run: Run, file: str) -> dict[str, Any]:
    """Train, encode and evaluate one run."""
    from lbhash.evaluation.report import evaluate
    from lbhash.hasher import Hasher

    dataset = _dataset(file)
    hasher = Hasher(run.bits, run.method, run.guided, run.epochs, run.seed, centers="best", device="cpu")
    started = time.perf_counter()
    hasher.fit_split(dataset.train, dataset.classes)
    seconds = time.perf_counter() - started
    query, base = hasher.encode_split(dataset.query), hasher.encode_split(dataset.base)
    whole, top = (evaluate(query, dataset.query.labels, base, dataset.base.labels, at) for at in (None, AT))
    return {
        **asdict(run),
        "train_seconds": seconds,
        "peak_bytes": peak_memory(),
        "all": whole.as_dict() | {"curve": None},
        f"at_{AT}": top.as_dict() | {"curve": None},
    }


def main() -> None:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar10", required=True, help="Parquet of CIFAR-10 embeddings with split flags")
    parser.add_argument("--tiny-imagenet", required=True, help="Parquet of Tiny ImageNet embeddings with split flags")
    parser.add_argument("--out", type=Path, default=Path("docs/results.md"))
    parser.add_argument("--runs", type=Path, default=Path("runs/results"), help="folder of the runs' JSON files")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2, help="runs at a time, one thread each")
    given = parser.parse_args()
    files = {"cifar10": given.cifar10, "tiny-imagenet": given.tiny_imagenet}
    for name, file in files.items():
        try:
            existing_file(file, name)
        except ValueError as error:
            parser.error(str(error))
    classes = {name: _dataset(file).classes for name, file in files.items()}
    names = {
        run: run.name(classes[data])
        for data in files
        for bits in BITS
        for method in METHODS
        for guided in (False, True)
        for run in [Run(data, method, guided, bits, given.epochs, given.seed)]
    }
    results, minutes = run_missing(
        {name: (run, files[run.data]) for run, name in names.items()},
        execute,
        given.runs,
        given.workers,
        lambda result: f"mAP {result['all']['map']:.4f}",
    )
    table = {run: results[name] for run, name in names.items()}
    write_text(given.out, page(table, given.epochs, given.seed, given.workers, minutes))


def page(results: dict[Run, dict[str, Any]], epochs: int, seed: int, workers: int, minutes: float | None) -> str:
    """The page in Markdown."""
    parts = [INTRO.format(epochs=epochs, seed=seed, workers=workers)]
    for data, title in TITLES.items():
        parts.append(f"## {title}\n\n{_table(data, {run: r for run, r in results.items() if run.data == data})}\n")
    parts.append(f"## Cost\n\n{_cost(list(results.values()), minutes)}\n")
    return "\n".join(parts)


def _table(data: str, results: dict[Run, dict[str, Any]]) -> str:
    at = PROTOCOL_AT[data]
    main, other = ("all", f"at_{AT}") if at is None else (f"at_{at}", "all")
    heads = {"all": "mAP", f"at_{AT}": f"mAP@{AT:,}"}
    columns = ["bits", "method", heads[main], "over ties", "lift", heads[other]]
    columns += ["D_inter", "D_intra", "ratio", "k-NN", "seconds"]
    rows = []
    hosts = {(run.method, run.bits): result[main]["map"] for run, result in results.items() if not run.guided}
    for run, result in results.items():
        report, found = result[main], result[main]["bound"]
        lift = f"{100 * (report['map'] - hosts[run.method, run.bits]):+.1f}" if run.guided else ""
        cells = [
            str(run.bits),
            run.method + ("_d" if run.guided else ""),
            f"{report['map']:.4f}",
            f"{report['map_worst']:.4f}–{report['map_best']:.4f}",
            lift,
            f"{result[other]['map']:.4f}",
            number(found["inter"]),
            number(found["intra"]),
            number(found["ratio"], 3),
            number(report["knn_accuracy"], 4),
            f"{result['train_seconds']:.0f}",
        ]
        rows.append(cells)
    return markdown_table(columns, rows, left=1)


def _cost(results: list[dict[str, Any]], minutes: float | None) -> str:
    trained = sum(result["train_seconds"] for result in results) / 60
    peak = max(result["peak_bytes"] or 0 for result in results) / 2**30
    said = f"{len(results)} runs, {trained:.0f} minutes of training in all; the largest process took {peak:.2f} GiB."
    return said if minutes is None else f"{said} The whole table took {minutes:.0f} minutes."


if __name__ == "__main__":
    main()
