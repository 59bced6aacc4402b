"""Intervals over seeds and queries against their definitions."""

import numpy as np
import pytest

from lbhash.trials.intervals import bootstrap, holm, p_value


def test_the_bootstrap_draws_seeds_and_queries():
    rng = np.random.default_rng(1)
    lift = rng.normal(0, 1, (3, 40)) + rng.normal(0, 2, (3, 1))
    slow = [lift[np.ix_(rng.integers(0, 3, 3), rng.integers(0, 40, 40))].mean() for _ in range(4000)]
    means = bootstrap(lift, 4000)
    assert means.mean() == pytest.approx(lift.mean(), abs=0.1)
    assert means.std() == pytest.approx(np.std(slow), rel=0.05)


def test_the_bootstrap_of_what_all_queries_share_is_that_of_the_seeds():
    means = bootstrap(np.array([[1.0] * 5, [2.0] * 5]), 4000)
    assert set(np.round(means, 9)) == {1.0, 1.5, 2.0}


def test_p_values_count_the_draws_on_the_other_side_of_zero():
    assert p_value(np.array([1.0] * 98 + [-1.0])) == pytest.approx(2 * 2 / 100)
    assert p_value(np.zeros(10)) == 1.0


def test_holm_corrects_as_its_definition_says():
    p = np.array([0.01, 0.04, 0.03, 0.005])
    assert holm(p).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
