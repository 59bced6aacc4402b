"""Search without labels, beside what one would take instead: recall@10 against bytes, in one run.

    python benchmarks/neighbors.py --data clinc=FILE --data cifar10=FILE

The rows of a file, normalized, are grown to 200,000: each new one is the unit vector of 0.8 x + 0.2 y + noise of length
0.3, for two of the rows. The 1,000 queries are rows of the file that are not stored, nor grown from. "recall" is the
share of the ten nearest by cosine that a search for ten returns; "memory" and "disk" are bytes a row, where whatever is
mapped from a file counts as disk; "ms" is the time of a query, 1,000 at once on two threads. "x n" ranks the n nearest
codes again by vectors of int8. A star marks the frontier: no other row has as much recall for as little memory.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lbhash import Hasher
from lbhash.codes.io import CodeTable
from lbhash.data import load_table
from lbhash.evaluation.neighbors import nearest_by_cosine, unit_rows
from lbhash.hasher import name_of
from lbhash.index.factory import build_index
from lbhash.reproduce.runs import Source
from side_by_side import print_head, print_row, seconds_of

Floats = npt.NDArray[np.float32]
NEAREST, QUERIES, THREADS = 10, 1_000, 2


@dataclass
class Table:
    """What the ways to store a base take, and what they find of each query's ten nearest."""

    nearest: npt.NDArray[np.int64]
    rows: list[tuple[str, float, float, float, float, float]] = field(default_factory=list)

    def add(
        self, name: str, memory: float, build: float, search: Callable[[], npt.NDArray[np.int64]], disk: float = 0
    ) -> None:
        """Add a way, whose ``search`` returns the ids of each query's nearest: the shortest of three rounds counts."""
        found: list[npt.NDArray[np.int64]] = []
        seconds = min(seconds_of(lambda: found.append(search())) for _ in range(3))
        recall = (found[-1][:, :, None] == self.nearest[:, None, :]).any(axis=2).mean()
        self.rows.append((name, memory, disk, build, float(recall), 1e3 * seconds / len(self.nearest)))

    def show(self) -> None:
        """Print the table, with a star at each way that no other beats."""
        print_head("way", "memory", "disk", "build, s", "recall@10", "ms")
        for name, memory, disk, build, recall, milliseconds in self.rows:
            first = not any(
                other <= memory and better >= recall and (other, better) != (memory, recall)
                for _, other, _, _, better, _ in self.rows
            )
            found = f"{recall:.3f}{' *' * first}"
            print_row(name, f"{memory:.0f}", f"{disk:.0f}", f"{build:.1f}", found, f"{milliseconds:.2f}")


def grown(rows: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Return these unit rows and mixtures of them, ``float32 [count, dim]``."""
    new = count - len(rows)
    first, second = rng.integers(0, len(rows), (2, new))
    noise = unit_rows(rng.normal(size=(new, rows.shape[1])).astype(np.float32))
    return np.concatenate([rows, unit_rows(np.float32(0.8) * rows[first] + 0.2 * rows[second] + 0.3 * noise)])


def ours(table: Table, base: Floats, query: Floats, folder: Path, seed: int) -> None:
    """Add the default for rows without labels, at several lengths, alone and with int8 vectors behind it."""
    for bits in (64, 128, 256, 384, 512):
        began = time.perf_counter()
        hasher = Hasher(bits, seed=seed).fit(base)
        codes, vectors = CodeTable(hasher.encode(base), bits, np.arange(len(base))), {"store": "int8"}
        index = build_index(codes, folder / str(bits), vectors=base, learns_classes=False, **vectors)
        build, asked, name = time.perf_counter() - began, hasher.encode(query), f"lbhash {name_of(hasher)}, {bits} bits"
        table.add(name, bits / 8, build, lambda i=index, q=asked: i.search(q, NEAREST).ids)
        for count in (50, 100, 200):

            def again(index=index, asked=asked, count=count) -> npt.NDArray[np.int64]:
                return index.search(asked, NEAREST, embeddings=query, rerank="embeddings", candidates=count).ids

            table.add(f"{name} x {count}", bits / 8, build, again, disk=base.shape[1])


def sentence_transformers(table: Table, base: Floats, query: Floats) -> None:
    """Add the two stages that its documentation shows: signs in memory, int8 vectors of the candidates on disk."""
    import faiss
    from sentence_transformers.util.quantization import quantize_embeddings

    began = time.perf_counter()
    index = faiss.IndexBinaryFlat(8 * (base.shape[1] // 8))
    index.add(quantize_embeddings(base, "ubinary"))
    held = quantize_embeddings(base, "int8")
    build, asked = time.perf_counter() - began, quantize_embeddings(query, "ubinary")
    low, high = base.min(axis=0), base.max(axis=0)
    step = (high - low) / 255  # as quantize_embeddings scales; products with its int8 rows rank as with the rows
    for count in (50, 100, 200):

        def search(count=count) -> npt.NDArray[np.int64]:
            ids = index.search(asked, count)[1]
            scores = np.einsum("qd,qcd->qc", query * step, held[ids].astype(np.float32))
            return np.take_along_axis(ids, np.argsort(-scores, axis=1)[:, :NEAREST], 1)

        table.add(f"sentence-transformers x {count}", base.shape[1] / 8, build, search, disk=base.shape[1])


def faiss_ways(table: Table, base: Floats, query: Floats, seed: int) -> None:
    """Add FAISS's quantizers, a graph, and the rows themselves."""
    import faiss

    dim, train = base.shape[1], base[np.random.default_rng(seed).permutation(len(base))[:50_000]]
    factories = [f"OPQ{parts}_{parts * min(4, dim // parts)},PQ{parts}" for parts in (8, 16, 32)]
    factories += ["RaBitQ", "RaBitQ2", "RaBitQ4", "PQ32x4fs,RFlat", "IVF512,SQ8", "SQ8", "HNSW16,SQ8", "Flat"]
    for factory in factories:
        built = f"RR{dim},{factory}" if factory.startswith("RaBitQ") else factory
        index, began = faiss.index_factory(dim, built, faiss.METRIC_INNER_PRODUCT), time.perf_counter()
        index.train(train)
        index.add(base)
        build, size, disk = time.perf_counter() - began, len(faiss.serialize_index(index)) / len(base), 0.0
        if hasattr(index, "nprobe"):
            index.nprobe = 8
        if factory.endswith("RFlat"):  # its rows could lie on disk
            index.k_factor, disk = 10, 4.0 * dim
        table.add(f"FAISS {factory}", size - disk, build, lambda i=index: i.search(query, NEAREST)[1], disk=disk)


def usearch_graph(table: Table, base: Floats, query: Floats) -> None:
    """Add usearch's graph over vectors of int8."""
    from usearch.index import Index

    index = Index(ndim=base.shape[1], metric="cos", dtype="i8")
    build = seconds_of(lambda: index.add(np.arange(len(base)), base, threads=THREADS))

    def search() -> npt.NDArray[np.int64]:
        return index.search(query, NEAREST, threads=THREADS).keys.astype(np.int64)

    table.add("usearch graph, int8", index.memory_usage / len(base), build, search)


def compare(data: Source, rows: int, seed: int, folder: Path) -> None:
    """Print the table of a data set."""
    import faiss

    faiss.omp_set_num_threads(THREADS)
    rng = np.random.default_rng(seed)
    unit = unit_rows(np.asarray(load_table(data.file).embeddings, np.float32))
    unit = unit[rng.permutation(len(unit))]
    query, base = unit[:QUERIES], grown(unit[QUERIES:], rows, rng)
    table = Table(nearest_by_cosine(query, base, NEAREST))
    ours(table, base, query, folder, seed)
    sentence_transformers(table, base, query)
    faiss_ways(table, base, query, seed)
    usearch_graph(table, base, query)
    print(f"\n**{data.name}**, {rows:,} rows of {base.shape[1]} numbers, seed {seed}\n")
    table.show()


def main() -> None:
    """Print a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, metavar="NAME=FILE", type=Source.of)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for data in given.data:
        with tempfile.TemporaryDirectory() as folder:
            compare(data, given.rows, given.seed, Path(folder))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))
    main()
