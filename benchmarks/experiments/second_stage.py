"""What the second stage finds by the cosine of stored embeddings and a weight of the codes' distance, by that weight.

    python -m benchmarks.experiments.second_stage --data NAME=FILE ...

CSQ_D is trained on 80 % of the training rows, and each row of the other 20 % is a query to all others of them: no row
of a base or a query is read. The 1,000 nearest codes are ranked anew by 1 − cosine + weight · distance / bits. Each
cell is the mAP of classes among them, and the share of the 10 nearest by cosine among the first 10. Codes of equal
distance stand in a random order, which is drawn once.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.codes import hamming_distances
from lbhash.data import hold_out
from lbhash.hasher import Hasher
from lbhash.reproduce.runs.sources import Source
from lbhash.utils.parallel import in_processes

WEIGHTS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
CANDIDATES, NEAREST = 1000, 10


def cell(source: Source, bits: int, epochs: int, seed: int) -> list[tuple[float, float]]:
    """Return mAP and recall of the codes alone, and for each weight."""
    split, classes = source.training()
    fitted, held = hold_out(split, 0.2, seed)
    hasher = Hasher(bits, guided=True, epochs=epochs, seed=seed, recipe="paper").fit_split(fitted, len(classes))
    rows = held.embeddings[held.rows].astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    codes = hasher.encode_split(held)
    far = hamming_distances(codes, codes) / bits
    itself = np.eye(len(rows), dtype=bool)
    apart, relevant = np.where(itself, np.inf, 1 - rows @ rows.T), _share(held.labels) & ~itself
    rng = np.random.default_rng(seed)
    found = np.lexsort((rng.random(far.shape), np.where(itself, 2, far)))[:, : min(CANDIDATES, len(rows) - 1)]
    true = np.argsort(apart, axis=1)[:, :NEAREST]
    orders = [found]
    for weight in WEIGHTS:
        scores = np.take_along_axis(apart + weight * far, found, 1)
        orders.append(np.take_along_axis(found, np.argsort(scores, axis=1, kind="stable"), 1))
    return [(_map(np.take_along_axis(relevant, order, 1)), _recall(order, true)) for order in orders]


def _share(labels: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    return labels[:, None] == labels if labels.ndim == 1 else labels.astype(np.float32) @ labels.T > 0


def _map(relevant: npt.NDArray[np.bool_]) -> float:
    precisions = relevant.cumsum(axis=1) / np.arange(1, relevant.shape[1] + 1)
    return float(((relevant * precisions).sum(axis=1) / relevant.sum(axis=1).clip(min=1)).mean())


def _recall(order: npt.NDArray[Any], true: npt.NDArray[Any]) -> float:
    return float((order[:, :NEAREST, None] == true[:, None, :]).any(axis=1).mean())


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, metavar="NAME=FILE", type=Source.of)
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    tasks = {
        f"{source.name} | {bits}": (source, bits, given.epochs, given.seed)
        for source in given.data
        for bits in given.bits
    }
    results = dict(in_processes(tasks, cell, 1))
    print("| data | bits | codes alone |" + "".join(f" weight {weight:g} |" for weight in WEIGHTS))
    print("|:--|--:|" + "--:|" * (1 + len(WEIGHTS)))
    for name in tasks:
        print(
            f"| {name} | " + " | ".join(f"{precision:.3f}, {recall:.2f}" for precision, recall in results[name]) + " |"
        )


if __name__ == "__main__":
    main()
