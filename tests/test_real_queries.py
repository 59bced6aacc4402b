"""Figures of queries in real outputs: against every order of ties, one query and one code at a time."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from lbhash import Hasher, evaluate, pack, unpack
from lbhash.codes import real
from lbhash.codes.real import Asked
from lbhash.evaluation.neighbors import evaluate_neighbors, recall_of_others
from lbhash.evaluation.recognition import knn_predict


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


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("top_k", [2, 6])
def test_figures_by_outputs_are_means_over_the_orders_of_ties(few, top_k, several, monkeypatch):
    outputs, queries, codes = few
    wanted, labels = np.array([0, 1, 1, 2]), np.array([0, 1, 1, 0, 1, 0])
    grades = (wanted[:, None] == labels).astype(int)
    if several:
        wanted, labels = np.eye(3, dtype=np.uint8)[wanted], np.eye(3, dtype=np.uint8)[labels]
        wanted[:2, 2], labels[::2, 2] = 1, 1
        grades = wanted.astype(int) @ labels.T
    figures = {name: [] for name in ("map", "map_best", "map_worst", "r_precision", "precision", "ndcg", "acg", "wap")}
    for grade, distances in zip(grades, slow_distances(outputs, codes), strict=True):
        if not grade.any():
            continue
        ideal = sum((2**g - 1) / np.log2(place + 1) for place, g in enumerate(sorted(grade)[::-1][:top_k], 1))
        values = {name: [] for name in figures}
        for order in orders(distances):
            found = grade[order]
            hits = np.flatnonzero(found[:top_k]) + 1
            values["map"].append(np.mean(np.arange(1, len(hits) + 1) / hits) if len(hits) else 0.0)
            values["wap"].append(np.mean([found[:hit].mean() for hit in hits]) if len(hits) else 0.0)
            values["r_precision"].append((found[: (grade > 0).sum()] > 0).mean())
            values["precision"].append((found[:3] > 0).mean())
            gains = [(2**g - 1) / np.log2(place + 1) for place, g in enumerate(found[:top_k], 1)]
            values["ndcg"].append(sum(gains) / ideal)
            values["acg"].append(found[:top_k].mean())
        for name, each in values.items():
            if name not in ("map_best", "map_worst"):
                figures[name].append(np.mean(each))
        figures["map_best"].append(max(values["map"]))
        figures["map_worst"].append(min(values["map"]))
    monkeypatch.setattr(real, "_PAIRS", 7)  # a query at a time
    named = {"base_codes": codes, "base_labels": labels, "bits": 5, "top_k": top_k, "ranks": [3]}
    report = evaluate(query_codes=queries, query_labels=wanted, query_outputs=outputs, **named)
    assert report.map_worst < report.map < report.map_best
    for name, means in figures.items():
        measured = report.precision_at[0] if name == "precision" else getattr(report, name)
        assert measured == pytest.approx(np.mean(means)), name
    by_bits = evaluate(query_codes=queries, query_labels=wanted, **named)
    assert by_bits.by_bits is None
    for name, value in report.by_bits._asdict().items():
        assert value == getattr(by_bits, name) == report.as_dict()["by_bits"][name]
        assert report.to_pandas()[f"by_bits_{name}"][0] == value
    assert report.curve.recall.tolist() == by_bits.curve.recall.tolist()
    assert f"; by bits {report.by_bits.map:.4f}, {report.by_bits.map_worst:.4f} to" in repr(report)
    assert max(map(len, repr(report).splitlines())) <= 100
    if not several:
        assert report.map_macro == pytest.approx((figures["map"][0] + np.mean(figures["map"][1:3])) / 2)
        assert report.knn_accuracy == np.mean(slow_vote(outputs, codes, labels, report.k) == wanted)
        unlabeled = evaluate(
            query_codes=queries[[0, *range(4)]],
            query_labels=[None, *wanted.tolist()],
            query_outputs=outputs[[0, *range(4)]],
            **named,
        )
        assert unlabeled.as_dict() == report.as_dict()


def slow_vote(outputs, codes, labels, k):
    """The class with most votes: a code at the k-th distance has the share that is left for all of these."""
    winners = []
    for distances in slow_distances(outputs, codes):
        radius = sorted(distances)[k - 1]
        left = k - (distances < radius).sum()
        votes = {}
        for distance, label in zip(distances, labels, strict=True):
            vote = 1 if distance < radius else Fraction(int(left), int((distances == radius).sum()))
            votes[label] = votes.get(label, 0) + (vote if distance <= radius else 0)
        winners.append(min(label for label, vote in votes.items() if vote == max(votes.values())))
    return winners


@pytest.mark.parametrize("seed", range(20))
def test_a_vote_by_outputs(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    bits, rows = int(rng.choice([3, 8, 20])), int(rng.integers(1, 40))
    outputs = rng.integers(-2, 3, (6, bits)).astype(np.float32)  # sums are exact, and tie
    codes, labels = pack(rng.choice([-1, 1], (rows, bits))), rng.integers(0, 4, rows) * 10**6
    k = int(rng.integers(1, rows + 1))
    monkeypatch.setattr(real, "_PAIRS", 99)
    found = knn_predict(pack(outputs), codes, labels, k, query_outputs=outputs)
    assert found.tolist() == slow_vote(outputs, codes, labels, k)


def test_neighbors_by_outputs_are_means_over_the_orders_of_ties(few, monkeypatch):
    outputs, queries, codes = few
    rng = np.random.default_rng(0)
    x, b = rng.standard_normal((4, 3)), rng.standard_normal((6, 3))
    monkeypatch.setattr(real, "_PAIRS", 7)
    found = evaluate_neighbors(queries, x, codes, b, (1, 3), 5, (2, 4), query_outputs=outputs)
    assert found.by_bits == evaluate_neighbors(queries, x, codes, b, (1, 3), 5, (2, 4))
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
    with pytest.raises(ValueError, match=r"^ties is 'stable', which ranks by Hamming distance; leave query_outputs"):
        evaluate(queries, [0] * 4, codes, [0] * 6, ties="stable", query_outputs=outputs)
    with pytest.raises(ValueError, match=r"^query_outputs has shape \(3, 5\); it must be \[4, 5\]"):
        knn_predict(queries, codes, [0] * 6, 1, query_outputs=outputs[:3])


def test_a_hasher_scores_by_outputs():
    X, y = load_digits(return_X_y=True)
    hasher = Hasher(12, method="itq").fit(X[:300], y[:300])
    asked, labels = X[300:350], y[300:350]
    wanted = evaluate(hasher.encode(asked), labels, hasher.train_codes_, y[:300], query_outputs=hasher.outputs(asked))
    assert hasher.score(asked, labels) == pytest.approx(wanted.map)
