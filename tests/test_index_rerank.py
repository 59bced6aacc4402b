"""The second stage: what a search has found, ranked again."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_distances

from lbhash.codes import pack
from lbhash.codes.io import CodeTable
from lbhash.index import Index
from lbhash.index.factory import build_index
from lbhash.index.rerank import DISTANCE_WEIGHT, reranked


@pytest.fixture(scope="module")
def outputs():
    return np.random.default_rng(0).normal(size=(80, 12)).astype(np.float32)


def index_of(outputs, keep=""):
    index = Index(12, vectors=keep, learns_classes=True)
    index.add(pack(outputs), np.arange(80) * 3, vectors=outputs if keep else None)
    return index


@pytest.mark.parametrize(("keep", "dtype", "learns"), [("outputs", np.float32, True), ("embeddings", np.uint8, False)])
def test_by_what_the_index_stores(tmp_path, outputs, keep, dtype, learns):
    vectors = np.round(40 * np.abs(outputs)).astype(dtype)
    table = CodeTable(pack(outputs), 12, np.arange(80)[::-1] * 3)  # so that they are put in order
    build_index(table, tmp_path / "i", vectors=vectors, store=keep, learns_classes=learns)
    index = Index.open(tmp_path / "i", mode="a")
    assert index.vectors_of([0]).dtype == (np.uint8 if dtype == np.uint8 else np.float16)
    queries = vectors[:5].astype(np.float32) + 1
    found = index.search(pack(outputs[:5]), 30)
    best = reranked(index, found, queries, 7, keep)
    for row in range(5):
        candidates = found.ids[row]
        far = cosine_distances(queries[row : row + 1], vectors[79 - candidates // 3].astype(np.float64))[0]
        far += DISTANCE_WEIGHT * learns * found.hamming[row] / 12
        np.testing.assert_allclose(best.distances[row], np.sort(far)[:7], atol=1e-5)
        assert set(best.ids[row]) <= set(candidates)
        at = [candidates.tolist().index(name) for name in best.ids[row]]
        assert best.hamming[row].tolist() == found.hamming[row, at].tolist()
        np.testing.assert_allclose(best.distances[row], far[at], atol=1e-5)


@pytest.mark.parametrize("held", [0, 0.25])  # read row by row from the file, or kept in memory
def test_embeddings_as_int8(tmp_path, outputs, held, monkeypatch):
    monkeypatch.setattr("lbhash.index.files.HELD", held)
    x = np.random.default_rng(4).normal(size=(80, 5)) * [1, 0.01, 3, 100, 0]
    table = CodeTable(pack(outputs), 12, np.arange(80))
    build_index(table, tmp_path / "i", metadata={}, vectors=x, store="int8")
    index = Index.open(tmp_path / "i", mode="a")
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    steps = np.abs(unit).max(axis=0) / 127
    assert (np.abs(index.vectors_of(range(80)) - unit) <= steps / 2 * 1.001).all()
    assert index.info()["kept"] == {"vectors": "embeddings", "dtype": "int8", "dim": 5}
    index.read_all()
    steps[4] = steps.max()
    index.add(pack(outputs[:2]), [90, 91], vectors=[[9, 0.1, -1, 999, 1], [0, 0, 0, 0, 0]])
    wanted = np.array([[9, 0.1, -1, 999, 1], [0, 0, 0, 0, 0]]) / np.linalg.norm([9, 0.1, -1, 999, 1])
    wanted *= np.minimum(1, 127 / np.abs(wanted[:1] / steps).max())
    for opened in (index, Index.open(tmp_path / "i", mode="a")):  # by the first scales
        assert (np.abs(opened.vectors_of([90, 91]) - wanted) <= steps / 2 * 1.001).all()
        opened.read_all()
        opened.verify()
    with pytest.raises(ValueError, match=r"^vectors is NaN or infinite in row 1; every number must be finite"):
        index.add(pack(outputs[:2]), vectors=[[0] * 5, [np.nan] * 5])
    whole = Index(12, vectors="int8")
    whole.add(pack(outputs[:2]), vectors=np.array([[0], [255]], np.uint8))
    assert whole.vectors_of([0, 1]).tolist() == [[0], [255]]  # a byte a number as they are


@pytest.mark.parametrize("learns", [True, False])
def test_the_weight_is_that_of_the_method(tmp_path, outputs, learns):
    """Also after the index was stored and changed; an index that does not know it says how it would."""
    vectors = np.random.default_rng(2).normal(size=(80, 5)).astype(np.float32)
    table, kept = CodeTable(pack(outputs), 12, np.arange(80)), {"vectors": vectors, "store": "embeddings"}
    build_index(table, tmp_path / "i", **kept, learns_classes=learns).remove([3])
    index = Index.open(tmp_path / "i", mode="a")
    index.save(tmp_path / "copy")
    again = {"embeddings": vectors[:2], "rerank": "embeddings", "candidates": 20}
    wanted = reranked(index, index.search(pack(outputs[:2]), 20), vectors[:2], 5, "embeddings")
    for held in (index, Index.open(tmp_path / "copy")):
        for one, other in zip(held.search(pack(outputs[:2]), 5, **again), wanted, strict=True):
            np.testing.assert_array_equal(one, other)
    unknown = build_index(table, tmp_path / "unknown", **kept)
    with pytest.raises(ValueError, match=r"^rerank is 'embeddings', and the index does not know whether labels"):
        unknown.search(pack(outputs[:2]), 5, **again)


@pytest.mark.parametrize(("store", "near"), [("embeddings", 1e-3), ("int8", 0.02)])
def test_cosines_are_right_at_every_scale(store, near):
    """float16 holds numbers from 6e-8 to 65,504 alone, and float32 squares of numbers from 1e-22 to 1e19."""
    rng = np.random.default_rng(7)
    x, asked = rng.normal(size=(60, 16)), rng.normal(size=(3, 16))
    scales = 10.0 ** np.array([-37, -30, -8, -6, 0, 4, 6, 18, 30, 37])
    for rows in (*(x * scale for scale in scales), x * np.tile(scales, 6)[:, None]):
        index = Index(8, vectors=store, learns_classes=False)
        index.add(np.zeros((60, 1), np.uint8), vectors=rows.astype(np.float32))
        for scale in (1e-30, 1, 1e30):
            found = index.search(np.zeros((3, 1), np.uint8), 60, embeddings=asked * scale, rerank="embeddings")
            exact = np.take_along_axis(cosine_distances(asked, x), found.ids, 1)
            np.testing.assert_allclose(found.distances, exact, atol=near)
    index = Index(8, vectors="embeddings")
    index.add(np.zeros((2, 1), np.uint8), vectors=[[1e-8, 0], [7.5, 0.5]])
    assert index.vectors_of([0, 1]).tolist() == [[1, 0], [7.5, 0.5]]  # what float16 holds stays


def test_outputs_are_compared_at_every_scale():
    rng = np.random.default_rng(8)
    codes, outputs = rng.integers(0, 256, (5000, 2), dtype=np.uint8), rng.normal(size=(4, 16)).astype(np.float32)
    differ = (np.unpackbits(codes, axis=1) == 1)[None] != (outputs >= 0)[:, None]
    nearest = np.sort((differ * np.abs(outputs.astype(float))[:, None]).sum(axis=2), axis=1)[:, :9]
    for kind in ("flat", "ivf"):
        index = Index(16, kind, options={"nprobe": 70} if kind == "ivf" else None)
        index.add(codes)
        for power in (-120, 0, 120):
            found = index.search(outputs=np.ldexp(outputs, power), k=9)
            np.testing.assert_allclose(np.ldexp(found.distances, -power), nearest, rtol=1e-6)
    with pytest.raises(ValueError, match=r"^outputs has too large a sum of absolute numbers in row 1; scale the row$"):
        index.search(outputs=outputs * np.array([[1], [1e38], [1], [1]]))


def test_candidates_of_outputs_are_those_of_the_outputs(outputs):
    index = index_of(outputs, keep="outputs")
    found = index.search(outputs=outputs[:3], k=5, rerank="outputs", candidates=9)
    nearest = index.search(outputs=outputs[:3], k=9)
    for row in range(3):
        assert set(found.ids[row]) <= set(nearest.ids[row])
    assert found.ids[:, 0].tolist() == [0, 3, 6]


def test_equal_scores_stay_in_the_order_of_the_search():
    index = Index(8, vectors="embeddings", learns_classes=False)
    index.add(np.full((6, 1), 3, np.uint8), [5, 1, 4, 2, 3, 0], vectors=np.ones((6, 2)))
    found = index.search(np.array([[2]], np.uint8), 6)
    assert reranked(index, found, np.ones((1, 2)), 6, "embeddings").ids.tolist() == [[0, 1, 2, 3, 4, 5]]


def test_vectors_without_length():
    index = Index(8, vectors="embeddings", learns_classes=False)
    index.add(np.zeros((2, 1), np.uint8), vectors=[[0, 0], [1, 0]])
    found = index.search(np.array([[2]], np.uint8), 2)
    assert reranked(index, found, [[1, 0]], 2, "embeddings").distances.tolist() == [[0, 1]]
    assert reranked(index, found, [[0, 0]], 2, "embeddings").distances.tolist() == [[1, 1]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rerank": "luck"}, "rerank is 'luck'; it must be one of outputs, embeddings"),
        ({"rerank": "embeddings"}, "rerank is 'embeddings' and the index stores outputs; make it with the vectors"),
        ({"k": 0}, "k is 0; it must be at least 1"),
        ({"candidates": 1}, r"candidates is 1; it must be at least k \(2\)"),
        ({"outputs": np.zeros((3, 11))}, r"^outputs has 11 numbers a row; the codes have 12 bits"),
        ({"outputs": np.full((2, 12), np.nan)}, "outputs is NaN or infinite in row 0; every number must be finite"),
        ({"outputs": None}, "^codes and outputs are not given; give one of them"),
    ],
)
def test_bad_arguments(outputs, change, message):
    index = index_of(outputs, keep="outputs")
    how = {"outputs": outputs[:2], "embeddings": outputs[:2], "k": 2, "rerank": "outputs"} | change
    with pytest.raises(ValueError, match=message):
        index.search(**how)
