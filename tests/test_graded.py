import itertools
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbhash.codes import pack
from lbhash.evaluation.metrics import (
    acg_at,
    average_precision,
    f1_at,
    ndcg_at,
    precision_at,
    r_precision,
    recall_at,
    weighted_average_precision,
)
from lbhash.evaluation.ranking import RankHistogram

BITS = 4
items = st.lists(st.tuples(st.integers(0, BITS), st.integers(0, 3)), min_size=1, max_size=7)


def histogram(ranked, bits=BITS):
    """One query with three labels and base codes at given distances; each of ``ranked`` is (distance, grade)."""
    base = [[-1] * d + [1] * (bits - d) for d, _ in ranked]
    labels = [[1] * grade + [0] * (3 - grade) for _, grade in ranked]
    return RankHistogram.from_codes(pack([[1] * bits]), np.ones((1, 3)), pack(base), np.array(labels), bits=bits)


def all_orders(ranked):
    """Grades of every ranking that the ties allow, each as often as the next."""
    groups = [[g for d, g in ranked if d == distance] for distance in sorted({d for d, _ in ranked})]
    orders = itertools.product(*(itertools.permutations(group) for group in groups))
    return [list(itertools.chain(*order)) for order in orders]


def slow_wap(grades, at, normalize):
    hits = [i for i, grade in enumerate(grades[:at]) if grade]
    summed = sum(sum(grades[: i + 1]) / (i + 1) for i in hits)
    below = len(hits) if normalize == "retrieved" else min(at, sum(g > 0 for g in grades))
    return summed / below if below else 0.0


def slow_dcg(grades, k, gain):
    return sum(gain(grade) / math.log2(i + 2) for i, grade in enumerate(grades[:k]))


@settings(max_examples=60, deadline=None)
@given(items, st.data(), st.sampled_from(["retrieved", "all"]))
def test_graded_metrics_are_those_over_all_orders_of_ties(ranked, data, normalize):
    k = data.draw(st.integers(1, len(ranked)))
    hist, orders = histogram(ranked), all_orders(ranked)
    assert acg_at(hist, k)[0] == pytest.approx(np.mean([sum(order[:k]) / k for order in orders]), abs=1e-12)
    if not any(grade for _, grade in ranked):
        nothing = [ndcg_at(hist, k), weighted_average_precision(hist, k), f1_at(hist, k), r_precision(hist)]
        assert np.isnan(nothing).all()
        return
    expected = np.mean([slow_wap(order, k, normalize) for order in orders])
    assert weighted_average_precision(hist, k, normalize)[0] == pytest.approx(expected, abs=1e-12)
    for name, gain in (("exponential", lambda g: 2**g - 1), ("linear", lambda g: g)):
        ideal = slow_dcg(sorted((g for _, g in ranked), reverse=True), k, gain)
        expected = np.mean([slow_dcg(order, k, gain) for order in orders]) / ideal
        assert ndcg_at(hist, k, name)[0] == pytest.approx(expected, abs=1e-12)
    every = sum(grade > 0 for _, grade in ranked)
    found = [sum(grade > 0 for grade in order[:k]) for order in orders]
    f1 = [2 * (x / k) * (x / every) / (x / k + x / every) if x else 0.0 for x in found]
    assert f1_at(hist, k)[0] == pytest.approx(np.mean(f1), abs=1e-12)
    within = [sum(grade > 0 for grade in order[:every]) / every for order in orders]
    assert r_precision(hist)[0] == pytest.approx(np.mean(within), abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=60).filter(any), st.data())
def test_without_ties_they_are_trec_evals(grades, data):
    measures = pytest.importorskip("ir_measures")
    k = data.draw(st.integers(1, len(grades)))
    hist = histogram(list(enumerate(grades)), bits=64)
    run = [measures.ScoredDoc("query", f"d{at}", 100 - at) for at in range(len(grades))]

    def theirs(wanted, gains):
        qrels = [measures.Qrel("query", f"d{at}", gain) for at, gain in enumerate(gains)]
        return pytest.approx(measures.calc_aggregate([wanted], qrels, run)[wanted], rel=1e-9, abs=1e-9)

    assert ndcg_at(hist, k, "linear")[0] == theirs(measures.nDCG @ k, grades)
    assert ndcg_at(hist, k)[0] == theirs(measures.nDCG @ k, [2**grade - 1 for grade in grades])
    assert precision_at(hist, k)[0] == theirs(measures.P @ k, grades)
    assert recall_at(hist, k)[0] == theirs(measures.R @ k, grades)
    assert r_precision(hist)[0] == theirs(measures.Rprec, grades)
    assert average_precision(hist)[0] == theirs(measures.AP, grades)


@pytest.mark.slow  # ranx compiles its kernels
def test_without_ties_they_are_those_of_ranx():
    ranx = pytest.importorskip("ranx")
    grades = np.random.default_rng(0).integers(0, 3, (5, 60))
    run = {f"q{row}": {f"d{at}": 100.0 - at for at in range(60)} for row in range(5)}
    qrels = {f"q{row}": {f"d{at}": int(grade) for at, grade in enumerate(grades[row])} for row in range(5)}
    ours = {"map": average_precision, "r-precision": r_precision, "ndcg_burges": ndcg_at}
    ours |= {f"precision@{k}": partial(precision_at, k=k) for k in (1, 10, 50)}
    ours |= {f"recall@{k}": partial(recall_at, k=k) for k in (1, 10, 50)}
    lists = [histogram(list(enumerate(row)), bits=64) for row in grades.tolist()]
    for name, theirs in ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), list(ours)).items():
        assert np.mean([ours[name](one)[0] for one in lists]) == pytest.approx(theirs, abs=1e-9), name


def test_more_than_sixty_grades_stay_finite():
    labels = np.ones((1, 1500), np.uint8)
    hist = RankHistogram.from_codes(pack([[1]]), labels, pack([[1], [-1]]), np.concatenate([labels, 1 - labels]))
    assert ndcg_at(hist)[0] == 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda h: ndcg_at(h, 1, "square"), ValueError, "gain is 'square'; it must be one of exponential, linear"),
        (lambda h: r_precision(RankHistogram(pack([[1]]), [0])), ValueError, "hist is empty"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(histogram([(0, 1), (1, 0)]))


def test_the_discounts_of_a_long_list_are_summed_block_by_block(monkeypatch):
    """So that a base of any size needs the memory of a block; a sum of parts may differ in its last digits."""
    rng = np.random.default_rng(0)
    codes, labels = rng.integers(0, 256, (300, 1), np.uint8), rng.integers(0, 2, (300, 4))
    labels[0] = 1
    histogram = RankHistogram.from_codes(codes[:20], labels[:20], codes, labels)
    whole = [ndcg_at(histogram, k) for k in (1, 77, 300)]
    monkeypatch.setattr("lbhash.evaluation.metrics.graded._BLOCK", 7)
    for k, expected in zip((1, 77, 300), whole, strict=True):
        np.testing.assert_allclose(ndcg_at(histogram, k), expected, rtol=1e-13)
