"""The ways to store rows: the library's codes, FAISS's quantizers, the embeddings, and a classifier's answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from lbhash.codes import MAX_BITS, PackedCodes, code_bytes, hamming_distances, pack_outputs
from lbhash.codes.real import Asked
from lbhash.data.split import EmbeddingSplit
from lbhash.evaluation.neighbors import unit_rows
from lbhash.hasher import Hasher, fit_split, name_of
from lbhash.index import Index, SearchResult
from lbhash.training.settings import Settings
from lbhash.trials.questions import NEAREST, Question
from lbhash.trials.stored import EMBEDDINGS, Rows, Scores, Stored

if TYPE_CHECKING:
    from lbhash.models.encoder import Encoder

SIGNS, CLASS_NUMBER = "signs", "class number"
CANDIDATES = 100
"""The rows that codes find for the embeddings to re-rank."""
CENTROIDS = 256
"""Of a part of FAISS's product quantization; it needs as many rows to learn from."""
OPQ_ROUNDS = 8
"""In which FAISS learns its rotation. Its default is 50, which takes several times as long for hardly more recall."""
PROBES = 8
"""The lists of FAISS's inverted file that a query looks into."""


Store: TypeAlias = Callable[[Question], Iterator[Stored]]
"""Stores the base of a question by a fitted way, once or with several second stages."""
Fit: TypeAlias = Callable[[EmbeddingSplit], Iterator[Store]]
"""Fits to rows whose labels, if there are any, are numbered from 0 without gaps; yields one way or more."""


def count_classes(train: EmbeddingSplit) -> int:
    """Return C, the number of classes of rows whose labels are numbered without gaps; 0 without labels."""
    labels = train.labels
    return 0 if labels is None else labels.shape[1] if labels.ndim == 2 else int(labels.max()) + 1


def of_any_bits(train: EmbeddingSplit) -> Iterator[Store]:
    """Yield the ways that have one size: the embeddings, a bit for each of their numbers, and two of FAISS's."""
    import faiss

    yield from embeddings(train)
    yield from signs(train)
    lists = int(np.sqrt(len(train) // 39))  # 39 rows a centroid, as FAISS advises
    for name, factory in (("FAISS RaBitQ", f"RR{train.dim},RaBitQ"), ("FAISS IVF,SQ8", f"IVF{lists},SQ8")):
        yield _faiss(name, factory, None, train, faiss.index_factory(train.dim, factory))


def embeddings(_: EmbeddingSplit) -> Iterator[Store]:
    """Yield the embeddings, ranked by their cosine."""

    def store(question: Question) -> Iterator[Stored]:
        base, unit = question.base, question.unit
        size = base.dim * min(4, base.embeddings.dtype.itemsize)  # nobody needs to store doubles

        @cache
        def index() -> Any:
            import faiss

            found = faiss.IndexFlatIP(base.dim)
            found.add(unit["base"])
            return found

        def search() -> None:
            index().search(unit["query"], NEAREST)

        def scores(some: Rows) -> Scores:
            return -(unit["query"][some] @ unit["base"].T)

        yield Stored(EMBEDDINGS, None, size, 0, 0, False, "cosine", 0.0, 0.0, scores, search)

    yield store


def signs(train: EmbeddingSplit, *, counts: Sequence[int] = (CANDIDATES,)) -> Iterator[Store]:
    """Yield a bit for each number of the embeddings, alone and with so many candidates re-ranked.

    Queries are real numbers, as those of codes are. More bits than an index takes are not re-ranked.
    """
    dim, take, began = train.dim, "whether each number is above its median", time.perf_counter()
    median = np.median(unit_rows(train.take(slice(None))), axis=0)
    fitted = time.perf_counter() - began

    def store(question: Question) -> Iterator[Stored]:
        began = time.perf_counter()
        asked, base = Asked(question.unit["query"] - median), pack_outputs(question.unit["base"] - median)
        times = fitted, time.perf_counter() - began
        if dim <= MAX_BITS:
            yield from _binary(SIGNS, None, False, take, times, question, asked, base, counts)
            return

        def distances(some: Rows) -> Scores:
            return asked.some(some).distances(base).astype(np.float32)

        def search() -> None:
            asked.nearest(base, min(NEAREST, len(base)))

        yield Stored(SIGNS, None, code_bytes(dim), 0, 0, False, take, *times, distances, search, None, "outputs")

    yield store


def network(train: EmbeddingSplit, bits: int, seed: int, epochs: int) -> Iterator[Store]:
    """Yield the default of rows with labels: its bits alone, joined as it is, and for classes that come later.

    The network is the same, so that it is trained once; the seconds of each are those that it alone would take.
    """
    from lbhash.models.hash_model import HashModel
    from lbhash.training.fit import join
    from lbhash.training.heads import neighborhood

    classes = count_classes(train)
    hasher, began = Hasher(bits, head="bits", seed=seed, epochs=epochs), time.perf_counter()
    fit_split(hasher, train, classes)
    fitted = time.perf_counter() - began
    name, take, centers = name_of(hasher), f"lbhash train DATA --bits {bits}", hasher.centers_
    yield codes(name, bits, f"{take} --head bits", hasher.model_, fitted)
    began, model = time.perf_counter(), HashModel.of(hasher.model_)
    join(model, Settings(bits, seed=seed, epochs=epochs), train, classes, centers)
    yield codes(f"{name}, joined", bits, take, model.encoder(), fitted + time.perf_counter() - began)
    if np.asarray(train.labels).ndim == 1:
        began, model = time.perf_counter(), HashModel.of(hasher.model_)
        model.neighborhood = neighborhood(model, train, classes, 0.5)
        seconds = fitted + time.perf_counter() - began
        yield codes(f"{name}, unseen 0.5", bits, f"{take} --unseen 0.5", model.encoder(), seconds)


def hashed(train: EmbeddingSplit, hasher: Hasher, **more: Any) -> Iterator[Store]:
    """Yield the codes of a hasher that is fitted now; what else is given goes to ``codes``."""
    take = f"lbhash train DATA --bits {hasher.bits} --method {hasher.method}"
    yield codes(hasher.method or name_of(hasher), hasher.bits, take, *_fitted(train, hasher), **more)


def logistic(train: EmbeddingSplit, hasher: Hasher, *, class_number: bool, **more: Any) -> Iterator[Store]:
    """Yield the codes of a logistic regression and, if asked for, the class that it finds for each row."""
    from lbhash.models.hash_model import HashModel
    from lbhash.training.class_posterior import predicted

    model, seconds = _fitted(train, hasher)
    take, size = f"lbhash train DATA --bits {hasher.bits} --method logistic", 1 if count_classes(train) <= 256 else 2
    yield codes("logistic", hasher.bits, take, model, seconds, **more)

    def store(question: Question) -> Iterator[Stored]:
        posterior, began = HashModel.of(model).posterior, time.perf_counter()
        assert posterior is not None
        query, base = predicted(posterior, question.query), predicted(posterior, question.base)
        times = seconds, time.perf_counter() - began

        def differ(some: Rows) -> Scores:
            return (query[some, None] != base).astype(np.int32)

        search = partial(differ, slice(None))
        yield Stored(CLASS_NUMBER, None, size, 0, 0, True, "a logistic regression", *times, differ, search)

    if class_number and np.asarray(train.labels).ndim == 1:
        yield store


def _fitted(train: EmbeddingSplit, hasher: Hasher) -> tuple[Encoder, float]:
    """Return the model of a hasher that is fitted to the training rows, and its seconds."""
    from lbhash.training.coders import learns_classes

    began, labels = time.perf_counter(), learns_classes(hasher.method)
    fit_split(hasher, train if labels else train.with_rows(train.rows, None), count_classes(train) if labels else 0)
    return hasher.model_, time.perf_counter() - began


def product_quantization(train: EmbeddingSplit, bits: int, seed: int) -> Iterator[Store]:
    """Yield FAISS's product quantization, a byte a part, after the rotation that suits it."""
    import faiss

    parts, dim = bits // 8, train.dim
    width = min(4, dim // max(parts, 1)) * parts
    if bits % 8 or not width or len(train) < CENTROIDS:
        return
    rotation, inner, index = faiss.OPQMatrix(dim, parts, width), *_quantizers(width, parts, seed)
    rotation.pq, rotation.niter = inner, OPQ_ROUNDS
    made = faiss.IndexPreTransform(rotation, index)
    yield _faiss("FAISS OPQ", f"OPQ{parts}_{width},PQ{parts}", bits, train, made)


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
    *,
    counts: Sequence[int] = (CANDIDATES,),
    by: Sequence[str] = ("outputs",),
) -> Store:
    """Return what stores the codes of a model, which took so many seconds, alone and with so many candidates re-ranked.

    Queries are their real ``outputs``, or their own codes if ``by`` names ``"itself"``.
    """

    def store(question: Question) -> Iterator[Stored]:
        began = time.perf_counter()
        base = np.concatenate([model.encode(chunk) for chunk in question.base.chunks()])
        times = fitted, time.perf_counter() - began
        asked = Asked(np.concatenate([model.soft(model.outputs(chunk)) for chunk in question.query.chunks()]))
        for one in by:
            yield from _binary(name, bits, model.learns_classes, take, times, question, asked, base, counts, one)

    return store


def _binary(
    name: str,
    bits: int | None,
    labels: bool,
    take: str,
    timed: tuple[float, float],
    question: Question,
    asked: Asked,
    base: PackedCodes,
    counts: Sequence[int],
    by: str = "outputs",
) -> Iterator[Stored]:
    """Yield binary codes, searched alone and with the embeddings behind it."""
    length = asked.outputs.shape[1]
    # Only a second stage looks at the embeddings.
    index = Index(length, vectors="embeddings" if counts else "", learns_classes=labels)
    index.add(base, vectors=question.base.embeddings[question.base.rows] if counts else None)
    size, embeddings = code_bytes(length), question.query.take(slice(None))
    queries: dict[str, Any] = {"outputs": asked.outputs} if by == "outputs" else {"codes": asked.codes}
    held = asked.codes, base, length

    def distances(some: Rows) -> Scores:
        if by == "outputs":
            return asked.some(some).distances(base).astype(np.float32)
        return hamming_distances(asked.codes[some], base)

    search = partial(index.search, k=NEAREST, **queries)
    yield Stored(name, bits, size, 0, 0, labels, take, *timed, distances, search, held, by)
    for most in counts:
        count = min(most, len(base))

        def reranked(some: Rows, count: int = count) -> Scores:
            # Candidates as they are re-ranked, and behind them the others by distance.
            whole = distances(some).astype(np.float32)
            found = again(some, count, count)
            np.put_along_axis(whole, found.ids, np.arange(-count, 0, dtype=np.float32)[None], 1)
            return whole

        def again(some: Rows = slice(None), count: int = count, k: int = NEAREST) -> SearchResult:
            of_some = {name: rows[some] for name, rows in {**queries, "embeddings": embeddings}.items()}
            return index.search(k=k, rerank="embeddings", candidates=count, **of_some)

        disk = index.vectors_of([0]).nbytes
        yield Stored(name, bits, size, disk, most, labels, take, *timed, reranked, again, held, by)


def _faiss(name: str, take: str, bits: int | None, train: EmbeddingSplit, index: Any) -> Store:
    """Fit one of FAISS's indexes, which ranks all rows that it looks at."""
    import faiss

    unit, began = unit_rows(train.take(slice(None))), time.perf_counter()
    index.train(unit)
    fitted = time.perf_counter() - began

    def store(question: Question) -> Iterator[Stored]:
        asked, held, began = *question.unit.values(), time.perf_counter()
        filled = faiss.clone_index(index)
        filled.add(held)
        times = fitted, time.perf_counter() - began
        if hasattr(filled, "nprobe"):
            filled.nprobe = PROBES

        def scores(some: Rows) -> Scores:
            distances, ids = filled.search(asked[some], len(held))
            found = np.full(distances.shape, np.inf, np.float32)
            row, place = np.nonzero(ids >= 0)
            found[row, ids[row, place]] = distances[row, place]
            return found

        search = partial(filled.search, asked, NEAREST)
        yield Stored(name, bits, filled.sa_code_size(), 0, 0, False, take, *times, scores, search)

    return store
