"""What an evaluation costs, beside what people use: ratios measured side by side in one run.

    python benchmarks/evaluation.py

- "loop" is the NumPy loop of public hashing code: for each query a product of ±1 matrices, an argsort, and the mean of
  precisions at the relevant ranks; it gives mAP in one order of ties. "evaluate" is ``lbhash.evaluate`` with everything
  in its report.
- "memory-mapped" evaluates ``--row-queries`` against a base of ``--rows`` codes (10 million) that lies in files of 50
  million, in a process of its own, and reports the most memory that this process had, and how much of it was its own:
  the rest is pages of the files, which the system takes back when it needs them. ``--mapped-only`` does nothing else; a
  billion codes take 16 GB on the disk while it runs.

Codes are random ones around a random center a class, an eighth of the bits flipped: no two are alike. Trained codes
repeat, and equal ones are looked at once; ``--queries`` and ``--base`` add a row for such, from files of codes
(``lbhash encode``).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from timeit import repeat, timeit

import numba
import numpy as np

from lbhash import evaluate
from lbhash.codes import unpack
from lbhash.codes.io import read_codes
from lbhash.utils.labels import one_hot

CASES = {
    "1,000 × 54,000, 10 classes": (1_000, 54_000, 10, False),
    "5,000 × 128,503, 100 classes": (5_000, 128_503, 100, False),
    "2,100 × 193,734, 21 labels": (2_100, 193_734, 21, True),
}

SHARD = 50_000_000  # codes of the memory-mapped base in a file
PART = 1 << 20  # and that are made at a time

Codes = tuple[np.ndarray, np.ndarray]

CHILD = """
import resource, sys, threading, time
import numpy as np
import numba
from lbhash.evaluation.report import evaluate_parts
from lbhash.utils.system import peak_memory
folder = sys.argv[1]
numba.set_num_threads(int(sys.argv[2]))
queries, query_labels = np.load(folder + "/q.npy"), np.load(folder + "/ql.npy")
files = [(f"{folder}/b{i}.npy", f"{folder}/bl{i}.npy") for i in range(int(sys.argv[3]))]
shards = [tuple(np.load(file, mmap_mode="r") for file in pair) for pair in files]
evaluate_parts(queries[:100], query_labels[:100], [(codes[:1000], labels[:1000]) for codes, labels in shards])
started, used = time.perf_counter(), time.process_time()
peak = [0]
def watch():
    while True:
        pages = open("/proc/self/statm").read().split()
        peak[0] = max(peak[0], int(pages[1]) - int(pages[2]))  # resident, and of these in files
        time.sleep(0.05)
threading.Thread(target=watch, daemon=True).start()
evaluate_parts(queries, query_labels, shards)
took, used = time.perf_counter() - started, time.process_time() - used
print(took, used, peak_memory(), peak[0] * resource.getpagesize())
"""


def make(rows: int, bits: int, classes: int, several: bool, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Packed codes and labels of a seed; the centers are the same for all seeds."""
    centers = np.random.default_rng(0).integers(0, 256, (classes, bits // 8), np.uint8)
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, rows)
    flips = np.bitwise_and.reduce(rng.integers(0, 256, (3, rows, bits // 8), np.uint8))
    codes = centers[labels] ^ flips
    if not several:
        return codes, labels
    hot = one_hot(labels, classes)
    hot[np.arange(rows), rng.integers(0, classes, rows)] = 1
    return codes, hot


def loop_map(query: np.ndarray, query_hot: np.ndarray, base: np.ndarray, base_hot: np.ndarray) -> float:
    """mAP as public hashing code has it."""
    summed = 0.0
    for code, label in zip(query, query_hot, strict=True):
        relevant = (label @ base_hot.T > 0).astype(np.float32)
        distances = 0.5 * (base.shape[1] - code @ base.T)
        ranked = relevant[np.argsort(distances)]
        found = int(ranked.sum())
        if found:
            ranks = np.flatnonzero(ranked == 1) + 1.0
            summed += float(np.mean(np.linspace(1, found, found) / ranks))
    return summed / len(query)


def against_the_loop(rounds: int, files: tuple[Path, Path] | None) -> None:
    """Whole evaluations."""
    print("| work | bits | distinct | loop, s | evaluate, s | ratio | mAP of the loop | mAP, worst to best |")
    print("|:--|--:|--:|--:|--:|--:|--:|--:|")
    for name, (queries, base, classes, several) in CASES.items():
        sets = make(queries, 64, classes, several, seed=1), make(base, 64, classes, several, seed=2)
        _row_against_the_loop(name, 64, classes, *sets, rounds)
    if files is not None:
        held = [read_codes(file, name) for file, name in zip(files, ("queries", "base"), strict=True)]
        (q, ql), (b, bl) = ((table.codes, table.labels) for table in held)
        classes = ql.shape[1] if ql.ndim == 2 else int(max(ql.max(), bl.max())) + 1
        name = f"{len(q):,} × {len(b):,}, given codes"
        _row_against_the_loop(name, held[1].bits, classes, (q, ql), (b, bl), rounds)


def _row_against_the_loop(name: str, bits: int, classes: int, query: Codes, base: Codes, rounds: int) -> None:
    (q, ql), (b, bl) = query, base
    evaluate(q[:100], ql[:100], b[:1000], bl[:1000])  # compiled by now
    signs, others = unpack(q, bits).astype(np.float32), unpack(b, bits).astype(np.float32)
    hot, other_hot = one_hot(ql, classes).astype(np.float32), one_hot(bl, classes).astype(np.float32)
    found: list[float] = []
    slow = timeit(lambda: found.append(loop_map(signs, hot, others, other_hot)), number=1)
    report = evaluate(q, ql, b, bl)
    quick = min(repeat(lambda: evaluate(q, ql, b, bl), number=1, repeat=rounds))
    distinct = len(np.unique(b, axis=0)) / len(b)
    spread = f"{report.map:.4f}, {report.map_worst:.4f} to {report.map_best:.4f}"
    cells = [name, bits, f"{distinct:.0%}", f"{slow:.1f}", f"{quick:.3f}", f"{slow / quick:.0f}", f"{found[0]:.4f}"]
    print(f"| {' | '.join(map(str, cells))} | {spread} |", flush=True)


def memory_mapped(rows: int, queries: int, threads: int) -> None:
    """A base in files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        starts = range(0, rows, SHARD)
        for number, low in enumerate(starts):
            size = min(SHARD, rows - low)
            base = np.lib.format.open_memmap(folder / f"b{number}.npy", "w+", np.uint8, (size, 8))
            base_labels = np.lib.format.open_memmap(folder / f"bl{number}.npy", "w+", np.int64, (size,))
            for start in range(0, size, PART):
                part = slice(start, min(start + PART, size))
                base[part], base_labels[part] = make(part.stop - start, 64, 100, False, seed=2 + low + start)
        del base, base_labels
        for file, array in zip(("q.npy", "ql.npy"), make(queries, 64, 100, False, seed=1), strict=True):
            np.save(folder / file, array)
        command = [sys.executable, "-c", CHILD, name, str(threads), str(len(starts))]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    took, used, peak, own = map(float, done.stdout.split())
    memory = f"peak memory {peak / 1e6:.0f} MB, of its own {own / 1e6:.0f} MB"
    size = f"{queries:,} × {rows:,} at 64 bits in {len(starts)} files"
    print(f"\nmemory-mapped: {size}, evaluate_parts {took:.2f} s ({used:.2f} s of the processor), {memory}")


def main() -> None:
    """Run both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--queries", type=Path, help="a file of codes")
    parser.add_argument("--base", type=Path, help="a file of codes")
    parser.add_argument("--rows", type=int, default=10_000_000, help="codes of the memory-mapped base")
    parser.add_argument("--row-queries", type=int, default=100, help="queries of the memory-mapped base")
    parser.add_argument("--mapped-only", action="store_true", help="leave out the tables")
    given = parser.parse_args()
    if (given.queries is None) != (given.base is None):
        parser.error("queries and base go together: give both files, or neither")
    numba.set_num_threads(given.threads)
    print(f"{given.threads} threads, the least of {given.rounds} rounds\n")
    if not given.mapped_only:
        against_the_loop(given.rounds, given.queries and (given.queries, given.base))
    memory_mapped(given.rows, given.row_queries, given.threads)


if __name__ == "__main__":
    main()
