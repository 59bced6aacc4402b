"""Why the range over ties matters: one set of real codes, and the mAPs that different orders of its ties give.

    python -m benchmarks.experiments.ties --data cifar10=FILE

Trains plain CSQ and writes the table into ``docs/evaluation.md``, between its markers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from benchmarks.experiments.shared import markdown, options, show

from lbhash.codes import unpack
from lbhash.data import Dataset
from lbhash.evaluation.report import evaluate
from lbhash.hasher import Hasher, encode_split, fit_split

PART = "ties"
COLUMNS = ["expected", "worst", "best", "file order", "by class", "by class, reversed", "NumPy's argsort"]


def mean_average_precisions(dataset: Dataset, bits: int, epochs: int) -> list[float]:
    """Return mAP over the whole base in the orders of ``COLUMNS``."""
    hasher = Hasher(bits, method="csq", pull="none", epochs=epochs, recipe="paper", centers="best", device="cpu")
    fit_split(hasher, dataset.train, dataset.classes)
    query, base = encode_split(hasher, dataset.query), encode_split(hasher, dataset.base)
    wanted, labels = dataset.query.labels, dataset.base.labels
    report = evaluate(query, wanted, base, labels)
    by_class = np.argsort(labels, kind="stable")
    orders = (np.arange(len(labels)), by_class, by_class[::-1])
    stable = [evaluate(query, wanted, base[order], labels[order], ties="stable").map for order in orders]
    return [report.map, report.map_worst, report.map_best, *stable, argsort_map(query, wanted, base, labels, bits)]


def argsort_map(query: Any, wanted: Any, base: Any, labels: Any, bits: int) -> float:
    """Return mAP as public hashing code has it: whatever order NumPy's default sort leaves ties in."""
    signs = unpack(base, bits).astype(np.float32)
    values: list[float] = []
    for code, label in zip(unpack(query, bits).astype(np.float32), wanted, strict=True):
        relevant = (labels == label)[np.argsort(0.5 * (bits - signs @ code))]
        ranks = np.flatnonzero(relevant) + 1
        values.append(float(np.mean(np.arange(1, len(ranks) + 1) / ranks)) if len(ranks) else 0.0)
    return float(np.mean(values))


def main(arguments: list[str] | None = None) -> None:
    """Train, evaluate in several orders, and write the table."""
    parser = options(__doc__, PART, "docs/evaluation.md", trials=False, data=None, bits=(16, 32, 64), epochs=30)
    given = parser.parse_args(arguments)
    dataset = given.data[0].dataset()
    maps = [mean_average_precisions(dataset, bits, given.epochs) for bits in given.bits]
    shown = pd.DataFrame(maps, given.bits, COLUMNS).map("{:.4f}".format)
    show(markdown(shown.rename_axis("bits").reset_index(), left=-1), PART, given.page)


if __name__ == "__main__":
    main()
