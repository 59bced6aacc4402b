import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbhash.evaluation.metrics import (
    average_precision,
    average_precision_floor,
    largest_misrank,
    lowest_average_precision,
    mean_misrank,
)
from lbhash.evaluation.ranking import RankHistogram
from test_metrics import BITS, histogram

items = st.lists(st.tuples(st.integers(0, BITS), st.booleans()), min_size=1, max_size=9)


def misranks(relevance):
    return [sum(not r for r in relevance[:i]) for i, r in enumerate(relevance) if r]


def ap_by_misrank(relevance):
    """The paper's form: the mean of (i - m) / i over the ranks i of relevant codes."""
    ranks = [i + 1 for i, r in enumerate(relevance) if r]
    return np.mean([(i - m) / i for i, m in zip(ranks, misranks(relevance), strict=True)])


@settings(max_examples=80, deadline=None)
@given(items.filter(lambda ranked: any(r for _, r in ranked)))
def test_misranks_are_those_over_all_orders_of_ties(ranked):
    groups = [[r for d, r in ranked if d == distance] for distance in range(BITS + 1)]
    splits = itertools.product(*(set(itertools.permutations(group)) for group in groups))
    orders = [list(itertools.chain(*split)) for split in splits]
    hist = histogram(ranked)
    means = [np.mean(misranks(order)) for order in orders]
    # Orders that differ in equal items only are one here, and each stands for as many permutations.
    assert mean_misrank(hist)[0] == pytest.approx(np.mean(means))
    assert largest_misrank(hist)[0] == max(max(misranks(order)) for order in orders)
    aps = [ap_by_misrank(order) for order in orders]
    assert average_precision(hist)[0] == pytest.approx(np.mean(aps))
    assert average_precision(hist, ties="worst")[0] == pytest.approx(min(aps))


@pytest.mark.parametrize("length", range(1, 8))
def test_the_lowest_ap_is_that_of_all_short_lists(length):
    lowest = {}
    for relevance in itertools.product([False, True], repeat=length):
        k = sum(relevance)
        if k:
            m = max(misranks(relevance))
            lowest[k, m] = min(lowest.get((k, m), 2.0), ap_by_misrank(relevance))
    for (k, m), expected in lowest.items():
        # the least over lists whose largest mis-rank is m or less
        assert lowest_average_precision(k, m) == pytest.approx(min(expected, *(lowest[k, n] for n in range(m + 1))))
        assert lowest_average_precision(k, m) == pytest.approx(expected)  # and m itself attains it


@pytest.mark.parametrize(("k", "m"), [(1, 0), (3, 0), (1, 7), (500, 3), (10, 10**6), (10**6, 10**6)])
def test_the_closed_form_is_the_sum(k, m):
    # As printed in the paper's appendix, the sum lacks the division by k: for m = 0 it would be k, and no AP.
    terms = math.fsum((i - m) / i for i in range(m + 1, m + k + 1))
    assert lowest_average_precision(k, m) == pytest.approx(terms / k, rel=1e-9)
    if m == 0:
        assert terms == k


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_ap_falls_below_the_floor(seed):
    rng = np.random.default_rng(seed)
    base = int(rng.integers(1, 200))
    codes = rng.integers(0, 256, (5, 1), np.uint8), rng.integers(0, 256, (base, 1), np.uint8)
    hist = RankHistogram.from_codes(codes[0], rng.integers(0, 3, 5), codes[1], rng.integers(0, 3, base))
    floor, worst = average_precision_floor(hist), average_precision(hist, ties="worst")
    kept = ~np.isnan(worst)
    assert (kept == ~np.isnan(floor)).all()
    assert (floor[kept] <= worst[kept] + 1e-12).all()


def test_errors():
    assert np.isnan(lowest_average_precision(0, 4))
    with pytest.raises(ValueError, match=r"misrank is 0.5"):
        lowest_average_precision(1, 0.5)
