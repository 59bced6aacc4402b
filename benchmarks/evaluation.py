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

import os
import tempfile
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from lbhash import evaluate
from lbhash.codes import unpack
from lbhash.codes.io import read_codes
from lbhash.utils.labels import one_hot
from side_by_side import noisy_codes, of_child, options, print_head, print_row, seconds_of

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
from threadpoolctl import threadpool_limits
from lbhash.evaluation.report import evaluate_parts
from lbhash.utils.system import peak_memory
folder = sys.argv[1]
threadpool_limits(int(sys.argv[2]))
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


def make(rows: int, classes: int, several: bool, seed: int) -> Codes:
    """Return packed codes of 64 bits and labels, perhaps ``several`` a row, of a seed."""
    codes, labels = noisy_codes(rows, 64, classes, seed)
    if not several:
        return codes, labels
    hot = one_hot(labels, classes)
    hot[np.arange(rows), np.random.default_rng(seed).integers(0, classes, rows)] = 1
    return codes, hot


def loop_map(query: np.ndarray, query_hot: np.ndarray, base: np.ndarray, base_hot: np.ndarray) -> float:
    """Return mAP as public hashing code has it."""
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
    """Print whole evaluations."""
    print_head("work", "bits", "distinct", "loop, s", "evaluate, s", "ratio", "mAP of the loop", "mAP, worst to best")
    for name, (queries, base, classes, several) in CASES.items():
        query, held = (make(rows, classes, several, seed) for seed, rows in ((1, queries), (2, base)))
        row_against_the_loop((name, 64, classes), query, held, rounds)
    if files is not None:
        tables = [read_codes(file, name) for file, name in zip(files, ("queries", "base"), strict=True)]
        query, held = ((table.codes, table.labels) for table in tables)
        classes = query[1].shape[1] if query[1].ndim == 2 else int(max(query[1].max(), held[1].max())) + 1
        name = f"{len(query[0]):,} × {len(held[0]):,}, given codes"
        row_against_the_loop((name, tables[1].bits, classes), query, held, rounds)


def row_against_the_loop(about: tuple[str, int, int], query: Codes, base: Codes, rounds: int) -> None:
    """Print a line about a name, bits and a number of classes."""
    (name, bits, classes), (q, ql), (b, bl) = about, query, base
    evaluate(q[:100], ql[:100], b[:1000], bl[:1000])  # compiled by now
    signs, others = unpack(q, bits).astype(np.float32), unpack(b, bits).astype(np.float32)
    hot, other_hot = one_hot(ql, classes).astype(np.float32), one_hot(bl, classes).astype(np.float32)
    found: list[float] = []
    slow = seconds_of(lambda: found.append(loop_map(signs, hot, others, other_hot)))
    report = evaluate(q, ql, b, bl)
    quick = min(seconds_of(lambda: evaluate(q, ql, b, bl)) for _ in range(rounds))
    distinct = len(np.unique(b, axis=0)) / len(b)
    spread = f"{report.map:.4f}, {report.map_worst:.4f} to {report.map_best:.4f}"
    times = f"{slow:.1f}", f"{quick:.3f}", f"{slow / quick:.0f}"
    print_row(name, bits, f"{distinct:.0%}", *times, f"{found[0]:.4f}", spread)


def memory_mapped(rows: int, queries: int, threads: int) -> None:
    """Print a base in files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        starts = range(0, rows, SHARD)
        for number, low in enumerate(starts):
            size = min(SHARD, rows - low)
            base = np.lib.format.open_memmap(folder / f"b{number}.npy", "w+", np.uint8, (size, 8))
            base_labels = np.lib.format.open_memmap(folder / f"bl{number}.npy", "w+", np.int64, (size,))
            for start in range(0, size, PART):
                part = slice(start, min(start + PART, size))
                base[part], base_labels[part] = make(part.stop - start, 100, several=False, seed=2 + low + start)
        del base, base_labels
        for file, array in zip(("q.npy", "ql.npy"), make(queries, 100, several=False, seed=1), strict=True):
            np.save(folder / file, array)
        took, used, peak, own = of_child(CHILD, name, threads, len(starts))
    memory = f"peak memory {peak / 1e6:.0f} MB, of its own {own / 1e6:.0f} MB"
    size = f"{queries:,} × {rows:,} at 64 bits in {len(starts)} files"
    print(f"\nmemory-mapped: {size}, evaluate_parts {took:.2f} s ({used:.2f} s of the processor), {memory}")


def main() -> None:
    """Run both."""
    parser = options(__doc__, rounds=5)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--queries", type=Path, help="a file of codes")
    parser.add_argument("--base", type=Path, help="a file of codes")
    parser.add_argument("--rows", type=int, default=10_000_000, help="codes of the memory-mapped base")
    parser.add_argument("--row-queries", type=int, default=100, help="queries of the memory-mapped base")
    parser.add_argument("--mapped-only", action="store_true", help="leave out the tables")
    given = parser.parse_args()
    if (given.queries is None) != (given.base is None):
        parser.error("queries and base go together: give both files, or neither")
    threadpool_limits(given.threads)
    print(f"{given.threads} threads, the least of {given.rounds} rounds\n")
    if not given.mapped_only:
        against_the_loop(given.rounds, given.queries and (given.queries, given.base))
    memory_mapped(given.rows, given.row_queries, given.threads)


if __name__ == "__main__":
    main()
