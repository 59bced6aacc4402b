"""The comparison of class centers: what rivals' centers are by their definitions, and a grid that goes on."""

from __future__ import annotations

from functools import partial
from itertools import permutations, product

import numpy as np
import pytest
from benchmarks.experiments import rival_centers
from benchmarks.experiments.shared import read_csv
from hypothesis import given
from hypothesis import strategies as st

from lbhash.centers import class_centers
from lbhash.centers.distance import minimum_distance, pairwise_distances

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.end_to_end]


def test_distances_are_those_that_the_authors_print():
    assert [rival_centers.promised(100, bits) for bits in (16, 32, 48, 64)] == [4, 10, 17, 24]
    assert [rival_centers.promised(10, bits) for bits in (16, 32, 48, 64)] == [6, 13, 21, 28]


@given(st.integers(0, 1000))
def test_words_are_assigned_as_well_as_by_any_order(seed):
    rng = np.random.default_rng(seed)
    words, sums = np.where(rng.random((5, 8)) < 0.5, -1, 1).astype(np.int8), rng.normal(size=(5, 8))
    unit = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    best = max((unit * words[list(order)]).sum() for order in permutations(range(5)))
    assert (unit * rival_centers.assigned(words, sums)).sum() == pytest.approx(best)


@pytest.mark.parametrize("bits", [16, 64])  # at 32 the search ends one bit short
def test_separated_rows_keep_the_distance(bits):
    least = rival_centers.promised(10, bits)
    words = rival_centers.separated(class_centers(10, bits, kind="hadamard"), least, sweeps=5)
    assert set(np.unique(words)) == {-1, 1}
    assert minimum_distance(words) >= least


def loss(words, wanted):
    """What SHC lowers, written out."""
    bits, total = words.shape[1], 0.0
    for k, other in product(range(len(words)), repeat=2):
        inner = float(words[k].astype(int) @ words[other])
        total += (wanted[k, other] - inner / bits) ** 2 + (inner / bits if k != other else 0)
    return total


def test_no_flip_of_semantic_centers_lowers_their_loss():
    rng = np.random.default_rng(0)
    confused = rng.random((8, 8))
    least = rival_centers.promised(8, 16)
    words = rival_centers.semantic(class_centers(8, 16, kind="hadamard"), confused, least)
    assert minimum_distance(words) >= least
    wanted = rival_centers.similarities(confused)
    assert np.diag(wanted).tolist() == [1] * 8
    np.testing.assert_allclose(wanted, wanted.T)
    before = loss(words, wanted)
    for k, bit in product(range(8), range(16)):
        flipped = words.copy()
        flipped[k, bit] *= -1
        if pairwise_distances(flipped)[k][np.arange(8) != k].min() >= least:
            assert loss(flipped, wanted) >= before - 1e-9


def test_a_table_of_centers_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(rival_centers, "separated", partial(rival_centers.separated, sweeps=2))
    page = tmp_path / "page.md"
    page.write_text("<!-- rival-centers: begin -->\n<!-- rival-centers: end -->\n")
    words = ["--data", "digits", "--bits", "8", "--seeds", "2", "--epochs", "1", "--page", str(page)]
    kinds = [kind for kind in rival_centers.KINDS if kind != "hadamard"]  # of which 8 bits have too few opposite ones
    words += ["--centers", *kinds, "--out", str(tmp_path / "trials")]
    rival_centers.main(words)
    lines = read_csv(tmp_path / "rival-centers.csv", [])
    assert list(lines["centers"]) == kinds
    assert lines["map"].astype(float).between(0, 100).all()
    assert "| centers | 8 bits | mean |" in page.read_text()
    monkeypatch.setattr(rival_centers, "run", None)  # no cell is run again
    rival_centers.main(words)


def test_centers_are_reassigned_after_an_epoch():
    import torch

    from lbhash.losses import Task

    words = class_centers(4, 8, kind="best-ratio")
    rival_centers.GivenCenters.WORDS["some"] = words
    task = Task(8, 4, torch.arange(4), torch.ones(4, 8))
    loss = rival_centers.GivenCenters(task, words="some", reassign=True)
    loss.begin_epoch(0)
    wanted = words[[2, 0, 3, 1]]
    loss(torch.from_numpy(wanted).float(), torch.arange(4), torch.arange(4))
    np.testing.assert_array_equal(loss.centers.numpy(), words)
    loss.begin_epoch(1)
    np.testing.assert_array_equal(loss.centers.numpy(), wanted)
    assert not loss.sums.any()
