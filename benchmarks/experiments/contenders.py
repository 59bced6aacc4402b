"""What a row of a collection can be stored as, and how a query ranks the rows then.

Each contender is fitted on the training rows, stores the base rows, and scores every pair of a query and a base row.
Contenders without labels work on embeddings of unit length, so that they approximate the cosine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from benchmarks.experiments.scored import Scores

from lbhash.codes import MAX_BITS, PackedCodes, code_bytes, hamming_distances, pack
from lbhash.data import Dataset, EmbeddingSplit
from lbhash.evaluation.neighbors import unit_rows
from lbhash.index import FlatIndex, rerank
from lbhash.index.rerank import By
from lbhash.utils.labels import share_a_label

Floats = npt.NDArray[np.float32]

CANDIDATES = 1000
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""Of the logistic regression's C, from which rows held out of the training rows choose."""
OPQ_ROUNDS = 50
"""FAISS's own default."""


@dataclass(frozen=True)
class Contender:
    """A way to store rows and to search them.

    Attributes:
        name: of the line in the table.
        supervised: whether it was fitted to labels.
        bytes: of a stored row.
        scores: of some queries and all base rows; lower is nearer.
    """

    name: str
    supervised: bool
    bytes: int
    scores: Callable[[slice], Scores]


class Work:
    """A data set as the contenders see it.

    Args:
        dataset: with one label a row, or several.
        seed: of the order in which the base is stored. An index takes equal distances by id; a file that is sorted by
            class would make ids tell labels.

    Attributes:
        train, base, query: embeddings of unit length, ``float32 [n, dim]``.
        stored: the base's embeddings as the file has them.
        base_labels, query_labels: their labels.
    """

    def __init__(self, dataset: Dataset, seed: int = 0) -> None:
        self.dataset = dataset
        order = np.random.default_rng(seed).permutation(len(dataset.base))
        assert dataset.base.labels is not None
        self.base_part = EmbeddingSplit(dataset.base.embeddings, dataset.base.rows[order], dataset.base.labels[order])
        self.stored = self.base_part.embeddings[self.base_part.rows]
        self.base_labels, self.query_labels = self.base_part.labels, dataset.query.labels
        self.train, self.base, self.query = (
            unit_rows(part.take(slice(None))) for part in (dataset.train, self.base_part, dataset.query)
        )

    @property
    def classes(self) -> int:
        """The number of classes that are trained on."""
        labels = self.dataset.train.labels
        assert labels is not None
        return labels.shape[1] if labels.ndim == 2 else int(labels.max()) + 1

    @property
    def dim(self) -> int:
        """Length of an embedding."""
        return self.train.shape[1]

    def relevant(self, some: slice) -> npt.NDArray[np.bool_]:
        """Which base rows share a label with these queries, ``bool [queries, base]``."""
        assert self.query_labels is not None
        assert self.base_labels is not None
        return share_a_label(self.query_labels[some], self.base_labels)

    def of_classes(self, some: slice, *, seen: bool) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Which of these queries, and which base rows, are of classes that are trained on; or of the others.

        Rows of several labels count as of classes that are trained on.
        """
        assert self.query_labels is not None
        assert self.base_labels is not None
        asked, held = self.query_labels[some], self.base_labels
        if asked.ndim == 2:
            return np.arange(len(asked) * seen), np.arange(len(held) * seen)
        return np.flatnonzero((asked < self.classes) == seen), np.flatnonzero((held < self.classes) == seen)

    def nearest(self, some: slice, k: int) -> npt.NDArray[np.int64]:
        """The k base rows of highest cosine with these queries' embeddings, ``int64 [queries, k]``."""
        import faiss

        return faiss.knn(self.query[some], self.base, k, faiss.METRIC_INNER_PRODUCT)[1]


# --------------------------------------------------------------------------------------- of any size: one size each


def exact(work: Work) -> Iterator[Contender]:
    """The embeddings themselves."""
    size = work.dim * work.stored.dtype.itemsize
    yield _by_product("float exact, cosine", False, size, work.query, work.base)
    query, base = work.dataset.query.take(slice(None)), work.stored.astype(np.float32)
    yield _by_distance("float exact, L2", False, size, query, base)


def one_bit_a_dimension(work: Work) -> Iterator[Contender]:
    """Whether each number of the embedding is above its mean."""
    mean = work.train.mean(axis=0)
    # not ``pack``, whose codes end at 1,024 bits
    query, base = (np.packbits(x >= mean, axis=1, bitorder="little") for x in (work.query, work.base))
    yield _binary("1 bit a dimension", False, query, base, work.dim)
    yield _asymmetric("1 bit a dimension, asymmetric", False, work.query, base, work.dim)


def classifier(work: Work) -> Iterator[Contender]:
    """A logistic regression: the class it predicts, or its probabilities. Of one label a row only."""
    if work.dataset.multi_label:
        return
    query, base = _probabilities(work)
    classes = query.shape[1]
    predicted, wanted = base.argmax(axis=1), query.argmax(axis=1)
    size = 1 if classes <= 256 else 2
    yield Contender(
        "logistic regression, class",
        True,
        size,
        lambda some: (wanted[some, None] != predicted).astype(np.int32),
    )
    yield Contender(
        "logistic regression, class by query's probability",
        True,
        size,
        lambda some: -query[some][:, predicted],
    )
    held = base.astype(np.float16).astype(np.float32)
    yield _by_product("logistic regression, probabilities float16", True, 2 * classes, query, held)


# ------------------------------------------------------------------------------------------ of a given number of bits


def lbhash_codes(work: Work, bits: int, seed: int, epochs: int) -> Iterator[Contender]:
    """CSQ_D, with the class posterior or with the embedding's neighborhoods, by Hamming distance and otherwise."""
    from lbhash.hasher import Hasher
    from lbhash.models.hash_model import HashModel
    from lbhash.training.neighborhood import neighborhood

    train, classes = work.dataset.train, work.classes
    hasher = Hasher(bits, "csq", True, epochs, seed, head="joined", device="cpu")
    model = HashModel.of(hasher.fit_split(train, classes).model_)
    branch = model.posterior
    for name, unseen in (("CSQ_D, joined", 0.0), ("CSQ_D", 0.0), ("CSQ_D, unseen 0.5", 0.5)):
        model.posterior = branch if name == "CSQ_D, joined" else None  # the network is the same
        if unseen:
            model.neighborhood = neighborhood(model, train, classes, unseen)
        yield from _coded(name, work, model.encoder(), bits, soft=np.tanh if name == "CSQ_D" else None)


def _coded(name: str, work: Work, model: Any, bits: int, soft: Any = None) -> Iterator[Contender]:
    """A model's codes by Hamming distance, by the query's real outputs, and the second stage of the embeddings."""
    asked, outputs = (
        np.concatenate([model.outputs(chunk) for chunk in part.chunks()])
        for part in (work.dataset.query, work.base_part)
    )
    query, base = pack(asked), pack(outputs)
    yield _binary(name, True, query, base, bits)
    yield _asymmetric(f"{name}, asymmetric", True, asked if soft is None else soft(asked), base, bits)
    index = FlatIndex(bits, store_vectors="embeddings", learns_classes=True)
    index.add(base, vectors=work.stored)
    size = base.shape[1] + index.vectors_of([0]).nbytes
    vectors = work.dataset.query.take(slice(None))
    yield _reranked(f"{name}, top {CANDIDATES:,} by embeddings", size, index, query, vectors, "embeddings", CANDIDATES)


def linear_coders(work: Work, bits: int, seed: int) -> Iterator[Contender]:
    """The library's coders with labels, and three without."""
    from lbhash.hasher import Hasher
    from lbhash.training.coders import CODERS

    names = {"logistic": "logistic onto centers", "ridge": "ridge onto centers", "cca-itq": "CCA-ITQ", "sdh": "SDH"}
    names |= {"wccn-itq": "WCCN-ITQ", "itq": "ITQ", "pca": "PCA, turned at random", "sne": "sne"}
    for method, name in names.items():
        hasher = Hasher(bits, method, seed=seed).fit_split(work.dataset.train, work.classes)
        query, base = (hasher.encode_split(part) for part in (work.dataset.query, work.base_part))
        yield _binary(name, CODERS[method].needs_labels, query, base, bits)


def additive_quantization(work: Work, bits: int, seed: int) -> Iterator[Contender]:
    """FAISS's residual quantizer and local search quantizer, one byte a step, of the first 128 principal components.

    Local search takes minutes to fit from 16 steps on, and hours from 32 on, where it is left out.
    """
    if len(work.train) < 256 or bits % 8:
        return
    import faiss

    dim, steps = min(128, work.dim), bits // 8
    residual = faiss.IndexResidualQuantizer(dim, steps, 8)
    residual.rq.cp.seed = 1234 + seed
    residual.rq.cp.min_points_per_centroid = 1
    yield _quantized("FAISS residual quantizer", work, _after_components(work, residual, dim))
    if steps <= 16:
        local = faiss.IndexLocalSearchQuantizer(dim, steps, 8)
        local.lsq.random_seed = 1234 + seed
        yield _quantized("FAISS local search quantizer", work, _after_components(work, local, dim))


def _after_components(work: Work, index: Any, dim: int) -> Any:
    import faiss

    return faiss.IndexPreTransform(faiss.PCAMatrix(work.dim, dim), index)


def rabitq(work: Work, bits: int | None = None) -> Iterator[Contender]:
    """FAISS's RaBitQ of 1 to 4 bits a dimension: of all, turned at random, or of as many principal components as fit.

    Beside them a row has numbers of 8 bytes, or of 20 from 2 bits a dimension on.
    """
    import faiss

    for each in (1, 2, 3, 4):
        first = f"RR{work.dim}"
        if bits is not None:
            dimensions = min((bits - (64 if each == 1 else 160)) // each, work.dim, len(work.train) - 1)
            if dimensions < 8:
                continue
            first = f"PCAR{dimensions}"
        index: Any = faiss.index_factory(work.dim, f"{first},RaBitQ{'' if each == 1 else each}")
        index.train(work.train)
        index.add(work.base)
        name = "FAISS RaBitQ" + ("" if each == 1 else f", {each} bits")
        yield Contender(name, False, index.sa_code_size(), partial(_searched, index, work))


def _searched(index: Any, work: Work, some: slice) -> Scores:
    """Distances by FAISS's own search, which compares RaBitQ's codes in no other way."""
    distances, ids = index.search(work.query[some], len(work.base))
    found = np.empty_like(distances)
    np.put_along_axis(found, ids, distances, 1)
    return found


def discriminants(work: Work, bits: int, seed: int) -> Iterator[Contender]:
    """Linear discriminant analysis: signs of its C − 1 numbers, turned into as many as there are bits; or the first."""
    if work.dataset.multi_label:
        return
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    fitted = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(work.train, work.dataset.train.labels)
    train, query, base = (fitted.transform(x).astype(np.float32) for x in (work.train, work.query, work.base))
    turned = [_rotated(x - train.mean(axis=0), bits, seed) for x in (query, base)]
    yield _binary("LDA, signs", True, pack(turned[0]), pack(turned[1]), bits)
    numbers = bits // 16
    if 1 <= numbers <= train.shape[1]:
        held = base[:, :numbers].astype(np.float16).astype(np.float32)
        yield _by_distance("LDA, float16", True, 2 * numbers, query[:, :numbers], held)


def iterative_quantization(work: Work, bits: int, seed: int) -> Iterator[Contender]:
    """FAISS's ITQ, with each bit's threshold at its median (``ITQ64,LSHt``)."""
    if bits > min(work.dim, len(work.train) - 1):
        return
    import faiss

    index: Any = faiss.index_factory(work.dim, f"ITQ{bits},LSHt")
    first: Any = faiss.downcast_VectorTransform(index.chain.at(0))
    first.itq.seed = 123 + seed
    index.train(work.train)
    yield _binary("FAISS ITQ", False, index.sa_encode(work.query), index.sa_encode(work.base), bits)


def random_hyperplanes(work: Work, bits: int, seed: int) -> Iterator[Contender]:
    """Signs of the centered embeddings after a random rotation."""
    mean = work.train.mean(axis=0)
    query, base = (pack(_rotated(x - mean, bits, seed)) for x in (work.query, work.base))
    yield _binary("LSH", False, query, base, bits)


def few_dimensions(work: Work, bits: int) -> Iterator[Contender]:
    """Signs of as many numbers as there are bits: the principal components, or the first of the embedding."""
    if bits > min(work.dim, len(work.train) - 1):
        return
    import faiss

    components = faiss.PCAMatrix(work.dim, bits)
    components.train(work.train)
    yield _binary("PCA, signs", False, pack(components.apply(work.query)), pack(components.apply(work.base)), bits)
    mean = work.train[:, :bits].mean(axis=0)
    query, base = (pack(x[:, :bits] - mean) for x in (work.query, work.base))
    yield _binary("first dimensions, signs", False, query, base, bits)


def product_quantization(work: Work, bits: int, seed: int) -> Iterator[Contender]:
    """FAISS's PQ of one byte a part, and the same of 4 numbers a part that OPQ has made of the embedding."""
    parts = bits // 8
    if len(work.train) < 256 or bits % 8:  # a part has 256 centroids
        return
    import faiss

    if work.dim % parts == 0:
        index = faiss.IndexPQ(work.dim, parts, 8)
        _plant(index.pq, seed)
        yield _quantized("FAISS PQ", work, index)
    if 4 * parts <= work.dim:
        rotation = faiss.OPQMatrix(work.dim, parts, 4 * parts)
        inner = faiss.ProductQuantizer(4 * parts, parts, 8)
        _plant(inner, seed)
        rotation.pq, rotation.niter = inner, OPQ_ROUNDS
        index = faiss.IndexPQ(4 * parts, parts, 8)
        _plant(index.pq, seed)
        yield _quantized("FAISS OPQ + PQ", work, faiss.IndexPreTransform(rotation, index))
        del inner  # which the rotation points to while it learns


# -------------------------------------------------------------------------------------------------- how they score


def _binary(name: str, supervised: bool, query: PackedCodes, base: PackedCodes, bits: int) -> Contender:
    return Contender(
        name,
        supervised,
        -(-bits // 8),
        lambda some: _distances(query[some], base),
    )


def _distances(query: PackedCodes, base: PackedCodes) -> npt.NDArray[np.int32]:
    """Hamming distances of codes of any length; those of the library end at 1,024 bits."""
    most = code_bytes(MAX_BITS)
    parts = (slice(start, start + most) for start in range(0, base.shape[1], most))
    return sum(
        (
            hamming_distances(np.ascontiguousarray(query[:, part]), np.ascontiguousarray(base[:, part]))
            for part in parts
        ),
        np.zeros((len(query), len(base)), np.int32),
    )


def _by_product(name: str, supervised: bool, size: int, query: Floats, base: Floats) -> Contender:
    return Contender(
        name,
        supervised,
        size,
        lambda some: -(query[some] @ base.T),
    )


def _by_distance(name: str, supervised: bool, size: int, query: Floats, base: Floats) -> Contender:
    squares = np.square(base).sum(axis=1)
    return Contender(
        name,
        supervised,
        size,
        lambda some: squares - 2 * (query[some] @ base.T),  # but for the query's own square
    )


def _asymmetric(name: str, supervised: bool, outputs: Floats, base: PackedCodes, bits: int) -> Contender:
    codes, which = np.unique(base, axis=0, return_inverse=True)
    signs = 2 * np.unpackbits(codes, axis=1, count=bits, bitorder="little").astype(np.float32) - 1  # of any length
    return Contender(name, supervised, base.shape[1], lambda some: -(outputs[some] @ signs.T)[:, which])


def _reranked(
    name: str, size: int, index: FlatIndex, query: PackedCodes, vectors: Floats, by: By, count: int
) -> Contender:
    count = min(count, len(index))
    base = index.codes_of(index.ids())

    def scores(some: slice) -> Scores:
        """Candidates first, by their score; then the others by Hamming distance."""
        found = rerank(index, index.search(query[some], count), vectors[some], count, by)
        places = np.zeros(found.ids.shape, np.int32)
        np.cumsum(found.scores[:, 1:] != found.scores[:, :-1], axis=1, out=places[:, 1:])
        whole = hamming_distances(query[some], base) + count
        np.put_along_axis(whole, found.ids, places, 1)
        return whole

    return Contender(name, True, size, scores)


def _quantized(name: str, work: Work, index: Any) -> Contender:
    """Ranked by the distance of the query from what a row's code stands for, as FAISS's search has it."""
    index.train(work.train)
    index.add(work.base)
    base = index.sa_encode(work.base)
    codes, which = np.unique(base, axis=0, return_inverse=True)
    decoded = index.sa_decode(codes)
    squares = np.square(decoded).sum(axis=1)
    return Contender(
        name,
        False,
        base.shape[1],
        lambda some: (squares - 2 * (work.query[some] @ decoded.T))[:, which],
    )


def _plant(quantizer: Any, seed: int) -> None:
    quantizer.cp.seed = 1234 + seed
    quantizer.cp.min_points_per_centroid = 1  # FAISS would say a hundred times that the training rows are few


def _rotated(x: Floats, bits: int, seed: int) -> Floats:
    """As many numbers as there are bits, by random directions that are orthogonal as far as they can be."""
    import faiss

    rotation = faiss.RandomRotationMatrix(x.shape[1], bits)
    rotation.init(1234 + seed)
    return rotation.apply(x)


def _probabilities(work: Work) -> tuple[Floats, Floats]:
    """Return class probabilities of queries and base rows, ``[n, classes]``, by the C that is best on rows held out."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, tol=1e-3))
    held_out = StratifiedShuffleSplit(1, test_size=0.2, random_state=0)
    search = GridSearchCV(model, {"logisticregression__C": STRENGTHS}, cv=held_out, scoring="neg_log_loss")
    search.fit(work.dataset.train.take(slice(None)), work.dataset.train.labels)
    parts = (work.dataset.query, work.base_part)
    query, base = (np.concatenate([search.predict_proba(chunk) for chunk in part.chunks()]) for part in parts)
    return query.astype(np.float32), base.astype(np.float32)
