"""Processor seconds and seconds with one thread and with all cores, of what encodes, indexes, searches and evaluates.

    python benchmarks/threads.py [--busy PROCESSES]

Each line is the median of several processes, in turns; ``--busy`` starts so many others that only compute meanwhile.
Random codes of 64 bits around 1,000 centers, and a model of 768 numbers with a hidden layer of 1,024.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

import numpy as np

from side_by_side import options, print_head, print_row

NAMES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def measured() -> dict[str, tuple[float, float]]:
    """Return seconds and processor seconds of each case in this process."""
    from lbhash.evaluation.report import evaluate
    from lbhash.index import Index
    from lbhash.models.encoder import Encoder, Layout

    rng, times = np.random.default_rng(0), {}

    def timed(name: str, work: Callable[[], object]) -> None:
        started, used = time.perf_counter(), time.process_time()
        work()
        times[name] = time.perf_counter() - started, time.process_time() - used

    flips = np.packbits(rng.random((200_000, 64)) < 0.1, axis=1)
    codes = rng.integers(0, 256, (1000, 8), np.uint8)[rng.integers(0, 1000, len(flips))] ^ flips
    for kind, rows in (("flat", len(codes)), ("ivf", 40_000)):
        index = Index(64, kind)
        timed(f"build {kind}, {rows:,} codes", lambda index=index, rows=rows: index.add(codes[:rows]))
        index.search(codes[:1], 10)
        timed(f"search {kind}, 500 queries", lambda index=index: index.search(codes[:500], 10))
    shapes = {"mean": (768,), "head.0.weight": (1024, 768), "head.0.bias": (1024,)}
    shapes |= {"head.2.weight": (64, 1024), "head.2.bias": (64,)}
    weights = {name: rng.normal(0, 0.05, shape).astype(np.float32) for name, shape in shapes.items()}
    model, x = Encoder(Layout(768, 64), weights | {"scale": np.ones(768, np.float32)}), rng.normal(size=(20_000, 768))
    model.encode(x[:1])
    timed("encode 20,000 rows", lambda: model.encode(x))
    labels = rng.integers(0, 100, 100_000)
    evaluate(codes[:9], labels[:9], codes[:900], labels[:900])
    timed("evaluate 500 queries, 100,000 codes", lambda: evaluate(codes[:500], labels[:500], codes[:100_000], labels))
    return times


def main() -> None:
    """Print the table."""
    parser = options(__doc__, rounds=5)
    parser.add_argument("--busy", type=int, default=0, help="processes that compute beside the measured one")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)  # in this process
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measured()))
        return
    cores = len(os.sched_getaffinity(0))
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(given.busy)]
    found: dict[int, list[dict[str, list[float]]]] = {1: [], cores: []}
    try:
        for threads in [*found] * given.rounds:
            command = [sys.executable, __file__, "--measure"]
            environment = {**os.environ, **dict.fromkeys(NAMES, str(threads))}
            found[threads].append(json.loads(subprocess.check_output(command, env=environment)))
    finally:
        for other in others:
            other.kill()
    print_head("what", "seconds, 1 thread", f"/ {cores}", "processor seconds, 1 thread", f"/ {cores}")
    for name in found[1][0]:
        figures = [median(run[name][which] for run in found[threads]) for which in (0, 1) for threads in (1, cores)]
        print_row(name, *(f"{value:.3f}" for value in figures))


if __name__ == "__main__":
    main()
