from __future__ import annotations

import importlib.util
import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps
from PIL import Image
from torch import nn

import lbhash.models.onnx
from lbhash import Hasher, __version__
from lbhash.codes import pack, unpack
from lbhash.models.backbone import Backbone
from lbhash.models.hash_model import HashModel
from lbhash.models.onnx import LIMIT, OPSET, CodeNetwork, export_model
from lbhash.training.settings import grouped

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.end_to_end]


def run(file, inputs):
    """Codes and raw outputs by onnxruntime, from nothing but the file."""
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    return session.run(["codes", "logits"], {session.get_inputs()[0].name: inputs})


def packed(logits):
    """The packed codes of raw outputs, bit by bit."""
    codes = np.zeros((len(logits), -(-logits.shape[1] // 8)), np.uint8)
    for row, bit in zip(*np.nonzero(logits >= 0), strict=True):
        codes[row, bit // 8] |= 128 >> bit % 8
    return codes


def assert_same(found, codes, logits):
    """Codes equal but for bits whose ℓ is within the limit of 0, and ℓ within the limit; no bit is always the same."""
    limit = LIMIT * max(1, np.abs(logits).max())
    assert [(array.dtype, array.shape) for array in found] == [(np.uint8, codes.shape), (np.float32, logits.shape)]
    np.testing.assert_allclose(found[1], logits, atol=limit, rtol=0)
    np.testing.assert_array_equal(found[0], packed(found[1]))
    bits = logits.shape[1]
    differ = unpack(found[0], bits) != unpack(codes, bits)
    assert (np.abs(logits[differ]) <= limit).all()
    if len(logits) > 2:
        assert (np.ptp(logits, axis=0) > 100 * limit).all()


# ------------------------------------------------------------------------------------------------- embeddings


def saved(folder, bits=20, hidden=16, dim=12, **about):
    """The folder of a random model."""
    torch.manual_seed(0)
    model = HashModel(dim, bits, hidden, metadata=about)
    rng = np.random.default_rng(0)
    model.set_standardization(rng.normal(size=dim), rng.uniform(0.5, 2, dim))
    model.encoder().save(folder)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    known = {"name": "somewhere", "fingerprint": "0123456789abcdef", "dim": 12}
    return saved(tmp_path_factory.mktemp("model"), backbone=known)


@pytest.fixture(scope="module")
def written(model, tmp_path_factory):
    """The exported file, and what the export said."""
    out = tmp_path_factory.mktemp("exported") / "new" / "model.onnx"
    return out, export_model(model, out)


def test_codes_of_embeddings(model, written):
    file, facts = written
    hasher = Hasher.from_pretrained(model)
    for rows in (1, 2, 500):
        x = np.random.default_rng(rows).normal(size=(rows, 12)).astype(np.float32)
        assert_same(run(file, x), hasher.encode(x), hasher.model_.outputs(x))
    assert facts["inputs"] == [{"name": "embeddings", "type": "float32", "shape": ["n", 12]}]
    assert facts["outputs"] == [
        {"name": "codes", "type": "uint8", "shape": ["n", 3]},
        {"name": "logits", "type": "float32", "shape": ["n", 20]},
    ]
    assert (facts["out"], facts["bytes"], facts["opset"]) == (str(file), file.stat().st_size, OPSET)
    assert (facts["rows"], facts["differing_bits"]) == (256, 0)
    assert 0 < facts["largest_difference"] < 1e-5
    assert [path.name for path in file.parent.iterdir()] == ["model.onnx"]


# A file for each set of operators: linear maps, classes, networks, and the branches of the joined head.
@pytest.mark.parametrize(
    ("settings", "labels"),
    [
        ({"method": "itq"}, None),
        ({"method": "sdc"}, None),
        ({"method": "logistic"}, "hot"),
        ({"method": "greedyhash", "pull": "none", "hidden": 16, "epochs": 1}, "y"),
        ({"method": "hyp2", "hidden": 0, "epochs": 1}, "hot"),
    ],
)
def test_a_trained_model(tmp_path, blobs, settings, labels):
    hasher = Hasher(**grouped(bits=11, **settings)).fit(blobs.x, labels and getattr(blobs, labels))
    hasher.save_pretrained(tmp_path / "model")
    facts = export_model(tmp_path / "model", tmp_path / "model.onnx")
    outputs = hasher.model_.outputs(blobs.query_x)
    assert_same(run(tmp_path / "model.onnx", blobs.query_x), hasher.encode(blobs.query_x), outputs)
    assert "lbhash.backbone" not in facts["metadata"]


class Given(nn.Module):
    """Raw outputs as they come."""

    def __init__(self, bits):
        super().__init__()
        self.bits = bits

    def forward(self, x):
        return x


@settings(max_examples=60, deadline=None)
@given(
    nps.arrays(
        np.float32,
        st.tuples(st.integers(1, 5), st.integers(1, 70)),
        elements=st.floats(allow_nan=False, width=32) | st.sampled_from([0.0, -0.0, 1e-45, -1e-45]),
    )
)
def test_packing_is_that_of_the_library(logits):
    codes, out = CodeNetwork(Given(logits.shape[1]))(torch.from_numpy(logits))
    np.testing.assert_array_equal(codes.numpy(), pack(logits))
    np.testing.assert_array_equal(out.numpy(), logits)


def test_the_file_says_what_its_codes_are(model, written):
    file, facts = written
    proto = onnx.load(file)
    said = {entry.key: entry.value for entry in proto.metadata_props}
    assert said == facts["metadata"]
    assert said == {
        "lbhash.version": __version__,
        "lbhash.bits": "20",
        "lbhash.bit_order": "big",
        "lbhash.model": Hasher.from_pretrained(model).model_.fingerprint(),
        "lbhash.backbone": "0123456789abcdef",  # which made the embeddings
    }
    assert [(entry.domain, entry.version) for entry in proto.opset_import] == [("", OPSET)]
    assert (proto.producer_name, proto.producer_version) == ("lbhash", __version__)
    onnx.checker.check_model(proto, full_check=True)


def test_the_file_tells_nothing_of_the_machine(written):
    file, _ = written
    for word in (lbhash.__file__, torch.__file__, str(file.parent), ".py", "stack_trace"):
        assert word.encode() not in file.read_bytes()


# ------------------------------------------------------------------------------------------------- images

CROPPED = {
    "image_processor_type": "MobileNetV2ImageProcessor",
    "do_resize": True,
    "size": {"shortest_edge": 40},
    "resample": 2,
    "do_center_crop": True,
    "crop_size": {"height": 32, "width": 32},
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.4, 0.5, 0.6],
    "image_std": [0.2, 0.25, 0.3],
}
SQUARED = CROPPED | {"image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 32}, "resample": 3}
SQUARED["do_center_crop"] = False
AS_THEY_ARE = CROPPED | {"do_resize": False, "do_center_crop": False}


def tiny(kind):
    """A small random vision model whose outputs tell images apart."""
    transformers = pytest.importorskip("transformers")
    made = {
        "resnet": lambda: transformers.ResNetModel(
            transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1], layer_type="basic")
        ),
        "vit": lambda: transformers.ViTModel(
            transformers.ViTConfig(
                hidden_size=16,
                intermediate_size=16,
                num_hidden_layers=1,
                num_attention_heads=2,
                image_size=32,
                patch_size=16,
            )
        ),
    }[kind]
    torch.manual_seed(0)
    model = made().eval()
    for weights in model.parameters():
        if weights.ndim > 1:
            nn.init.kaiming_normal_(weights)
    return model


def with_processor(vision, folder, processor):
    vision.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


def sample_images(count=12, size=None, seed=5):
    rng = np.random.default_rng(seed)
    sizes = [size or tuple(rng.integers(20, 90, 2)) for _ in range(count)]
    coarse = [Image.fromarray(rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)) for _ in range(count)]
    return [one.resize(tuple(map(int, to)), Image.Resampling.BICUBIC) for one, to in zip(coarse, sizes, strict=True)]


def model_of_images(root, kind, processor):
    """A model folder, and that of the backbone whose embeddings it takes."""
    vision = with_processor(tiny(kind), root / "vision", processor)
    backbone = Backbone.from_pretrained(vision)
    made = backbone.embed(sample_images(40, (48, 48), seed=1))
    torch.manual_seed(3)
    model = HashModel(backbone.dim, 20, 16, metadata={"backbone": backbone.metadata()})
    model.set_standardization(made.mean(0), made.std(0))
    model.encoder().save(root / "model")
    return root / "model", vision


@pytest.fixture(scope="module", params=["vit", pytest.param("resnet", marks=pytest.mark.slow)])
def exported(request, tmp_path_factory):
    """A model of images, its backbone, the exported file, and what the export said."""
    root = tmp_path_factory.mktemp(request.param)
    model, vision = model_of_images(root, request.param, SQUARED if request.param == "resnet" else CROPPED)
    shutil.copytree(vision, model / "backbone")
    return model, vision, root / "model.onnx", export_model(model, root / "model.onnx")


def by_hand(images, said):
    """The preprocessing that the metadata describe, in the open."""
    made = []
    for image in images:
        size = said["size"]
        if "shortest_edge" in size:
            scale = size["shortest_edge"] / min(image.size)
            width, height = (int(length * scale) for length in image.size)
        else:
            width, height = size["width"], size["height"]
        pixels = np.asarray(image.resize((width, height), said["resample"]), np.float32)
        if said["do_center_crop"]:
            crop = said["crop_size"]
            top, left = (height - crop["height"]) // 2, (width - crop["width"]) // 2
            pixels = pixels[top : top + crop["height"], left : left + crop["width"]]
        made.append((pixels * said["rescale_factor"] - said["image_mean"]) / said["image_std"])
    return np.stack(made).transpose(0, 3, 1, 2).astype(np.float32)


def test_codes_of_images(exported):
    model, vision, file, facts = exported
    hasher, backbone = Hasher.from_pretrained(model), Backbone.from_pretrained(vision)
    images = sample_images()
    embeddings = backbone.embed(images)
    pixels = np.asarray(backbone.processor(images, return_tensors="np")["pixel_values"], np.float32)
    assert_same(run(file, pixels), hasher.encode(embeddings), hasher.model_.outputs(embeddings))
    assert facts["inputs"] == [{"name": "pixel_values", "type": "float32", "shape": ["n", 3, 32, 32]}]
    assert facts["rows"] >= 8
    assert facts["metadata"]["lbhash.backbone"] == backbone.fingerprint()


def test_the_metadata_suffice_to_do_the_preprocessing_again(exported):
    model, vision, file, _ = exported
    said = {entry.key: entry.value for entry in onnx.load(file).metadata_props}
    images = sample_images()
    hasher = Hasher.from_pretrained(model)
    found = run(file, by_hand(images, json.loads(said["lbhash.preprocessing"])))
    logits = hasher.model_.outputs(Backbone.from_pretrained(vision).embed(images))
    np.testing.assert_allclose(found[1], logits, atol=1e-3)


def test_a_backbone_from_elsewhere(exported, tmp_path, command, monkeypatch):
    model, vision, file, facts = exported
    monkeypatch.setattr(lbhash.models.onnx, "_exported", lambda *_: onnx.load(file))
    alone = shutil.copytree(model, tmp_path / "model", ignore=shutil.ignore_patterns("backbone"))
    out = tmp_path / "model.onnx"
    status, said, errors = command("export", alone, "--backbone", vision, "--out", out, "--json")
    assert (status, errors) == (0, "")
    assert json.loads(said) == facts | {"out": str(out)}
    assert out.read_bytes() == file.read_bytes()


def test_images_of_any_size(tmp_path):
    model, vision = model_of_images(tmp_path, "resnet", AS_THEY_ARE)
    facts = export_model(model, tmp_path / "model.onnx", backbone=vision)
    assert facts["inputs"] == [{"name": "pixel_values", "type": "float32", "shape": ["n", 3, "height", "width"]}]
    hasher, backbone = Hasher.from_pretrained(model), Backbone.from_pretrained(vision)
    for size in ((32, 32), (51, 40)):
        images = sample_images(size=size)
        embeddings = backbone.embed(images)
        pixels = backbone.processor(images, return_tensors="np")["pixel_values"]
        found = run(tmp_path / "model.onnx", pixels)
        assert_same(found, hasher.encode(embeddings), hasher.model_.outputs(embeddings))


# ------------------------------------------------------------------------------------------------- what is refused


def refused(said, *arguments, **options):
    with pytest.raises(ValueError, match=said) as caught:
        export_model(*arguments, **options)
    assert "\n" not in str(caught.value)


def tensor(proto, name):
    """A tensor of an ONNX file, and a function that puts another in its place."""
    (found,) = (one for one in proto.graph.initializer if one.name.endswith(name))
    return onnx.numpy_helper.to_array(found), lambda value: found.CopyFrom(
        onnx.numpy_helper.from_array(value, found.name)
    )


@pytest.fixture
def exports(written, monkeypatch):
    """What the exporter gives: the file as it was written, in memory, for a test to change."""
    proto = onnx.load(written[0])
    monkeypatch.setattr(lbhash.models.onnx, "_exported", lambda *_: proto)
    return proto


def test_outputs_that_differ(model, tmp_path, exports):
    (tmp_path / "model.onnx").write_text("an older one")
    bias, put = tensor(exports, "head.2.bias")
    put(bias + np.float32(0.02))
    said = r"^the outputs of the exported model under onnxruntime .* are up to 0.02 from the library's \(0.0001\d* is"
    refused(said, model, tmp_path / "model.onnx")
    put(bias * np.float32(np.nan))
    refused(r" are up to nan from the library's", model, tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_text() == "an older one"
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    put(bias + np.float32(1e-5))
    assert export_model(model, tmp_path / "model.onnx")["largest_difference"] == pytest.approx(1e-5, rel=0.1)


def test_bits_that_differ_within_the_limit_are_counted(model, tmp_path, exports):
    near = Hasher.from_pretrained(model).model_
    near.weights["head.2.weight"][:] = 0
    near.weights["head.2.bias"][:] = 5e-6
    near.save(tmp_path / "near")
    weight, put = tensor(exports, "head.2.weight")
    put(0 * weight)
    _, put = tensor(exports, "head.2.bias")
    put(np.float32([-5e-6] * 3 + [5e-6] * 17))
    assert export_model(tmp_path / "near", tmp_path / "model.onnx")["differing_bits"] == 3 * 256


def test_codes_in_another_order(model, tmp_path, exports):
    values, put = tensor(exports, "byte_values")
    put(np.ascontiguousarray(values[::-1]))
    refused(r"^the codes of the exported model under .* are not the packed signs", model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("exports")
def test_an_engine_that_refuses_the_file_or_fails(model, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise onnxruntime.capi.onnxruntime_pybind11_state.Fail("Opset 99 is\nunder development")

    engine = SimpleNamespace(get_inputs=lambda: [SimpleNamespace(name="embeddings")], run=fail)
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *_, **__: engine)
    refused(r"^the exported model fails under onnxruntime .*: Opset 99 is$", model, tmp_path / "model.onnx")
    monkeypatch.setattr(onnxruntime, "InferenceSession", fail)
    refused(r"^the exported model fails under onnxruntime .*: Opset 99 is$", model, tmp_path / "model.onnx")


def test_a_model_that_cannot_be_exported(exported, model, tmp_path, monkeypatch):
    def export(*_, **__):
        raise torch.onnx.OnnxExporterError("Failed.\nNext steps: …") from ValueError("no such\noperator")

    monkeypatch.setattr(torch.onnx, "export", export)
    said = r"could not be exported to ONNX: no such$"
    refused(rf"^the backbone, a \w+Model, {said}", exported[0], tmp_path / "model.onnx")
    refused(rf"^the model {said}", model, tmp_path / "model.onnx")
    free, vision = model_of_images(tmp_path, "resnet", AS_THEY_ARE)
    said = r"ONNX for images of any size, as its preprocessing leaves them: no such$"
    refused(said, free, tmp_path / "model.onnx", backbone=vision)


def test_an_opset_that_is_not_written(model, tmp_path, exports, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(torch.onnx, "export", lambda *_, **__: SimpleNamespace(model_proto=exports))
    refused(r"^opset is 21, which PyTorch .* does not write; it wrote 18", model, tmp_path / "model.onnx", opset=21)


def test_another_backbone(exported, tmp_path):
    model, vision, _, _ = exported
    out = tmp_path / "model.onnx"
    other = shutil.copytree(vision, tmp_path / "other")
    said = json.loads((other / "preprocessor_config.json").read_text())
    (other / "preprocessor_config.json").write_text(json.dumps(said | {"image_std": [1, 1, 1]}))
    refused(r"^backbone is '.*other' \(\w+\) and the model was trained with", model, out, backbone=other)
    moved = shutil.copytree(model, tmp_path / "model")
    shutil.rmtree(moved / "backbone")
    shutil.copytree(other, moved / "backbone")
    refused(r"^backbone is '.*model/backbone' \(\w+\) and the model was trained", moved, out)
    refused(r"^backbone is 'nowhere', and there is no such folder", model, out, backbone="nowhere")
    narrow = saved(tmp_path / "narrow", dim=7)
    refused(r"whose embeddings have \d+ numbers; the model takes 7", narrow, out, backbone=vision)
    assert not out.exists()


def test_bad_arguments(model, tmp_path):
    refused(r"^model is '.*absent', and there is no such folder", tmp_path / "absent", tmp_path / "m.onnx")
    (tmp_path / "empty").mkdir()
    refused(r"^model is '.*empty', which has no config.json", tmp_path / "empty", tmp_path / "m.onnx")
    refused(r"^out is '.*m.pt'; it must end in .onnx", model, tmp_path / "m.pt")
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(FileExistsError, match="a folder is in its place"):
        export_model(model, tmp_path / "folder.onnx")
    latest = onnx.defs.onnx_opset_version()
    for opset in (17, latest + 1):
        refused(rf"^opset is {opset}; it must be from 18 to {latest}$", model, tmp_path / "m.onnx", opset=opset)


@pytest.mark.usefixtures("exports")
def test_a_model_that_is_too_large(model, tmp_path, monkeypatch):
    size = 4 * (12 * 16 + 16 + 16 * 20 + 20 + 12 + 12 + 20 * 3)
    monkeypatch.setattr(lbhash.models.onnx, "MAX_BYTES", size)
    export_model(model, tmp_path / "model.onnx")
    monkeypatch.setattr(lbhash.models.onnx, "MAX_BYTES", size - 1)
    said = f"^the weights of model and backbone have {size:,} bytes; an ONNX file holds at most {size - 1:,}"
    refused(said, model, tmp_path / "model.onnx")


def test_without_the_packages(model, tmp_path, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxscript" else found(name))
    refused(r"^export needs the package onnxscript: pip install 'lbhash\[onnx\]'", model, tmp_path / "m.onnx")


# ------------------------------------------------------------------------------------------------- the command


def test_the_command(model, tmp_path, command):
    out = tmp_path / "model.onnx"
    status, said, errors = command("export", model, "--out", out, "--opset", 20)
    assert (status, errors) == (0, "")
    first, second, third = said.splitlines()
    assert first == f"{out} ({out.stat().st_size:,} bytes, opset 20)"
    assert second == "embeddings float32 [n, 12] -> codes uint8 [n, 3], logits float32 [n, 20]"
    assert third.startswith(f"onnxruntime {onnxruntime.__version__} on 256 rows: logits within ")
    assert third.endswith(" of the library's, 0 bits differ")
    assert [(entry.domain, entry.version) for entry in onnx.load(out).opset_import] == [("", 20)]
