"""The ways to store a collection that are compared: the library's codes, FAISS's quantizers, and the embeddings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, code_bytes, hamming_distances
from lbhash.comparison.result import CLASS_NUMBER, EMBEDDINGS, SIGNS, Way
from lbhash.data import EmbeddingSplit
from lbhash.evaluation.neighbors import nearest_by_cosine, unit_rows
from lbhash.hasher import Hasher
from lbhash.index import FlatIndex, rerank
from lbhash.index.rerank import ranks_of_all

if TYPE_CHECKING:
    from lbhash.models.encoder import Encoder

Floats = npt.NDArray[np.float32]
Scores = npt.NDArray[np.float32] | npt.NDArray[np.int32]

NEAREST = 10
"""The rows that a search is asked for when it is timed, and that count as nearest items."""
CANDIDATES = 100
"""The rows that codes find for the embeddings to re-rank."""
CENTROIDS = 256
"""Of a part of FAISS's product quantization; it needs as many rows to learn from."""
OPQ_ROUNDS = 8
"""In which FAISS learns its rotation. Its default is 50, which takes several times as long for hardly more recall."""
PROBES = 8
"""The lists of FAISS's inverted file that a query looks into."""


@dataclass(frozen=True)
class Rows:
    """What is stored and asked: rows to learn from, and new rows of the base and of the queries.

    Attributes:
        train: to learn from; its labels, if there are any, are numbered from 0 without gaps.
        base: rows that are stored and were not trained on.
        query: rows that are looked for.
    """

    train: EmbeddingSplit
    base: EmbeddingSplit
    query: EmbeddingSplit

    @property
    def classes(self) -> int:
        """C, the number of classes that are trained on; 0 without labels."""
        labels = self.train.labels
        return 0 if labels is None else labels.shape[1] if labels.ndim == 2 else int(labels.max()) + 1

    @cached_property
    def unit(self) -> dict[str, Floats]:
        """The three splits as embeddings of length 1, ``float32 [n, dim]``: FAISS then ranks by the cosine."""
        return {name: unit_rows(getattr(self, name).take(slice(None))) for name in ("train", "base", "query")}

    @cached_property
    def nearest(self) -> npt.NDArray[np.int64]:
        """The base rows whose embeddings are nearest to each query's by cosine, ``int64 [queries, NEAREST]``."""
        return nearest_by_cosine(self.query.take(slice(None)), self.base.take(slice(None)), NEAREST)


@dataclass(frozen=True)
class Stored(Way):
    """The base as one way stores it.

    Attributes:
        scores: of some queries and all base rows, ``[queries, base]``; lower is nearer.
        search: asks for the nearest of all queries, as a user would.
    """

    scores: Callable[[slice], Scores]
    search: Callable[[], Any]


def of_any_bits(rows: Rows, seed: int, epochs: int) -> Iterator[Stored]:
    """Yield the ways that have one size: the embeddings, a bit for each of their numbers, a class, and FAISS's."""
    import faiss

    unit, dim = rows.unit, rows.train.dim
    exact = faiss.IndexFlatIP(dim)
    exact.add(unit["base"])
    search = partial(exact.search, unit["query"], NEAREST)
    size = dim * rows.base.embeddings.dtype.itemsize
    scores = partial(_cosines, unit)
    yield Stored(EMBEDDINGS, None, size, 0, 0, False, "cosine", 0.0, 0.0, scores, search)
    began = time.perf_counter()
    median = np.median(unit["train"], axis=0)
    fitted = time.perf_counter()
    query, base = (np.packbits(unit[name] > median, axis=1, bitorder="little") for name in ("query", "base"))
    timed = fitted - began, time.perf_counter() - fitted
    yield from _binary(SIGNS, None, False, "whether each number is above its median", timed, rows, query, base, dim)
    if rows.classes and np.asarray(rows.train.labels).ndim == 1:
        yield _class_number(rows, seed)
    lists = int(np.sqrt(min(len(rows.base), len(rows.train) // 39)))  # 39 rows a centroid, as FAISS advises
    for name, factory in (("FAISS RaBitQ", f"RR{dim},RaBitQ"), ("FAISS IVF,SQ8", f"IVF{lists},SQ8")):
        yield _faiss(name, factory, None, rows, faiss.index_factory(dim, factory))


def network(rows: Rows, bits: int, seed: int, epochs: int) -> Iterator[Stored]:
    """Yield the default of rows with labels: alone, joined with the class posterior, and for classes that come later.

    The network is the same, so that it is trained once; the seconds of each are those that it alone would take.
    """
    from lbhash.models.hash_model import HashModel
    from lbhash.training.fit import join
    from lbhash.training.neighborhood import neighborhood

    hasher, began = Hasher(bits, seed=seed, epochs=epochs), time.perf_counter()
    hasher.fit_split(rows.train, rows.classes)
    fitted = time.perf_counter() - began
    name, take, centers = hasher.name, f"lbhash train --bits {bits}", hasher.centers_
    yield from _codes(name, bits, take, hasher.model_, fitted, rows)
    began, model = time.perf_counter(), HashModel.of(hasher.model_)
    join(model, hasher, rows.train, rows.classes, centers)
    seconds = fitted + time.perf_counter() - began
    yield from _codes(f"{name}, joined", bits, f"{take} --head joined", model.encoder(), seconds, rows)
    if np.asarray(rows.train.labels).ndim == 1:
        began, model = time.perf_counter(), HashModel.of(hasher.model_)
        model.neighborhood = neighborhood(model, rows.train, rows.classes, 0.5)
        seconds = fitted + time.perf_counter() - began
        yield from _codes(f"{name}, unseen 0.5", bits, f"{take} --unseen 0.5", model.encoder(), seconds, rows)


def coder(rows: Rows, bits: int, seed: int, epochs: int, *, method: str) -> Iterator[Stored]:
    """Yield the codes of a coder."""
    from lbhash.training.coders import learns_classes

    hasher, began = Hasher(bits, method, seed=seed), time.perf_counter()
    train = rows.train if learns_classes(method) else rows.train.with_rows(rows.train.rows, None)
    hasher.fit_split(train, rows.classes if learns_classes(method) else 0)
    seconds = time.perf_counter() - began
    take = f"lbhash train --bits {bits} --method {method}"
    yield from _codes(method, bits, take, hasher.model_, seconds, rows)


def product_quantization(rows: Rows, bits: int, seed: int, epochs: int) -> Iterator[Stored]:
    """Yield FAISS's product quantization, a byte a part, after the rotation that suits it."""
    import faiss

    parts, dim = bits // 8, rows.train.dim
    width = min(4, dim // max(parts, 1)) * parts
    if bits % 8 or not width or len(rows.train) < CENTROIDS:
        return
    rotation, inner, index = faiss.OPQMatrix(dim, parts, width), *_quantizers(width, parts, seed)
    rotation.pq, rotation.niter = inner, OPQ_ROUNDS
    yield _faiss("FAISS OPQ", f"OPQ{parts}_{width},PQ{parts}", bits, rows, faiss.IndexPreTransform(rotation, index))


def _quantizers(width: int, parts: int, seed: int) -> tuple[Any, Any]:
    """Return a product quantizer, for the rotation to learn by, and an index of another."""
    import faiss

    inner, index = faiss.ProductQuantizer(width, parts, 8), faiss.IndexPQ(width, parts, 8)
    for one in (inner, index.pq):
        one.cp.seed = 1234 + seed
        one.cp.min_points_per_centroid = 1  # FAISS would say a hundred times that the training rows are few
    return inner, index


def _codes(name: str, bits: int, take: str, model: Encoder, fitted: float, rows: Rows) -> Iterator[Stored]:
    began = time.perf_counter()
    base = np.concatenate([model.encode(chunk) for chunk in rows.base.chunks()])
    seconds = time.perf_counter() - began
    query = np.concatenate([model.encode(chunk) for chunk in rows.query.chunks()])
    yield from _binary(name, bits, model.learns_classes, take, (fitted, seconds), rows, query, base, bits)


def _binary(
    name: str,
    bits: int | None,
    labels: bool,
    take: str,
    timed: tuple[float, float],
    rows: Rows,
    query: PackedCodes,
    base: PackedCodes,
    length: int,
) -> Iterator[Stored]:
    """Yield binary codes, searched by Hamming distance alone and with the embeddings behind it."""
    index = FlatIndex(length, store_vectors="embeddings", learns_classes=labels)
    index.add(base, vectors=rows.base.embeddings[rows.base.rows])
    size, asked = code_bytes(length), rows.query.take(slice(None))
    count = min(CANDIDATES, len(base))

    def distances(some: slice) -> Scores:
        return hamming_distances(query[some], base)

    def reranked(some: slice) -> Scores:
        return ranks_of_all(index, query[some], asked[some], count)

    def again() -> None:
        rerank(index, index.search(query, count), asked, NEAREST, "embeddings")

    search = partial(index.search, query, NEAREST)
    yield Stored(name, bits, size, 0, 0, labels, take, *timed, distances, search)
    yield Stored(name, bits, size, index.vectors_of([0]).nbytes, CANDIDATES, labels, take, *timed, reranked, again)


def _class_number(rows: Rows, seed: int) -> Stored:
    """Return the class that a logistic regression finds for each row."""
    from lbhash.training.coders.logistic import Logistic
    from lbhash.training.posterior import predicted

    began = time.perf_counter()
    model = Logistic(1, seed, rows.classes, np.ones((rows.classes, 1), np.int8)).fit(rows.train)
    fitted = time.perf_counter()
    query, base = predicted(model, rows.query), predicted(model, rows.base)
    times = fitted - began, time.perf_counter() - fitted

    def differ(some: slice) -> Scores:
        return (query[some, None] != base).astype(np.int32)

    size, search = 1 if rows.classes <= 256 else 2, partial(differ, slice(None))
    return Stored(CLASS_NUMBER, None, size, 0, 0, True, "a logistic regression", *times, differ, search)


def _faiss(name: str, take: str, bits: int | None, rows: Rows, index: Any) -> Stored:
    """Return one of FAISS's indexes, which ranks all rows that it looks at."""
    unit, began = rows.unit, time.perf_counter()
    index.train(unit["train"])
    fitted = time.perf_counter()
    index.add(unit["base"])
    encoded = time.perf_counter()
    if hasattr(index, "nprobe"):
        index.nprobe = PROBES

    def scores(some: slice) -> Scores:
        distances, ids = index.search(unit["query"][some], len(unit["base"]))
        found = np.full(distances.shape, np.inf, np.float32)
        row, place = np.nonzero(ids >= 0)
        found[row, ids[row, place]] = distances[row, place]
        return found

    times, search = (fitted - began, encoded - fitted), partial(index.search, unit["query"], NEAREST)
    return Stored(name, bits, index.sa_code_size(), 0, 0, False, take, *times, scores, search)


def _cosines(unit: dict[str, Floats], some: slice) -> Scores:
    return -(unit["query"][some] @ unit["base"].T)
