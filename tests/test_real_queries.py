"""Figures of queries in real outputs: against every order of ties, one query and one code at a time."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from lbhash import Hasher, evaluate, pack, unpack
from lbhash.codes import real
from lbhash.codes.real import Asked
from lbhash.evaluation.neighbors import evaluate_neighbors, recall_of_others


def slow_distances(outputs, codes):
    """The sum of abs(ℓ) over the bits in which a code is not the sign of ℓ."""
    signs = np.where(outputs >= 0, 1, -1)
    return np.array(
        [
            [
                sum(abs(float(value)) for value, own, held in zip(*row, code, strict=True) if own != held)
                for code in unpack(codes, outputs.shape[1])
            ]
            for row in zip(outputs, signs, strict=True)
        ]
    )


def orders(distances):
    """All orders of a ranking."""
    for order in permutations(range(len(distances))):
        if (np.diff(distances[list(order)]) >= 0).all():
            yield list(order)


@pytest.fixture
def few():
    rng = np.random.default_rng(3)
    outputs = rng.integers(-2, 3, (4, 5)).astype(np.float32)
    return outputs, pack(outputs), pack(rng.choice([-1, 1], (6, 5)))


@pytest.mark.parametrize("bits", [1, 5, 16, 700])
def test_distances(bits):
    rng = np.random.default_rng(bits)
    outputs, codes = rng.standard_normal((3, bits)).astype(np.float32), pack(rng.choice([-1, 1], (7, bits)))
    np.testing.assert_allclose(Asked(outputs).distances(codes), slow_distances(outputs, codes), rtol=1e-12)


@pytest.mark.parametrize("top_k", [2, 6])
def test_map_by_outputs_is_a_mean_over_the_orders_of_ties(few, top_k, monkeypatch):
    outputs, queries, codes = few
    wanted, labels = [0, 1, 1, 2], [0, 1, 1, 0, 1, 0]
    means = []
    for label, distances in zip(wanted, slow_distances(outputs, codes), strict=True):
        if label not in labels:
            continue
        values = []
        for order in orders(distances):
            hits = [place for place, at in enumerate(order[:top_k], 1) if labels[at] == label]
            values.append(sum(n / place for n, place in enumerate(hits, 1)) / len(hits) if hits else 0.0)
        means.append(np.mean(values))
    monkeypatch.setattr(real, "_PAIRS", 7)  # a query at a time
    named = {"base_codes": codes, "base_labels": labels, "bits": 5}
    found = evaluate(query_codes=queries, query_labels=wanted, top_k=top_k, query_outputs=outputs, **named)
    assert found.map_real == pytest.approx(np.mean(means))
    assert found.as_dict()["map_real"] == found.map_real
    assert f"by real outputs {found.map_real:.4f}" in repr(found)
    unlabeled = evaluate(
        query_codes=queries[[0, *range(4)]],
        query_labels=[None, *wanted],
        query_outputs=outputs[[0, *range(4)]],
        **named,
    )
    assert (
        evaluate(query_codes=queries, query_labels=wanted, query_outputs=outputs, **named).map_real
        == unlabeled.map_real
    )
    assert evaluate(query_codes=queries, query_labels=wanted, **named).map_real is None


def test_neighbors_by_outputs_are_means_over_the_orders_of_ties(few, monkeypatch):
    outputs, queries, codes = few
    rng = np.random.default_rng(0)
    x, b = rng.standard_normal((4, 3)), rng.standard_normal((6, 3))
    monkeypatch.setattr(real, "_PAIRS", 7)
    found = evaluate_neighbors(queries, x, codes, b, (1, 3), 5, (2, 4), query_outputs=outputs).real
    cosines = x @ b.T / np.linalg.norm(b, axis=1)
    for at, k in enumerate((1, 3)):
        curves, precisions = [], []
        for row, distances in enumerate(slow_distances(outputs, codes)):
            near = set(np.argsort(-cosines[row])[:k].tolist())
            each = list(orders(distances))
            curves.append(np.mean([[len(near & set(one[:c])) / k for c in range(7)] for one in each], axis=0))
            hits = [[place for place, item in enumerate(one, 1) if item in near] for one in each]
            precisions.append(np.mean([np.mean([n / p for n, p in enumerate(one, 1)]) for one in hits]))
        curve = np.mean(curves, axis=0)
        assert found.recall[at] == pytest.approx(curve[k])
        assert found.reranked[at] == pytest.approx((curve[2], curve[4]))
        assert found.map[at] == pytest.approx(np.mean(precisions))
        assert found.candidates[at] == np.argmax(curve > 0.95 - 1e-9)


def test_recall_among_the_other_rows(few, monkeypatch):
    outputs, codes, _ = few
    rows = np.random.default_rng(1).standard_normal((4, 3))
    cosines = rows @ rows.T / np.linalg.norm(rows, axis=1)
    distances, recalls = slow_distances(outputs, codes), []
    for row in range(4):
        others = [at for at in range(4) if at != row]
        near = set(sorted(others, key=lambda at: -cosines[row, at])[:2])
        each = [[others[at] for at in one] for one in orders(distances[row, others])]
        recalls.append(np.mean([len(near & set(one[:2])) / 2 for one in each]))
    monkeypatch.setattr(real, "_PAIRS", 7)
    assert recall_of_others(outputs, rows, 2) == pytest.approx(np.mean(recalls))


def test_outputs_of_other_queries_are_refused(few):
    outputs, queries, codes = few
    for given, said in (
        (outputs[:, :4], r"^query_outputs has shape \(4, 4\); it must be \[4, 5\]"),
        (-outputs - 0.5, "^query_outputs and the codes are of different queries: the signs of row 0 are not its code"),
        (outputs + np.inf, "^query_outputs is NaN or infinite in row 0"),
    ):
        with pytest.raises(ValueError, match=said):
            evaluate(
                query_codes=queries,
                query_labels=[0] * 4,
                base_codes=codes,
                base_labels=[0] * 6,
                query_outputs=given,
                bits=5,
            )


def test_a_hasher_scores_by_outputs():
    X, y = load_digits(return_X_y=True)
    hasher = Hasher(12, method="itq").fit(X[:300], y[:300])
    asked, labels = X[300:350], y[300:350]
    wanted = evaluate(hasher.encode(asked), labels, hasher.train_codes_, y[:300], query_outputs=hasher.outputs(asked))
    assert hasher.score(asked, labels) == pytest.approx(wanted.map_real)
