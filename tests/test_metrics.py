import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from lbhash.codes import pack
from lbhash.evaluation.metrics import (
    average_precision,
    mean_over_queries,
    precision_at,
    precision_recall_curve,
    precision_within,
    recall_at,
    recall_within,
)
from lbhash.evaluation.ranking import RankHistogram

BITS = 6
items = st.lists(st.tuples(st.integers(0, BITS), st.booleans()), min_size=1, max_size=12)


def histogram(ranked, bits=BITS):
    """One query and base codes at given distances; each of ``ranked`` is (distance, relevant)."""
    base = [[-1] * d + [1] * (bits - d) for d, _ in ranked]
    return RankHistogram.from_codes(pack([[1] * bits]), [1], pack(base), [int(r) for _, r in ranked], bits=bits)


def slow_ap(relevance, at, normalize):
    hits = [i for i, r in enumerate(relevance[:at]) if r]
    summed = sum(sum(relevance[: i + 1]) / (i + 1) for i in hits)
    below = len(hits) if normalize == "retrieved" else min(at, sum(relevance))
    return summed / below if below else 0.0


def all_orders(ranked):
    """Relevance of every ranking that random orders of ties can give, each as often as the next."""
    groups = []
    for distance in sorted({d for d, _ in ranked}):
        tied = [r for d, r in ranked if d == distance]
        # Which places the relevant ones take is all that matters, and every choice of places is as likely.
        places = itertools.combinations(range(len(tied)), sum(tied))
        groups.append([[i in chosen for i in range(len(tied))] for chosen in places])
    return [list(itertools.chain(*choice)) for choice in itertools.product(*groups)]


@settings(max_examples=150, deadline=None)
@given(items, st.data(), st.sampled_from(["retrieved", "all"]))
def test_average_precision_is_that_over_all_orders_of_ties(ranked, data, normalize):
    at = data.draw(st.integers(1, len(ranked)))
    hist = histogram(ranked)
    values = [slow_ap(order, at, normalize) for order in all_orders(ranked)]
    found = {ties: average_precision(hist, at, ties, normalize)[0] for ties in ("expected", "best", "worst")}
    if not any(r for _, r in ranked):
        assert all(math.isnan(value) for value in found.values())
        return
    assert found["expected"] == pytest.approx(np.mean(values), abs=1e-12)
    assert found["best"] == pytest.approx(max(values), abs=1e-12)
    assert found["worst"] == pytest.approx(min(values), abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=60).filter(any))
def test_without_ties_it_is_scikit_learns(relevance):
    hist = histogram(list(enumerate(relevance)), bits=64)
    expected = average_precision_score(relevance, -np.arange(len(relevance)))
    for ties, normalize in itertools.product(("expected", "best", "worst"), ("retrieved", "all")):
        assert average_precision(hist, None, ties, normalize)[0] == pytest.approx(expected, abs=1e-12)


def counted(total, relevant):
    """A histogram with given counts, for bases too large to make."""
    hist = RankHistogram(np.zeros((len(total), 1), np.uint8), [0] * len(total), bits=total.shape[1] - 1)
    hist.total, hist.graded = total, relevant[:, None]
    return hist


def exact_group(n, r, places, after, before):
    a = math.fsum(1 / (after + k) for k in range(1, places + 1))
    b = math.fsum((k - 1) / (after + k) for k in range(1, places + 1))
    return r / n * ((before + 1) * a + (r - 1) / (n - 1) * b)


@pytest.mark.parametrize("sizes", [(1_000_000, 2, 70), (100, 3000, 500_000), (5, 65, 130)])
def test_large_groups_are_exact(sizes):
    total = np.array([sizes])
    relevant = np.array([[0, 2, sizes[2] // 3]])
    at, after, before, summed = sum(sizes), 0, 0, 0.0
    for n, r in zip(sizes, relevant[0].tolist(), strict=True):
        summed += exact_group(n, r, n, after, before)
        after, before = after + n, before + r
    found = average_precision(counted(total, relevant), at)[0]
    assert found == pytest.approx(summed / before, rel=1e-10)


def test_a_large_cut_is_exact():
    # The cut of 700 falls in a group of 2,000 of which 900 are relevant, after 200 codes, 150 of them relevant.
    hist = counted(np.array([[200, 2000]]), np.array([[150, 900]]))
    head = exact_group(200, 150, 200, 0, 0)
    a = math.fsum(1 / (200 + k) for k in range(1, 501))
    b = math.fsum((k - 1) / (200 + k) for k in range(1, 501))
    expected = 0.0
    best, worst = 0.0, 1.0
    for x in range(501):
        weight = math.comb(900, x) * math.comb(1100, 500 - x) / math.comb(2000, 500)
        expected += weight * (head + x / 500 * (151 * a + (x - 1) / 499 * b)) / (150 + x)
        first = math.fsum((150 + j) / (200 + j) for j in range(1, x + 1))
        last = math.fsum((150 + j) / (700 - x + j) for j in range(1, x + 1))
        head_best = 150.0
        head_worst = math.fsum(j / (50 + j) for j in range(1, 151))
        best = max(best, (head_best + first) / (150 + x))
        worst = min(worst, (head_worst + last) / (150 + x))
    assert average_precision(hist, 700)[0] == pytest.approx(expected, rel=1e-11)
    assert average_precision(hist, 700, "best")[0] == pytest.approx(best, rel=1e-11)
    assert average_precision(hist, 700, "worst")[0] == pytest.approx(worst, rel=1e-11)


@settings(max_examples=80, deadline=None)
@given(items, st.data())
def test_precision_and_recall(ranked, data):
    k, radius = data.draw(st.integers(1, len(ranked))), data.draw(st.integers(0, BITS))
    hist, all_relevant = histogram(ranked), sum(r for _, r in ranked)
    mean = np.mean([sum(order[:k]) for order in all_orders(ranked)])
    assert precision_at(hist, k)[0] == pytest.approx(mean / k)
    within = [r for d, r in ranked if d <= radius]
    assert precision_within(hist, radius)[0] == pytest.approx(sum(within) / len(within) if within else 0)
    if all_relevant:
        assert recall_at(hist, k)[0] == pytest.approx(mean / all_relevant)
        assert recall_within(hist, radius)[0] == pytest.approx(sum(within) / all_relevant)
    else:
        assert np.isnan([recall_at(hist, k)[0], recall_within(hist, radius)[0]]).all()


def test_curves():
    rng = np.random.default_rng(3)
    hist = RankHistogram.from_codes(
        rng.integers(0, 256, (6, 1), dtype=np.uint8),
        [0, 1, 2, 0, 1, 9],
        rng.integers(0, 256, (50, 1), dtype=np.uint8),
        rng.integers(0, 3, 50),
    )
    by_radius = precision_recall_curve(hist)
    assert by_radius.at.tolist() == list(range(9))
    by_rank = precision_recall_curve(hist, "rank")
    assert by_rank.at[[0, -1]].tolist() == [1, 50]
    for curve, precision, recall in (
        (by_radius, precision_within, recall_within),
        (by_rank, precision_at, recall_at),
    ):
        for place, at in enumerate(curve.at.tolist()):
            assert curve.precision[place] == pytest.approx(precision(hist, at)[:5].mean())
            assert curve.recall[place] == pytest.approx(recall(hist, at)[:5].mean())
        assert curve.recall[-1] == pytest.approx(1)
    assert precision_recall_curve(hist, empty="zero").recall[-1] == pytest.approx(5 / 6)


def test_queries_without_a_relevant_code():
    values = np.array([0.5, np.nan])
    assert mean_over_queries(values) == 0.5
    assert mean_over_queries(values, "zero") == 0.25
    assert math.isnan(mean_over_queries(values[1:]))
    nothing = histogram([(0, False)])
    assert math.isnan(mean_over_queries(average_precision(nothing)))
    assert np.isnan(precision_recall_curve(nothing).recall).all()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda h: average_precision(h, 0), ValueError, r"top_k is 0; it must be from 1 to the size of the base \(2\)"),
        (lambda h: average_precision(h, ties="mean"), ValueError, "ties is 'mean'; it must be one of expected, best"),
        (lambda h: precision_within(h, 7), ValueError, r"radius is 7; .* to the length of a code \(6\)"),
        (lambda h: average_precision(RankHistogram(pack([[1]]), [0])), ValueError, "hist is empty"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(histogram([(0, True), (1, False)]))
