"""What it saves to train the seeds of a setting as one computation, beside one run after the other.

    python benchmarks/seeds.py

One thread, random embeddings of the size of MobileNetV2's. Both do the same steps; the processor's seconds of each are
measured in turn, and their ratio is printed.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from lbhash import Hasher
from lbhash.data import EmbeddingSplit
from lbhash.losses import METHODS


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--dim", type=int, default=1280)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 64])
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    labels = rng.integers(given.classes, size=given.rows)
    x = (rng.normal(size=(given.classes, given.dim))[labels] + rng.normal(size=(given.rows, given.dim))).astype(
        np.float32
    )
    part = EmbeddingSplit(x, np.arange(given.rows), labels)
    seeds = range(given.seeds)
    print("| bits | method | one by one, s | together, s | one by one / together |")
    print("|--:|:--|--:|--:|--:|")
    for bits in given.bits:
        for method in METHODS:
            for guided in (False, True):
                hasher = Hasher(bits, method, guided, given.epochs, recipe="paper", centers="best", device="cpu")
                alone, together = [], []
                for _ in range(given.rounds):
                    started = time.process_time()
                    for seed in seeds:
                        hasher.set_params(seed=seed).fit_split(part, given.classes)
                    alone.append(time.process_time() - started)
                    started = time.process_time()
                    hasher.fit_seeds(part, given.classes, seeds)
                    together.append(time.process_time() - started)
                name = method + "_d" * guided
                ratio = np.median(np.array(alone) / np.array(together))
                print(
                    f"| {bits} | {name} | {np.median(alone):.1f} | {np.median(together):.1f} | {ratio:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
