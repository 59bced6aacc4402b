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


@pytest.mark.parametrize("length", range(1, 9))
def test_the_lowest_ap_is_that_of_all_short_lists(length):
    lowest = {}
    for relevance in itertools.product([False, True], repeat=length):
        k, head = sum(relevance), [*relevance, False].index(False)
        for m, f in itertools.product(range(length), range(head + 1)):
            if k and max(misranks(relevance)) <= m and k + m <= length:
                lowest[k, m, f] = min(lowest.get((k, m, f), 2.0), ap_by_misrank(relevance))
    assert len(lowest) >= length
    for cell, expected in lowest.items():
        assert lowest_average_precision(*cell) == pytest.approx(expected)


def papers_sum(k, nearest, farthest):
    """The sum of the appendix: min d(q, fp) is ``nearest``, max d(q, tp) ``farthest``."""
    return nearest - 1 + math.fsum(i / (farthest - nearest + i) for i in range(nearest, k + 1))


def test_the_papers_sum_is_the_lowest_for_places():
    # The first irrelevant code is at one place, and the first relevant one behind the irrelevant ones at the other.
    for k, nearest, farthest in itertools.product(range(1, 6), range(1, 6), range(1, 9)):
        if nearest <= k and nearest < farthest:
            wrong = farthest - nearest
            lists = set(itertools.permutations([True] * (k - nearest + 1) + [False] * wrong)) if k + wrong < 9 else ()
            found = [ap_by_misrank([True] * (nearest - 1) + list(rest)) for rest in lists]
            lowest = float(lowest_average_precision(k, wrong, nearest - 1))
            assert papers_sum(k, nearest, farthest) / k == pytest.approx(lowest)
            assert not found or min(found) == pytest.approx(lowest)
    assert papers_sum(3, 4, 4) == 3  # printed without the division by K: no irrelevant code is before a relevant one


def test_hamming_distances_are_no_places():
    # K = 2 at distances 1 and 3; n irrelevant codes at distance 2. The sum for these distances does not see n.
    floors = [float(average_precision_floor(histogram([(1, True), *[(2, False)] * n, (3, True)]))[0]) for n in (1, 5)]
    assert floors[0] == pytest.approx(papers_sum(2, 2, 3) / 2)
    assert floors[1] < papers_sum(2, 2, 3) / 2


@pytest.mark.parametrize(
    ("k", "m", "f"), [(1, 0, 0), (3, 0, 2), (1, 7, 0), (500, 3, 499), (10, 10**6, 4), (10**6, 10**6, 9)]
)
def test_the_closed_form_is_the_sum(k, m, f):
    assert lowest_average_precision(k, m, f) == pytest.approx(papers_sum(k, f + 1, f + 1 + m) / k, rel=1e-9)


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
    with pytest.raises(ValueError, match=r"^head is 2; it must be at most relevant, 1$"):
        lowest_average_precision(1, 3, 2)
