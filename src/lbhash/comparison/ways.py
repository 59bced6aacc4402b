"""The ways to store a collection that are compared: the library's codes, FAISS's quantizers, and the embeddings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.codes import MAX_BITS, PackedCodes, code_bytes, hamming_distances
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
        """The three splits as embeddings of length 1, ``float32 [n, dim]``: inner products are then cosines."""
        return {name: unit_rows(getattr(self, name).take(slice(None))) for name in ("train", "base", "query")}

    @cached_property
    def nearest(self) -> npt.NDArray[np.int64]:
        """The base rows whose embeddings are nearest to each query's by cosine, ``int64 [queries, ≤ NEAREST]``."""
        most = min(NEAREST, len(self.base))
        return nearest_by_cosine(self.query.take(slice(None)), self.base.take(slice(None)), most)


@dataclass(frozen=True)
class Stored(Way):
    """The base as one way stores it.

    Attributes:
        scores: of some queries and all base rows, ``[queries, base]``; lower is nearer.
        search: asks for the nearest of all queries, as a user would.
    """

    scores: Callable[[slice], Scores]
    search: Callable[[], Any]


def of_any_bits(rows: Rows) -> Iterator[Stored]:
    """Yield the ways that have one size: the embeddings, a bit for each of their numbers, and two of FAISS's."""
    import faiss

    yield embeddings(rows)
    yield from signs(rows)
    dim = rows.train.dim
    lists = int(np.sqrt(min(len(rows.base), len(rows.train) // 39)))  # 39 rows a centroid, as FAISS advises
    for name, factory in (("FAISS RaBitQ", f"RR{dim},RaBitQ"), ("FAISS IVF,SQ8", f"IVF{lists},SQ8")):
        yield _faiss(name, factory, None, rows, faiss.index_factory(dim, factory))


def embeddings(rows: Rows) -> Stored:
    """Return the embeddings, ranked by their cosine."""
    size = rows.base.dim * min(4, rows.base.embeddings.dtype.itemsize)  # nobody needs to store doubles

    @cache
    def index() -> Any:
        import faiss

        found = faiss.IndexFlatIP(rows.base.dim)
        found.add(rows.unit["base"])
        return found

    def search() -> None:
        index().search(rows.unit["query"], NEAREST)

    def scores(some: slice) -> Scores:
        return -(rows.unit["query"][some] @ rows.unit["base"].T)

    return Stored(EMBEDDINGS, None, size, 0, 0, False, "cosine", 0.0, 0.0, scores, search)


def signs(rows: Rows, *, counts: Sequence[int] = (CANDIDATES,)) -> Iterator[Stored]:
    """Yield a bit for each number of the embeddings, alone and with so many candidates re-ranked.

    More bits than an index takes are searched by FAISS, and not re-ranked.
    """
    dim, take = rows.base.dim, "whether each number is above its median"
    began = time.perf_counter()
    median = np.median(rows.unit["train"], axis=0)
    fitted = time.perf_counter()
    above = {name: rows.unit[name] > median for name in ("query", "base")}
    query, base = (np.packbits(above[name], axis=1, bitorder="little") for name in ("query", "base"))
    times = fitted - began, time.perf_counter() - fitted
    if dim <= MAX_BITS:
        yield from _binary(SIGNS, None, False, take, times, rows, query, base, dim, counts)
        return

    @cache
    def index() -> Any:
        import faiss

        found = faiss.IndexBinaryFlat(8 * base.shape[1])
        found.add(base)
        return found

    def search() -> None:
        index().search(query, NEAREST)

    def distances(some: slice) -> Scores:
        asked, held = (np.where(part, np.float32(1), np.float32(-1)) for part in (above["query"][some], above["base"]))
        return ((dim - asked @ held.T) / 2).astype(np.int32)

    yield Stored(SIGNS, None, code_bytes(dim), 0, 0, False, take, *times, distances, search)


def network(rows: Rows, bits: int, seed: int, epochs: int) -> Iterator[Stored]:
    """Yield the default of rows with labels: its bits alone, joined as it is, and for classes that come later.

    The network is the same, so that it is trained once; the seconds of each are those that it alone would take.
    """
    from lbhash.models.hash_model import HashModel
    from lbhash.training.fit import join
    from lbhash.training.neighborhood import neighborhood

    hasher, began = Hasher(bits, head="bits", seed=seed, epochs=epochs), time.perf_counter()
    hasher.fit_split(rows.train, rows.classes)
    fitted = time.perf_counter() - began
    name, take, centers = hasher.name, f"lbhash train --bits {bits}", hasher.centers_
    yield from codes(name, bits, f"{take} --head bits", hasher.model_, fitted, rows)
    began, model = time.perf_counter(), HashModel.of(hasher.model_)
    join(model, Hasher(bits, seed=seed, epochs=epochs), rows.train, rows.classes, centers)
    seconds = fitted + time.perf_counter() - began
    yield from codes(f"{name}, joined", bits, take, model.encoder(), seconds, rows)
    if np.asarray(rows.train.labels).ndim == 1:
        began, model = time.perf_counter(), HashModel.of(hasher.model_)
        model.neighborhood = neighborhood(model, rows.train, rows.classes, 0.5)
        seconds = fitted + time.perf_counter() - began
        yield from codes(f"{name}, unseen 0.5", bits, f"{take} --unseen 0.5", model.encoder(), seconds, rows)


def coder(rows: Rows, bits: int, seed: int, *, method: str, **more: Any) -> Iterator[Stored]:
    """Yield the codes of a coder; what else is given goes to ``codes``."""
    hasher, seconds = _fitted(rows, bits, seed, method)
    yield from codes(
        method, bits, f"lbhash train --bits {bits} --method {method}", hasher.model_, seconds, rows, **more
    )


def logistic(rows: Rows, bits: int, seed: int, *, class_number: bool, **more: Any) -> Iterator[Stored]:
    """Yield the codes of a logistic regression and, if asked for, the class that it finds for each row."""
    from lbhash.models.hash_model import HashModel
    from lbhash.training.posterior import predicted

    hasher, seconds = _fitted(rows, bits, seed, "logistic")
    take = f"lbhash train --bits {bits} --method logistic"
    yield from codes("logistic", bits, take, hasher.model_, seconds, rows, **more)
    if not class_number or np.asarray(rows.train.labels).ndim == 2:
        return
    posterior, began = HashModel.of(hasher.model_).posterior, time.perf_counter()
    assert posterior is not None
    query, base = predicted(posterior, rows.query), predicted(posterior, rows.base)
    times = seconds, time.perf_counter() - began

    def differ(some: slice) -> Scores:
        return (query[some, None] != base).astype(np.int32)

    size, search = 1 if rows.classes <= 256 else 2, partial(differ, slice(None))
    yield Stored(CLASS_NUMBER, None, size, 0, 0, True, "a logistic regression", *times, differ, search)


def _fitted(rows: Rows, bits: int, seed: int, method: str) -> tuple[Hasher, float]:
    """Return a coder, fitted to the training rows, and its seconds."""
    from lbhash.training.coders import learns_classes

    hasher, began = Hasher(bits, method, seed=seed), time.perf_counter()
    train = rows.train if learns_classes(method) else rows.train.with_rows(rows.train.rows, None)
    hasher.fit_split(train, rows.classes if learns_classes(method) else 0)
    return hasher, time.perf_counter() - began


def product_quantization(rows: Rows, bits: int, seed: int) -> Iterator[Stored]:
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


def codes(
    name: str,
    bits: int,
    take: str,
    model: Encoder,
    fitted: float,
    rows: Rows,
    *,
    counts: Sequence[int] = (CANDIDATES,),
) -> Iterator[Stored]:
    """Yield the codes of a model, which took so many seconds, alone and with so many candidates re-ranked."""
    began = time.perf_counter()
    base = np.concatenate([model.encode(chunk) for chunk in rows.base.chunks()])
    seconds = time.perf_counter() - began
    query = np.concatenate([model.encode(chunk) for chunk in rows.query.chunks()])
    yield from _binary(name, bits, model.learns_classes, take, (fitted, seconds), rows, query, base, bits, counts)


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
    counts: Sequence[int],
) -> Iterator[Stored]:
    """Yield binary codes, searched by Hamming distance alone and with the embeddings behind it."""
    index = FlatIndex(length, store_vectors="embeddings", learns_classes=labels)
    index.add(base, vectors=rows.base.embeddings[rows.base.rows])
    size, asked = code_bytes(length), rows.query.take(slice(None))

    def distances(some: slice) -> Scores:
        return hamming_distances(query[some], base)

    yield Stored(name, bits, size, 0, 0, labels, take, *timed, distances, partial(index.search, query, NEAREST))
    for most in counts:
        count = min(most, len(base))

        def reranked(some: slice, count: int = count) -> Scores:
            return ranks_of_all(index, query[some], asked[some], count)

        def again(count: int = count) -> None:
            rerank(index, index.search(query, count), asked, NEAREST, "embeddings")

        yield Stored(name, bits, size, index.vectors_of([0]).nbytes, most, labels, take, *timed, reranked, again)


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
