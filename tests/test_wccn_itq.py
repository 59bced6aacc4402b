"""ITQ behind within-class covariance normalization: against its equation, and what it is for."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

from lbhash import Hasher
from lbhash.data.split import EmbeddingSplit
from lbhash.evaluation.held_out import leave_one_out_map
from lbhash.training.coders import CODERS
from lbhash.training.coders.wccn_itq import SHRINKAGE


@pytest.mark.parametrize("bits", [2, 7, 9])
@pytest.mark.parametrize("several", [False, True])
def test_it_turns_the_principal_axes_of_whitened_rows(bits, several):
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(3), 30)
    x = ((2 * rng.standard_normal((3, 7)))[y] + rng.standard_normal((90, 7))) * [3, 2, 1, 1, 0.5, 0.5, 0.2] + 5
    hot = np.eye(3, dtype=np.uint8)[y]
    if several:
        hot[::4, 0] = 1
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    design = np.c_[np.ones(90), hot]
    apart = z - design @ np.linalg.lstsq(design, z, rcond=None)[0]  # of one label each: from the means of the classes
    if not several:
        np.testing.assert_allclose(apart, z - np.stack([z[y == c].mean(axis=0) for c in range(3)])[y], atol=1e-9)
    within = apart.T @ apart
    whitening = scipy.linalg.fractional_matrix_power(within + SHRINKAGE * np.trace(within) / 7 * np.eye(7), -0.5)
    _, _, axes = np.linalg.svd(z @ whitening, full_matrices=False)
    wanted = whitening / x.std(axis=0)[:, None] @ axes[:bits].T
    labels = hot if several else y
    found = CODERS["wccn-itq"](bits, 0, 3).fit(EmbeddingSplit(x, np.arange(90), labels))
    assert found.weight.shape == (bits, 7)
    np.testing.assert_allclose(found.weight.T @ found.weight, wanted @ wanted.T, rtol=1e-3, atol=1e-7)


def test_classes_never_seen_are_nearer_than_by_itq():
    """What varies inside every class is more than what tells classes apart: ITQ spends its bits on it."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(40), 20)
    telling = 2 * rng.standard_normal((40, 10))[y] + 0.5 * rng.standard_normal((800, 10))
    turn = np.linalg.qr(rng.standard_normal((20, 20)))[0]
    x = np.hstack([telling, 3 * rng.standard_normal((800, 10))]) @ turn
    known = y < 20
    found = {}
    for method in ("itq", "wccn-itq"):
        codes = Hasher(8, method=method).fit(x[known], y[known]).encode(x[~known])
        found[method] = leave_one_out_map(codes, y[~known], 8)
    assert found["wccn-itq"] > 2 * found["itq"]
