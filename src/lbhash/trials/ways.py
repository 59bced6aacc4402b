"""The ways to store rows that the library has: its codes, the embeddings, and a bit for each of their numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lbhash.codes import MAX_BITS, PackedCodes, code_bytes, hamming_distances, pack_outputs
from lbhash.codes.real import Asked, differing
from lbhash.data.split import EmbeddingSplit
from lbhash.hasher import Hasher, fit_split, name_of
from lbhash.index import Index
from lbhash.training.settings import Settings
from lbhash.trials.questions import Question
from lbhash.trials.stored import EMBEDDINGS, Positions, Rows, Scores, Stored
from lbhash.utils.arrays import unit_rows

if TYPE_CHECKING:
    from lbhash.models.encoder import Encoder

SIGNS = "signs"
SIGNED = """\
codes = np.packbits(outputs > 0, axis=1)  # stored
bits = 2.0 * np.unpackbits(codes, axis=1, count=outputs.shape[1]) - 1
found = np.argsort(-asked @ bits.T, axis=1)[:, :{candidates}]
"""
"""The lines that store the signs of outputs, and search by real-valued queries."""
_MEDIANS = "middle = np.median(rows, axis=0)\noutputs, asked = rows - middle, queries - middle\n" + SIGNED
_COSINES = "found = np.argsort(-queries @ rows.T, axis=1)[:, :{candidates}]\n"

Store: TypeAlias = Callable[[Question], Iterator[Stored]]
"""Stores the base of a question by a fitted way."""
Fit: TypeAlias = Callable[[EmbeddingSplit], Iterator[Store]]
"""Fits to rows whose labels, if there are any, are numbered from 0 without gaps; yields one way or more."""


def count_classes(train: EmbeddingSplit) -> int:
    """Return C, the number of classes of rows whose labels are numbered without gaps; 0 without labels."""
    labels = train.labels
    return 0 if labels is None else labels.shape[1] if labels.ndim == 2 else int(labels.max()) + 1


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

        def find(some: Rows, count: int) -> Positions:
            found: Positions = index().search(unit["query"][some], count)[1]
            return found

        def scores(some: Rows) -> Scores:
            return -(unit["query"][some] @ unit["base"].T)

        yield Stored(EMBEDDINGS, None, size, False, "cosine", 0.0, 0.0, scores, find, recipe=_COSINES)

    yield store


def signs(train: EmbeddingSplit) -> Iterator[Store]:
    """Yield a bit for each number of the embeddings. Queries are real-valued, as for codes."""
    take, began = "whether each number is above its median", time.perf_counter()
    median = np.median(unit_rows(train.take(slice(None))), axis=0)
    fitted = time.perf_counter() - began

    def store(question: Question) -> Iterator[Stored]:
        began = time.perf_counter()
        asked, base = Asked(question.unit["query"] - median), pack_outputs(question.unit["base"] - median)
        yield binary_codes(
            SIGNS, None, False, take, (fitted, time.perf_counter() - began), asked, base, recipe=_MEDIANS
        )

    yield store


def network(train: EmbeddingSplit, bits: int, seed: int, epochs: int) -> Iterator[Store]:
    """Yield three variants of the default for rows with labels: bits only, the joined head, ``unseen=0.5``.

    They share one network, which is trained once; the seconds of each are those that it alone would take. With several
    labels a row, there is no ``unseen=0.5``.
    """
    from lbhash.models.hash_model import HashModel
    from lbhash.training.fit import join
    from lbhash.training.heads import neighborhood
    from lbhash.training.partial import few_labels, with_guesses

    classes, known = count_classes(train), train.labeled()
    hasher, began = Hasher(bits, head="bits", seed=seed, epochs=epochs), time.perf_counter()
    fit_split(hasher, train, classes)
    fitted = time.perf_counter() - began
    name, take, centers = name_of(hasher), f"lbhash train DATA --bits {bits}", hasher.centers_
    yield codes(name, bits, f"{take} --head bits", hasher.model_, fitted)
    began, model = time.perf_counter(), HashModel.of(hasher.model_)
    join(model, Settings(bits, seed=seed, epochs=epochs), known, classes, centers)
    yield codes(f"{name}, joined", bits, take, model.encoder(), fitted + time.perf_counter() - began)
    if np.asarray(known.labels).ndim == 1:
        began, model = time.perf_counter(), HashModel.of(hasher.model_)
        rows = with_guesses(train, classes) if few_labels(train) else known
        model.neighborhood = neighborhood(model, rows, classes, 0.5)
        seconds = fitted + time.perf_counter() - began
        yield codes(f"{name}, unseen 0.5", bits, f"{take} --unseen 0.5", model.encoder(), seconds)


def hashed(train: EmbeddingSplit, hasher: Hasher, **more: Any) -> Iterator[Store]:
    """Fit a hasher and yield its codes; ``more`` goes to ``codes``."""
    from lbhash.training.coders import learns_classes

    take = f"lbhash train DATA --bits {hasher.bits} --method {hasher.method}"
    began, labels = time.perf_counter(), learns_classes(hasher.method)
    rows = train.labeled() if labels else train.with_rows(train.rows, None)
    fit_split(hasher, rows, count_classes(train) if labels else 0)
    seconds = time.perf_counter() - began
    yield codes(hasher.method or name_of(hasher), hasher.bits, take, hasher.model_, seconds, **more)


def codes(name: str, bits: int, take: str, model: Encoder, fitted: float, *, by: Sequence[str] = ("outputs",)) -> Store:
    """Return a function that stores the codes of a model, whose fit took ``fitted`` seconds.

    Queries are their real ``outputs``, or their own codes if ``by`` names ``"itself"``.
    """

    def store(question: Question) -> Iterator[Stored]:
        began = time.perf_counter()
        base = np.concatenate([model.encode(chunk) for chunk in question.base.chunks()])
        times = fitted, time.perf_counter() - began
        asked = Asked(np.concatenate([model.soft(model.outputs(chunk)) for chunk in question.query.chunks()]))
        for one in by:
            yield binary_codes(name, bits, model.learns_classes, take, times, asked, base, one)

    return store


def binary_codes(
    name: str,
    bits: int | None,
    labels: bool,
    take: str,
    timed: tuple[float, float],
    asked: Asked,
    base: PackedCodes,
    by: str = "outputs",
    recipe: str = "",
) -> Stored:
    """Return binary codes, in an index unless they have more bits than it takes."""
    length = asked.outputs.shape[1]

    @cache
    def index() -> Index:
        made = Index(length)
        made.add(base)
        return made

    def find(some: Rows, count: int) -> Positions:
        if length > MAX_BITS:
            return asked.some(some).nearest(base, count).ids
        queries: dict[str, Any] = {"outputs": asked.outputs} if by == "outputs" else {"codes": asked.codes}
        return index().search(k=count, **{name: rows[some] for name, rows in queries.items()}).ids

    def distances(some: Rows) -> Scores:
        if by == "outputs":
            return asked.some(some).distances(base).astype(np.float32)
        return hamming_distances(asked.codes[some], base)

    def apart(some: Rows, found: Positions) -> npt.NDArray[np.float64]:
        return differing(asked.codes[some], base[found]) / np.float32(length)

    held = asked.codes, base, length
    second = apart if labels else None
    size = code_bytes(length)
    return Stored(name, bits, size, labels, take, *timed, distances, find, second, held, by, recipe=recipe)
