"""The second stage: what a search has found, ranked again."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_distances

from lbhash.codes import pack, unpack
from lbhash.codes.io import CodeTable
from lbhash.index import FlatIndex, build_index, open_index, rerank
from lbhash.index.rerank import DISTANCE_WEIGHT


@pytest.fixture(scope="module")
def outputs():
    return np.random.default_rng(0).normal(size=(80, 12)).astype(np.float32)


def index_of(outputs, keep=""):
    index = FlatIndex(12, store_vectors=keep)
    index.add(pack(outputs), np.arange(80) * 3, vectors=outputs if keep else None)
    return index


def test_by_the_codes_alone(outputs):
    index = index_of(outputs)
    queries = np.random.default_rng(1).normal(size=(6, 12)).astype(np.float32)
    found = index.search(pack(queries), 80)
    best = rerank(index, found, queries, 80)
    signs = unpack(pack(outputs), 12)
    for row, query in enumerate(queries):
        # A bit that differs from the query's sign costs its |ℓ| twice; where none differs the score is −Σ|ℓ|.
        weighted = [-np.abs(query).sum() + 2 * np.abs(query)[(query >= 0) != (code > 0)].sum() for code in signs]
        np.testing.assert_allclose(best.scores[row], np.sort(weighted), atol=1e-5)
        np.testing.assert_allclose(best.scores[row], np.array(weighted)[best.ids[row] // 3], atol=1e-5)
        differing = (np.where(query >= 0, 1, -1) != signs).sum(axis=1)
        assert best.distances[row].tolist() == differing[best.ids[row] // 3].tolist()
    assert (best.scores.dtype, best.distances.dtype, best.ids.dtype) == (np.float32, np.int32, np.int64)


@pytest.mark.parametrize(
    ("keep", "dtype", "weight"), [("outputs", np.float32, DISTANCE_WEIGHT), ("embeddings", np.uint8, 0)]
)
def test_by_what_the_index_keeps(tmp_path, outputs, keep, dtype, weight):
    vectors = np.round(40 * np.abs(outputs)).astype(dtype)
    table = CodeTable(pack(outputs), 12, np.arange(80)[::-1] * 3)  # so that they are put in order
    build_index(table, tmp_path / "i", vectors=vectors, store_vectors=keep)
    index = open_index(tmp_path / "i")
    assert index.vectors_of([0]).dtype == (np.uint8 if dtype == np.uint8 else np.float16)
    queries = vectors[:5].astype(np.float32) + 1
    found = index.search(pack(outputs[:5]), 30)
    best = rerank(index, found, queries, 7, keep, weight)
    for row in range(5):
        candidates = found.ids[row]
        far = cosine_distances(queries[row : row + 1], vectors[79 - candidates // 3].astype(np.float64))[0]
        far += weight * found.distances[row] / 12
        np.testing.assert_allclose(best.scores[row], np.sort(far)[:7], atol=1e-5)
        assert set(best.ids[row]) <= set(candidates)
        at = [candidates.tolist().index(name) for name in best.ids[row]]
        assert best.distances[row].tolist() == found.distances[row, at].tolist()
        np.testing.assert_allclose(best.scores[row], far[at], atol=1e-5)


@pytest.mark.parametrize("held", [0, 0.25])  # read row by row from the file, or kept in memory
def test_embeddings_as_int8(tmp_path, outputs, held, monkeypatch):
    monkeypatch.setattr("lbhash.index.files.HELD", held)
    x = np.random.default_rng(4).normal(size=(80, 5)) * [1, 0.01, 3, 100, 0]
    table = CodeTable(pack(outputs), 12, np.arange(80))
    build_index(table, tmp_path / "i", attributes={}, vectors=x, store_vectors="int8")
    index = open_index(tmp_path / "i")
    steps = np.abs(x).max(axis=0) / 127
    assert (np.abs(index.vectors_of(range(80)) - x) <= steps / 2 * 1.001).all()
    assert index.info()["kept"] == {"vectors": "embeddings", "dtype": "int8", "dim": 5}
    index.load()
    index.add(pack(outputs[:2]), [90, 91], vectors=[[9, 0.001, -1, 999, 1], [0, 0, 0, 0, 0]])
    wanted = [[127, 0.001 / steps[1], -1 / steps[2], 127, 1], [0, 0, 0, 0, 0]] * np.where(steps > 0, steps, 1)
    for opened in (index, open_index(tmp_path / "i")):  # by the first scales, and no farther than they reach
        assert (np.abs(opened.vectors_of([90, 91]) - wanted) <= steps / 2 * 1.001).all()
        opened.load()
        opened.verify()
    with pytest.raises(ValueError, match=r"^vectors is NaN or infinite in row 1; every number must be finite"):
        index.add(pack(outputs[:2]), vectors=[[0] * 5, [np.nan] * 5])
    whole = FlatIndex(12, store_vectors="int8")
    whole.add(pack(outputs[:2]), vectors=np.array([[0], [255]], np.uint8))
    assert whole.vectors_of([0, 1]).tolist() == [[0], [255]]  # a byte a number as they are


@pytest.mark.parametrize("learns", [True, False])
def test_the_weight_is_that_of_the_method(tmp_path, outputs, learns):
    """Also after the index was stored and changed; an index that does not know it is asked with a weight."""
    vectors = np.random.default_rng(2).normal(size=(80, 5)).astype(np.float32)
    table, kept = CodeTable(pack(outputs), 12, np.arange(80)), {"vectors": vectors, "store_vectors": "embeddings"}
    build_index(table, tmp_path / "i", **kept, learns_classes=learns).remove([3])
    index = open_index(tmp_path / "i")
    index.save(tmp_path / "copy")
    found = index.search(pack(outputs[:2]), 20)
    wanted = rerank(index, found, vectors[:2], 5, "embeddings", DISTANCE_WEIGHT * learns)
    for held in (index, open_index(tmp_path / "copy")):
        for one, other in zip(rerank(held, found, vectors[:2], 5, "embeddings"), wanted, strict=True):
            np.testing.assert_array_equal(one, other)
    unknown = build_index(table, tmp_path / "unknown", **kept)
    with pytest.raises(ValueError, match="give weight 4 if one did, else 0, or build the index with learns_classes"):
        rerank(unknown, found, vectors[:2], 5, "embeddings")


def test_equal_scores_stay_in_the_order_of_the_search():
    index = FlatIndex(8)
    index.add(np.full((6, 1), 3, np.uint8), [5, 1, 4, 2, 3, 0])
    found = index.search(np.array([[2]], np.uint8), 6)
    assert rerank(index, found, np.ones((1, 8)), 6).ids.tolist() == [[0, 1, 2, 3, 4, 5]]


def test_vectors_without_length():
    index = FlatIndex(8, store_vectors="embeddings")
    index.add(np.zeros((2, 1), np.uint8), vectors=[[0, 0], [1, 0]])
    found = index.search(np.array([[2]], np.uint8), 2)
    assert rerank(index, found, [[1, 0]], 2, "embeddings", 0).scores.tolist() == [[0, 1]]
    assert rerank(index, found, [[0, 0]], 2, "embeddings", 0).scores.tolist() == [[1, 1]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"by": "luck"}, "by is 'luck'; it must be one of asymmetric, outputs, embeddings"),
        ({"by": "embeddings"}, "rerank is 'embeddings' and the index keeps outputs; build it with store_"),
        ({"k": 0}, "k is 0; it must be at least 1"),
        ({"queries": np.zeros((3, 12))}, r"queries has shape \(3, 12\); it must be \[2, dim\]"),
        ({"queries": np.full((2, 12), np.nan)}, "queries is NaN or infinite in row 0; every number must be finite"),
        ({"queries": np.zeros((2, 11))}, "queries has 11 numbers a row; the index holds 12"),
    ],
)
def test_bad_arguments(outputs, change, message):
    index = index_of(outputs, keep="outputs")
    found = index.search(pack(outputs[:2]), 4)
    arguments = {"queries": outputs[:2], "k": 2, "by": "asymmetric"} | change
    with pytest.raises(ValueError, match=message):
        rerank(index, found, **arguments)
