"""Views of images: embeddings of augmented images, and the method that compares an image with itself."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from image_tools import SIDE, stored, stripes, write_backbone
from lbhash import Hasher
from lbhash.data.images import ImageSplit, ImageTable, ListedImages
from lbhash.data.split import EmbeddingSplit
from lbhash.models.backbone import Backbone
from lbhash.training.coders.cibhash import CIBHash, two_views
from lbhash.training.images import Augmentation, augmentation_numbers, embedded_views
from lbhash.training.settings import grouped

pytest.importorskip("transformers")

STRONG = Augmentation(crop=(0.3, 1))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_backbone(tmp_path_factory.mktemp("backbone"))


def split_of(images):
    return ImageSplit(ImageTable(ListedImages(images), None, "p"), np.arange(len(images)), None)


@pytest.mark.parametrize("workers", [0, 1])
def test_views_are_embeddings_of_augmented_images(folder, workers, capsys):
    backbone, (images, _) = Backbone.from_pretrained(folder, device="cpu"), stripes(35)
    split = split_of(images).where(np.arange(35) != 1)
    made = embedded_views(split, backbone, STRONG, 7, workers=workers, progress="embedding")
    assert (made.shape, made.dtype) == ((34, 4, backbone.dim), np.float32)
    assert "34/34 images" in capsys.readouterr().err
    for position, row in ((0, 0), (1, 2), (33, 34)):
        for view in range(4):
            changed = STRONG.apply(images[row], (SIDE, SIDE), augmentation_numbers(7, view, row), 2)
            pixels = backbone.processor(changed, do_resize=False, return_tensors="pt")["pixel_values"]
            np.testing.assert_allclose(made[position, view], backbone.embed_pixels(pixels)[0], atol=1e-5)


def test_two_views_of_a_row_are_different_ones_of_its_own():
    x = torch.arange(60).reshape(5, 4, 3)
    seen = set()
    for seed in range(40):
        torch.manual_seed(seed)
        first, second = two_views(x).chunk(2)
        for row in range(5):
            pair = tuple(x[row].tolist().index(one[row].tolist()) for one in (first, second))
            assert pair[0] != pair[1]
            seen.add(pair)
    assert len(seen) == 12


def test_views_tell_what_augmentation_leaves():
    """Rows of two numbers: views share the first, which is one of four, and not the second."""
    rng = np.random.default_rng(0)
    place = rng.integers(4, size=200) - 1.5
    views = np.stack([np.tile(place[:, None], 4), rng.standard_normal((200, 4))], axis=2).astype(np.float32)
    coder = CIBHash(8)
    coder.views = views
    model = coder.fit(EmbeddingSplit(views[:, 0], np.arange(200), None)).encoder()
    first, second = (model.outputs(views[:, view]) > 0 for view in (1, 2))
    assert (first == second).mean() > 0.95
    assert len(np.unique(first, axis=0)) >= 4


def test_images_without_labels(folder, tmp_path):
    images, labels = stripes(40)
    settings = {"bits": 16, "method": "cibhash", "backbone": folder}
    hasher = Hasher(**grouped(**settings, augment=STRONG)).fit(images)
    codes = hasher.encode(images)
    np.testing.assert_array_equal(codes, hasher.train_codes_)
    assert hasher.classes_.size == 0
    known = hasher.model_.metadata["backbone"]
    assert known == Backbone.from_pretrained(folder).metadata()  # it did not learn
    hasher.save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model" / "backbone").exists()
    loaded = Hasher.from_pretrained(tmp_path / "model")
    np.testing.assert_array_equal(loaded.encode([stored(image) for image in images]), codes)
    assert loaded.training.augment == STRONG
    np.testing.assert_array_equal(Hasher(**grouped(**settings, augment=STRONG)).fit(images, labels).train_codes_, codes)
    assert (Hasher(**grouped(**settings)).fit(images).train_codes_ != codes).any()  # the augmentation matters
    embeddings = hasher.backbone_.embed(images)
    dropped = Hasher(16, method="cibhash").fit(embeddings)
    plain = Hasher(**grouped(**settings, augment=False)).fit(images)
    np.testing.assert_array_equal(plain.train_codes_, dropped.train_codes_)  # views of embeddings


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"method": "sne"}, r"^method is 'sne', which takes embeddings and trains no backbone; embed the images first"),
        ({"method": "cibhash", "image_size": 20}, r"^image_size is 20 and the method is 'cibhash', which has its own"),
        ({"method": "cibhash", "backbone": None}, r"^backbone is not given; images need one"),
        ({"method": "csq"}, r"^method is 'csq', which learns from labels, .* \(cibhash\), or embed the images first"),
        ({"method": "ridge"}, r"^method is 'ridge', which learns from labels, and there are none"),
    ],
)
def test_what_images_without_labels_do_not_take(folder, settings, said):
    with pytest.raises(ValueError, match=said):
        Hasher(**grouped(bits=8, **{"backbone": folder, **settings})).fit(stripes(8)[0])


def test_the_commands(folder, tmp_path, refuse, succeed, monkeypatch):
    monkeypatch.chdir(tmp_path)
    images, _ = stripes(60)
    rows = pa.array([{"bytes": stored(image), "path": None} for image in images])
    pq.write_table(pa.table({"image": rows}), "images.parquet")
    train = ["train", "images.parquet", "--backbone", folder, "--bits", 16]
    succeed(*train, "--method", "cibhash", "--out", "model")
    metrics = json.loads((tmp_path / "model" / "metrics.json").read_text())
    assert metrics["method"] == "cibhash"
    about = json.loads((tmp_path / "model" / "config.json").read_text())["metadata"]
    assert about["augment"]["crop"] == [0.5, 1.0]
    assert 0 < metrics["neighbor_recall"][0] <= 1
    succeed("encode", "--model", "model", "images.parquet", "--out", "codes.parquet")
    err = refuse(*train, "--out", "other")
    assert "embed the images first (on the command line, --freeze)" in err
    assert not (tmp_path / "other").exists()
