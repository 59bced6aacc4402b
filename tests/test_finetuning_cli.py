"""Fine-tuning from the command line, and models that bring their backbone to every command."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import shutil
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lbhash.cli.app
from image_tools import stored, stripes, write_backbone, write_stripes
from lbhash import Hasher
from lbhash.codes.io import read_codes
from lbhash.data.images import load_images
from lbhash.models.backbone import Backbone
from lbhash.utils.checksums import checked, with_checksum

pytestmark = pytest.mark.end_to_end

pytest.importorskip("transformers")

TRAIN = ["train", "--bits", 16, "--hidden", 0, "--epochs", 2, "--lr", 0.01, "--batch-size", 16]
TUNED = ["images", "--backbone", "backbone", "--image-size", 20, "--monitor", "map"]
TUNED += ["--backbone-lr", 0.005]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Images and a backbone."""
    place = tmp_path_factory.mktemp("place")
    write_stripes(place / "images", 88)
    write_backbone(place / "backbone")
    return place


@pytest.fixture(scope="module")
def trained(place):
    """What a training leaves, and what it says."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.chdir(place)
        patch.setattr(sys, "argv", ["lbhash", *map(str, [*TRAIN, *TUNED, "--out", "model"])])
        with pytest.raises(SystemExit) as ended:
            lbhash.cli.app.main()
    assert not ended.value.code, err.getvalue()
    return out.getvalue(), err.getvalue()


@pytest.fixture
def here(place, trained, monkeypatch):
    monkeypatch.chdir(place)
    return place


def test_what_a_training_leaves(here, trained):
    out, err = trained
    metrics = json.loads((here / "model" / "metrics.json").read_text())
    assert (metrics["data"], metrics["protocol"], metrics["epochs"]) == ("images", "holdout", 2)
    assert metrics["training"]["monitor"] == "map"
    assert metrics["images_per_second"] > 0
    assert metrics["peak_bytes"] > 1e8
    assert metrics["peak_gpu_bytes"] is None
    with (here / "model" / "logs" / "metrics.csv").open() as lines:
        log = list(csv.DictReader(lines))
    assert len(log) == 2
    assert all(float(row["validation_map"]) > 0 for row in log)
    assert [float(row["backbone_lr"]) for row in log] == pytest.approx([0.005, 0.005])
    about = json.loads((here / "model" / "config.json").read_text())["metadata"]
    assert about["backbone"]["name"] == "backbone"
    assert about["backbone"]["tuned"] is True
    assert (about["image_size"], about["batch_norm"], about["backbone_lr"]) == (20, "freeze", 0.005)
    assert about["augment"] == {"crop": [0.5, 1.0], "flip": 0.5, "brightness": 0.2, "contrast": 0.2, "saturation": 0.2}
    tuned, before = Backbone.from_pretrained("model/backbone"), Backbone.from_pretrained("backbone")
    assert tuned.fingerprint() != before.fingerprint()
    assert "images a second" in err
    assert out.splitlines()[-1] == "next: lbhash index build images --model model --split all --out index"


def test_encode_knows_the_backbone(here, trained, succeed):
    _, err = succeed("encode", "--model", "model", "images", "--split", "base", "--out", "base.parquet")
    table = load_images("images")
    dataset = table.dataset()
    held = read_codes("base.parquet", "base")
    assert held.rows.tolist() == dataset.base.rows.tolist()
    assert f"{len(dataset.base)}/{len(dataset.base)} images" in err  # and no others are embedded
    expected = Hasher.from_pretrained("model").encode(table.store.read(int(row)) for row in dataset.base.rows)
    np.testing.assert_array_equal(held.codes, expected)
    succeed("encode", "--model", "model", "images", "--backbone", "model/backbone", "--out", "all.parquet")
    np.testing.assert_array_equal(read_codes("all.parquet", "codes").codes[held.rows], held.codes)
    succeed("encode", "--model", "model", "images", "--split", "base", "--out", "parts/")
    np.testing.assert_array_equal(read_codes("parts", "codes").codes, held.codes)


def test_the_metrics_are_those_of_the_codes(here, command, json_of):
    for split in ("base", "query"):
        given = ("images", "--model", "model", "--split", split, "--out", f"{split}.parquet", "--overwrite")
        command("encode", *given)
    metrics = json.loads((here / "model" / "metrics.json").read_text())
    found = json_of("evaluate", "--queries", "query.parquet", "--base", "base.parquet")
    assert {name: found[name] for name in metrics["by_bits"]} == metrics["by_bits"]


def test_embeddings_of_a_tuned_backbone_are_not_kept(here, command, tmp_path, monkeypatch):
    monkeypatch.setenv("LBHASH_CACHE", str(tmp_path / "cache"))
    command("encode", "--model", "model", "images", "--out", str(tmp_path / "codes.parquet"))
    assert not (tmp_path / "cache" / "embeddings").exists()


def test_index_and_search_know_the_backbone(here, command, succeed, json_of, tmp_path):
    index = tmp_path / "index"
    succeed("index", "build", "--model", "model", "images", "--split", "base", "--out", index)
    for split in ("query", "train"):
        succeed("index", "add", index, "--model", "model", "images", "--split", split)
    table = load_images("images")
    assert json.loads(command("info", index, "--json")[1])["codes"] == len(table)
    answers = json_of("search", index, "--model", "model", "--data", "images", "--row", 5, "--row", 7, "-k", 1)[
        "queries"
    ]
    assert [answer["neighbors"][0]["distance"] for answer in answers] == [0, 0]
    assert [answer["label"] for answer in answers] == [table.class_names[label] for label in table.labels[[5, 7]]]
    status, _, err = command("search", index, "--model", "model", "--data", "images", "--row", 88)
    assert (status, err) == (2, "lbhash: error: --row is 88; it must be from 0 to 87\n")


def test_the_service_knows_the_backbone(here, command, tmp_path):
    from lbhash.service import schemas
    from lbhash.service.decoding import Decoder
    from lbhash.service.engine import Engine
    from lbhash.service.settings import Settings

    index = tmp_path / "index"
    command("index", "build", "--model", "model", "images", "--split", "base", "--out", index)
    image = (here / "images" / "class0" / "000.png").read_bytes()
    settings = Settings(model="model", index=str(index))

    class Plain(Decoder):
        """Decodes here."""

        def __init__(self):
            pass

        def image(self, file):
            from lbhash.data.images.decoding import decode_image

            return decode_image(file)

    engine = Engine(settings, Plain())
    assert engine.info().takes_images
    code = Hasher.from_pretrained("model").encode([image])
    (answer,) = engine.encode(schemas.EncodeOptions(), [image]).answers
    assert answer.code == code.tobytes().hex()
    frozen = shutil.copytree("model", tmp_path / "model")
    shutil.rmtree(frozen / "backbone")
    config = checked(json.loads((frozen / "config.json").read_text()))
    config["metadata"]["backbone"] |= {"tuned": False, "name": str(tmp_path / "absent")}
    (frozen / "config.json").write_text(json.dumps(with_checksum(config)))
    assert not Engine(Settings(model=frozen, index=str(index)), Plain()).info().takes_images


def test_a_resumed_training_has_nothing_left_to_do(here, command, succeed, tmp_path):
    out = shutil.copytree("model", tmp_path / "model")
    arguments = [*TUNED, "--out", out]
    succeed(*TRAIN, *arguments, "--resume")
    for file in ("model.safetensors", "backbone/model.safetensors"):
        assert (out / file).read_bytes() == (here / "model" / file).read_bytes()
    status, _, err = command(*TRAIN, *arguments, "--no-augment", "--resume")
    assert (status, "augment is False, and the checkpoint" in err) == (2, True)
    status, _, err = command(*TRAIN, *arguments)
    assert (status, "which already holds a model" in err) == (2, True)


def test_damaged_images_are_skipped_everywhere(place, command, refuse, succeed, tmp_path, monkeypatch):
    """Splits are drawn from the sound images, in training and afterwards."""
    monkeypatch.chdir(tmp_path)
    images = shutil.copytree(place / "images", tmp_path / "images")
    (images / "class0" / "000.png").write_bytes(b"junk")
    given = ["images", "--backbone", place / "backbone", "--out", "model"]
    err = refuse(*TRAIN, *given)
    assert err.splitlines()[-1].startswith("lbhash: error: image 'class0/000.png' is not an image")
    assert "(1 of 88 images are damaged or missing); mend or remove them" in err
    assert not (tmp_path / "model").exists()
    status, _, err = command(*TRAIN, *given, "--damaged", "skip", "--no-augment")
    assert (status, "they are skipped" in err) == (0, True)
    about = json.loads((tmp_path / "model" / "config.json").read_text())["metadata"]
    assert (about["augment"], about["batch_norm"]) == (False, "freeze")
    rows = {}
    for split in ("train", "base", "query"):
        given = ("images", "--model", "model", "--damaged", "skip", "--split", split)
        succeed("encode", *given, "--out", "c.parquet", "--overwrite")
        rows[split] = read_codes("c.parquet", "codes").rows
    assert len(rows["train"]) == about["training_rows"]
    assert not set(rows["query"]) & (set(rows["base"]) | set(rows["train"]))


def test_images_without_a_label_are_refused_before_any_is_decoded(place, command, succeed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    images, classes = stripes(40)
    labels = [None if row % 5 == 0 else f"class {label}" for row, label in enumerate(classes)]
    pq.write_table(pa.table({"image": [{"bytes": stored(one)} for one in images], "label": labels}), "images.parquet")
    given = ["images.parquet", "--backbone", place / "backbone", "--out", "model"]
    said = (
        "8 of 32 rows have no label, and a backbone is fine-tuned by labeled rows; leave them out, or embed the images"
    )
    line = f"lbhash: error: {said} first (on the command line, --freeze)\n"
    assert command(*TRAIN, *given) == (2, "", line)  # no bar, and nothing about guesses
    assert not (tmp_path / "model").exists()
    _, err = succeed(*TRAIN, *given, "--freeze")
    assert "8 of 32 train rows have no label: they are left out of the training" in err


def test_cores_are_shared_by_processes(monkeypatch):
    from lbhash.pipeline.train import cores_of_each_process as cores

    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert cores() == 8
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    for processes, share in (("3", 2), ("9", 1)):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", processes)
        assert cores() == share


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--backbone", "backbone", "--labels", "l.npy"],
            "--backbone is 'backbone', and --labels is 'l.npy'; images are one",
        ),
        (
            ["--image-size", "32"],
            "--image-size is 32, and --backbone is not given; it is for a backbone that is fine-tuned: give",
        ),
        (
            ["--backbone", "backbone", "--freeze", "--no-augment"],
            "--no-augment is given, and --freeze is given; it is for a",
        ),
        ([], "data is 'images', which holds images; give what embeds them (--backbone FOLDER)"),
    ],
)
def test_bad_trainings(place, refuse, monkeypatch, tmp_path, arguments, said):
    monkeypatch.chdir(place)
    err = refuse(*TRAIN, "images", "--out", tmp_path / "model", *arguments)
    assert err.splitlines()[-1].startswith(f"lbhash: error: {said}")
    assert not (tmp_path / "model").exists()
