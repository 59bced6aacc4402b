"""What the index costs beside bare FAISS: ratios measured side by side in one run.

    python benchmarks/search.py

- "search": ``FlatIndex`` in a folder, opened as any user would, beside ``faiss.IndexBinaryFlat`` of the same codes in
  memory. Both take turns; the ratio is FAISS's time over ours, the median of the rounds, and 1 is as quick.
- "opening": in a process of its own each, the time until an index is open and until its first search is answered, and
  the memory that it then takes beyond what it took before (resident pages, those of mapped files included).
- "lengths" (``--lengths``): milliseconds of processor time a query, on one thread, for one query and for 32 at once.
- "kinds": ``ivf`` beside the exact kind, which counts any choice among equally distant codes as right.

Codes are random ones around one of 1,000 centers, an eighth of the bits flipped.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from time import process_time
from timeit import repeat, timeit

import faiss
import numpy as np

from lbhash.codes.io import CodeTable
from lbhash.index import FlatIndex, InvertedFile, build_index, open_index

BATCHES = (1, 32, 1_000)

CHILD = """
import sys, time
import numpy as np, psutil, pyarrow.parquet, faiss
from lbhash.index import open_index
what, path, width = sys.argv[1:]
query = np.zeros((1, int(width)), np.uint8)
faiss.knn_hamming(query, query, 1)
before, started = psutil.Process().memory_info().rss, time.perf_counter()
index = open_index(path) if what == "ours" else faiss.read_index_binary(path)
opened = time.perf_counter() - started
index.search(query, 10)
print(opened, time.perf_counter() - started, psutil.Process().memory_info().rss - before)
"""


def make(rows: int, bits: int, seed: int) -> np.ndarray:
    """Packed codes of a seed; the centers are the same for all seeds."""
    centers = np.random.default_rng(0).integers(0, 256, (1000, bits // 8), np.uint8)
    rng = np.random.default_rng(seed)
    flips = np.bitwise_and.reduce(rng.integers(0, 256, (3, rows, bits // 8), np.uint8))
    return centers[rng.integers(0, 1000, rows)] ^ flips


def searches(folder: Path, codes: np.ndarray, bits: int, k: int, rounds: int) -> None:
    """Exact search, in turns."""
    ours, theirs = open_index(folder), faiss.IndexBinaryFlat(bits)
    theirs.add(codes)
    for batch in BATCHES:
        queries = make(batch, bits, seed=1)
        repeat = max(1, 32 // batch)
        times = []
        for _ in range(rounds):
            bare = timeit(lambda q=queries: theirs.search(q, k), number=repeat)
            held = timeit(lambda q=queries: ours.search(q, k), number=repeat)
            times.append((bare / repeat, held / repeat))
        np.testing.assert_array_equal(ours.search(queries[:8], k).distances, theirs.search(queries[:8], k)[0])
        ratio = statistics.median(bare / held for bare, held in times)
        bare, held = (1e3 * min(column) for column in zip(*times, strict=True))
        print(f"| {len(codes):,} | {batch:,} | {bare:,.2f} | {held:,.2f} | {ratio:.3f} |", flush=True)


def opening(folder: Path, codes: np.ndarray, bits: int) -> list[str]:
    """Rows of the second table."""
    bare = faiss.IndexBinaryFlat(bits)
    bare.add(codes)
    file = folder.with_suffix(".faiss")
    faiss.write_index_binary(bare, str(file))
    rows = []
    for name, what, path in (("FlatIndex", "ours", folder), ("IndexBinaryFlat", "faiss", file)):
        command = [sys.executable, "-c", CHILD, what, path, str(bits // 8)]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
        opened, answered, memory = map(float, done.stdout.split())
        times = f"{1e3 * opened:,.1f} | {1e3 * answered:,.1f} | {memory / 1e6:,.1f} | {codes.nbytes / 1e6:,.1f}"
        rows.append(f"| {len(codes):,} | {name} | {times} |")
    return rows


def lengths(rows: int, batch: int, k: int, rounds: int) -> None:
    """Print milliseconds a query for codes of several lengths, beside FAISS and the exact search of usearch."""
    from usearch.index import MetricKind
    from usearch.index import search as usearch

    for bits in (64, 128, 256, 384, 512, 768, 1024):
        codes, query = (np.random.default_rng(0).integers(0, 256, (n, bits // 8), np.uint8) for n in (rows, batch))
        bare, ours = faiss.IndexBinaryFlat(bits), FlatIndex(bits)
        bare.add(codes)
        ours.add(codes)
        searches = (
            lambda q=query, i=bare: i.search(q, k),
            lambda q=query, i=ours: i.search(q, k),
            lambda q=query, c=codes: usearch(c, q, k, MetricKind.Hamming, exact=True, threads=1),
        )
        turns = [
            [repeat(search, timer=process_time, number=1, repeat=1)[0] for search in searches] for _ in range(rounds)
        ]
        theirs, own, other = (1e3 * min(times) / batch for times in zip(*turns, strict=True))
        ratio = own / min(theirs, other)
        print(f"| {rows:,} | {batch} | {bits} | {theirs:.3f} | {own:.3f} | {other:.3f} | {ratio:.2f} |", flush=True)


def kinds(codes: np.ndarray, bits: int, k: int, rounds: int) -> None:
    """Print recall, milliseconds a query and seconds to build of flat and ivf."""
    queries, exact = make(1000, bits, seed=1), FlatIndex(bits)
    print(f"\n{len(codes):,} codes, {len(queries):,} queries\n")
    print("| kind | recall | ms a query | build, s |\n|:--|--:|--:|--:|")
    for index in (exact, InvertedFile(bits)):
        build = timeit(lambda index=index: index.add(codes), number=1)
        recall = np.mean(index.search(queries, k).distances <= exact.search(queries, k).distances[:, -1:])
        best = min(repeat(lambda index=index: index.search(queries, k), number=1, repeat=rounds))
        print(f"| {index.kind} | {recall:.4f} | {1e3 * best / len(queries):.3f} | {build:.1f} |", flush=True)


def main() -> None:
    """Run all that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--millions", type=float, nargs="+", default=[1, 10], help="of codes")
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--kinds", type=float, default=1, help="millions of codes of the table of kinds; 0 for none")
    parser.add_argument("--lengths", action="store_true", help="only the table of lengths; needs usearch")
    given = parser.parse_args()
    if given.lengths:
        faiss.omp_set_num_threads(1)
        print("| codes | queries | bits | FAISS, ms | FlatIndex, ms | usearch, ms | ours / faster of the two |")
        print("|--:|--:|--:|--:|--:|--:|--:|")
        for millions, batch in product(given.millions, (1, 32)):
            lengths(round(1e6 * millions), batch, given.k, given.rounds)
        return
    if given.bits % 8:
        parser.error("bits must be a multiple of 8, as FAISS's are")
    faiss.omp_set_num_threads(given.threads)
    print(f"{given.threads} threads, {given.bits} bits, k = {given.k}, {given.rounds} rounds\n")
    print("| codes | queries at once | FAISS, ms | FlatIndex, ms | FAISS / FlatIndex |\n|--:|--:|--:|--:|--:|")
    later = []
    for millions in given.millions:
        rows = round(1e6 * millions)
        with tempfile.TemporaryDirectory() as place:
            codes = make(rows, given.bits, seed=2)
            folder = Path(place) / "index"
            build_index(CodeTable(codes, given.bits, np.arange(rows)), folder, attributes={})
            searches(folder, codes, given.bits, given.k, given.rounds)
            later += opening(folder, codes, given.bits)
    print("\n| codes | index | open, ms | first answer, ms | memory, MB | codes, MB |\n|--:|:--|--:|--:|--:|--:|")
    print("\n".join(later), flush=True)
    if not given.kinds:
        return
    kinds(make(round(1e6 * given.kinds), given.bits, seed=2), given.bits, given.k, given.rounds)


if __name__ == "__main__":
    main()
