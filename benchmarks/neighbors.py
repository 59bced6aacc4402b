"""The ten nearest rows without labels at a user's size: what each way takes to find so many of them, in one run.

    python benchmarks/neighbors.py --data clinc=FILE --rows 1000000

The rows of a file, normalized, are grown: each new one is the unit vector of 0.8 x + 0.2 y + noise of length 0.3, for
two of the rows. The 1,000 queries are rows of the file that are not stored, nor grown from. Each way is searched alone,
and with 50 to 800 of what it finds ranked again by the same vectors of int8, which lie in a file; an inverted file of
1,024 lists also with 4 to 128 probes, and that of lbhash with those that it chooses. The first half of the queries
chooses: the quickest setting that finds the share ``--recall`` of the ten nearest by cosine, or the one that finds
most. "recall" and "ms" are of the other half, 500 at once on two threads; "memory" and "disk" are bytes a row.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lbhash import Hasher, Index
from lbhash.data import load_table
from lbhash.evaluation.neighbors import nearest_by_cosine
from lbhash.hasher import name_of
from lbhash.index.quantized import scales_of, to_int8
from lbhash.reproduce.runs import Source
from lbhash.utils.arrays import unit_rows
from side_by_side import print_head, print_row

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]
NEAREST, QUERIES, THREADS, LISTS, LEARN, ROUNDS = 10, 1_000, 2, 1_024, 50_000, 8
CANDIDATES, PROBES = (0, 50, 100, 200, 400, 800), (4, 8, 16, 32, 64, 128)


class Built(NamedTuple):
    """A way that is built: bytes a row in memory, what finds so many rows with so many probes, and the probes."""

    name: str
    memory: float
    search: Callable[[slice, int, int], Ids]
    probes: tuple[int, ...] = (0,)


class Kept(NamedTuple):
    """The vectors of the second stage, ``int8 [rows, dim]`` in a file, and a step of each number."""

    rows: npt.NDArray[np.int8]
    steps: Floats

    def again(self, queries: Floats, found: Ids) -> Ids:
        """Return the nearest of what was found, ``[queries, NEAREST]``."""
        best = np.empty((len(queries), NEAREST), np.int64)
        for start in range(0, len(queries), 20):
            some = found[start : start + 20]
            vectors = self.rows[some].astype(np.float32) * self.steps
            scores = np.matmul(vectors, queries[start : start + 20, :, None])[:, :, 0]
            scores = np.where(some < 0, -np.inf, scores / np.linalg.norm(vectors, axis=2))
            best[start : start + 20] = np.take_along_axis(some, np.argsort(-scores, axis=1)[:, :NEAREST], 1)
        return best


def grown(rows: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Return these unit rows and mixtures of them, ``float32 [count, dim]``."""
    whole = np.empty((count, rows.shape[1]), np.float32)
    whole[: len(rows)] = rows[:count]
    for start in range(len(rows), count, 50_000):
        some = whole[start : start + 50_000]
        first, second = rng.integers(0, len(rows), (2, len(some)))
        noise = unit_rows(rng.standard_normal(some.shape, np.float32))
        some[:] = unit_rows(np.float32(0.8) * rows[first] + np.float32(0.2) * rows[second] + np.float32(0.3) * noise)
    return whole


def ours(base: Floats, query: Floats, bits: int, seed: int) -> Iterator[tuple[Built, float]]:
    """Yield the default for rows without labels, in both kinds of index, and the seconds to build each."""
    began = time.perf_counter()
    hasher = Hasher(bits, seed=seed).fit(base[:LEARN])
    codes, outputs = hasher.encode(base), hasher.outputs(query)
    coded = time.perf_counter() - began
    for kind in ("flat", "ivf"):
        began, index = time.perf_counter(), Index(bits, kind)
        index.add(codes)
        index.search(outputs=outputs[:1], k=NEAREST)

        def search(some: slice, count: int, _: int, index: Index = index) -> Ids:
            return index.search(outputs=outputs[some], k=count).ids

        memory = bits / 8 * (1 if kind == "flat" else 2) + 8 * (kind == "ivf")
        seconds = coded + time.perf_counter() - began
        yield Built(f"lbhash {name_of(hasher)}, {bits} bits, {kind}", memory, search), seconds


def of_faiss(base: Floats, query: Floats, factory: str) -> tuple[Built, float]:
    """Return one of FAISS's indexes, and the seconds to build it."""
    import faiss

    index, began = faiss.index_factory(base.shape[1], factory, faiss.METRIC_INNER_PRODUCT), time.perf_counter()
    if factory.startswith("OPQ"):  # the default of 50 rounds finds hardly more
        faiss.downcast_VectorTransform(index.chain.at(0)).niter = ROUNDS
    index.train(base[:LEARN])
    index.add(base)
    seconds = time.perf_counter() - began

    def search(some: slice, count: int, probes: int) -> Ids:
        if probes:
            faiss.extract_index_ivf(index).nprobe = probes
        return index.search(query[some], count)[1]

    memory = len(faiss.serialize_index(index)) / len(base)
    return Built(f"FAISS {factory}", memory, search, PROBES if "IVF" in factory else (0,)), seconds


def sign_bits(base: Floats, query: Floats) -> tuple[Built, float]:
    """Return the bits that sentence-transformers makes, and the seconds to build their index."""
    import faiss
    from sentence_transformers.util.quantization import quantize_embeddings

    began, index = time.perf_counter(), faiss.IndexBinaryFlat(8 * (base.shape[1] // 8))
    index.add(quantize_embeddings(base, "ubinary"))
    asked = quantize_embeddings(query, "ubinary")

    def search(some: slice, count: int, _: int) -> Ids:
        return index.search(asked[some], count)[1]

    return Built("sentence-transformers' bits", base.shape[1] / 8, search), time.perf_counter() - began


def built(base: Floats, query: Floats, seed: int) -> Iterator[tuple[Built, float]]:
    """Yield each way and the seconds to build it, one in memory at a time."""
    dim = base.shape[1]
    for bits in (64, 128, 256):
        yield from ours(base, query, bits, seed)
    for factory in (
        *(f"OPQ{parts}_{4 * parts},PQ{parts}" for parts in (8, 16)),
        f"OPQ16_64,IVF{LISTS},PQ16",
        f"OPQ32_128,IVF{LISTS},PQ32x4fs",
        f"RR{dim},RaBitQ",
        f"RR{dim},IVF{LISTS},RaBitQ",
        f"RR{dim},IVF{LISTS},RaBitQ4",
        f"IVF{LISTS},SQ4",
        f"IVF{LISTS},SQ8",
        "SQ8",
    ):
        yield of_faiss(base, query, factory)
    yield sign_bits(base, query)


def compare(data: Source, rows: int, least: float, seed: int, folder: Path) -> None:
    """Print the table of a data set."""
    import faiss

    faiss.omp_set_num_threads(THREADS)
    rng = np.random.default_rng(seed)
    unit = unit_rows(np.asarray(load_table(data.file).embeddings, np.float32))
    unit = unit[rng.permutation(len(unit))]
    query, base = unit[:QUERIES], grown(unit[QUERIES:], rows, rng)
    nearest, steps = nearest_by_cosine(query, base, NEAREST), scales_of(base)
    np.save(folder / "kept.npy", to_int8(base, steps))
    kept = Kept(np.load(folder / "kept.npy", mmap_mode="r"), steps)
    choosing, others = slice(0, QUERIES // 2), slice(QUERIES // 2, QUERIES)

    def measured(way: Built, some: slice, candidates: int, probes: int) -> tuple[float, float]:
        began = time.perf_counter()
        found = way.search(some, candidates or NEAREST, probes)
        found = kept.again(query[some], found) if candidates else found
        seconds = time.perf_counter() - began
        recall = (found[:, :, None] == nearest[some][:, None, :]).any(axis=2).mean()
        return float(recall), 1e3 * seconds / len(found)

    print(f"\n**{data.name}**, {rows:,} rows of {base.shape[1]} numbers, seed {seed}\n")
    print_head("way", "memory", "disk", "build, s", "probes", "candidates", "recall@10", "ms")
    for way, seconds in built(base, query, seed):
        tried = {one: measured(way, choosing, *one) for one in product(CANDIDATES, way.probes)}
        enough = [one for one, (recall, _) in tried.items() if recall >= least]
        best = min(enough, key=lambda one: tried[one][1]) if enough else max(tried, key=lambda one: tried[one][0])
        recall, milliseconds = measured(way, others, *best)
        candidates, probes = (number or "–" for number in best)
        disk = base.shape[1] if best[0] else 0
        cells = f"{way.memory:.0f}", disk, f"{seconds:.0f}", probes, candidates
        print_row(way.name, *cells, f"{recall:.3f}", f"{milliseconds:.2f}")


def main() -> None:
    """Print a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, metavar="NAME=FILE", type=Source.of)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--recall", type=float, default=0.95)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for data in given.data:
        with tempfile.TemporaryDirectory() as folder:
            compare(data, given.rows, given.recall, given.seed, Path(folder))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))
    main()
