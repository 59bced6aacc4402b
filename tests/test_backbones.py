from __future__ import annotations

import json
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from image_tools import PROCESSOR, SIDE, model_of
from lbhash.models.backbone import Backbone, pooled

transformers = pytest.importorskip("transformers")

SHARED = Path(__file__).parents[2] / "shared"


def tiny(kind):
    """A small random model of a family, with weights so wide that images differ in its outputs."""
    model = model_of(kind)
    torch.manual_seed(0)
    for weights in model.parameters():
        torch.nn.init.normal_(weights, std=1.0 if kind == "mobilenet_v2" else 0.3)
    return model


def save(model, folder, **processor):
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR | processor))
    return folder


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(3)
    return [Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)) for size in ((32, 32), (40, 20), (3, 50))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save(tiny("vit"), tmp_path_factory.mktemp("vit"))


def pixel_values(images):
    """The preprocessing in the open."""
    resized = [np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BILINEAR), np.float32) for image in images]
    values = (np.stack(resized) / 255 - PROCESSOR["image_mean"]) / PROCESSOR["image_std"]
    return torch.from_numpy(values.transpose(0, 3, 1, 2)).float()


# What the rule promises of each family, from the model's own parts.
EXPECTED = {
    "resnet": lambda model, x: model(x).last_hidden_state.mean((2, 3)),
    "convnext": lambda model, x: model.layernorm(model(x).last_hidden_state.mean((2, 3))),
    "mobilenet_v2": lambda model, x: model(x).last_hidden_state.mean((2, 3)),
    "vit": lambda model, x: torch.tanh(model.pooler.dense(model(x).last_hidden_state[:, 0])),
    "vit without a pooler": lambda model, x: model.vit(x).last_hidden_state[:, 0],
    "dinov2": lambda model, x: model(x).last_hidden_state[:, 0],
    "poolformer": lambda model, x: model(x).last_hidden_state.mean((2, 3)),
    "clip": lambda model, x: model.vision_model(x).pooler_output,
    "siglip": lambda model, x: model.vision_model(x).pooler_output,
}


@pytest.mark.parametrize("kind", EXPECTED)
def test_the_rule_of_pooling(kind, tmp_path, images):
    model = tiny(kind)
    backbone = Backbone.from_pretrained(save(model, tmp_path))
    with torch.inference_mode():
        expected = EXPECTED[kind](model, pixel_values(images)).numpy()
    made = backbone.embed(images, batch_size=2)
    assert (made.dtype, made.shape) == (np.float32, (3, backbone.dim))
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-5)
    assert np.ptp(made, axis=0).max() > 1e-4  # images differ, so that the comparison says something


def test_tokens_without_a_class_token_are_averaged():
    class Outputs:
        last_hidden_state = torch.arange(24.0).reshape(2, 3, 4)

    assert torch.equal(pooled(torch.nn.Linear(1, 1), Outputs()), Outputs.last_hidden_state.mean(1))
    with_token = torch.nn.ParameterDict({"cls_token": torch.zeros(1)})
    assert torch.equal(pooled(with_token, Outputs()), Outputs.last_hidden_state[:, 0])


def test_batches_and_kinds_of_images(folder, images):
    backbone = Backbone.from_pretrained(folder)
    held = []
    for image in images:
        data = BytesIO()
        image.save(data, "PNG")
        held.append(data.getvalue())
    one = backbone.embed(held, batch_size=1)
    for size in (2, 3, 100):
        np.testing.assert_allclose(backbone.embed(iter(images), batch_size=size), one, atol=1e-5)
    assert backbone.embed([]).shape == (0, backbone.dim)
    gray = [image.convert("L") for image in images]
    np.testing.assert_array_equal(backbone.embed(gray), backbone.embed([image.convert("RGB") for image in gray]))


def test_a_generator_is_taken_batch_by_batch(folder, images):
    taken = []

    def generator():
        for at in range(5):
            taken.append(at)
            yield images[at % 3]

    batches = Backbone.from_pretrained(folder).embed_batches(generator(), 2)
    assert taken == []
    assert len(next(batches)) == 2
    assert taken == [0, 1]


def test_small_and_narrow_images(folder):
    # Three rows or columns could be taken for channels.
    backbone = Backbone.from_pretrained(folder)
    for size in ((1, 1), (3, 3), (1, 3), (3, 150), (4, 1)):
        image = Image.new("RGB", size, (200, 30, 90))
        expected = backbone.embed([Image.new("RGB", (32, 32), (200, 30, 90))])
        np.testing.assert_allclose(backbone.embed([image]), expected, atol=1e-5)


def test_images_of_several_sizes_are_a_line(tmp_path, images):
    backbone = Backbone.from_pretrained(save(tiny("resnet"), tmp_path, do_resize=False))
    with pytest.raises(ValueError, match=r"^the preprocessing of backbone '.*' failed: "):
        backbone.embed(images)


def test_what_is_no_image_is_named(folder, images):
    backbone = Backbone.from_pretrained(folder)
    with pytest.raises(ValueError, match=r"^image 1 is not an image"):
        backbone.embed([images[0], b"junk"])
    with pytest.raises(TypeError, match=r"^image 0 is of type int"):
        backbone.embed([5])
    with pytest.raises(ValueError, match=r"^image 'photo.jpg' cannot be read: No such file"):
        backbone.embed(["photo.jpg"])
    with pytest.raises(ValueError, match=r"^batch_size is 0; it must be at least 1"):
        backbone.embed(images, batch_size=0)


def test_the_fingerprint_tells_weights_and_preprocessing(folder, tmp_path):
    known = Backbone.from_pretrained(folder).fingerprint()
    assert len(known) == 16
    same = save(tiny("vit"), tmp_path / "same")
    assert Backbone.from_pretrained(same).fingerprint() == known
    weights = load_file(same / "model.safetensors")
    weights["layernorm.bias"][3] += 1e-3
    save_file(weights, same / "model.safetensors", {"format": "pt"})
    other = save(tiny("vit"), tmp_path / "other", image_mean=[0.4, 0.5, 0.5])
    model = tiny("vit")
    model.config.layer_norm_eps = 1e-3
    configured = save(model, tmp_path / "configured")
    made = {Backbone.from_pretrained(changed).fingerprint() for changed in (same, other, configured)}
    assert len(made | {known}) == 4


def test_loading_leaves_the_generator_as_it_was(folder):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    Backbone.from_pretrained(folder)
    assert torch.equal(torch.rand(3), expected)


def test_loading_says_nothing(folder, capfd):
    Backbone.from_pretrained(folder)
    assert capfd.readouterr() == ("", "")


# ------------------------------------------------------------------------------------------------- bad backbones


def refused(path, said):
    with pytest.raises(ValueError, match=said) as caught:
        Backbone.from_pretrained(path)
    assert "\n" not in str(caught.value)


def test_no_such_folder(tmp_path):
    refused(tmp_path / "absent", r"^backbone is '.*absent', and there is no such folder; .* or a Hub id 'user/name'")
    refused("../absent", r"^backbone is '../absent', and there is no such folder")
    refused("resnet", r"^backbone is 'resnet', and there is no such folder")


def test_a_hub_model_without_a_network():
    refused(
        "nobody/nothing-of-the-kind",
        r"^backbone is 'nobody/nothing-of-the-kind', which is no folder, and as a model of the Hub could not be loaded",
    )


@pytest.mark.parametrize("file", ["config.json", "preprocessor_config.json"])
def test_a_missing_file(tmp_path, file):
    save(tiny("vit"), tmp_path)
    (tmp_path / file).unlink()
    refused(tmp_path, rf"which has no {file}; it must be a folder of transformers")


def test_pickles_only(tmp_path):
    model = tiny("vit")
    save(model, tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    refused(tmp_path, r"which has no \.safetensors file; lbhash loads safetensors only, because a pickle can run code")


def test_code_of_a_repository_is_not_run(tmp_path):
    save(tiny("vit"), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config", "AutoModel": "mine.Model"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    refused(tmp_path, "which could not be loaded: .*custom code")
    assert not (tmp_path / "ran").exists()


def test_missing_weights_are_not_drawn(tmp_path):
    save(tiny("vit"), tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["layernorm.bias"]
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    refused(tmp_path, r"could not be loaded: it has no weights for layernorm.bias \(1 are missing\)")


def test_damaged_weights(tmp_path):
    save(tiny("vit"), tmp_path)
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:200])
    refused(tmp_path, r"which could not be loaded: ")


@pytest.mark.parametrize(
    "change", [{"num_attention_heads": 0}, {"hidden_size": 0}, {"hidden_size": "x"}, {"layer_norm_eps": "a"}, None]
)
def test_damaged_configurations(tmp_path, change):
    save(tiny("vit"), tmp_path)
    file = tmp_path / "config.json"
    file.write_text("[" * 100_000 if change is None else json.dumps(json.loads(file.read_text()) | change))
    refused(tmp_path, r"^backbone is '[^\n]*', which could not be loaded: [^\n]+$")


def test_a_model_of_text(tmp_path):
    t = transformers
    small = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "vocab_size": 9,
    }
    save(t.BertModel(t.BertConfig(**small)), tmp_path)
    refused(tmp_path, r"a BertModel, which takes no images")


@pytest.mark.parametrize("package", ["transformers", "PIL"])
def test_without_the_packages(package, folder, monkeypatch):
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else found(name))
    refused(folder, rf"^a backbone needs the package {package}: pip install 'lbhash\[images\]'")


@pytest.mark.skipif(find_spec("timm") is not None, reason="timm is installed")
def test_a_model_of_timm_without_timm(tmp_path):
    config = {"architecture": "resnet18", "num_classes": 0, "pretrained_cfg": {"input_size": [3, 32, 32]}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file({"weight": torch.zeros(1)}, tmp_path / "model.safetensors")
    needs = r"a model of timm, needs the package timm: pip install 'lbhash\[timm\]'"
    refused(tmp_path, needs)
    with pytest.raises(ValueError, match=needs):
        Backbone.from_pretrained("timm/resnet18.a1_in1k")


# ------------------------------------------------------------------------------------------------- with a Hasher


@pytest.mark.shared
def test_the_shared_backbone_agrees_with_the_shared_embeddings(one_thread):
    backbone = Backbone.from_pretrained(SHARED / "models" / "mobilenetv2")
    read = {}
    for name, column in (("cifar10-images", "image"), ("cifar10-mobilenetv2", "embedding")):
        with pq.ParquetFile(SHARED / "data" / f"{name}.parquet") as parquet:
            read[column] = next(parquet.iter_batches(64, columns=[column])).column(0).to_pylist()
    made = backbone.embed([image["bytes"] for image in read["image"]], batch_size=16)
    known = np.array(read["embedding"]) * 0.023528477
    cosine = (made * known).sum(1) / np.linalg.norm(made, axis=1) / np.linalg.norm(known, axis=1)
    assert backbone.dim == 1280
    assert cosine.mean() > 0.98
    others = np.roll(known, 1, axis=0)
    wrong = (made * others).sum(1) / np.linalg.norm(made, axis=1) / np.linalg.norm(others, axis=1)
    assert cosine.min() > wrong.max()
