"""The setting ``unseen``: what its branch computes, how it is fitted, and that it is stored and exported whole."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lbhash import Hasher
from lbhash.data.images import ImageSplit, ImageTable, ListedImages
from lbhash.data.split import EmbeddingSplit
from lbhash.hasher import fit_split
from lbhash.training.settings import grouped
from lbhash.tuning import tune

SMALL = {"bits": 12, "hidden": 16, "epochs": 2, "batch_size": 32, "dropout": 0.1, "lr": 0.01}

pytestmark = pytest.mark.usefixtures("one_thread")


def slow_directions(x, y, bits, shrinkage=2.0):
    """The whitened principal axes by the formula, with inverse roots of whole matrices."""
    mean, scale = x.mean(axis=0), x.std(axis=0)
    z = (x - mean) / scale
    within = np.zeros((x.shape[1],) * 2)
    for label in np.unique(y):
        own = z[y == label] - z[y == label].mean(axis=0)
        within += own.T @ own
    values, vectors = np.linalg.eigh(within + shrinkage * np.trace(within) / len(within) * np.eye(len(within)))
    root = vectors @ np.diag(values**-0.5) @ vectors.T
    _, axes = np.linalg.eigh((z @ root).T @ (z @ root))
    return z @ root @ axes[:, ::-1][:, :bits]


@pytest.mark.parametrize("head", ["bits", "joined"])
def test_the_outputs_are_those_of_the_slow_formula(blobs, head):
    x, y = blobs.x.astype(np.float64), blobs.y
    hasher = Hasher(**grouped(head=head, unseen=0.4, **SMALL)).fit(blobs.x, y)
    plain = Hasher(**grouped(head=head, **SMALL)).fit(blobs.x, y).model_.outputs(blobs.x).astype(np.float64)
    v = slow_directions(x, y, 12)
    p, _, q = np.linalg.svd(v.T @ plain, full_matrices=False)
    size = lambda values: np.sqrt((values**2).mean())  # noqa: E731
    expected = 0.6 * plain / size(plain) + 0.4 * (v @ p @ q) / size(v)
    np.testing.assert_allclose(hasher.model_.outputs(blobs.x), expected, atol=1e-3)


def test_zero_is_the_model_of_before_and_one_knows_no_network(blobs, tmp_path):
    hashers = [Hasher(**grouped(unseen=unseen, **SMALL)).fit(blobs.x, blobs.y) for unseen in (0, 1)]
    assert not hashers[0].model_.layout.neighborhood
    hashers[0].save_pretrained(tmp_path)
    assert "neighborhood" not in json.loads((tmp_path / "config.json").read_text())
    before = hashers[1].model_.outputs(blobs.query_x)
    hashers[1].model_.weights["head.2.weight"] *= -1
    np.testing.assert_array_equal(hashers[1].model_.outputs(blobs.query_x), before)
    assert not np.array_equal(hashers[0].encode(blobs.query_x), hashers[1].encode(blobs.query_x))


def test_an_asymmetric_search_takes_the_sum_as_it_is(blobs):
    outputs = np.array([[2.0, -0.5]], np.float32)
    for unseen, expected in ((0, np.tanh(outputs)), (0.5, outputs)):
        hasher = Hasher(**grouped(unseen=unseen, head="bits", **SMALL)).fit(blobs.x, blobs.y)
        np.testing.assert_array_equal(hasher.model_.soft(outputs), expected)


def test_rows_of_several_labels_and_a_search_of_settings_take_it(blobs):
    y = np.eye(len(np.unique(blobs.y)), dtype=np.uint8)[blobs.y]
    y[:, 0] |= y[:, 1]
    assert Hasher(**grouped(unseen=0.5, **SMALL)).fit(blobs.x, y).model_.layout.neighborhood
    split = EmbeddingSplit(blobs.x, np.arange(len(blobs.x)), blobs.y)
    found = tune(Hasher(**grouped(unseen=0.5, **SMALL)), split, len(np.unique(blobs.y)), trials=1)
    assert found.hasher.model_.layout.neighborhood


def test_coders_and_images_refuse_it(blobs):
    with pytest.raises(ValueError, match="leave unseen out"):
        Hasher(12, method="itq", unseen=0.5).fit(blobs.x)
    images = ImageTable(ListedImages([b""] * 4), None, "images")
    with pytest.raises(ValueError, match=r"unseen is 0\.5, which is for embeddings"):
        fit_split(Hasher(12, unseen=0.5, backbone="x"), ImageSplit(images, np.arange(4), np.arange(4) % 2), 2)
