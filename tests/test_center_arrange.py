"""Which class gets which center."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbhash.centers import class_centers
from lbhash.centers.arrange import SLACK, arrange_centers, confused_distance
from lbhash.centers.distance import minimum_distance


def distance(a, b):
    return int((a != b).sum())


def wanted_distances(confusion, pull, mean):
    """The wanted distance of every two classes; ``mean`` is the mean distance of the centers before."""
    both = np.array(confusion) + np.transpose(confusion)
    pairs = both[~np.eye(len(both), dtype=bool)]
    return mean * (1 - pull * (both / pairs.mean() - 1))


def energy(words, confusion, pull, mean):
    """E of the module, pair by pair."""
    n, wanted = len(words), wanted_distances(confusion, pull, mean)
    pairs = [(c, d) for c in range(n) for d in range(n) if c != d]
    return sum((distance(words[c], words[d]) - wanted[c, d]) ** 2 for c, d in pairs) / len(pairs)


def mean_of(words):
    n = len(words)
    return sum(distance(words[c], words[d]) for c in range(n) for d in range(n)) / (n * (n - 1))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.05, 0.3]))
def test_no_other_words_are_arranged_better(seed, slack, pull):
    """All sets of three words of four bits are tried that are as far apart as these must be."""
    rng = np.random.default_rng(seed)
    all_words = np.array(list(product((-1, 1), repeat=4)))
    words = all_words[rng.permutation(16)[:3]]
    confusion = rng.random((3, 3)) ** 3
    least = int(np.ceil((1 - slack) * minimum_distance(words)))
    apart = (all_words[:, None] != all_words[None]).sum(axis=-1)
    far = (apart >= least) if least else np.ones((16, 16), bool)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lbhash.centers.arrange.SLACK", slack)
        patch.setattr("lbhash.centers.arrange.PULL", pull)
        found = arrange_centers(words, confusion, seed=1)
    assert minimum_distance(found) >= least
    mean = mean_of(words)
    wanted = wanted_distances(confusion, pull, mean)
    chosen = np.indices((16, 16, 16)).reshape(3, -1)
    pairs = [(c, d) for c in range(3) for d in range(c)]
    allowed = np.all([far[chosen[c], chosen[d]] for c, d in pairs], axis=0)
    energies = np.mean([(apart[chosen[c], chosen[d]] - wanted[c, d]) ** 2 for c, d in pairs], axis=0)
    assert energy(found, confusion, pull, mean) == pytest.approx(energies[allowed].min())


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.integers(5, 24))
def test_centers_get_no_worse_and_stay_apart(seed, classes, bits):
    rng = np.random.default_rng(seed)
    words, confusion = class_centers(classes, bits), rng.random((classes, classes)) ** 4
    before = words.copy()
    found = arrange_centers(words, confusion)
    np.testing.assert_array_equal(words, before)
    assert found.dtype == np.int8
    assert found.shape == words.shape
    assert minimum_distance(found) >= (1 - SLACK) * minimum_distance(words) - 1e-6
    mean = mean_of(words)
    assert energy(found, confusion, 0.125, mean) <= energy(words, confusion, 0.125, mean) + 1e-9
    both = confusion + confusion.T
    np.fill_diagonal(both, 0)
    pairs = [(c, d) for c in range(classes) for d in range(classes) if c != d]
    confused = sum(both[c, d] * distance(found[c], found[d]) for c, d in pairs) / both.sum()
    assert confused_distance(found, confusion) == pytest.approx(confused - mean_of(found))
    np.testing.assert_array_equal(found, arrange_centers(words, confusion))


def test_neighbors_are_what_is_confused():
    """Classes in a ring, each taken for the next: their centers are nearer than before, and the others' are not."""
    classes = 60
    confusion = np.roll(np.eye(classes), 1, axis=1)
    words = class_centers(classes, 16, "best-ratio")[np.random.default_rng(0).permutation(classes)]
    found = arrange_centers(words, confusion)
    assert confused_distance(found, confusion) < min(-1, confused_distance(words, confusion) - 1)
    assert mean_of(found) > mean_of(words) - 1


@pytest.mark.parametrize("confusion", [np.zeros((5, 5)), 3 * np.eye(5), np.ones((5, 5))])
def test_where_nothing_is_confused_more_than_anything_else_nothing_is_moved(confusion):
    words = class_centers(5, 16)
    np.testing.assert_array_equal(arrange_centers(words, confusion), words)
    assert confused_distance(words, confusion) == 0
    assert arrange_centers(words[:1], [[4.0]]).shape == (1, 16)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"confusion": np.ones((3, 4))}, r"confusion has shape \(3, 4\); with 4 centers it must be \(4, 4\)"),
        ({"confusion": np.full((4, 4), np.nan)}, "confusion has a negative value or one that is not finite"),
        ({"centers": np.zeros((4, 8))}, "centers holds values other than"),
    ],
)
def test_what_cannot_be_arranged_is_refused(changed, said):
    given_ = {"centers": class_centers(4, 8), "confusion": np.ones((4, 4)), **changed}
    with pytest.raises((TypeError, ValueError), match=said):
        arrange_centers(**given_)


def test_too_many_classes_are_refused(monkeypatch):
    monkeypatch.setattr("lbhash.centers.arrange.MOST_CLASSES", 3)
    with pytest.raises(ValueError, match="centers has 4 rows; at most 3 can be arranged"):
        arrange_centers(class_centers(4, 8), np.ones((4, 4)))
