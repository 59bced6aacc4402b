"""Why the range over ties matters: one set of real codes, and the mAPs that different orders of its ties give.

    python -m benchmarks.experiments.ties --cifar10 FILE

Trains plain CSQ at 16, 32 and 64 bits and writes the table into ``docs/evaluation.md``, between its markers.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.experiments.page import check_part, replace_part

from lbhash.utils.files import existing_file

BITS = (16, 32, 64)
COLUMNS = ("bits", "expected", "worst", "best", "file order", "by class", "by class, reversed", "NumPy's argsort")


def main() -> None:
    """Train, evaluate in several orders, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar10", required=True, help="Parquet of CIFAR-10 embeddings with split flags")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("docs/evaluation.md"))
    given = parser.parse_args()
    try:
        existing_file(given.cifar10, "cifar10")
        check_part(given.out, "ties")
    except ValueError as error:
        parser.error(str(error))
    from lbhash.data import load_dataset

    dataset = load_dataset(given.cifar10)
    lines = [f"| {' | '.join(COLUMNS)} |", "|--:" * len(COLUMNS) + "|"]
    for bits in BITS:
        values = mean_average_precisions(dataset, bits, given.epochs, given.seed)
        lines.append(f"| {bits} | " + " | ".join(f"{value:.4f}" for value in values) + " |")
        print(lines[-1], flush=True)
    table = "\n".join(lines)
    replace_part(given.out, "ties", table)


def mean_average_precisions(dataset: Any, bits: int, epochs: int, seed: int) -> list[float]:
    """mAP over the whole base in the orders of ``COLUMNS``."""
    from lbhash.evaluation.report import evaluate
    from lbhash.hasher import Hasher

    hasher = Hasher(bits, "csq", pull="none", epochs=epochs, seed=seed, recipe="paper", centers="best", device="cpu")
    hasher.fit_split(dataset.train, dataset.classes)
    query, base = hasher.encode_split(dataset.query), hasher.encode_split(dataset.base)
    wanted, labels = dataset.query.labels, dataset.base.labels
    report = evaluate(query, wanted, base, labels)
    by_class = np.argsort(labels, kind="stable")
    orders = (np.arange(len(labels)), by_class, by_class[::-1])
    stable = [evaluate(query, wanted, base[order], labels[order], ties="stable").map for order in orders]
    return [report.map, report.map_worst, report.map_best, *stable, argsort_map(query, wanted, base, labels, bits)]


def argsort_map(query: Any, wanted: Any, base: Any, labels: Any, bits: int) -> float:
    """mAP as public hashing code has it: whatever order NumPy's default sort leaves ties in."""
    from lbhash.codes import unpack

    signs = unpack(base, bits).astype(np.float32)
    values: list[float] = []
    for code, label in zip(unpack(query, bits).astype(np.float32), wanted, strict=True):
        relevant = (labels == label)[np.argsort(0.5 * (bits - signs @ code))]
        ranks = np.flatnonzero(relevant) + 1
        values.append(float(np.mean(np.arange(1, len(ranks) + 1) / ranks)) if len(ranks) else 0.0)
    return float(np.mean(values))


if __name__ == "__main__":
    main()
