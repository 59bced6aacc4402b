"""What the recipe "tuned" gives beside "paper" where few rows train, on rows held out of the training rows.

    python -m benchmarks.experiments.few_rows --data digits --data clinc=FILE --data cifar10=FILE \
        --data mosaic=FILE --data tiny-imagenet=FILE

Of the training rows a fifth is held out, and so many of the others train. A figure is the mAP of the held-out rows,
each a query to all others of them; no row of a base or a query is read.
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np
from benchmarks.experiments.page import markdown_table

from lbhash.data import hold_out
from lbhash.evaluation.held_out import score_codes
from lbhash.hasher import Hasher
from lbhash.reproduce.runs.sources import Source

RECIPES = ("paper", "tuned")


def compared(source: Source, rows: int, bits: int, given: argparse.Namespace) -> list[str]:
    """Return a line of the table."""
    split, classes = source.training()
    fitted, validation = hold_out(split, 0.2, 0)
    if rows < len(fitted):
        fitted = hold_out(fitted, rows / len(fitted), 1)[1]
    found = []
    for recipe in RECIPES:
        hasher = Hasher(bits, given.method, epochs=given.epochs, recipe=recipe, device="cpu")
        scores = [
            score_codes(
                one.encode_split(validation), validation.labels, len(classes), bits, with_map=True, top_k=source.top_k()
            )
            for one in hasher.fit_seeds(fitted, len(classes), range(given.seeds))
        ]
        found.append(100 * np.array([score.map for score in scores], np.float64))
    shown = [f"{values.mean():.1f}" for values in found]
    gained = found[1] - found[0]
    return [source.name, f"{len(fitted):,}", str(bits), *shown, f"{gained.mean():+.1f} ± {gained.std(ddof=1):.1f}"]


def main(arguments: list[str] | None = None) -> None:
    """Train both recipes, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, metavar="NAME=FILE", type=Source.of)
    parser.add_argument("--method", default="csq_d")
    parser.add_argument("--rows", type=int, nargs="+", default=[1000])
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args(arguments)
    lines = [compared(*cell, given) for cell in product(given.data, given.rows, given.bits)]
    print(markdown_table(["data", "rows", "bits", *RECIPES, "tuned − paper"], lines, left=0))


if __name__ == "__main__":
    main()
