"""The ways to store rows of other libraries: FAISS, usearch, sentence-transformers, and fewer dimensions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from lbhash.codes import pack_outputs
from lbhash.codes.real import Asked, signs_of
from lbhash.data.split import EmbeddingSplit
from lbhash.trials.questions import Question
from lbhash.trials.stored import Floats, Positions, Rows, Scores, Stored
from lbhash.trials.ways import SIGNED, Store, binary_codes
from lbhash.utils.arrays import unit_rows

CENTROIDS = 256
"""Centroids per part of FAISS's product quantization, which needs as many rows to learn from."""
OPQ_ROUNDS = 8
"""Rounds in which FAISS learns its rotation. Its default of 50 takes several times as long for hardly more recall."""
PROBES = 8
"""The lists of FAISS's inverted file that a query looks into."""
_SEARCH = "found = index.search({asked}, {candidates})[1]\n"
_FACTORY = """\
import faiss
index = faiss.index_factory(rows.shape[1], "{take}")
index.train(rows)
index.add(rows)
"""
_FIRST = """\
import faiss
short, asked = (x[:, :{number}] / np.linalg.norm(x[:, :{number}], axis=1, keepdims=True) for x in (rows, queries))
index = faiss.index_factory({number}, "SQ8")
index.train(short)
index.add(short)
"""
_USEARCH = """\
from usearch.index import Index
index = Index(ndim=rows.shape[1], metric="cos", dtype="i8")
index.add(np.arange(len(rows)), rows)
found = index.search(queries, {candidates}).keys.astype("int64")
"""
_SIGN_BITS = """\
import faiss
from sentence_transformers.util.quantization import quantize_embeddings
index = faiss.IndexBinaryFlat(rows.shape[1])
index.add(quantize_embeddings(rows, "ubinary"))
found = index.search(quantize_embeddings(queries, "ubinary"), {candidates})[1]
"""
_PCA = """\
import faiss
components = faiss.PCAMatrix(rows.shape[1], {bits})
components.train(rows)
outputs, asked = components.apply(rows), components.apply(queries)
"""
SHARES = (2, 4, 8)
"""Divisors of the dimension: a half, a quarter and an eighth of the numbers are kept."""


def of_any_bits(train: EmbeddingSplit) -> Iterator[Store]:
    """Yield the ways of fixed size: FAISS, usearch, sentence-transformers, and fewer dimensions."""
    lists, dim = max(1, int(np.sqrt(len(train) // 39))), train.dim  # 39 rows a centroid, as FAISS advises
    rotated = [(f"FAISS RaBitQ{more and f', {more} bits'}", f"RR{dim},RaBitQ{more}") for more in ("", "2", "4")]
    for name, factory in (
        ("FAISS SQ8", "SQ8"),
        ("FAISS SQ4", "SQ4"),
        *rotated,
        ("FAISS IVF,SQ8", f"IVF{lists},SQ8"),
        *((f"PCA, {dim // share} numbers, int8", f"PCA{dim // share},SQ8") for share in SHARES if dim >= 8 * share),
    ):
        if not (factory.startswith("PCA") and len(train) <= dim):
            yield from faiss_index(train, name, factory)
    yield from first_numbers(train)
    yield from usearch_int8(train)
    yield from sign_bits(train)


def of_bits(train: EmbeddingSplit, bits: int, seed: int) -> Iterator[Store]:
    """Yield the ways of a given number of bits: FAISS's product quantization, and the signs of principal components."""
    yield from product_quantization(train, bits, seed)
    if bits <= min(train.dim, len(train) - 1):
        yield from principal_bits(train, bits)


def product_quantization(train: EmbeddingSplit, bits: int, seed: int) -> Iterator[Store]:
    """Yield FAISS's product quantization, a byte a part, after the rotation that suits it."""
    import faiss

    parts, dim = bits // 8, train.dim
    width = min(4, dim // max(parts, 1)) * parts
    if bits % 8 or not width or len(train) < CENTROIDS:
        return
    inner, index = faiss.ProductQuantizer(width, parts, 8), faiss.IndexPQ(width, parts, 8)
    for one in (inner, index.pq):
        one.cp.seed = 1234 + seed
        one.cp.min_points_per_centroid = 1  # otherwise FAISS warns a hundred times about few rows
    rotation = faiss.OPQMatrix(dim, parts, width)
    rotation.pq, rotation.niter = inner, OPQ_ROUNDS
    yield _faiss("FAISS OPQ", f"OPQ{parts}_{width},PQ{parts}", bits, train, faiss.IndexPreTransform(rotation, index))


def faiss_index(train: EmbeddingSplit, name: str, factory: str) -> Iterator[Store]:
    """Yield one of FAISS's indexes by the name that its factory has for it."""
    import faiss

    yield _faiss(name, factory, None, train, faiss.index_factory(train.dim, factory))


def first_numbers(train: EmbeddingSplit) -> Iterator[Store]:
    """Yield the first numbers of each row as int8, which suits embeddings that are made for it (Matryoshka)."""
    import faiss

    def shortened(rows: Floats, number: int) -> Floats:
        return unit_rows(rows[:, :number])

    for share in SHARES:
        number = train.dim // share
        if number >= 8:
            index = faiss.IndexScalarQuantizer(number, faiss.ScalarQuantizer.QT_8bit)
            lines = _FIRST.replace("{number}", str(number)) + _SEARCH.replace("{asked}", "asked")
            name, prepared = f"first {number} numbers, int8", partial(shortened, number=number)
            yield _faiss(name, "SQ8", None, train, index, prepared, lines)


def usearch_int8(_: EmbeddingSplit) -> Iterator[Store]:
    """Yield usearch's graph over vectors of int8, if usearch is installed."""
    if find_spec("usearch") is None:
        return

    def store(question: Question) -> Iterator[Stored]:
        from usearch.index import Index  # type: ignore[import-not-found,unused-ignore]

        unit, began = question.unit, time.perf_counter()
        index = Index(ndim=unit["base"].shape[1], metric="cos", dtype="i8")
        index.add(np.arange(len(unit["base"])), unit["base"], threads=1)
        seconds = time.perf_counter() - began
        base, query = (np.rint(127 * rows).clip(-127, 127) for rows in (unit["base"], unit["query"]))

        def find(some: Rows, count: int) -> Positions:
            return index.search(unit["query"][some], count, threads=1).keys.astype(np.int64).reshape(-1, count)

        def scores(some: Rows) -> Scores:
            return -(query[some] @ base.T).astype(np.float32)

        memory = -(-index.serialized_length // len(base))
        yield Stored(
            "usearch int8", None, memory, False, "usearch's graph", 0.0, seconds, scores, find, recipe=_USEARCH
        )

    yield store


def sign_bits(_: EmbeddingSplit) -> Iterator[Store]:
    """Yield a bit for each number, 1 above 0, ranked by Hamming distance, as in sentence-transformers."""
    take = "quantize_embeddings(rows, 'ubinary')"

    def store(question: Question) -> Iterator[Stored]:
        import faiss

        began = time.perf_counter()
        query, base = (pack_outputs(question.unit[name]) for name in ("query", "base"))
        index = faiss.IndexBinaryFlat(8 * base.shape[1])
        index.add(base)
        times = 0.0, time.perf_counter() - began

        def scores(some: Rows) -> Scores:  # for any number of bits
            return -(signs_of(query[some]) @ signs_of(base).T)

        def find(some: Rows, count: int) -> Positions:
            found: Positions = index.search(query[some], count)[1]
            return found

        name = "sentence-transformers' bits"
        yield Stored(name, None, base.shape[1], False, take, *times, scores, find, recipe=_SIGN_BITS)

    yield store


def principal_bits(train: EmbeddingSplit, bits: int) -> Iterator[Store]:
    """Yield the signs of the first principal components, for real-valued queries."""
    import faiss

    unit, began = unit_rows(train.take(slice(None))), time.perf_counter()
    components = faiss.PCAMatrix(train.dim, bits)
    components.train(unit)
    fitted = time.perf_counter() - began

    def store(question: Question) -> Iterator[Stored]:
        began = time.perf_counter()
        base = pack_outputs(components.apply(question.unit["base"]))
        times = fitted, time.perf_counter() - began
        asked = Asked(components.apply(question.unit["query"]))
        lines = _PCA.replace("{bits}", str(bits)) + SIGNED
        yield binary_codes("PCA, signs", bits, False, f"PCA{bits}", times, asked, base, recipe=lines)

    yield store


def _faiss(
    name: str,
    take: str,
    bits: int | None,
    train: EmbeddingSplit,
    index: Any,
    prepared: Callable[[Floats], Floats] = lambda rows: rows,
    lines: str = "",
) -> Store:
    """Fit one of FAISS's indexes, which ranks all rows that it looks at."""
    import faiss

    unit, began = prepared(unit_rows(train.take(slice(None)))), time.perf_counter()
    index.train(unit)
    fitted = time.perf_counter() - began

    def store(question: Question) -> Iterator[Stored]:
        asked, held = (prepared(question.unit[part]) for part in ("query", "base"))
        began = time.perf_counter()
        filled = faiss.clone_index(index)
        filled.add(held)
        times = fitted, time.perf_counter() - began
        if hasattr(filled, "nprobe"):
            filled.nprobe = PROBES

        # Recall needs only the candidates, and ranking all rows is slow.
        most = len(held) if "map" in question.figures else min(len(held), question.most)

        def scores(some: Rows) -> Scores:
            distances, ids = filled.search(asked[some], most)
            found = np.full((len(distances), len(held)), np.inf, np.float32)
            row, place = np.nonzero(ids >= 0)
            found[row, ids[row, place]] = distances[row, place]
            return found

        def find(some: Rows, count: int) -> Positions:
            found: Positions = filled.search(asked[some], count)[1]
            return found

        probed = f"index.nprobe = {PROBES}\n" if hasattr(filled, "nprobe") else ""
        made = lines or _FACTORY.replace("{take}", take) + probed + _SEARCH.replace("{asked}", "queries")
        yield Stored(name, bits, filled.sa_code_size(), False, take, *times, scores, find, recipe=made)

    return store
