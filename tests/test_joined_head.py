"""Heads with a class posterior: what they compute, how they are fitted, and that they are stored and served whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from lbhash import Hasher, evaluate
from lbhash.codes import pack
from lbhash.data.split import EmbeddingSplit
from lbhash.models.hash_model import HashModel
from lbhash.training import class_posterior
from lbhash.training.class_posterior import STRENGTHS, WEIGHTS, _fits, choose
from lbhash.training.settings import grouped

SMALL = {"bits": 12, "hidden": 16, "epochs": 2, "batch_size": 32, "dropout": 0.1, "lr": 0.01}

pytestmark = pytest.mark.usefixtures("one_thread")


def made(several=False):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = HashModel(5, 11, 4, posterior={"classes": 3, "several": several}).eval()
        for tensor in model.posterior.buffers():
            tensor.normal_()
    return model


def slow(model, x):
    """Outputs of one row, number by number."""
    w = {name: tensor.double().numpy() for name, tensor in model.state_dict().items()}
    inner = (x - w["mean"]) / w["scale"]
    inner = np.maximum(w["head.0.weight"] @ inner + w["head.0.bias"], 0)
    bits = np.tanh(w["head.2.weight"] @ inner + w["head.2.bias"])
    x = x - w["posterior.mean"]
    length = np.sqrt(sum(v * v for v in x))
    unit = x / length if length else x
    scores = np.array([row @ unit + b for row, b in zip(w["posterior.linear.weight"], w["posterior.linear.bias"])])  # noqa: B905
    p = 1 / (1 + np.exp(-scores)) if model.posterior.several else np.exp(scores) / np.exp(scores).sum()
    for k in range(model.bits):
        bits[k] += sum(p[c] * w["posterior.centers"][c, k] for c in range(3))
        turn = (w["posterior.directions"][k] @ unit + w["posterior.phases"][k]) % 1
        bits[k] += w["posterior.strength"][k] * (1 - 4 * turn if turn < 0.5 else 4 * turn - 3)
    return bits


@pytest.mark.parametrize("several", [False, True])
def test_outputs_are_those_of_the_slow_formula(several):
    model = made(several)
    x = np.vstack([np.random.default_rng(0).normal(size=(40, 5)), np.zeros(5)]).astype(np.float32)
    expected = np.array([slow(model, row.astype(float)) for row in x])
    np.testing.assert_allclose(model.encoder().outputs(x), expected, atol=2e-5)
    np.testing.assert_array_equal(model.encoder().encode(x), pack(model.encoder().outputs(x)))


def test_the_posterior_is_scikit_learns(blobs):
    z = blobs.x - blobs.x.mean(axis=0)
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    z = z - z.mean(axis=0)
    z /= np.sqrt(np.square(z).sum(axis=1).mean())
    split = EmbeddingSplit(blobs.x, np.arange(len(blobs.x)), blobs.y)
    centers = np.ones((len(np.unique(blobs.y)), 8), np.int8)
    for strength, model in _fits(split, centers, STRENGTHS[:2]):
        expected = LogisticRegression(C=strength, tol=1e-8, max_iter=1000).fit(z, blobs.y).predict_proba(z)
        with torch.inference_mode():
            found = model.probabilities(torch.from_numpy(blobs.x.astype(np.float32)))
        np.testing.assert_allclose(found, expected, atol=0.02)


def test_a_joined_head_learns_and_repeats_itself(blobs, tmp_path):
    hasher, again = (Hasher(**grouped(head="joined", **SMALL)).fit(blobs.x, blobs.y) for _ in range(2))
    codes = hasher.encode(blobs.query_x)
    np.testing.assert_array_equal(codes, again.encode(blobs.query_x))
    assert evaluate(codes, blobs.query_y, hasher.train_codes_, blobs.y).map > 0.9
    hasher.save_pretrained(tmp_path)
    loaded = Hasher.from_pretrained(tmp_path)
    assert loaded.head == "joined"
    np.testing.assert_array_equal(loaded.encode(blobs.query_x), codes)


def test_several_labels_have_a_posterior_each(blobs):
    y = np.eye(len(np.unique(blobs.y)), dtype=np.uint8)[blobs.y]
    y[:, 0] |= y[:, 1]
    hasher = Hasher(**grouped(head="joined", **SMALL)).fit(blobs.x, y)
    assert (branch := hasher.model_.layout.posterior) is None or branch["several"]
    p = HashModel.of(Hasher(12, method="logistic").fit(blobs.x, y).model_).posterior
    assert p.several
    with torch.inference_mode():
        sums = p.probabilities(torch.from_numpy(blobs.x.astype(np.float32))).sum(dim=1).numpy()
    assert abs(sums - y.sum(axis=1)).mean() < 0.5


def test_bits_that_know_more_than_the_classes_stay_alone():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 4
    centers = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]], np.int8)
    fitted, held_out = (EmbeddingSplit(rng.normal(size=(120, 6)), np.arange(120), y) for _ in range(2))
    found = choose(fitted, held_out, 5 * centers[y].astype(np.float32), centers)
    assert (found.weight, found.map) == (WEIGHTS[0], pytest.approx(1))


def test_of_weights_that_are_nearly_as_good_the_smallest_is_taken(blobs, monkeypatch):
    split = EmbeddingSplit(blobs.x, np.arange(len(blobs.x)), blobs.y)
    centers = np.ones((len(np.unique(blobs.y)), 8), np.int8)
    # of λ 0, then of 0.25, 0.5, ... with each dither
    found = iter([0.5, *[0.6, 0.7, 0.65, 0.6], *[0.694, 0.696, 0.6, 0.6], *[0.7] * 15, 0.701])
    monkeypatch.setattr(class_posterior, "leave_one_out_map", lambda *_: next(found))
    chosen = choose(split, split, np.zeros((len(blobs.x), 8), np.float32), centers)
    assert (chosen.weight, chosen.dither, chosen.map) == (0.25, 0.3, 0.7)


def test_the_card_does_not_show_the_map_of_another_network(blobs, tmp_path):
    hasher = Hasher(8, epochs=2, head="joined").fit(blobs.x, blobs.y)
    hasher.save_pretrained(tmp_path / "model")
    assert "map" in hasher.model_.metadata["posterior"]
    (line,) = (one for one in (tmp_path / "model" / "README.md").read_text().splitlines() if "posterior" in one)
    assert "weight" in line
    assert "map" not in line


def test_what_a_head_refuses(blobs):
    with pytest.raises(ValueError, match="head is 'both'; it must be one of bits, joined"):
        Hasher(head="both").fit(blobs.x, blobs.y)
    for settings, whose in (({"method": "logistic"}, "method 'logistic'"), ({"head": "joined"}, "head 'joined'")):
        with pytest.raises(ValueError, match=f"{whose} needs two"):
            Hasher(**grouped(bits=12, **settings)).fit(blobs.x[:4], np.arange(4))
