"""What a cell of a grid costs when its seeds are one computation, beside one process a run.

    python benchmarks/grid.py --data cifar10=FILE

A run is what ``lbhash reproduce`` trains and evaluates: data, method, length of code, seed. Both ways start processes
of one thread, one after the other, which import, read the data, train and evaluate. Wall-clock seconds, in turns.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from lbhash.losses import METHODS
from lbhash.reproduce.runs.config import RunConfig
from lbhash.reproduce.runs.sources import DIGITS, Source
from lbhash.reproduce.runs.store import execute_and_save
from lbhash.utils.parallel import one_thread_each


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Source.of, default=DIGITS, help="NAME=FILE or digits")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["csq", "dsdh"])
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    source = replace(given.data, validation=True)
    seeds = list(range(given.seeds))
    print("| bits | method | a process a run, s | seeds together, s | a process a run / together |")
    print("|--:|:--|--:|--:|--:|")
    for bits in given.bits:
        for method in given.methods:
            for recipe in ("plain", "guided"):
                cell = RunConfig(source, method, recipe, bits, epochs=given.epochs)
                rounds = [
                    (seconds(cell, [[seed] for seed in seeds]), seconds(cell, [seeds])) for _ in range(given.rounds)
                ]
                alone, together = np.array(rounds).T
                ratio = np.median(alone / together)
                print(
                    f"| {bits} | {cell.label} | {np.median(alone):.1f} | {np.median(together):.1f} | {ratio:.2f} |",
                    flush=True,
                )


def seconds(cell: RunConfig, groups: list[list[int]]) -> float:
    """Of a process a group of seeds, one after the other."""
    started = time.perf_counter()
    spawn = get_context("spawn")
    with (
        TemporaryDirectory() as folder,
        one_thread_each(),
        ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as pool,
    ):
        for seeds in groups:
            pool.submit(execute_and_save, cell, seeds, Path(folder)).result()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
