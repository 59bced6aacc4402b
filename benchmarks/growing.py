"""What it takes to add one code at a time all day, while others search.

    python benchmarks/growing.py

A process adds codes to an index in a folder one by one, each with a text as its id, a label and an embedding, and waits
until each is on the disk. Another searches the same folder all the while, and looks for changes before each search.
The table has the milliseconds of an add (median, 99th percentile, longest), the most files that the folder ever had,
and the milliseconds of a search (median, longest). An add waits five times or more for the disk, which on a busy one is
all that counts; ``--folder /dev/shm`` leaves that out.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from lbhash.codes.io import CodeTable
from lbhash.index import Index
from lbhash.index.factory import build_index
from side_by_side import print_head, print_row

READER = """
import sys, threading, time
import numpy as np
from lbhash.index import Index
index, times, ended = Index.open(sys.argv[1], mode="a"), [], threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
index.search(index.codes_of(index.ids()[:1]), 10)
print("reads", flush=True)
while not ended.wait(0.01):
    query = np.random.randint(0, 256, (1, index.bits // 8), np.uint8)
    started = time.perf_counter()
    index.refresh()
    index.search(query, 10)
    times.append(1e3 * (time.perf_counter() - started))
print(np.median(times), max(times))
"""


def grow(folder: Path, adds: int) -> None:
    """Add codes one by one, and print the row of the table."""
    rng = np.random.default_rng(1)
    index = Index.open(folder, mode="a")
    codes = rng.integers(0, 256, (adds, index.bits // 8), np.uint8)
    embeddings = rng.normal(size=(adds, 384)).astype(np.float32)
    whole, most = [], 0
    command = [sys.executable, "-c", READER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "reads\n"
        for row in range(adds):
            started = time.perf_counter()
            index.add(codes[[row]], [f"new {row}"], {"label": [row % 10]}, vectors=embeddings[[row]])
            whole.append(1e3 * (time.perf_counter() - started))
            most = max(most, sum(1 for _ in folder.iterdir()))
        told, _ = reader.communicate()
    times = (f"{value:.1f}" for value in (np.median(whole), np.percentile(whole, 99), max(whole)))
    print_row(f"{len(index) - adds:,}", f"{adds:,}", *times, most, *(f"{float(word):.1f}" for word in told.split()))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adds", type=int, default=10_000)
    parser.add_argument("--base", type=int, nargs="+", default=[0, 100_000], help="codes that are there before")
    parser.add_argument("--folder", help="where the index is made: another disk, or a file system in memory")
    given = parser.parse_args()
    names = "median, ms", "99 %, ms", "longest, ms", "files", "search, ms", "longest, ms"
    print_head("before", "adds", *names, words=0)
    for count in given.base:
        rng = np.random.default_rng(0)
        codes = rng.integers(0, 256, (count + 1, 8), np.uint8)
        vectors = rng.normal(size=(count + 1, 384)).astype(np.float32)
        names, labels = [f"sku {row}" for row in range(count + 1)], {"label": np.zeros(count + 1, np.int64)}
        with tempfile.TemporaryDirectory(dir=given.folder) as place:
            folder, table = Path(place) / "index", CodeTable(codes, 64, np.arange(count + 1))
            build_index(table, folder, ids=names, metadata=labels, vectors=vectors, store="embeddings")
            grow(folder, given.adds)


if __name__ == "__main__":
    main()
