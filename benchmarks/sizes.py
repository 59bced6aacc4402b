"""What it costs to fit, encode and search at a size of so many bytes a row: codes beside FAISS's quantizers and floats.

    python benchmarks/sizes.py --data cifar10.parquet --bits 64

Every way is fitted to the training rows. Then, in turns, each encodes so many base rows from embeddings in memory, and
answers queries, given as embeddings, by an exact search of all base rows. The ratios are its time over that of CSQ_D's
codes, the median of the rounds: below 1 is quicker than these. One thread.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import faiss
import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from lbhash.data import load_dataset
from lbhash.hasher import Hasher
from lbhash.index import FlatIndex
from lbhash.index.asymmetric import search_outputs

Rows = npt.NDArray[np.float32]


class Way(NamedTuple):
    """A way to store rows, fitted."""

    bytes: int
    fit_seconds: float
    encode: Callable[[Rows], Any]
    search: Callable[[Rows], Any]


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of a call, and what it returns."""
    started = time.perf_counter()
    found = call()
    return time.perf_counter() - started, found


def coded(hasher: Hasher, dataset: Any, base: Rows, k: int) -> dict[str, Way]:
    """Return a model's codes, by Hamming distance and by the real outputs of a query."""
    part, classes = dataset.train.compact()
    seconds, _ = timed(lambda: hasher.fit_split(part, len(classes)))
    index = FlatIndex(hasher.bits)
    index.add(hasher.encode(base))
    size = -(-hasher.bits // 8)

    def asymmetric(x: Rows) -> Any:
        return search_outputs(index, np.tanh(hasher.model_.outputs(x)), k)

    by_bits = Way(size, seconds, hasher.encode, lambda x: index.search(hasher.encode(x), k))
    return {"": by_bits, ", asymmetric": Way(size, seconds, hasher.encode, asymmetric)}


def quantized(name: str, dataset: Any, base: Rows, k: int) -> Way:
    """Return an index of FAISS by the name of its factory."""
    index: Any = faiss.index_factory(base.shape[1], name)
    seconds, _ = timed(lambda: index.train(unit(dataset.train.take(slice(None)))))
    index.add(unit(base))
    return Way(index.sa_code_size(), seconds, lambda x: index.sa_encode(unit(x)), lambda x: index.search(unit(x), k))


def unit(x: Rows) -> Rows:
    """Return rows of unit length."""
    return np.ascontiguousarray(x / np.linalg.norm(x, axis=1, keepdims=True), np.float32)


def ways(dataset: Any, base: Rows, bits: int, k: int, epochs: int) -> dict[str, Way]:
    """Fit all ways of a size."""
    size, dim = bits // 8, base.shape[1]
    made = {
        "CSQ_D": Hasher(bits, epochs=epochs, device="cpu"),
        "CSQ_D, joined": Hasher(bits, epochs=epochs, head="joined", device="cpu"),
        "ridge onto centers": Hasher(bits, "ridge"),
        "logistic onto centers": Hasher(bits, "logistic"),
        "ITQ": Hasher(bits, "itq"),
    }
    found = {}
    for name, hasher in made.items():
        of_model = coded(hasher, dataset, base, k)
        found |= {name + what: way for what, way in of_model.items() if not what or name == "CSQ_D"}
    factories = {"FAISS PQ": f"PQ{size}", "FAISS OPQ + PQ": f"OPQ{size}_{4 * size},PQ{size}"}
    factories |= {"FAISS residual quantizer": f"PCA{min(128, dim)},RQ{size}x8", "floats": "Flat"}
    return found | {name: quantized(factory, dataset, base, k) for name, factory in factories.items()}


def main() -> None:
    """Fit, measure in turns, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, metavar="FILE")
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--rows", type=int, default=2000, help="that are encoded")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    if given.bits % 8:
        parser.error("bits must be a multiple of 8, as FAISS's are")
    dataset = load_dataset(given.data)
    base, asked = (part.take(slice(None)).astype(np.float32) for part in (dataset.base, dataset.query))
    with threadpool_limits(1):
        faiss.omp_set_num_threads(1)
        fitted = ways(dataset, base, given.bits, given.k, given.epochs)
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in fitted}
        for _ in range(given.rounds):
            for name, way in fitted.items():
                encoding, _ = timed(lambda way=way: way.encode(base[: given.rows]))
                searching, _ = timed(lambda way=way: way.search(asked[: given.queries]))
                times[name].append((encoding, searching))
    print(f"{len(dataset.train):,} train rows, {len(base):,} base rows, {base.shape[1]:,} numbers, k = {given.k}\n")
    print("| method | bytes | fit, s | encode, µs a row | to CSQ_D | search, µs a query | to CSQ_D |")
    print("|:--|--:|--:|--:|--:|--:|--:|")
    for name, way in fitted.items():
        cells = []
        for column, count in enumerate((min(given.rows, len(base)), min(given.queries, len(asked)))):
            own, theirs = ([time[column] for time in times[one]] for one in (name, "CSQ_D"))
            ratio = statistics.median(a / b for a, b in zip(own, theirs, strict=True))
            cells += [f"{1e6 * min(own) / count:,.1f}", f"{ratio:.2f}"]
        print(f"| {name} | {way.bytes:,} | {way.fit_seconds:.1f} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
