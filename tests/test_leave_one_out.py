"""Each row's class by a linear model of all the others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge

import lbhash.training.confusion as module
from lbhash.data.split import EmbeddingSplit
from lbhash.training.confusion import PENALTIES, confusion


def part_of(x, labels):
    return EmbeddingSplit(np.asarray(x), np.arange(len(x)), np.asarray(labels))


def leave_one_out(part, classes):
    """p(class | row) of every row."""
    return np.concatenate([found for _, found in module._posteriors(part, classes)])


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(3, 25), st.integers(1, 30), st.integers(2, 4), st.booleans())
def test_scores_are_those_of_a_ridge_regression_without_the_row(seed, rows, dim, classes, multi):
    rng = np.random.default_rng(seed)
    x = rng.normal(2, 3, size=(rows, dim)).astype(np.float32)
    labels = rng.integers(0, 2, (rows, classes)).astype(np.uint8) if multi else rng.integers(0, classes, rows)
    y = np.asarray(labels, float) if multi else np.eye(classes)[labels]
    ridge = module._Ridge.of(part_of(x, labels), classes)
    z = (x.astype(np.float64) - x.mean(axis=0)) / x.std(axis=0)
    for penalty in PENALTIES:
        found = ridge.without_own_row(ridge.rotated(x), y, penalty * dim)
        for row in range(rows):
            others = np.arange(rows) != row
            model = Ridge(penalty * dim).fit(z[others], y[others])
            np.testing.assert_allclose(found[row], model.predict(z[[row]]).reshape(-1), atol=1e-4)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.5, 20), st.floats(-3, 1))
def test_logistic_function_is_that_of_the_labels(seed, a, b):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(3000, 3)) / a * 2
    y = (rng.random(scores.shape) < 1 / (1 + np.exp(-a * scores - b))).astype(float)
    found = module._logistic(scores, y)
    assert found[0] == pytest.approx(a, rel=0.2)
    assert found[1] == pytest.approx(b, abs=0.3)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.02, 50))
def test_the_temperature_is_the_one_that_scipy_finds(seed, scale):
    rng = np.random.default_rng(seed)
    scores, y = rng.normal(size=(40, 5)) / scale, np.eye(5, dtype=np.uint8)[rng.integers(0, 5, 40)]
    scores += y / scale * rng.uniform(0, 4)

    def loss(log_t):
        return -float((y * log_softmax(np.exp(log_t[0]) * scores, axis=1)).sum()) / len(y)

    found = minimize(loss, [np.log(5.0)], method="Nelder-Mead", bounds=[(-3, 7)])
    assert module._temperature(scores, y)[0] == np.exp(found.x)[0]


def test_rows_come_in_chunks_and_settings_from_a_sample(monkeypatch):
    x, y = load_digits(return_X_y=True)
    part = part_of(x.astype(np.float32), y)
    whole = leave_one_out(part, 10)
    with monkeypatch.context() as patched:
        patched.setattr(module, "_ROWS", 100)
        np.testing.assert_allclose(leave_one_out(part, 10), whole, atol=1e-5)
    with monkeypatch.context() as patched:
        patched.setattr(module, "_NUMBERS", 64 * 100)  # of the sample four times as many
        found = leave_one_out(part, 10)
        assert 0 < abs(found - whole).mean() < 0.01
    monkeypatch.setattr(module, "_SAMPLE", 600)
    np.testing.assert_allclose(leave_one_out(part, 10), whole, atol=0.1)
    assert not np.array_equal(leave_one_out(part, 10), whole)


def test_long_rows_are_projected(monkeypatch):
    """Onto so many directions that what is said of the rows is nearly the same."""
    x, y = load_digits(return_X_y=True)
    long = np.repeat(x.astype(np.float32), 20, axis=1)
    monkeypatch.setattr(module, "MOST_DIM", 800)
    ridge = module._Ridge.of(part_of(long, y), 10)
    assert ridge.rotated(long[:7]).shape == (7, 800)
    z = (long - long.mean(0)) / np.where(long.std(0) > 0, long.std(0), 1)
    lengths = np.linalg.norm(ridge.rotated(long), axis=1) / np.linalg.norm(z, axis=1)
    assert abs(lengths - 1).max() < 0.2
    said = leave_one_out(part_of(long, y), 10)
    whole = leave_one_out(part_of(x.astype(np.float32), y), 10)
    assert (said.argmax(1) == whole.argmax(1)).mean() > 0.97
    np.testing.assert_array_equal(said, leave_one_out(part_of(long, y), 10))
    found, wanted = confusion(part_of(long, y), 10), confusion(part_of(x.astype(np.float32), y), 10)
    off = ~np.eye(10, dtype=bool)
    assert np.corrcoef(found[off], wanted[off])[0, 1] > 0.95


def test_of_many_rows_some_are_drawn(monkeypatch):
    """Also where classes come in turns, so that every tenth row is of one class."""
    x, y = load_digits(return_X_y=True)
    order = np.argsort(np.argsort(y, kind="stable") - 180 * y, kind="stable")
    x, y = x[order].astype(np.float32), y[order]
    whole = confusion(part_of(x, y), 10)
    monkeypatch.setattr(module, "MOST_ROWS", 600)
    found = confusion(part_of(x, y), 10)
    assert found.sum() == pytest.approx(600, rel=1e-4)
    assert found.sum(axis=1).min() > 30
    assert np.trace(found) / 600 == pytest.approx(np.trace(whole) / len(x), abs=0.05)
    np.testing.assert_array_equal(found, confusion(part_of(x, y), 10))


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_no_number_is_refused(wrong):
    x, y = load_digits(return_X_y=True)
    x[3, 4] = wrong
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(ValueError, match=r"^split has embeddings that are NaN or infinite"),
    ):
        confusion(part_of(x.astype(np.float32), y), 10)


@pytest.mark.parametrize("multi", [False, True])
def test_confusion_is_the_sum_of_what_is_said_of_the_rows(multi, monkeypatch):
    x, y = load_digits(return_X_y=True)
    labels = np.eye(10, dtype=np.uint8)[y] if multi else y
    if multi:
        labels[::3, 4] = 1
        labels[::7] = 0
    part = part_of(x.astype(np.float32), labels)
    said = leave_one_out(part, 10)
    expected = np.zeros((10, 10))
    for row in range(len(x)):
        for label in np.flatnonzero(labels[row]) if multi else [y[row]]:
            expected[label] += said[row]
    monkeypatch.setattr(module, "_ROWS", 100)
    np.testing.assert_allclose(confusion(part, 10), expected, rtol=1e-4)


@pytest.mark.parametrize("multi", [False, True])
def test_a_class_that_no_row_has_is_never_said(multi):
    x, y = load_digits(return_X_y=True)
    y = np.where(y == 3, 4, y)
    found = leave_one_out(part_of(x.astype(np.float32), np.eye(12, dtype=np.uint8)[y] if multi else y), 12)
    assert not found[:, [3, 10, 11]].any()
    assert (found[:, [0, 1, 2, 4]] > 0).all()


@pytest.mark.parametrize(
    ("x", "labels", "classes"),
    [
        (np.zeros((6, 3)), [0, 1, 2, 0, 1, 2], 3),  # nothing to tell by
        (np.eye(6, 3), [0] * 6, 1),
        (np.eye(4, 9), [0, 1, 2, 3], 4),  # every class has one row
        (np.eye(6, 3), np.zeros((6, 2), np.uint8), 2),  # no labels at all
        (np.eye(6, 3), np.ones((6, 2), np.uint8), 2),
        ([[1e6, 0.0]] + [[0.0, k] for k in range(5)], [0, 1, 0, 1, 0, 1], 2),  # an outlier alone on its axis
    ],
)
def test_odd_data_give_probabilities(x, labels, classes):
    found = leave_one_out(part_of(np.asarray(x, np.float32), labels), classes)
    assert found.shape == (len(x), classes)
    assert np.isfinite(found).all()
    assert ((found >= 0) & (found <= 1)).all()
