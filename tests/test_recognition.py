from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import lbhash.evaluation.parts
import lbhash.evaluation.recognition.vote
from lbhash.codes import hamming_distances, pack
from lbhash.evaluation.recognition import classifier_predict, knn_predict, linear_probe_predict


def slow_predict(queries, base, labels, k):
    winners = []
    for distances in hamming_distances(queries, base):
        radius = sorted(distances)[k - 1]
        taken, tied = (distances < radius).sum(), (distances == radius).sum()
        votes = {}
        for distance, label in zip(distances, labels, strict=True):
            vote = 1 if distance < radius else Fraction(int(k - taken), int(tied)) if distance == radius else 0
            votes[label] = votes.get(label, 0) + vote
        most = max(votes.values())
        winners.append(min(label for label, vote in votes.items() if vote == most))
    return winners


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([4, 8, 64, 70, 130]), st.data())
def test_predictions_are_those_of_a_slow_vote(seed, bits, data):
    rng = np.random.default_rng(seed)
    queries, base = (pack(rng.choice([-1, 1], (n, bits))) for n in (5, int(rng.integers(1, 40))))
    labels = rng.integers(0, 4, len(base)) * 10**6
    k = data.draw(st.integers(1, len(base)))
    found = knn_predict(queries, base, labels, k)
    assert found.dtype == np.int64
    assert found.tolist() == slow_predict(queries, base, labels.tolist(), k)
    order = rng.permutation(len(base))
    assert (knn_predict(queries, base[order], labels[order], k) == found).all()


CODES = pack([[1, 1], [1, -1]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: knn_predict(CODES, CODES, [0, 1], k=3), r"k is 3; it must be from 1 to the size of the base \(2\)"),
        (lambda: knn_predict(CODES, CODES, np.eye(2), k=1), "base_labels is multi-label"),
        (lambda: knn_predict(CODES, CODES, [0], k=1), "base_labels has 1 rows"),
        (lambda: knn_predict(CODES, np.zeros((2, 2), np.uint8), [0, 1], k=1), "base_codes has 2; they must be equal"),
        (lambda: linear_probe_predict(CODES, CODES, [0, 0]), "base_labels has 1 classes; a linear probe needs"),
        (lambda: classifier_predict(CODES, np.zeros(8)), r"weights has shape \(8,\); it must be \[classes, bits\]"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([5, 64, 130]), st.integers(1, 300))
def test_votes_of_codes_that_repeat_in_many_groups(seed, bits, k):
    rng = np.random.default_rng(seed)
    kinds = rng.choice([-1, 1], (9, bits))
    base, queries = pack(kinds[rng.integers(0, 9, 300)]), pack(kinds[rng.integers(0, 9, 6)])
    labels = rng.integers(0, 4, 300)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lbhash.evaluation.parts, "CHUNK", 170)
        patch.setattr(lbhash.evaluation.recognition.vote, "_VOTES", 8)
        found = knn_predict(queries, base, labels, k)
    assert found.tolist() == slow_predict(queries, base, labels.tolist(), k)


def test_votes_where_whole_groups_are_too_far_off():
    rng = np.random.default_rng(0)
    centers = rng.choice([-1, 1], (5, 96))
    labels = rng.integers(0, 5, 2000)
    base = pack(centers[labels] * np.where(rng.random((2000, 96)) < 0.05, -1, 1))
    queries = pack(centers * np.where(rng.random((5, 96)) < 0.05, -1, 1))
    found = knn_predict(queries, base, labels, 50)
    assert found.tolist() == slow_predict(queries, base, labels.tolist(), 50) == [0, 1, 2, 3, 4]


# ------------------------------------------------------------------------------------------------ linear classifiers


def noisy_codes(seed, n, bits=20, classes=4):
    centers = np.random.default_rng(1).choice([-1, 1], (classes, bits))
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    return centers[labels] * np.where(rng.random((n, bits)) < 0.2, -1, 1), 10 * labels + 3


def test_a_linear_probe_is_a_logistic_regression_on_the_bits():
    (base, labels), (queries, wanted) = noisy_codes(2, 400), noisy_codes(3, 300)
    model = LogisticRegression(max_iter=1000, tol=1e-3).fit(base, labels)
    found = linear_probe_predict(pack(queries), pack(base), labels, bits=20)
    assert np.mean(found == model.predict(queries)) > 0.98  # the same optimum, by fewer rows
    assert np.mean(found == wanted) > 0.85


def test_rows_that_occur_often_weigh_as_often():
    base, labels = pack([[1, 1]] * 5 + [[1, 1]] * 3 + [[-1, -1]] * 4), [0] * 5 + [1] * 3 + [1] * 4
    assert linear_probe_predict(base[:1], base, labels, bits=2).tolist() == [0]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_the_methods_own_classifier_is_an_argmax(seed, bits):
    rng = np.random.default_rng(seed)
    signs, weights = rng.choice([-1, 1], (17, bits)), rng.integers(-3, 4, (5, bits))
    found = classifier_predict(pack(signs), weights)
    scores = [[sum(int(w) * int(b) for w, b in zip(row, code, strict=True)) for row in weights] for code in signs]
    assert found.tolist() == [row.index(max(row)) for row in scores]
