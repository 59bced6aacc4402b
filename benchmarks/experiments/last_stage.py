"""What a last stage by TALR, the average precision itself, adds to a method, on rows held out of the training rows.

    python -m benchmarks.experiments.last_stage --data clinc=FILE --data cifar10=FILE --data mosaic=FILE \
        --data tiny-imagenet=FILE

A method trains for 15 epochs, and then for 5 more from these weights by TALR (``Hasher(start=...)``), by average
precision or by NDCG; beside it, the method alone with 20 epochs. A figure is the mAP of a fifth of the training rows,
held out and each a query to all others of them; no row of a base or a query is read.
"""

from __future__ import annotations

import argparse
from functools import partial
from itertools import product
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from benchmarks.experiments.page import markdown_table

from lbhash.data import hold_out
from lbhash.evaluation.held_out import score_codes
from lbhash.hasher import Hasher
from lbhash.reproduce.runs.sources import Source

FIRST, LAST = 15, 5
"""Epochs of the method, and of the last stage."""

TRAINING = {"recipe": "paper", "batch_size": 256, "schedule": "cosine"}
"""Of the last stage; with the batches of 64 of the recipe "paper", few rows are similar."""


def compared(source: Source, method: str, bits: int, seeds: int) -> list[str]:
    """Return a line of the table."""
    split, classes = source.training()
    fitted, held_out = hold_out(split, 0.2, 0)
    made = partial(Hasher, bits, device="cpu")

    def scored(seed: int, **given: Any) -> tuple[Hasher, float | None]:
        hasher = made(seed=seed, **given).fit_split(fitted, len(classes))
        codes = hasher.encode_split(held_out)
        top_k = source.top_k()
        return hasher, score_codes(codes, held_out.labels, len(classes), bits, with_map=True, top_k=top_k).map

    host = {"method": method.removesuffix("_d"), "guided": method.endswith("_d")}
    found = []
    for seed in range(seeds):
        with TemporaryDirectory() as folder:
            first, before = scored(seed, **host, epochs=FIRST)
            first.save_pretrained(folder)
            last = {"method": "talr", "guided": False, "epochs": LAST, "start": folder, **TRAINING}
            stages = [scored(seed, **last, options={"measure": measure})[1] for measure in ("ap", "ndcg")]
        found.append([before, scored(seed, **host, epochs=FIRST + LAST)[1], *stages])
    return [source.name, method, str(bits), *(f"{100 * value:.1f}" for value in np.mean(found, axis=0))]


def main(arguments: list[str] | None = None) -> None:
    """Train, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, metavar="NAME=FILE", type=Source.of)
    parser.add_argument("--methods", nargs="+", default=["hashnet", "greedyhash", "csq", "csq_d"])
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args(arguments)
    lines = [compared(*cell, given.seeds) for cell in product(given.data, given.methods, given.bits)]
    heads = [f"{FIRST} epochs", f"{FIRST + LAST} epochs", f"{FIRST} + {LAST} of AP", f"{FIRST} + {LAST} of NDCG"]
    print(markdown_table(["data", "method", "bits", *heads], lines, left=0))


if __name__ == "__main__":
    main()
