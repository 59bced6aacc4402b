"""Backbones that learn with their head, and the folders that hold both."""

from __future__ import annotations

import json
import shutil
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from image_tools import model_of, stored, stripes, write_backbone, write_stripes
from lbhash import Hasher
from lbhash.centers import class_centers
from lbhash.centers.arrange import arrange_centers
from lbhash.data.images import load_images
from lbhash.hasher import NoBackboneError, encode_split, fit_split
from lbhash.models.backbone import Backbone
from lbhash.models.backbone_files import save_backbone
from lbhash.models.hash_model import HashModel
from lbhash.training.confusion import confusion
from lbhash.training.images import Augmentation, ImageModel
from lbhash.training.settings import Settings, grouped
from training_tools import Stop

pytestmark = pytest.mark.end_to_end

pytest.importorskip("transformers")

GENTLE = Augmentation(crop=(0.8, 1), flip=0, brightness=0.1, contrast=0.1, saturation=0)
SETTINGS = {"bits": 16, "hidden": 0, "dropout": 0.0, "batch_size": 20, "lr": 0.01, "backbone_lr": 0.01}
SETTINGS["recipe"] = "paper"

SHARED = Path(__file__).parents[2] / "shared"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_backbone(tmp_path_factory.mktemp("backbone"))


@pytest.fixture(scope="module")
def tuned(folder, tmp_path_factory):
    """A hasher whose backbone has learned for a moment, and its folder."""
    images, labels = stripes(40)
    hasher = Hasher(
        **grouped(**SETTINGS, backbone=str(folder), image_size=20, epochs=2, augment=GENTLE, monitor="ratio")
    )
    hasher.fit(images, labels)
    model = tmp_path_factory.mktemp("tuned") / "model"
    hasher.save_pretrained(model)
    return hasher, model


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LBHASH_CACHE", str(tmp_path / "cache"))


# ------------------------------------------------------------------------------------------------- the model


def image_model(kind="resnet", batch_norm="freeze"):
    backbone = model_of(kind)
    torch.manual_seed(1)
    return ImageModel(backbone, HashModel(1280 if kind == "mobilenet_v2" else 16, 8, hidden=0, dropout=0.0), batch_norm)


def test_the_head_takes_what_the_backbone_gives():
    model = image_model().eval()
    pixels = torch.randn(3, 3, 16, 16)
    expected = model.head(model.backbone(pixels).pooler_output.mean((2, 3)))
    torch.testing.assert_close(model(pixels), expected)
    weights = [weight for weight in model.backbone.parameters() if weight.ndim == 4]
    assert all(weight.is_contiguous(memory_format=torch.channels_last) for weight in weights)


def statistics(model):
    return [
        buffer.clone()
        for module in model.modules()
        if isinstance(module, nn.BatchNorm2d)
        for buffer in module.buffers()
    ]


def step(model, pixels):
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model(pixels).square().mean().backward()
    optimizer.step()


def test_batch_norm_that_trains():
    model, pixels = image_model(batch_norm="train"), torch.randn(6, 3, 16, 16)
    before = statistics(model)
    step(model, pixels)
    assert all(not torch.equal(old, new) for old, new in zip(before, statistics(model), strict=True))


def test_batch_norm_that_is_frozen():
    model, pixels = image_model(), torch.randn(6, 3, 16, 16)
    before = statistics(model)
    norms = [module for module in model.backbone.modules() if isinstance(module, nn.BatchNorm2d)]
    scales = [norm.weight.clone() for norm in norms]
    in_evaluation = model.eval()(pixels)
    torch.testing.assert_close(model.train()(pixels), in_evaluation)  # for nothing else depends on the mode
    model.eval()
    step(model, pixels)  # which calls train() once more
    assert all(torch.equal(old, new) for old, new in zip(before, statistics(model), strict=True))
    assert all(not torch.equal(old, norm.weight) for old, norm in zip(scales, norms, strict=True))
    assert model.training
    assert model.head.training


def test_running_statistics_are_of_more_than_the_last_batch():
    """MobileNetV2 of transformers comes with a momentum of 0.997."""
    model, pixels = image_model("mobilenet_v2", "train"), torch.randn(4, 3, 32, 32)
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    assert {norm.momentum for norm in norms} == {0.1}
    old = norms[0].running_var.clone()
    seen = []
    norms[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    model.train()(pixels)
    new = seen[0].var((0, 2, 3), unbiased=True)
    torch.testing.assert_close(norms[0].running_var, 0.9 * old + 0.1 * new)


def test_the_standardization_is_of_the_untrained_backbones_embeddings(folder, monkeypatch, tmp_path):
    from lbhash.data.images import ImageSplit
    from lbhash.training.fine_tuning import prepare_images
    from lbhash.training.prepare import prepare

    table = load_images(write_stripes(tmp_path / "images", 24))
    backbone = Backbone.from_pretrained(folder)
    embeddings = backbone.embed([table.store.read(row) for row in range(24)])
    part = ImageSplit(table, np.arange(24), table.labels)
    setup = prepare(Settings(8, method="csq", centers="best", seed=3), part, 4, backbone)
    head = setup.model
    prepare_images(setup, backbone, standardize=False)
    assert not head.mean.any()
    prepare_images(setup, backbone, standardize=True)
    np.testing.assert_allclose(head.mean.numpy(), embeddings.mean(0), rtol=1e-4, atol=1e-6)
    deviation = np.where(embeddings.std(0) > 0, embeddings.std(0), 1)  # a feature may be 0 in every image
    np.testing.assert_allclose(head.scale.numpy(), deviation, rtol=1e-3, atol=1e-6)
    monkeypatch.setattr("lbhash.training.fine_tuning.STANDARDIZED", 10)
    prepare_images(setup, backbone, standardize=True)
    rows = np.sort(np.random.default_rng([3, 0, 3]).permutation(24)[:10])
    np.testing.assert_allclose(head.mean.numpy(), embeddings[rows].mean(0), rtol=1e-4, atol=1e-6)


# ------------------------------------------------------------------------------------------------- learning


def test_a_backbone_that_learns_beats_a_frozen_one(folder):
    images, labels = stripes(120)
    queries, query_labels = stripes(80, seed=1)
    backbone = Backbone.from_pretrained(folder)
    frozen = Hasher(**grouped(**SETTINGS, epochs=30)).fit(backbone.embed(images), labels)
    learned = Hasher(**grouped(**SETTINGS, epochs=30, backbone=folder, augment=GENTLE, batch_norm="train")).fit(
        images, labels
    )
    assert learned.score(queries, query_labels) > frozen.score(backbone.embed(queries), query_labels) + 0.1
    assert (learned.predict(queries, k=10) == query_labels).mean() > 0.8


def test_labels_of_any_values_and_several_a_image(folder):
    images, labels = stripes(40)
    names = np.array([3, 10, 20, 25])
    hasher = Hasher(**grouped(**SETTINGS, epochs=1, backbone=folder)).fit(
        [stored(one) for one in images], names[labels]
    )
    assert hasher.classes_.tolist() == names.tolist()
    assert set(hasher.predict(images[:5], k=3)) <= set(names)
    hot = np.eye(4, dtype=np.uint8)[labels]
    hot[::3, 0] = 1
    many = Hasher(**grouped(**SETTINGS, epochs=1, backbone=folder, validation=0.25, monitor="map")).fit(images, hot)
    assert many.encode(images).shape == (40, 2)
    assert many.trained_.monitor == "map"


def test_a_second_fit_forgets_the_backbone_of_the_first(folder):
    images, labels = stripes(20)
    hasher = Hasher(**grouped(**SETTINGS, epochs=1, backbone=folder))
    for seed in (0, 1):
        hasher.set_params(seed=seed).fit(images, labels)
        assert hasher.backbone_.fingerprint() == hasher.model_.metadata["backbone"]["fingerprint"]
    hasher.set_params(backbone=None).fit(np.eye(20), labels)
    with pytest.raises(NoBackboneError):
        hasher.encode(images)


def test_a_table_brings_its_labels(folder, tmp_path, cache):
    table = load_images(write_stripes(tmp_path / "images", 24))
    hasher = Hasher(**grouped(**SETTINGS, epochs=1, backbone=folder)).fit(table)
    images = [table.store.read(row) for row in range(24)]
    np.testing.assert_array_equal(hasher.encode(images), hasher.train_codes_)
    np.testing.assert_array_equal(hasher.encode(iter(images)), hasher.train_codes_)
    assert hasher.encode(iter(())).shape == (0, 2)
    assert hasher.transform(images[:2]).shape == (2, 16)


@pytest.mark.parametrize("kind", ["vit without a pooler", "dinov2", "clip", "siglip", "convnext", "mobilenet_v2"])
def test_families_learn_and_are_stored(kind, tmp_path):
    """Parameters that no output depends on (a mask token, the text tower's) are no obstacle."""
    images, labels = stripes(16)
    settings = {"bits": 8, "hidden": 0, "epochs": 1, "batch_size": 8, "augment": GENTLE, "image_size": 24}
    hasher = Hasher(**grouped(**settings, backbone=write_backbone(tmp_path / "backbone", kind))).fit(images, labels)
    hasher.save_pretrained(tmp_path / "model")
    loaded = Hasher.from_pretrained(tmp_path / "model")
    np.testing.assert_array_equal(loaded.encode(images), hasher.train_codes_)
    before = Backbone.from_pretrained(tmp_path / "backbone").fingerprint()
    assert loaded.backbone_.fingerprint() == hasher.backbone_.fingerprint() != before


def test_centers_are_arranged_by_the_images_as_the_untrained_backbone_sees_them(folder, monkeypatch, tmp_path, cache):
    table = load_images(write_stripes(tmp_path / "images", 24))
    asked = []
    monkeypatch.setattr("lbhash.training.prepare.confusion", lambda *given: asked.append(given) or confusion(*given))
    settings = SETTINGS | {"centers": "arranged", "validation": 0.25}
    hasher = Hasher(**grouped(**settings, epochs=1, backbone=folder)).fit(table)
    ((part, classes),) = asked
    words = class_centers(4, hasher.bits, "best-ratio")
    np.testing.assert_array_equal(hasher.centers_, arrange_centers(words, confusion(part, 4), seed=hasher.seed))
    assert (len(part), classes) == (hasher.model_.metadata["training_rows"], 4) == (16, 4)
    embeddings = Backbone.from_pretrained(folder).embed([table.store.read(row) for row in range(24)])
    for row, label in zip(part.embeddings, part.labels, strict=True):
        distance = np.abs(embeddings - row).max(axis=1)
        assert distance.min() < 1e-4
        assert table.labels[distance.argmin()] == label


def test_a_stopped_run_goes_on_to_the_same_model(folder, tmp_path, cache):
    table = load_images(write_stripes(tmp_path / "images", 44))
    settings = SETTINGS | {"batch_size": 10, "centers": "arranged"}
    hasher = Hasher(**grouped(**settings, epochs=3, backbone=folder, batch_norm="train", monitor="ratio"))
    split, _ = table.split().compact()
    whole = fit_split(clone(hasher), split, 4, directory=tmp_path / "whole")
    with pytest.raises(KeyError, match="stopped"):
        fit_split(clone(hasher), split, 4, directory=tmp_path / "stopped", watchers=[Stop(1)])
    again = fit_split(clone(hasher), split, 4, directory=tmp_path / "stopped", resume=True)
    assert again.model_.fingerprint() == whole.model_.fingerprint()
    assert again.backbone_.fingerprint() == whole.backbone_.fingerprint()
    np.testing.assert_array_equal(again.train_codes_, whole.train_codes_)
    for name, value in {"image_size": 20, "augment": False, "batch_norm": "freeze"}.items():
        changed = clone(hasher).set_params(**{f"training__{name}": value})
        with pytest.raises(ValueError, match=rf"^{name} is .*, and the checkpoint in '.*' was made with "):
            fit_split(changed, split, 4, directory=tmp_path / "stopped", resume=True)


# ------------------------------------------------------------------------------------------------- stored and loaded


def test_what_the_folder_holds(tuned, folder):
    _, model = tuned
    assert sorted(file.name for file in model.iterdir()) == [
        "README.md",
        "backbone",
        "config.json",
        "model.safetensors",
    ]
    assert sorted(file.name for file in (model / "backbone").iterdir()) == [
        "config.json",
        "model.safetensors",
        "preprocessor_config.json",
    ]
    card = (model / "README.md").read_text()
    assert "It turns an image, by way of an embedding of 16 numbers, into a binary code of 16 bits" in card
    assert "hasher.encode(images)" in card
    about = json.loads((model / "config.json").read_text())["metadata"]
    stored_one = Backbone.from_pretrained(model / "backbone")  # as anything that takes a backbone does
    facts = {"name": str(folder), "fingerprint": stored_one.fingerprint(), "dim": 16, "tuned": True}
    assert about["backbone"] == facts
    assert (about["image_size"], about["batch_norm"]) == (20, "freeze")
    assert json.loads((model / "backbone" / "preprocessor_config.json").read_text())["size"] == {
        "height": 20,
        "width": 20,
    }
    loaded = Hasher.from_pretrained(model)
    assert (loaded.training.augment, loaded.training.image_size, loaded.training.batch_norm) == (GENTLE, 20, "freeze")
    images, _ = stripes(3)
    np.testing.assert_array_equal(loaded.encode(stored_one.embed(images)), loaded.encode(images))


def test_a_loaded_model_is_stored_whole_again(tuned, tmp_path):
    _, model = tuned
    images, _ = stripes(3)
    loaded = Hasher.from_pretrained(shutil.copytree(model, tmp_path / "first"))
    expected = Hasher.from_pretrained(model).encode(images)
    for place in (tmp_path / "first", tmp_path / "second"):
        loaded.save_pretrained(place)
        np.testing.assert_array_equal(Hasher.from_pretrained(place).encode(images), expected)
        assert not list(place.glob(".saving*"))


def test_the_backbone_is_loaded_when_it_is_needed(tuned, tmp_path):
    _, model = tuned
    other = shutil.copytree(model, tmp_path / "model")
    shutil.rmtree(other / "backbone")
    loaded = Hasher.from_pretrained(other)
    assert loaded.encode(np.zeros((2, 16), np.float32)).shape == (2, 2)
    with pytest.raises(
        ValueError, match=r"was fine-tuned with it \(from '.*'\) and is in its folder 'backbone'; '.*model' has none$"
    ):
        loaded.encode(stripes(1)[0])


@pytest.mark.parametrize("file", ["preprocessor_config.json", "config.json"])
def test_a_backbone_that_was_tampered_with(tuned, tmp_path, file):
    _, model = tuned
    changed = shutil.copytree(model, tmp_path / "model")
    path = changed / "backbone" / file
    said = json.loads(path.read_text())
    said |= {"image_mean": [0.1, 0.2, 0.3]} if file.startswith("pre") else {"hidden_act": "gelu"}
    path.write_text(json.dumps(said))
    with pytest.raises(
        ValueError, match=r"^backbone is '.*backbone' \(\w+\) and the model was trained with '.*' \(\w+\);"
    ):
        Hasher.from_pretrained(changed).encode(stripes(1)[0])


def test_a_save_that_was_cut_short(tuned, folder, tmp_path):
    """The new backbone is there and the head is the old one's: the folder says that they do not belong together."""
    _, model = tuned
    half = shutil.copytree(model, tmp_path / "model")
    save_backbone(Backbone.from_pretrained(folder), half)
    with pytest.raises(ValueError, match=r"weights and preprocessing must be the same"):
        Hasher.from_pretrained(half).encode(stripes(1)[0])


def test_a_full_disk_leaves_the_old_backbone(tuned, tmp_path, monkeypatch):
    hasher, model = tuned

    def full(self, folder):
        raise OSError(28, "No space left on device", str(folder))

    monkeypatch.setattr(Backbone, "save_pretrained", full)
    whole = shutil.copytree(model, tmp_path / "whole")
    with pytest.raises(OSError, match="No space left on device"):
        hasher.save_pretrained(whole)
    assert sorted(file.name for file in whole.iterdir()) == sorted(file.name for file in model.iterdir())


def test_a_model_of_embeddings_takes_the_place_of_a_tuned_one(tuned, tmp_path, blobs):
    _, model = tuned
    place = shutil.copytree(model, tmp_path / "model")
    Hasher(bits=8, epochs=1).fit(blobs.x, blobs.y).save_pretrained(place)
    assert not (place / "backbone").exists()
    loaded = Hasher.from_pretrained(place)
    with pytest.raises(ValueError, match=r"^the model was trained on embeddings and does not know their backbone; "):
        loaded.encode(stripes(1)[0])
    (place / "backbone").mkdir()  # somebody else's
    loaded.save_pretrained(place)
    assert (place / "backbone").is_dir()


def test_a_model_remembers_the_name_of_a_frozen_backbone(folder, tmp_path):
    images, labels = stripes(16)
    moved = shutil.copytree(folder, tmp_path / "moved")
    backbone = Backbone.from_pretrained(moved)
    hasher = Hasher(bits=8, epochs=1).fit(backbone.embed(images), labels)
    hasher.model_.metadata["backbone"] = backbone.metadata()
    hasher.save_pretrained(tmp_path / "model")
    loaded = Hasher.from_pretrained(tmp_path / "model")
    np.testing.assert_array_equal(loaded.encode(images), hasher.encode(backbone.embed(images)))
    shutil.rmtree(moved)
    said = (
        r"^backbone is '.*moved', and there is no such folder.* \(the model was trained with this backbone; say where"
    )
    with pytest.raises(ValueError, match=said):
        Hasher.from_pretrained(tmp_path / "model").encode(images)
    write_backbone(moved, "vit")
    with pytest.raises(ValueError, match=r"weights and preprocessing must be the same"):
        Hasher.from_pretrained(tmp_path / "model").encode(images)


# ------------------------------------------------------------------------------------------------- the Hub


class Hub:
    """Stands for the Hub: keeps what is uploaded, and gives the parts that are asked for."""

    def __init__(self, place, token=None):
        self.place, self.tokens, self.made = place, [token], []

    def __call__(self, token=None):
        self.tokens.append(token)
        return self

    def create_repo(self, repo_id, private, exist_ok):
        from types import SimpleNamespace

        self.made.append((repo_id, private, exist_ok))
        return SimpleNamespace(repo_id=repo_id)

    def upload_folder(self, repo_id, folder_path, commit_message):
        shutil.copytree(folder_path, self.place / repo_id)
        return f"https://hub/{repo_id}"

    def snapshot_download(self, repo_id, allow_patterns):
        for file in (self.place / repo_id).rglob("*"):
            name = file.relative_to(self.place / repo_id)
            if any(fnmatch(str(name), pattern) for pattern in allow_patterns):
                (self.place / "cached" / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, self.place / "cached" / name)
        return str(self.place / "cached")


def test_to_the_hub_and_back(tuned, tmp_path, monkeypatch):
    hasher, _ = tuned
    hub = Hub(tmp_path)
    monkeypatch.setattr("huggingface_hub.HfApi", hub)
    monkeypatch.setattr("huggingface_hub.snapshot_download", hub.snapshot_download)
    assert hasher.push_to_hub("user/model", private=True, token="secret") == "https://hub/user/model"
    assert (hub.tokens[-1], hub.made) == ("secret", [("user/model", True, True)])
    loaded = Hasher.from_pretrained("user/model")
    assert not (tmp_path / "cached" / "backbone").exists()  # the backbone comes when it is needed
    images, _ = stripes(5)
    np.testing.assert_array_equal(loaded.encode(images), hasher.encode(images))


# ------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"backbone": None}, ValueError, r"^backbone is not given; images need one: a folder or Hub id of a vision"),
        ({"augment": "strong"}, TypeError, r"^augment is 'strong'; it must be True, False or an Augmentation"),
    ],
)
def test_bad_settings(folder, settings, error, said):
    images, labels = stripes(8)
    with pytest.raises(error, match=said):
        Hasher(**grouped(**{**SETTINGS, "epochs": 1, "backbone": folder, **settings})).fit(images, labels)


def test_bad_images(folder):
    images, labels = stripes(8)
    hasher = Hasher(**grouped(**SETTINGS, epochs=1, backbone=folder))
    said = r"^image 1 is not an image.* \(1 of 2 images are damaged or missing\); mend or remove them, or skip them"
    with pytest.raises(ValueError, match=said):
        hasher.fit([images[0], b"junk"], labels[:2])
    with pytest.raises(
        ValueError, match=r"^method is 'csq', which learns from labels, and there are none; give a label"
    ):
        hasher.fit(images)
    with pytest.raises(ValueError, match=r"^X has no image"):
        hasher.fit([], labels)
    with pytest.raises(ValueError, match=r"^y has 7 rows and X has 8"):
        hasher.fit(images, labels[:7])


def test_images_that_keep_their_sizes(tmp_path):
    write_backbone(tmp_path, do_resize=False)
    images, labels = stripes(8)
    with pytest.raises(
        ValueError, match=r"leaves images in sizes of their own; give image_size, the side of the squares"
    ):
        Hasher(**grouped(**SETTINGS, epochs=1, backbone=tmp_path)).fit(images, labels)
    hasher = Hasher(**grouped(**SETTINGS, epochs=1, backbone=tmp_path, augment=False)).fit(images, labels)
    assert hasher.encode(images).shape == (8, 2)  # of one size, and so in batches as they are


def test_a_damaged_image_is_named_where_codes_are_made(tuned, tmp_path):
    hasher, _ = tuned
    table = load_images(write_stripes(tmp_path / "images", 8))
    (tmp_path / "images" / "class1" / "001.png").write_bytes(b"junk")
    with pytest.raises(ValueError, match=r"^image 'class1/001.png' is not an image"):
        encode_split(hasher, table.split())
    with pytest.raises(ValueError, match=r"^image 1 is not an image"):
        hasher.encode([stripes(1)[0][0], b"junk"])


def test_missing_labels_are_refused_before_images_are_decoded(folder):
    with pytest.raises(ValueError, match=r"^2 of 4 rows have no label, and a backbone is fine-tuned by labeled rows"):
        Hasher(**grouped(**SETTINGS, backbone=folder)).fit([b"junk"] * 4, ["a", None, "b", None])


@pytest.mark.shared
def test_the_shared_backbone_learns_from_shared_images(one_thread):
    """A few steps on real images: the loss falls, and codes and weights are finite."""
    table = load_images(SHARED / "data" / "cifar10-images.parquet")
    rows = np.concatenate([np.flatnonzero(table.labels == label)[:32] for label in (0, 1)])
    images = [table.store.read(int(row)) for row in rows]
    backbone = SHARED / "models" / "mobilenetv2"
    settings = {"bits": 16, "hidden": 0, "batch_size": 16, "backbone": backbone, "image_size": 64, "monitor": "loss"}
    hasher = Hasher(**grouped(**settings, epochs=4, backbone_lr=5e-4)).fit(images, table.labels[rows])
    assert hasher.trained_.epoch == 3
    assert hasher.score(images, table.labels[rows]) > 0.75  # half by chance
    assert all(torch.isfinite(weight).all() for weight in hasher.backbone_.model.parameters())
