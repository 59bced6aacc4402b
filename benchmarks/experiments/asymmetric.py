"""What a query in real numbers finds among stored bits, beside a query in bits: ``lbhash.index.asymmetric``.

    python -m benchmarks.experiments.asymmetric --data NAME=FILE ...

A method is trained on 80 % of the training rows, and each row of the other 20 % is a query to all others of them: no
row of a base or a query is read. Each cell is the mAP of classes, and the share of the 10 nearest by cosine among the
first 10, both in expectation over ties: by Hamming distance, by −⟨ℓ, b⟩ and by −⟨tanh ℓ, b⟩.
"""

from __future__ import annotations

import argparse

import numpy as np
import numpy.typing as npt
from benchmarks.experiments.scored import Scores, expected_recall

from lbhash.codes import hamming_distances, pack
from lbhash.data import hold_out
from lbhash.evaluation.metrics import average_precision
from lbhash.evaluation.neighbors import nearest_by_cosine
from lbhash.evaluation.ranking import ranking_of
from lbhash.hasher import Hasher
from lbhash.index.asymmetric import agreeing
from lbhash.reproduce.runs.sources import Source
from lbhash.utils.parallel import in_processes

NEAREST = 10


def cell(source: Source, method: str, bits: int, epochs: int, seed: int) -> list[tuple[float, float]]:
    """Return mAP and recall by bits, by ℓ and by tanh ℓ."""
    split, classes = source.training()
    fitted, held = hold_out(split, 0.2, seed)
    settings = {"epochs": epochs, "recipe": "paper"} if method.endswith("_d") else {}
    hasher = Hasher(bits, method, seed=seed, progress=False, **settings).fit_split(fitted, len(classes))
    rows, labels = held.take(slice(None)), np.asarray(held.labels)
    itself = np.eye(len(rows), dtype=bool)
    shared = labels[:, None] == labels if labels.ndim == 1 else labels.astype(np.float32) @ labels.T > 0
    near = nearest_by_cosine(rows, rows, NEAREST + 1)
    wanted = np.array([[place for place in found if place != row][:NEAREST] for row, found in enumerate(near)])
    outputs = hasher.model_.outputs(rows)
    codes = pack(outputs)

    def figures(scores: Scores) -> tuple[float, float]:
        scores = np.where(itself, np.inf, scores).astype(np.float32)  # the row itself comes last
        precision = average_precision(ranking_of(scores, shared & ~itself))
        return float(np.nanmean(precision)), float(expected_recall(scores, wanted).mean())

    def against_bits(real: npt.NDArray[np.float32]) -> Scores:
        scores = np.empty(itself.shape, np.float32)
        found = agreeing(real, codes, codes, len(codes))
        np.put_along_axis(scores, found.ids, found.scores, 1)
        return scores

    return [figures(hamming_distances(codes, codes)), *(figures(against_bits(f)) for f in (outputs, np.tanh(outputs)))]


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, metavar="NAME=FILE", type=Source.of)
    parser.add_argument("--method", nargs="+", default=["csq_d", "itq"])
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    tasks = {
        f"{source.name} | {method} | {bits}": (source, method, bits, given.epochs, given.seed)
        for source in given.data
        for method in given.method
        for bits in given.bits
    }
    results = dict(in_processes(tasks, cell, 1))
    print("| data | method | bits | Hamming distance | −⟨ℓ, b⟩ | −⟨tanh ℓ, b⟩ |\n|:--|:--|--:|--:|--:|--:|")
    for name in tasks:
        cells = (f"{precision:.4f}, {recall:.3f}" for precision, recall in results[name])
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
