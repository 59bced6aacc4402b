from __future__ import annotations

import json
import shutil
from pathlib import Path
from threading import Barrier, get_ident

import numpy as np
import pytest
import torch
from threadpoolctl import OpenBLASController, threadpool_info, threadpool_limits

from lbhash import Hasher, TrainingArguments
from lbhash.codes import pack
from lbhash.models.encoder import load_encoder
from lbhash.models.folder import PICKLES, check_model_folder
from lbhash.models.hash_model import HashModel
from lbhash.utils.checksums import with_checksum

MODEL_FILES = {"README.md", "config.json", "model.safetensors"}


def module(hidden=6, seed=0, **settings):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = HashModel(5, 11, hidden, **settings)
        for branch in filter(None, (model.posterior, model.neighborhood)):
            for tensor in branch.buffers():
                tensor.normal_()
    rng = np.random.default_rng(seed)
    model.set_standardization(rng.normal(size=5), rng.random(5) + 0.5)
    return model.eval()


def made(hidden=6, seed=0, **settings):
    return module(hidden, seed, **settings).encoder()


X = np.random.default_rng(1).normal(size=(300, 5)).astype(np.float32)


@pytest.fixture
def saved(tmp_path):
    """A folder with a model."""
    folder = tmp_path / "model"
    Hasher(bits=11, epochs=1, training=TrainingArguments(hidden=6)).fit(X, np.arange(300) % 3).save_pretrained(folder)
    return folder


# ------------------------------------------------------------------------------------------------------- the head


KINDS = {
    "linear": {"hidden": 0},
    "hidden": {"classifier": 3},
    "posterior": {"posterior": {"classes": 3, "several": False}},
    "several": {"posterior": {"classes": 3, "several": True}, "hidden": 0},
    "neighborhood": {"neighborhood": True},
    "all": {"posterior": {"classes": 3, "several": False}, "neighborhood": True},
}


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_those_of_the_module(kind):
    ours = module(**KINDS[kind], dropout=0.5)
    encoder = ours.encoder()
    with torch.inference_mode():
        expected = ours(torch.from_numpy(X)).numpy()
    found, near = encoder.outputs(X), 1e-5 * abs(expected).max()
    assert (found.dtype, found.shape) == (np.float32, (300, 11))
    np.testing.assert_allclose(found, expected, atol=near)
    differ = (found >= 0) != (expected >= 0)
    assert (abs(expected[differ]) <= near).all()
    np.testing.assert_array_equal(encoder.encode(X), pack(found))
    assert encoder.encode(X[:0]).shape == (0, 2)
    again = HashModel.of(encoder)
    assert not again.training
    assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in ours.state_dict().items())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_code_depends_on_no_other_row(kind, threads):
    encoder = made(**KINDS[kind])
    x = np.random.default_rng(2).normal(size=(1000, 5))
    with threadpool_limits(1):
        alone = np.concatenate([encoder.encode(row[None]) for row in x])
    with threadpool_limits(threads):
        for size in (7, 1000):
            batches = [encoder.encode(x[start : start + size]) for start in range(0, 1000, size)]
            np.testing.assert_array_equal(np.concatenate(batches), alone)


def test_rows_are_shared_out_and_products_have_one_thread(monkeypatch):
    """Products of several threads take many times as long where other programs compute."""
    encoder, x, seen = made(), np.random.default_rng(3).normal(size=(9000, 5)), []
    forward, meeting = encoder._forward, Barrier(2, timeout=60)

    def blas():
        return next(one["num_threads"] for one in threadpool_info() if "numpy" in one["filepath"])

    def watched(rows):
        if len(seen) < 2:
            seen.append((get_ident(), blas()))
            meeting.wait()  # in vain, if one thread has all rows
        return forward(rows)

    OpenBLASController.clear_controlling_thread(force=True)  # a service that another test has open may be the one
    wanted = encoder.encode(x)
    monkeypatch.setattr(encoder, "_forward", watched)
    with threadpool_limits(2):
        np.testing.assert_array_equal(encoder.encode(x), wanted)
        assert blas() == 2
    assert [used for _, used in seen] == [1, 1]
    assert seen[0] != seen[1]


def test_what_is_near_to_zero_has_its_own_sign():
    """Sums in float32 lose what is left of terms that cancel."""
    encoder = made(0)
    encoder.weights["mean"][:], encoder.weights["scale"][:] = 0, 1
    encoder.weights["head.bias"][:] = 0
    encoder.weights["head.weight"][:] = [1, 1e-9, -1, 0, 0]
    encoder.weights["head.weight"][0] = [1, 0, 0, 0, 0]
    x = np.array([[1, -1, 1, 0, 0], [1, 1, 1, 0, 0]], np.float32)
    assert encoder.encode(x).tolist() == [[128, 0], [255, 0b11100000]]


def test_the_standardization_is_part_of_the_model():
    model = HashModel(5, 11, 0)
    before = model.encoder().outputs(X)
    model.set_standardization(np.full(5, 3.0), np.array([2.0, 2, 2, 2, 0]))
    assert model.scale.tolist() == [2, 2, 2, 2, 1]
    np.testing.assert_allclose(model.encoder().outputs(X * [2, 2, 2, 2, 1] + 3), before, atol=1e-5)


def test_the_fingerprint_never_changes():
    """Stored models hold it."""
    model = HashModel(5, 11, hidden=3, classifier=2)
    with torch.no_grad():
        for number, tensor in enumerate(model.state_dict().values()):
            tensor.copy_(torch.arange(tensor.numel()).reshape(tensor.shape) / 8 + number)
    assert model.encoder().fingerprint() == "2e4c2f01126e6873"


# ------------------------------------------------------------------------------------------------- saved and loaded


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded(tmp_path, kind):
    model = made(**KINDS[kind], dropout=0.25, metadata={"method": "csq", "data": "a | b"})
    model.save(tmp_path / "new" / "model")
    assert {file.name for file in (tmp_path / "new" / "model").iterdir()} == MODEL_FILES
    loaded = load_encoder(tmp_path / "new" / "model")
    assert loaded.fingerprint() == model.fingerprint()
    np.testing.assert_array_equal(loaded.outputs(X), model.outputs(X))
    assert loaded.layout == model.layout
    assert loaded.metadata == model.metadata
    card = (tmp_path / "new" / "model" / "README.md").read_text()
    assert "library_name: lbhash" in card
    assert "an embedding of 5 numbers into a binary code of 11 bits" in card
    assert "| method | csq |" in card
    assert "uint8 [n, 2]" in card


@pytest.mark.end_to_end
@pytest.mark.parametrize("kind", ["posterior", "neighborhood"])
def test_exported_branches_have_the_same_outputs(tmp_path, kind):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    from lbhash.models.onnx import export_model

    model = made(**KINDS[kind])
    model.save(tmp_path)
    export_model(tmp_path, tmp_path / "model.onnx")
    codes, outputs = runtime.InferenceSession(str(tmp_path / "model.onnx")).run(None, {"embeddings": X})
    np.testing.assert_allclose(outputs, model.outputs(X), atol=1e-4)
    np.testing.assert_array_equal(codes, pack(outputs))


def test_a_fresh_process_gives_the_same_codes(saved, tmp_path, python_script):
    np.save(tmp_path / "x.npy", X)
    script = """
import sys
import numpy as np
from lbhash import Hasher
from lbhash import TrainingArguments
np.save(sys.argv[2] + "/codes.npy", Hasher.from_pretrained(sys.argv[1]).encode(np.load(sys.argv[2] + "/x.npy")))
"""
    assert python_script(script, saved, tmp_path) == ""
    expected = Hasher(bits=11, epochs=1, training=TrainingArguments(hidden=6)).fit(X, np.arange(300) % 3).encode(X)
    np.testing.assert_array_equal(np.load(tmp_path / "codes.npy"), expected)


def test_a_module_of_a_model_leaves_the_random_generator_alone():
    before = torch.random.get_rng_state()
    HashModel.of(made())
    assert torch.equal(torch.random.get_rng_state(), before)


def test_about_is_kept_in_pythons_own_types(tmp_path):
    about = {"a": np.float32(0.5), "b": {"c": np.int64(3), "d": (np.bool_(True), None, "e")}}
    model = made(metadata=about)
    model.metadata["later"] = np.float64(0.25)
    model.save(tmp_path)
    kept = {"a": 0.5, "b": {"c": 3, "d": [True, None, "e"]}, "later": 0.25}
    loaded = load_encoder(tmp_path)
    assert loaded.metadata == kept
    loaded.save(tmp_path)
    assert load_encoder(tmp_path).metadata == kept


def test_the_model_files_get_the_rights_of_any_new_file(saved):
    (saved / "plain").write_text("")
    for file in MODEL_FILES:
        assert (saved / file).stat().st_mode == (saved / "plain").stat().st_mode


def test_a_save_that_was_cut_short_is_found_out(tmp_path, monkeypatch):
    (tmp_path / ".saving-killed").mkdir()  # what a kill leaves goes with the next save
    made(seed=0).save(tmp_path)
    replaced, replace = [], Path.replace

    def killed(source, target):
        if Path(target) == tmp_path / "config.json":
            raise KeyboardInterrupt
        replaced.append(Path(target).name)
        return replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            made(seed=1).save(tmp_path)
    assert "model.safetensors" in replaced
    assert {file.name for file in tmp_path.iterdir()} == MODEL_FILES
    one_line(tmp_path, "could not be loaded: config.json was written with the weights", "a save was cut short")
    made(seed=1).save(tmp_path)
    assert load_encoder(tmp_path).fingerprint() == made(seed=1).fingerprint()


# ------------------------------------------------------------------------------------------------------ bad folders


def one_line(folder, *parts):
    with pytest.raises(ValueError, match=r"^model is ") as error:
        Hasher.from_pretrained(folder)
    assert "\n" not in str(error.value)
    for part in parts:
        assert part in str(error.value)


@pytest.mark.parametrize("suffix", sorted(PICKLES))
def test_a_folder_with_a_pickle_is_refused(saved, suffix):
    (saved / f"other{suffix}").write_bytes(b"")
    one_line(saved, f"holds a pickle (other{suffix}); lbhash loads safetensors only")
    with pytest.raises(ValueError, match="holds a pickle"):
        load_encoder(saved)


@pytest.mark.parametrize("load", [Hasher.from_pretrained, load_encoder])
@pytest.mark.parametrize("with_weights", [True, False])
def test_a_pickle_never_runs(saved, tmp_path, load, with_weights):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    torch.save({"head.weight": Evil()}, saved / "pytorch_model.bin")
    with pytest.raises(Exception, match=r"weights_only|Weights only"):
        torch.load(saved / "pytorch_model.bin", weights_only=True)
    if not with_weights:
        (saved / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="holds a pickle"):
        load(saved)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("file", ["model.safetensors", "config.json"])
def test_truncated_files(saved, file):
    content = (saved / file).read_bytes()
    for kept in (0, 5, 60, len(content) // 2, len(content) - 1):
        (saved / file).write_bytes(content[:kept])
        one_line(saved, "which could not be loaded")


def test_weights_that_do_not_fit(saved, tmp_path):
    made(classifier=2).save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "model.safetensors", saved)
    one_line(saved, "which could not be loaded", "they are of two models, or a save was cut short")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hidden": 7}, "for the weight head.0.bias they have (7, 'float32') and (6, 'float32')"),
        ({"hidden": 0}, "for the weight head.0.bias they have none and (6, 'float32')"),
        ({"dim": 4}, "they have (6, 4, 'float32') and (6, 5, 'float32')"),
        ({"bits": 11.0}, "bits is 11.0; it must be an integer"),
        ({"posterior": {"classes": 3}}, "posterior is {'classes': 3}; it must have classes and several"),
        ({"metadata": []}, "metadata is []; it must be an object"),
    ],
)
def test_layouts_that_do_not_fit_the_weights(saved, change, said):
    config = json.loads((saved / "config.json").read_text())
    del config["checksum"]
    (saved / "config.json").write_text(json.dumps(with_checksum(config | {"posterior": None} | change)))
    one_line(saved, "which could not be loaded", said)


def test_a_newer_format_says_to_upgrade(saved):
    config = json.loads((saved / "config.json").read_text())
    del config["checksum"]
    (saved / "config.json").write_text(json.dumps(with_checksum(config | {"version": config["version"] + 1})))
    one_line(saved, "this lbhash reads format", "alone: upgrade lbhash")


def test_a_weight_of_one_row_is_not_taken_for_all(saved):
    model = made(hidden=6)
    model.weights["head.2.weight"] = model.weights["head.2.weight"][:1]
    model.save(saved)
    one_line(saved, "for the weight head.2.weight they have (11, 6, 'float32') and (1, 6, 'float32')")


def test_missing_files(saved, tmp_path):
    for file in ("config.json", "model.safetensors"):
        folder = tmp_path / f"without-{file}"
        shutil.copytree(saved, folder)
        (folder / file).unlink()
        one_line(folder, f"which has no {file}; it must be a folder that lbhash wrote")
    for path, said in ((tmp_path / "no", ", and there is no such folder"), (saved / "README.md", ", which is a file;")):
        with pytest.raises(ValueError, match=f"^model is .*{said}"):
            check_model_folder(path)
    one_line(tmp_path / "no" / "such" / "folder")
