from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbhash.codes import hamming_distances, pack
from lbhash.recognition import knn_accuracy, knn_predict


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
    wanted = rng.integers(0, 4, 5) * 10**6
    assert knn_accuracy(queries, wanted, base, labels, k) == np.mean(found == wanted)


def test_equal_votes_go_to_the_lowest_class():
    base = pack([[1, -1], [-1, 1]])
    assert knn_predict(pack([[1, 1]]), base, [7, 3], k=2).tolist() == [3]
    assert knn_predict(pack([[1, 1]]), base, [7, 3], k=1).tolist() == [3]


CODES = pack([[1, 1], [1, -1]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: knn_predict(CODES, CODES, [0, 1], k=3), r"k is 3; it must be from 1 to the size of the base \(2\)"),
        (lambda: knn_predict(CODES, CODES, [0, 1], k=0), "k is 0"),
        (lambda: knn_predict(CODES, CODES, np.eye(2), k=1), "base_labels is multi-label"),
        (lambda: knn_accuracy(CODES, np.eye(2), CODES, [0, 1], k=1), "query_labels is multi-label"),
        (lambda: knn_predict(CODES, CODES, [0], k=1), "base_labels has 1 rows"),
        (lambda: knn_predict(CODES, np.zeros((2, 2), np.uint8), [0, 1], k=1), "base_codes has 2; they must be equal"),
        (lambda: knn_predict(CODES, CODES[:0], [], k=1), "base_codes is empty"),
        (lambda: knn_accuracy(CODES[:0], [], CODES, [0, 1], k=1), "query_codes is empty"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
