"""What class centers that are farther apart do to the codes. Writes a part of ``docs/centers.md``.

    python -m benchmarks.experiments.centers_effect --cifar10 FILE --tiny-imagenet FILE --mosaic FILE

CSQ and CSQ_D with six kinds of centers. Kinds that give the same centers share one run. Each run leaves a JSON file
under ``--runs``; an interrupted table goes on with the runs that are missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks.experiments.page import check_part, markdown_table, replace_part

from lbhash.centers.targets import centers_fingerprint
from lbhash.utils.files import existing_file
from lbhash.utils.parallel import run_missing

KINDS = ("best", "best-ratio", "hadamard", "bch", "reed-solomon", "random")
BITS = (16, 32, 48, 64)
AT = {"cifar10": None, "tiny-imagenet": 1000, "mosaic": 5000}


class Cell(NamedTuple):
    """One kind of centers for one method, length and seed."""

    data: str
    guided: bool
    bits: int
    kind: str
    seed: int


Results = dict[Cell, dict[str, Any]]


@cache
def _dataset(file: str) -> Any:
    from lbhash.data import load_dataset

    return load_dataset(file)


def execute(cell: Cell, file: str, epochs: int) -> dict[str, Any]:
    """Train, encode and evaluate."""
    from lbhash.evaluation.report import evaluate
    from lbhash.hasher import Hasher

    data = _dataset(file)
    own = {"pull": "surrogate" if cell.guided else "none", "centers": cell.kind}
    hasher = Hasher(cell.bits, "csq", epochs, cell.seed, recipe="paper", device="cpu", **own)
    hasher.fit_split(data.train, data.classes)
    query, base = hasher.encode_split(data.query), hasher.encode_split(data.base)
    report = evaluate(query, data.query.labels, base, data.base.labels, AT[cell.data])
    return {"map": report.map}


def main() -> None:
    """Run what is missing, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar10", required=True, help="Parquet of CIFAR-10 embeddings with split flags")
    parser.add_argument("--tiny-imagenet", required=True, help="Parquet of Tiny ImageNet embeddings with split flags")
    parser.add_argument("--mosaic", required=True, help="Parquet of multi-label embeddings with split flags")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seeds", type=int, default=3, help="at least 2, for the standard deviations")
    parser.add_argument("--out", type=Path, default=Path("docs/centers.md"))
    parser.add_argument("--runs", type=Path, default=Path("runs/centers"), help="folder of the runs' JSON files")
    parser.add_argument("--workers", type=int, default=2, help="runs at a time, one thread each")
    given = parser.parse_args()
    files = {"cifar10": given.cifar10, "tiny-imagenet": given.tiny_imagenet, "mosaic": given.mosaic}
    try:
        if given.seeds < 2:
            raise ValueError(f"seeds is {given.seeds}; it must be at least 2")
        for name, file in files.items():
            existing_file(file, name)
        check_part(given.out, "effect")
    except ValueError as error:
        parser.error(str(error))
    classes = {name: _dataset(file).classes for name, file in files.items()}
    names = {cell: _name(cell, classes[cell.data], given.epochs) for cell in _cells(given.seeds)}
    runs: dict[str, tuple[Any, ...]] = {}
    for cell, name in names.items():
        runs.setdefault(name, (cell, files[cell.data], given.epochs))
    results = run_missing(runs, execute, given.runs, given.workers)
    table = {cell: results[name] for cell, name in names.items()}
    replace_part(given.out, "effect", summary(table))


def _cells(seeds: int) -> Iterator[Cell]:
    for seed in range(seeds):
        for bits in BITS:
            for data in AT:
                for guided in (False, True):
                    for kind in KINDS:
                        yield Cell(data, guided, bits, kind, seed)


def _name(cell: Cell, classes: int, epochs: int) -> str:
    method = "csq_d" if cell.guided else "csq"
    mark = centers_fingerprint(classes, cell.bits, cell.kind, cell.seed)
    return f"{cell.data}-{method}-{cell.bits}bits-{epochs}epochs-seed{cell.seed}-{mark}"


def summary(table: Results) -> str:
    """The best centers' mAP less that of the others, in points, by data set and method."""
    rows = []
    for data in AT:
        for guided in (False, True):
            differences = []
            for kind in KINDS[1:]:
                pairs = [
                    100 * (table[c._replace(kind="best")]["map"] - r["map"])
                    for c, r in table.items()
                    if (c.data, c.guided, c.kind) == (data, guided, kind)
                ]
                error = np.std(pairs, ddof=1) / np.sqrt(len(pairs))
                differences.append(f"{np.mean(pairs):+.1f}±{error:.1f}")
            rows.append([f"{data}, {'csq_d' if guided else 'csq'}", *differences])
    return markdown_table(["best −", *KINDS[1:]], rows, left=0)


if __name__ == "__main__":
    main()
