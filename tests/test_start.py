"""A training that starts from the weights of a trained model."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from lbhash import Hasher
from lbhash.models.encoder import load_encoder
from lbhash.training.settings import grouped

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = {"bits": 12, "epochs": 2, "hidden": 16, "device": "cpu"}


@pytest.fixture(scope="module")
def trained(blobs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("start") / "model"
    Hasher(**grouped(method="dch", pull="none", **SMALL)).fit(blobs.x, blobs.y).save_pretrained(folder)
    return folder


def weights(model):
    return np.concatenate(
        [values.ravel() for name, values in sorted(model.weights.items()) if name.startswith("head.")]
    )


def test_the_weights_are_those_of_the_model(blobs, trained):
    given = {**SMALL, "epochs": 1, "lr": 1e-12, "recipe": "paper"}
    found = Hasher(**grouped(method="talr", pull="none", start=trained, **given)).fit(blobs.x, blobs.y).model_
    np.testing.assert_allclose(weights(found), weights(load_encoder(trained)), atol=1e-9)
    assert found.metadata["start"] == load_encoder(trained).fingerprint()
    assert "start" not in Hasher(**grouped(method="talr", **given)).fit(blobs.x, blobs.y).model_.metadata


def test_a_last_stage_goes_on_and_differs_from_a_start_at_random(blobs, trained):
    given = {"method": "talr", "pull": "none", **SMALL}
    later, anew = (Hasher(**grouped(start=one, seed=1, **given)).fit(blobs.x, blobs.y) for one in (trained, None))
    before = Hasher.from_pretrained(trained)
    near, far = (abs(weights(one.model_) - weights(before.model_)).mean() for one in (later, anew))
    assert 0 < near < far / 2


def test_a_run_of_another_start_is_not_resumed(blobs, trained, tmp_path):
    from lbhash.pipeline.train import train_files

    np.savez(tmp_path / "d.npz", embeddings=blobs.x, labels=blobs.y)
    given = {**SMALL, "method": "talr", "pull": "none", "out": tmp_path / "model", "protocol": "holdout"}
    train_files(tmp_path / "d.npz", **given)
    with pytest.raises(ValueError, match="start"):
        train_files(tmp_path / "d.npz", **given, start=trained, resume=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bits": 16}, r"start is '.*model', a model with bits 12; this training has 16, and it must be the same"),
        ({"hidden": 0}, r"start is '.*model', a model with hidden 16; this training has 0, and it must be the same"),
        (
            {"method": "itq"},
            r"start is .*model'\) and the method is 'itq', which has its own settings; leave start out",
        ),
        ({"start": "none"}, r"start is 'none', and there is no such folder"),
    ],
)
def test_what_does_not_fit_is_refused(blobs, trained, given, message):
    settings = {"start": trained, **({} if given.get("method") == "itq" else SMALL), **given}  # a coder has no epochs
    with pytest.raises(ValueError, match=message):
        Hasher(**grouped(**settings)).fit(blobs.x, blobs.y)


def test_other_rows_and_a_damaged_model_are_refused(blobs, trained, tmp_path):
    with pytest.raises(ValueError, match="a model with dim 12; this training has 5"):
        Hasher(**grouped(**SMALL, start=trained)).fit(blobs.x[:, :5], blobs.y)
    damaged = shutil.copytree(trained, tmp_path / "damaged")
    weights = damaged / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:400])
    with pytest.raises(ValueError, match=r"^start is '.*damaged', which could not be loaded"):
        Hasher(**grouped(**SMALL, start=damaged)).fit(blobs.x, blobs.y)
