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


def square(side):
    return {"height": side, "width": side}


def edge(side):
    return {"shortest_edge": side}


# A processor, what it makes of any image, and its sizes for images of 96.
SIZES = {
    "scaled to a square": ("ViTImageProcessor", {}, 224, {"size": square(96)}),
    "shortest edge, then cut": ("CLIPImageProcessor", {}, 224, {"size": edge(96), "crop_size": square(96)}),
    "a middle of seven eighths": ("BitImageProcessor", {"size": edge(256)}, 224, {"size": edge(110)}),
    "a square, then cut": ("DeiTImageProcessor", {}, 224, {"size": square(110), "crop_size": square(96)}),
    "a share that is cut": ("ConvNextImageProcessor", {"size": edge(224)}, 224, {"size": edge(96)}),
    "channels in another order": ("MobileViTImageProcessor", {"size": edge(288)}, 256, {"size": edge(108)}),
    "as large as they are": ("ViTImageProcessor", {"do_resize": False}, None, {"size": square(96)}),
    "as large as they are, by edges": ("ConvNextImageProcessor", {"do_resize": False}, None, {"size": edge(96)}),
    "the shortest edge alone": ("DetrImageProcessor", {}, None, {"size": square(96)}),
}


@pytest.mark.parametrize("kind", SIZES)
def test_sizes_and_values_of_pixels(kind, with_processor):
    name, config, side, sizes = SIZES[kind]
    backbone = with_processor(name, **config)
    before = backbone.preprocessing()
    if side is None:
        with pytest.raises(ValueError, match=r"^the preprocessing of backbone '.*' leaves images in sizes of their"):
            input_size(backbone)
    else:
        assert input_size(backbone) == (side, side)
    other = resized(backbone, 96)
    said = other.preprocessing()
    assert (input_size(other), other.model is backbone.model) == ((96, 96), True)
    assert {key: said[key] for key in sizes} == sizes
    assert said.get("crop_size", square(96)) == square(96)
    assert backbone.preprocessing() == before
    kept = [{key: made[key] for key in made if "size" not in key and key[:3] != "do_"} for made in (said, before)]
    assert kept[0] == kept[1]

    pixels = np.random.default_rng(0).integers(0, 256, (4, 96, 96, 3), dtype=np.uint8)
    other.processor.do_resize = other.processor.do_center_crop = False
    expected = preprocess(other.processor, [Image.fromarray(one) for one in pixels], "x")
    made = PixelValues(other)(pixels)
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


def test_a_preprocessing_that_cannot_be_changed_or_looked_up():
    for processor in (Gray(), Framed()):
        said = (
            rf"^the preprocessing of backbone 'b', a {type(processor).__name__}, does more than scale images and their "
            "channels, so it cannot follow augmentation; train without augmentation"
        )
        with pytest.raises(ValueError, match=said):
            PixelValues(Backbone(Takes(), processor, "b"))
    said = r"^image_size is 96; the preprocessing of backbone 'b', a Framed, cannot make squares of that size"
    with pytest.raises(ValueError, match=said):
        resized(Backbone(Takes(), Framed(), "b"), 96)


def test_a_model_of_one_size(tmp_path):
    write_backbone(tmp_path, "levit", size={"height": 64, "width": 64})
    backbone = Backbone.from_pretrained(tmp_path)
    assert backbone.dim > 0
    with pytest.raises(ValueError, match=r"^image_size is 96, which backbone '.*', a LevitModel, cannot take: "):
        resized(backbone, 96)


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
    if kind == "vit":  # its positions are interpolated
        pixels = preprocess(backbone.processor, images, "x")
        with torch.inference_mode():
            expected = backbone.model(pixel_values=pixels, interpolate_pos_encoding=True).pooler_output.numpy()
        np.testing.assert_allclose(made, expected, atol=1e-6)


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
