"""Sizes and pixel values of the preprocessing of backbones, and backbones with images of another size."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image

from image_tools import model_of, stripes, write_backbone
from lbhash.data.images.loading import preprocess
from lbhash.models.backbone import Backbone, drop_idle_padding
from lbhash.training.images import PixelValues, input_size, resized

transformers = pytest.importorskip("transformers")


class Takes(torch.nn.Module):
    """Stands for a model that takes images of any size."""

    def forward(self, pixel_values):
        class Outputs:
            pooler_output = pixel_values.mean((2, 3))

        return Outputs()


@pytest.fixture
def with_processor(tmp_path):
    """A function that gives a backbone with a processor of some kind."""

    def made(kind, **config):
        said = {"image_processor_type": kind, "image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.25]} | config
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(said))
        model = Takes()
        model.weight = torch.nn.Parameter(torch.zeros(1))
        return Backbone(model, transformers.AutoImageProcessor.from_pretrained(tmp_path, backend="pil"), kind)

    return made


# A processor, what it makes of any image, and its sizes for images of 96.
SIZES = {
    "scaled to a square": ("ViTImageProcessor", {}, 224, {"size": {"height": 96, "width": 96}}),
    "shortest edge, then cut": (
        "CLIPImageProcessor",
        {},
        224,
        {"size": {"shortest_edge": 96}, "crop_size": {"height": 96, "width": 96}},
    ),
    "a middle of seven eighths": (
        "BitImageProcessor",
        {"size": {"shortest_edge": 256}},
        224,
        {"size": {"shortest_edge": 110}, "crop_size": {"height": 96, "width": 96}},
    ),
    "a square, then cut": (
        "DeiTImageProcessor",
        {},
        224,
        {"size": {"height": 110, "width": 110}, "crop_size": {"height": 96, "width": 96}},
    ),
    "a share that is cut": (
        "ConvNextImageProcessor",
        {"size": {"shortest_edge": 224}},
        224,
        {"size": {"shortest_edge": 96}},
    ),
    "channels in another order": (
        "MobileViTImageProcessor",
        {"size": {"shortest_edge": 288}},
        256,
        {"size": {"shortest_edge": 108}, "crop_size": {"height": 96, "width": 96}},
    ),
    "as large as they are": ("ViTImageProcessor", {"do_resize": False}, None, {"size": {"height": 96, "width": 96}}),
    "as large as they are, by edges": (
        "ConvNextImageProcessor",
        {"do_resize": False},
        None,
        {"size": {"shortest_edge": 96}},
    ),
    "the shortest edge alone": ("DetrImageProcessor", {}, None, {"size": {"height": 96, "width": 96}}),
}


@pytest.mark.parametrize("kind", SIZES)
def test_sizes(kind, with_processor):
    name, config, side, sizes = SIZES[kind]
    backbone = with_processor(name, **config)
    before = backbone.preprocessing()
    if side is None:
        with pytest.raises(
            ValueError, match=r"^the preprocessing of backbone '.*' leaves images in sizes of their own; "
        ):
            input_size(backbone)
    else:
        assert input_size(backbone) == (side, side)
    other = resized(backbone, 96)
    assert input_size(other) == (96, 96)
    said = other.preprocessing()
    assert {key: said[key] for key in sizes} == sizes
    assert backbone.preprocessing() == before
    assert other.model is backbone.model
    assert {key: value for key, value in said.items() if "size" not in key and not key.startswith("do_")} == {
        key: value for key, value in before.items() if "size" not in key and not key.startswith("do_")
    }


@pytest.mark.parametrize("kind", SIZES)
def test_values_of_pixels_are_the_preprocessings(kind, with_processor):
    name, config, *_ = SIZES[kind]
    backbone = resized(with_processor(name, **config), 32)
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
    backbone.processor.do_resize = backbone.processor.do_center_crop = False
    expected = preprocess(backbone.processor, [Image.fromarray(one) for one in pixels], "x")
    made = PixelValues(backbone)(pixels)
    assert made.dtype == np.float32
    np.testing.assert_array_equal(made.transpose(0, 3, 1, 2), expected.numpy())


class Gray:
    """Makes images gray, so that every channel depends on all three."""

    do_resize = True

    def __call__(self, images, return_tensors):
        gray = np.stack([np.asarray(image.convert("L"), np.float32) for image in images])
        return {"pixel_values": torch.from_numpy(gray)[:, None].expand(-1, 3, -1, -1)}


class Framed:
    """Puts a frame around images."""

    def __call__(self, images, return_tensors):
        return {"pixel_values": torch.zeros(len(images), 3, 70, 70)}


@pytest.mark.parametrize("processor", [Gray(), Framed()])
def test_values_that_cannot_be_looked_up(processor):
    said = (
        rf"^the preprocessing of backbone 'b', a {type(processor).__name__}, does more than scale images and their "
        "channels, which augmented ones could not be given; train without augmentation"
    )
    with pytest.raises(ValueError, match=said):
        PixelValues(Backbone(Takes(), processor, "b"))


# ------------------------------------------------------------------------------------------------- bad sizes


def test_a_preprocessing_that_cannot_be_changed():
    said = r"^image_size is 96, and the preprocessing of backbone 'b', a Framed, cannot make squares of that size"
    with pytest.raises(ValueError, match=said):
        resized(Backbone(Takes(), Framed(), "b"), 96)


def test_a_model_of_one_size(tmp_path):
    write_backbone(tmp_path, "levit", size={"height": 64, "width": 64})
    backbone = Backbone.from_pretrained(tmp_path)
    assert backbone.dim > 0
    with pytest.raises(ValueError, match=r"^image_size is 96, which backbone '.*', a LevitModel, cannot take: "):
        resized(backbone, 96)


# ------------------------------------------------------------------------------------------------- other sizes


@pytest.mark.parametrize("kind", ["resnet", "mobilenet_v2", "vit", "vit without a pooler", "dinov2", "clip", "siglip"])
def test_backbones_at_another_size(kind, tmp_path):
    """They embed, are the same after they have been stored, and know their size then."""
    images, _ = stripes(4)
    backbone = resized(Backbone.from_pretrained(write_backbone(tmp_path / "first", kind)), 40)
    made = backbone.embed(images)
    assert made.shape == (4, backbone.dim)
    backbone.save_pretrained(tmp_path / "second")
    stored = Backbone.from_pretrained(tmp_path / "second")
    assert input_size(stored) == (40, 40)
    assert stored.fingerprint() == backbone.fingerprint()
    np.testing.assert_array_equal(stored.embed(images), made)


def test_positions_are_interpolated(tmp_path):
    backbone = resized(Backbone.from_pretrained(write_backbone(tmp_path, "vit")), 32)
    images, _ = stripes(2)
    pixels = preprocess(backbone.processor, images, "x")
    with torch.inference_mode():
        expected = backbone.model(pixel_values=pixels, interpolate_pos_encoding=True).pooler_output.numpy()
    np.testing.assert_allclose(backbone.embed(images), expected, atol=1e-6)


# ------------------------------------------------------------------------------------------------- padding


@pytest.mark.parametrize("kind", ["mobilenet_v1", "mobilenet_v2"])
@pytest.mark.parametrize("side", [32, 37])
def test_dropping_idle_padding_changes_no_number(kind, side):
    model = model_of(kind)
    layers = [layer for layer in model.modules() if getattr(getattr(layer, "config", None), "tf_padding", False)]
    convolutions = sum(isinstance(module, torch.nn.Conv2d) for module in model.modules())
    pixels = torch.randn(3, 3, side, side)
    expected, said = model(pixels).pooler_output, model.config.to_diff_dict()
    drop_idle_padding(model)
    still = sum(getattr(layer, "config", None) is not None and layer.config.tf_padding for layer in layers)
    strided = sum(isinstance(module, torch.nn.Conv2d) and module.stride == (2, 2) for module in model.modules())
    assert still == strided + 1 < convolutions  # those that TensorFlow pads unevenly, and the model itself
    torch.testing.assert_close(model(pixels).pooler_output, expected, rtol=0, atol=0)
    assert model.config.to_diff_dict() == said
