"""What the index costs beside bare FAISS: ratios measured side by side in one run.

    python benchmarks/search.py

- "search": ``Index`` in a folder, opened as any user would, beside ``faiss.IndexBinaryFlat`` of the same codes in
  memory. Both take turns; the ratio is FAISS's time over ours, the median of the rounds, and 1 is as quick.
- "opening": in a process of its own each, the time until an index is open and until its first search is answered, and
  the memory that it then takes beyond what it took before (resident pages, those of mapped files included).
- "lengths" (``--lengths``): milliseconds of processor time a query, on one thread, for one query and for 32 at once: by
  ``faiss.IndexBinaryFlat``, by Hamming distance, and by real outputs. Ratios are to FAISS's time; below 1 is faster.
- "kinds": ``ivf`` beside the exact kind, which counts any choice among equally distant codes as right.

Codes are random ones around one of 1,000 centers, an eighth of the bits flipped.
"""

from __future__ import annotations

import os
import tempfile
from itertools import product
from pathlib import Path
from time import process_time
from timeit import timeit

import faiss
import numpy as np

from lbhash.codes import pack_outputs
from lbhash.codes.io import CodeTable
from lbhash.index import Index
from lbhash.index.factory import build_index
from side_by_side import (
    in_turns,
    median_ratio,
    noisy_codes,
    noisy_outputs,
    of_child,
    options,
    print_head,
    print_row,
    seconds_of,
)

BATCHES = (1, 32, 1_000)

CHILD = """
import sys, time
import numpy as np, psutil, pyarrow.parquet, faiss
from lbhash.index import Index
what, path, width = sys.argv[1:]
query = np.zeros((1, int(width)), np.uint8)
faiss.knn_hamming(query, query, 1)
before, started = psutil.Process().memory_info().rss, time.perf_counter()
index = Index.open(path, mode="a") if what == "Index" else faiss.read_index_binary(path)
opened = time.perf_counter() - started
index.search(query, 10)
print(opened, time.perf_counter() - started, psutil.Process().memory_info().rss - before)
"""


def make(rows: int, bits: int, seed: int) -> np.ndarray:
    """Return codes around one of 1,000 centers."""
    return noisy_codes(rows, bits, 1000, seed)[0]


def searches(folder: Path, codes: np.ndarray, bits: int, k: int, rounds: int) -> None:
    """Print lines of exact search, in turns."""
    ours, theirs = Index.open(folder, mode="a"), faiss.IndexBinaryFlat(bits)
    theirs.add(codes)
    for batch in BATCHES:
        queries, repeat = make(batch, bits, seed=1), max(1, 32 // batch)
        measures = {
            "bare": lambda q=queries, n=repeat: timeit(lambda: theirs.search(q, k), number=n) / n,
            "held": lambda q=queries, n=repeat: timeit(lambda: ours.search(q, k), number=n) / n,
        }
        times = in_turns(measures, rounds)
        np.testing.assert_array_equal(ours.search(queries[:8], k).distances, theirs.search(queries[:8], k)[0])
        bare, held = (f"{1e3 * min(one):,.2f}" for one in times.values())
        print_row(f"{len(codes):,}", f"{batch:,}", bare, held, f"{median_ratio(*times.values()):.3f}")


def opening(folder: Path, codes: np.ndarray, bits: int) -> list[tuple[str, ...]]:
    """Return lines of the second table."""
    bare = faiss.IndexBinaryFlat(bits)
    bare.add(codes)
    file = folder.with_suffix(".faiss")
    faiss.write_index_binary(bare, str(file))
    rows = []
    for name, path in (("Index", folder), ("IndexBinaryFlat", file)):
        opened, answered, memory = of_child(CHILD, name, path, bits // 8)
        figures = 1e3 * opened, 1e3 * answered, memory / 1e6, codes.nbytes / 1e6
        rows.append((f"{len(codes):,}", name, *(f"{value:,.1f}" for value in figures)))
    return rows


def lengths(rows: int, bits: int, k: int, rounds: int) -> None:
    """Print milliseconds a query by distance and by outputs, beside FAISS's exact search by distance."""
    codes = make(rows, bits, seed=2)
    bare, by_codes, by_outputs = faiss.IndexBinaryFlat(bits), Index(bits), Index(bits)
    for index in (bare, by_codes, by_outputs):
        index.add(codes)
    for batch in (1, 32):
        outputs = noisy_outputs(batch, bits, 1000, seed=1)
        queries = pack_outputs(outputs)
        works = {
            "FAISS": lambda q=queries: bare.search(q, k),
            "distance": lambda q=queries: by_codes.search(q, k),
            "outputs": lambda q=outputs: by_outputs.search(outputs=q, k=k),
        }
        repeat = max(1, 10**7 // rows // batch)
        measures = {
            name: lambda work=work, n=repeat: timeit(work, timer=process_time, number=n) / n
            for name, work in works.items()
        }
        turns = in_turns(measures, rounds, warm_up=1)
        shown = [f"{1e3 * min(times) / batch:.3f}" for times in turns.values()]
        shown += [f"{median_ratio(turns[name], turns['FAISS']):.2f}" for name in ("distance", "outputs")]
        print_row(f"{rows:,}", batch, bits, *shown)


def kinds(codes: np.ndarray, bits: int, k: int, rounds: int) -> None:
    """Print recall, milliseconds a query and seconds to build of flat and ivf."""
    queries, exact = make(1000, bits, seed=1), Index(bits)
    print(f"\n{len(codes):,} codes, {len(queries):,} queries\n")
    print_head("kind", "recall", "ms a query", "build, s")
    for index in (exact, Index(bits, "ivf")):
        build = seconds_of(lambda index=index: index.add(codes))
        recall = np.mean(index.search(queries, k).distances <= exact.search(queries, k).distances[:, -1:])
        best = min(seconds_of(lambda index=index: index.search(queries, k)) for _ in range(rounds))
        print_row(index.kind, f"{recall:.4f}", f"{1e3 * best / len(queries):.3f}", f"{build:.1f}")


def main() -> None:
    """Run all that is asked for."""
    parser = options(__doc__, rounds=5)
    parser.add_argument("--millions", type=float, nargs="+", default=[1, 10], help="of codes")
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--kinds", type=float, default=1, help="millions of codes of the table of kinds; 0 for none")
    parser.add_argument("--lengths", type=int, nargs="*", help="only the table of lengths, of these bits")
    given = parser.parse_args()
    counts = [round(1e6 * millions) for millions in given.millions]
    if given.lengths is not None:
        faiss.omp_set_num_threads(1)
        names = "FAISS, ms", "by distance, ms", "by outputs, ms", "distance / FAISS", "outputs / FAISS"
        print_head("codes", "queries", "bits", *names, words=0)
        for rows, bits in product(counts, given.lengths or (32, 64, 128, 256, 512, 1024)):
            lengths(rows, bits, given.k, given.rounds)
        return
    if given.bits % 8:
        parser.error("bits must be a multiple of 8, as FAISS's are")
    faiss.omp_set_num_threads(given.threads)
    print(f"{given.threads} threads, {given.bits} bits, k = {given.k}, {given.rounds} rounds\n")
    print_head("codes", "queries at once", "FAISS, ms", "Index, ms", "FAISS / Index", words=0)
    later = []
    for rows in counts:
        with tempfile.TemporaryDirectory() as place:
            codes, folder = make(rows, given.bits, seed=2), Path(place) / "index"
            build_index(CodeTable(codes, given.bits, np.arange(rows)), folder, metadata={})
            searches(folder, codes, given.bits, given.k, given.rounds)
            later += opening(folder, codes, given.bits)
    print()
    print_head("codes", "index", "open, ms", "first answer, ms", "memory, MB", "codes, MB", words=2)
    for row in later:
        print_row(*row)
    if given.kinds:
        kinds(make(round(1e6 * given.kinds), given.bits, seed=2), given.bits, given.k, given.rounds)


if __name__ == "__main__":
    main()
