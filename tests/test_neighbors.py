"""What codes keep of the neighbors in the embeddings: against every order of tied codes."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from lbhash.codes import hamming_distances, pack
from lbhash.evaluation import neighbors
from lbhash.evaluation.neighbors import evaluate_neighbors, nearest_by_cosine


def cosines(a, b):
    return np.array([[u @ v / np.linalg.norm(u) / np.linalg.norm(v) for v in b] for u in a])


def test_neighbors_by_cosine_in_chunks(monkeypatch):
    rng = np.random.default_rng(0)
    query, base = rng.standard_normal((5, 4)), rng.standard_normal((33, 4)) * rng.uniform(0.1, 9, (33, 1))
    wanted = np.argsort(-cosines(query, base), axis=1)[:, :12]
    np.testing.assert_array_equal(nearest_by_cosine(query, base, 12), wanted)
    monkeypatch.setattr(neighbors, "_CHUNK", 7)  # shorter than k
    np.testing.assert_array_equal(nearest_by_cosine(query, base, 12), wanted)


@pytest.mark.parametrize("bits", [1, 3])
def test_recall_and_precision_are_means_over_the_orders_of_ties(bits):
    rng = np.random.default_rng(bits)
    x, b = rng.standard_normal((3, 5)), rng.standard_normal((6, 5))
    query, base = pack(x[:, :bits]), pack(b[:, :bits])
    found = evaluate_neighbors(query, x, base, b, k=(2, 4), bits=bits, rerank=(1, 3, 6))
    distances = hamming_distances(query, base)
    for at, k in enumerate((2, 4)):
        recalls, precisions, reranked = [], [], []
        for row in range(3):
            near = set(np.argsort(-cosines(x, b)[row])[:k])
            for order in permutations(range(6)):
                if (np.diff(distances[row, list(order)]) < 0).any():
                    continue  # not an order of the ranking
                recalls.append((row, len(near & set(order[:k])) / k))
                reranked.append([len(near & set(order[:count])) / k for count in range(1, 7)])
                hits = [i for i, item in enumerate(order) if item in near]
                precisions.append((row, np.mean([(n + 1) / (i + 1) for n, i in enumerate(hits)])))
        for values, got in ((recalls, found.recall[at]), (precisions, found.map[at])):
            means = [np.mean([value for r, value in values if r == row]) for row in range(3)]
            assert got == pytest.approx(np.mean(means))
        of_rows = [
            np.mean([values for (r, _), values in zip(recalls, reranked, strict=True) if r == row], 0)
            for row in range(3)
        ]
        means = np.mean(of_rows, axis=0)  # of 1 to 6 candidates, whose nearest come first once they are ranked again
        np.testing.assert_allclose(found.reranked[at], means[[0, 2, 5]])
        assert found.candidates[at] == 1 + np.argmax(means > 0.95 - 1e-9)
    assert (found.queries, found.base, found.bits) == (3, 6, bits)


def test_a_code_that_keeps_every_distance_finds_every_neighbor():
    angles = np.linspace(0.05, 3, 20)
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    codes = pack(np.where(angles[:, None] > np.linspace(0, 3.1, 400), 1, -1))  # the distance is the angle
    found = evaluate_neighbors(codes[:1], x[:1], codes[1:], x[1:], k=(1, 5))
    assert found.recall == found.map == (1, 1)


def test_what_does_not_fit_is_refused():
    codes, x = np.zeros((4, 1), np.uint8), np.ones((4, 3))
    for given, said in (
        ((codes, x[:3], codes, x), r"^query_embeddings has shape \(3, 3\); it must be \[4, 3\]"),
        ((codes, x, codes, x[:, :2]), r"^query_embeddings has shape \(4, 3\); it must be \[4, 2\]"),
        ((codes, x, codes, x, (5,)), "^k is 5; it must be"),
        ((codes, x, codes, x, ()), "^k is empty"),
        ((codes[:0], x[:0], codes, x, (1,)), "^query_embeddings is empty"),
    ):
        with pytest.raises(ValueError, match=said):
            evaluate_neighbors(*given)
