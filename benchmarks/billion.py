"""An index of a billion codes on one machine, beside bare FAISS: bytes, seconds to build and open, and a query's time.

    python benchmarks/billion.py --rows 1000000000

Codes of 64 bits are random ones around one of 2²⁰ centers, an eighth of the bits flipped. A seed makes them in seven
parts. Each way has a process of its own: "peak" is the most memory while it builds, "memory" what is resident after the
queries, pages of mapped files included. "ms" is a query's time, for 1 and for 100 at once; "recall" is the share of
queries whose nearest code is as near as the exact nearest one. A way that does not fit says so.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import faiss
import numpy as np
import psutil

from lbhash import Index
from side_by_side import print_head, print_row, seconds_of

BITS, CENTERS, PARTS, QUERIES, K = 64, 1 << 20, 7, 200, 10
LISTS, PROBES = 4_096, 64
"""Of FAISS's inverted file; ours chooses its own."""


def part(rows: int, number: int) -> np.ndarray:
    """Return the codes of a part, ``uint8 [rows, 8]``; part ``PARTS`` is of the queries."""
    centers = np.random.default_rng(0).integers(1 << 64, size=CENTERS, dtype=np.uint64)
    rng, codes = np.random.default_rng([1, number]), np.empty(rows, np.uint64)
    for start in range(0, rows, 1 << 22):
        some = codes[start : start + (1 << 22)]
        flips = [rng.integers(1 << 64, size=len(some), dtype=np.uint64) for _ in range(3)]
        some[:] = centers[rng.integers(CENTERS, size=len(some))] ^ (flips[0] & flips[1] & flips[2])
    return codes.view(np.uint8).reshape(-1, BITS // 8)


def parts(rows: int) -> list[int]:
    """Return how many codes each part has."""
    return [rows // PARTS + (number < rows % PARTS) for number in range(PARTS)]


def build(way: str, path: Path, rows: int) -> None:
    """Build an index of all parts in a file or folder."""
    if way in ("flat", "ivf"):
        Index(BITS, kind=way).save(path)
        with_rows = Index.open(path, mode="a")
        add = with_rows.add
    elif way == "FAISS flat":
        index = faiss.IndexBinaryFlat(BITS)
        add = index.add
    else:
        index = faiss.IndexBinaryIVF(faiss.IndexBinaryFlat(BITS), BITS, LISTS)
        index.own_fields, index.nprobe = False, PROBES
        index.train(part(parts(rows)[0], 0)[: 64 * LISTS])
        add = index.add
    for number, count in enumerate(parts(rows)):
        add(part(count, number))
    if way.startswith("FAISS"):
        faiss.write_index_binary(index, str(path))


def opened(way: str, path: Path):
    """Return what searches a file or folder."""
    return Index.open(path) if way in ("flat", "ivf") else faiss.read_index_binary(str(path))


def measure(way: str, path: Path) -> dict[str, object]:
    """Return the seconds to open, the times of a query, the distances of the nearest, and the memory."""
    held: list = []
    seconds = seconds_of(lambda: held.append(opened(way, path)))
    queries, found = part(QUERIES, PARTS), []

    def search(some: np.ndarray) -> None:
        result = held[0].search(some, K)
        found.extend(np.asarray(result.hamming if way in ("flat", "ivf") else result[0])[:, 0].tolist())

    search(queries[:1])
    found.clear()
    one = median(seconds_of(lambda at=at: search(queries[at : at + 1])) for at in range(20))
    found.clear()
    many = seconds_of(lambda: search(queries[-100:])) / 100
    return {"open": seconds, "one": one, "many": many, "nearest": found, "memory": psutil.Process().memory_info().rss}


def child(*given: object) -> dict | str:
    """Return what a process of its own prints, or how it ended."""
    command = [sys.executable, __file__, *map(str, given)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else f"ended with status {done.returncode}"


def main() -> None:
    """Build and search each way, or do one step of it in a process of its own."""
    if len(sys.argv) == 5:
        step, way, path, rows = sys.argv[1:]
        if step == "build":
            seconds = seconds_of(lambda: build(way, Path(path), int(rows)))
            peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            print(json.dumps({"seconds": seconds, "peak": peak}))
        else:
            print(json.dumps(measure(way, Path(path))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--ways", nargs="+", default=["FAISS flat", "flat", "FAISS IVF", "ivf"])
    given = parser.parse_args()
    print(f"{given.rows:,} codes of {BITS} bits, k = {K}, {psutil.virtual_memory().total / 2**30:.0f} GiB of memory\n")
    print_head(
        "way", "disk, GB", "build, s", "peak, GB", "open, s", "memory, GB", "ms, 1 at once", "ms, 100 at once", "recall"
    )
    exact = None
    for way in given.ways:
        with tempfile.TemporaryDirectory(dir=".") as folder:
            path = Path(folder, "index")
            built = child("build", way, path, given.rows)
            if isinstance(built, str):
                print_row(way, built, *[""] * 7)
                continue
            files = [path] if path.is_file() else [file for file in path.iterdir() if file.is_file()]
            disk = sum(file.stat().st_size for file in files)
            searched = child("search", way, path, given.rows)
            if isinstance(searched, str):
                print_row(way, f"{disk / 1e9:.1f}", f"{built['seconds']:.0f}", f"{built['peak'] / 1e9:.1f}", searched)
                continue
            nearest = np.array(searched["nearest"])
            exact = nearest if exact is None else exact
            print_row(
                way,
                f"{disk / 1e9:.1f}",
                f"{built['seconds']:.0f}",
                f"{built['peak'] / 1e9:.1f}",
                f"{searched['open']:.1f}",
                f"{searched['memory'] / 1e9:.1f}",
                *(f"{1e3 * searched[name]:,.1f}" for name in ("one", "many")),
                f"{(nearest <= exact).mean():.2f}",
            )


if __name__ == "__main__":
    main()
