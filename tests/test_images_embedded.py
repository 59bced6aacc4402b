from __future__ import annotations

import io
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from image_tools import stored, write_small_resnet
from lbhash import Hasher
from lbhash.codes.io import read_codes
from lbhash.data.dataset import SPLITS
from lbhash.data.images import load_images
from lbhash.hasher import encode_split
from lbhash.index import Index
from lbhash.pipeline.embeddings import embed_dataset

pytestmark = pytest.mark.end_to_end

pytest.importorskip("transformers")

SHADES = ((220, 30, 30), (30, 220, 30), (30, 30, 220))
ROWS = 14  # images a class


def sample(label, rng):
    """A noisy image in the color of its class."""
    noise = rng.integers(-30, 31, (16, 16, 3))
    return Image.fromarray(np.clip(np.array(SHADES[label]) + noise, 0, 255).astype(np.uint8))


def write_folder(root, seed=0):
    rng = np.random.default_rng(seed)
    for label in range(3):
        folder = root / f"class{label}"
        folder.mkdir(parents=True)
        for at in range(ROWS):
            (folder / f"{at:02}.png").write_bytes(stored(sample(label, rng)))
    return root


@pytest.fixture(scope="module")
def backbone_folder(tmp_path_factory):
    return write_small_resnet(tmp_path_factory.mktemp("backbone"))


@pytest.fixture(scope="module")
def backbone(backbone_folder):
    from lbhash.models.backbone import Backbone

    return Backbone.from_pretrained(backbone_folder)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("LBHASH_CACHE", str(folder))
    return folder


@pytest.fixture
def table(tmp_path):
    return load_images(write_folder(tmp_path / "images"))


@pytest.fixture
def counted(backbone, monkeypatch):
    """How many images the backbone embeds."""
    assert backbone.dim == 12  # which takes an image
    calls = []
    embed = type(backbone).embed_pixels
    monkeypatch.setattr(
        type(backbone), "embed_pixels", lambda self, held, *more: calls.extend(held) or embed(self, held, *more)
    )
    return calls


def test_embeddings_are_computed_once(table, backbone, cache, counted):
    made = embed_dataset(table, backbone)
    assert len(counted) == len(table)
    assert made.embeddings.dtype == np.float32
    one_by_one = [backbone.embed([table.store.read(row)]) for row in range(len(table))]
    np.testing.assert_allclose(made.embeddings, np.concatenate(one_by_one), atol=1e-4)
    counted.clear()
    again = embed_dataset(load_images(table.store.folder), backbone)
    assert counted == []
    np.testing.assert_array_equal(again.embeddings, made.embeddings)
    assert not again.damaged.any()
    (file,) = (cache / "embeddings").glob("*.sqlite")
    assert file.name.startswith(backbone.fingerprint())


def test_an_image_is_embedded_once_wherever_it_lies(table, backbone, backbone_folder, cache, counted, tmp_path):
    from lbhash.models.backbone import Backbone

    made = embed_dataset(table, backbone)
    counted.clear()
    moved = tmp_path / "moved"
    shutil.copytree(table.store.folder / "class1", moved / "another")
    (moved / "another" / "00.png").unlink()
    (moved / "another" / "zz.png").write_bytes(stored(Image.new("RGB", (16, 16))))
    again = load_images(moved)
    found = embed_dataset(again, backbone).embeddings
    assert len(counted) == 1
    first = table.store.files.index("class1/01.png")
    np.testing.assert_array_equal(found[:-1], made.embeddings[first : first + len(again) - 1])
    other = shutil.copytree(backbone_folder, tmp_path / "other")
    processor = json.loads((other / "preprocessor_config.json").read_text())
    (other / "preprocessor_config.json").write_text(json.dumps(processor | {"image_std": [0.5] * 3}))
    embed_dataset(table, Backbone.from_pretrained(other))
    assert len(list((cache / "embeddings").glob("*.sqlite"))) == 2


@pytest.mark.parametrize("offset", [0, 30, 100, 5000, -300])
def test_a_damaged_cache_is_filled_again(table, backbone, cache, counted, offset):
    made = embed_dataset(table, backbone).embeddings
    (file,) = (cache / "embeddings").glob("*.sqlite")
    content = bytearray(file.read_bytes())
    at = offset % len(content)
    content[at : at + 60] = bytes(60)
    file.write_bytes(content)
    for _ in range(2):
        np.testing.assert_allclose(embed_dataset(table, backbone).embeddings, made, atol=1e-5)
        counted.clear()
    embed_dataset(table, backbone)
    assert counted == []


def test_a_cache_that_cannot_be_written_is_said_once(table, backbone, cache, capsys):
    cache.mkdir()
    (cache / "embeddings").write_text("a file")
    assert len(embed_dataset(table, backbone).embeddings) == len(table)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("the embeddings are not cached: ")


SCRIPT = """
import sys
import time
from types import SimpleNamespace
import numpy as np
import torch
import lbhash.pipeline.embeddings
from lbhash.data.images import load_images
from lbhash.hasher import encode_split

class Colors:
    "Stands for a backbone."
    name, dim = "colors", 3
    model = SimpleNamespace(device=torch.device("cpu"))
    def fingerprint(self):
        return "colors"
    def processor(self, images, return_tensors):
        return {"pixel_values": torch.tensor(np.stack([np.asarray(image) for image in images])).permute(0, 3, 1, 2)}
    def embed_pixels(self, pixels, precision):
        return pixels.numpy().mean((2, 3)).astype(np.float32)

lbhash.utils.parts.PART_ROWS["images"] = 2
lbhash.pipeline.batches.usable_cores = lambda: 1
table = load_images(sys.argv[1])
table.store.at_once = 1
read = table.store.read

def reported(self, row):
    print(row, flush=True)
    if row == int(sys.argv[2]):
        time.sleep(600)  # until the test kills this run
    return read(row)

type(table.store).read = reported
made = lbhash.pipeline.embeddings.embed_dataset(table, Colors())
print(made.embeddings.tobytes().hex())
"""


@pytest.mark.slow
def test_killed_runs_and_two_at_once(table, cache):
    """Runs are killed at every few rows, and then two go on together, one after the other: every row is right."""
    command = [sys.executable, "-c", SCRIPT, str(table.store.folder)]
    for last in ("6", "23"):
        with subprocess.Popen([*command, last], stdout=subprocess.PIPE, text=True) as run:
            while (line := run.stdout.readline().strip()) != last:
                assert line, "the run ended before it was killed"
            run.send_signal(signal.SIGKILL)
    two = [subprocess.Popen([*command, "-1"], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [run.communicate(timeout=120)[0].split() for run in two]
    assert [run.returncode for run in two] == [0, 0]
    rows = [int(word) for words in said for word in words[:-1]]
    assert rows in (list(range(start, len(table))) for start in (20, 22))  # none twice, by one of the two alone
    means = np.stack([np.asarray(table.store.read(row)).mean((0, 1)) for row in range(len(table))]).astype(np.float32)
    assert [bytes.fromhex(words[-1]) for words in said] == [means.tobytes()] * 2


@pytest.fixture
def broken(table):
    """Two images damaged."""
    root = table.store.folder
    (root / "class1" / "03.png").write_bytes(b"junk")
    whole = (root / "class2" / "05.png").read_bytes()
    (root / "class2" / "05.png").write_bytes(whole[: len(whole) // 2])
    return load_images(root)


@pytest.mark.parametrize("kept", [True, False])
def test_damaged_images_are_skipped(broken, backbone, cache, capsys, kept):
    said = r"^image 'class1/03.png' is not an image.* \(2 of 42 images are damaged or missing\); mend or remove"
    with pytest.raises(ValueError, match=said):
        embed_dataset(broken, backbone, cache=kept)
    made = embed_dataset(broken, backbone, damaged="skip", cache=kept)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("image 'class1/03.png' is not an image")
    assert err.endswith("(2 of 42 images are damaged or missing); they are skipped\n")
    lost = [broken.store.files.index(file) for file in ("class1/03.png", "class2/05.png")]
    assert np.flatnonzero(made.damaged).tolist() == lost
    part = made.split()
    assert not set(lost) & set(part.rows.tolist())
    assert len(part) == 40
    for row in part.rows[::7]:  # no row moves
        np.testing.assert_allclose(part.embeddings[row], backbone.embed([broken.store.read(row)])[0], atol=1e-4)
    dataset = made.dataset("holdout")
    assert not set(lost) & {int(row) for split in SPLITS for row in dataset.split(split).rows}


def test_missing_images_are_named_before_any_work(table, backbone, cache, tmp_path, counted, capsys):
    rows = [{"bytes": None, "path": f"images/{file}"} for file in table.store.files]
    pq.write_table(pa.table({"image": rows}), tmp_path / "rows.parquet")
    (table.store.folder / "class2" / "13.png").unlink()
    listed = load_images(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=r"^image 'images/class2/13.png' is missing \(1 of 42 are\); mend or remove"):
        embed_dataset(listed, backbone)
    assert counted == []
    made = embed_dataset(listed, backbone, damaged="skip")
    assert "image 'images/class2/13.png' is missing (1 of 42 are); they are skipped\n" in capsys.readouterr().err
    assert made.damaged.sum() == 1


TRAIN = ["train", "--bits", 16, "--epochs", 2, "--hidden", 0]


def test_train_and_encode_images(table, backbone, backbone_folder, cache, tmp_path, command, succeed, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = ["images", "--backbone", backbone_folder]
    status, out, err = command(
        *TRAIN[:3], *given, "--freeze", "--out", "model", "--epochs", 10, "--lr", 0.05, "--hidden", 0
    )
    assert (status, "embedding" in err) == (0, True)
    metrics = json.loads((tmp_path / "model" / "metrics.json").read_text())
    assert (metrics["data"], metrics["protocol"]) == ("images", "holdout")
    assert metrics["map"] > 0.8  # a third by chance
    assert [one["class"] for one in metrics["classes"]] == ["class0", "class1", "class2"]
    assert Hasher.from_pretrained("model").classes_.tolist() == ["class0", "class1", "class2"]
    model = Hasher.from_pretrained("model").model_
    assert model.metadata["backbone"] == {
        "name": str(backbone_folder),
        "fingerprint": backbone.fingerprint(),
        "dim": 12,
    }
    following = out.splitlines()[-1].removeprefix("next: lbhash ").split()
    assert following[:5] == ["index", "build", "images", "--model", "model"]
    assert following[-4:] == ["--split", "all", "--out", "index"]
    status, out, err = command(*following)
    assert (status, "embedding" in err) == (0, False)  # they were kept
    succeed("encode", *following[2:-4], "--split", "base", "--out", "base.parquet")
    dataset = embed_dataset(table, backbone).dataset("holdout")
    held = read_codes("base.parquet", "base")
    assert held.rows.tolist() == dataset.base.rows.tolist()
    np.testing.assert_array_equal(held.codes, encode_split(Hasher.from_pretrained("model"), dataset.base))
    status, out, _ = command("encode", "--model", "model", *given, "--out", "all.parquet", "--json")
    assert (status, json.loads(out)["codes"]) == (0, len(table))
    assert pq.read_table("all.parquet")["row"].to_pylist() == list(range(len(table)))


def test_paths_and_class_names_of_images_travel_with_their_codes(
    table, backbone_folder, cache, tmp_path, succeed, refuse, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    given = ("images", "--backbone", backbone_folder)
    succeed(*TRAIN, *given, "--freeze", "--out", "model")
    given = (*given, "--model", "model", "--metadata", "path")
    for out in ("base.parquet", "base/"):
        succeed("encode", *given, "--split", "base", "--out", out)
        held = read_codes(out)
        assert held.extra_columns["path"].to_pylist() == [table.store.files[row] for row in held.rows]
    succeed("index", "build", *given, "--split", "all", "--out", "index")
    search = ["search", "index", "--model", "model", "--data", "images", "--row", 3, "--json"]
    for where in ([], ["--where", "label=class1"]):
        out, _ = succeed(*search, *where)
        (found,) = json.loads(out)["queries"]
        assert found["label"] == "class0"
        for neighbor in found["neighbors"]:
            path, label = table.store.files[neighbor["id"]], neighbor["metadata"]["label"]
            assert (neighbor["metadata"]["path"], label) == (path, path.split("/")[0])
            assert not where or label == "class1"
    said = refuse("encode", *given[:-1], "name", "--out", "codes/")
    assert "metadata is name and data is 'images'; it must be one table" in said
    assert "or for 'path' and 'thumbnail' a folder" in said


@pytest.mark.parametrize("freeze", [True, False])
def test_pictures_are_queries(table, backbone_folder, cache, tmp_path, succeed, refuse, monkeypatch, freeze):
    monkeypatch.chdir(tmp_path)
    how = ["--freeze"] if freeze else ["--image-size", 20]
    succeed(*TRAIN, "images", "--backbone", backbone_folder, *how, "--out", "model")
    given = ["images", "--model", "model", "--split", "all", "--metadata", "path", "--out", "index"]
    succeed("index", "build", *given)
    files = [str(Path("images", file)) for file in table.store.files]
    codes = Hasher.from_pretrained("model").encode(files)
    np.testing.assert_array_equal(codes, Hasher.from_pretrained("model").encode([Path(file) for file in files]))
    search = ["search", "--model", "model", "index", "-k", 3]
    with open(files[20], "rb") as opened:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(opened.read())))
    out, _ = succeed(*search, "--image", files[0], "--image", "images/class2", "--image", "-", "--json")
    found = json.loads(out)["queries"]
    assert [one["image"] for one in found] == [files[0], *files[28:], "-"]
    np.testing.assert_array_equal([list(bytes.fromhex(one["code"])) for one in found], codes[[0, *range(28, 42), 20]])
    assert all(neighbor["distance"] == 0 for neighbor in found[0]["neighbors"][:1])
    succeed(*search, "--image", files[0], "--out", "found.csv")
    assert Path("found.csv").read_text().splitlines()[1].startswith(f"0,,{files[0]},")
    assert succeed(*search, "--image", files[0])[0].startswith(f"nearest to {files[0]!r}")
    (tmp_path / "images" / "note.png").write_text("no image")
    for image, said in (
        ("gone.png", "image 'gone.png' cannot be read: No such file or directory"),
        ("images/note.png", "image 'images/note.png' is not an image, or is damaged from its first bytes on"),
        ("cache", "image is 'cache', which has no image"),
    ):
        assert said in refuse(*search, "--image", image)
    out, err = succeed(
        *search, "--image", "images/class0", "--image", "images/note.png", "--image", files[-1], "--json"
    )
    assert [one["image"] for one in json.loads(out)["queries"]] == [*files[:14], files[-1]]
    line = "1 of 16 images cannot be read and are left out (images/note.png): image 'images/note.png' is not an image"
    assert err.startswith(line)
    assert "row is '3', and --image is " in refuse(*search, "--image", files[0], "--row", 3)
    (tmp_path / "images" / "note.png").unlink()
    shutil.copytree("images/class1", "more")  # pictures without classes join an index with labels
    _, err = succeed("index", "add", "index", "more", "--model", "model", "--id-column", "next")
    assert "\nthe rows have no label; the index gets null\n" in err
    assert "--id-column 'next' takes new ones" in refuse("index", "add", "index", "more", "--model", "model")
    added = Index.open("index").get(range(42, 56)).to_pydict()
    assert added["path"] == sorted(file.name for file in Path("more").iterdir())
    assert added["label"] == [None] * 14


def test_a_model_knows_its_backbone(table, backbone_folder, cache, tmp_path, succeed, monkeypatch):
    monkeypatch.chdir(tmp_path)
    moved = shutil.copytree(backbone_folder, tmp_path / "moved")
    succeed(*TRAIN, "images", "--backbone", moved, "--freeze", "--out", "model")
    encode = ["encode", "--model", "model", "images", "--out", "codes.parquet"]
    succeed(*encode)
    found = read_codes("codes.parquet", "codes").codes
    succeed(*encode, "--overwrite", "--backbone", backbone_folder)
    np.testing.assert_array_equal(read_codes("codes.parquet", "codes").codes, found)


def test_labels_are_checked_before_an_image_is_embedded(
    table, backbone_folder, cache, tmp_path, succeed, refuse, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    one = tmp_path / "one" / "alone"
    shutil.copytree(tmp_path / "images" / "class0", one)
    given = ["--backbone", backbone_folder, "--out", "model"]
    for more in (["--freeze"], []):
        assert "every training row of one has the label alone" in refuse(*TRAIN, "one", *given, *more)
        assert not cache.exists()
    for file in list((tmp_path / "images" / "class0").iterdir())[1:]:
        file.unlink()
    out, _ = succeed(*TRAIN, "images", *given, "--freeze")  # a class of one picture trains
    assert "1 classes of one or two rows only train" in out


FROZEN = ["--backbone", "B", "--freeze"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--freeze"], "--freeze is given, and --backbone is not given; there is nothing to freeze"),
        (FROZEN[:2], "--backbone is 'B', and there is no such folder"),
        ([*FROZEN, "--labels", "l.npy"], "--backbone is 'B', and --labels is 'l.npy'; images are one file or folder"),
        (["--damaged", "skip"], "data is 'images', which holds images; give what embeds them (--backbone FOLDER)"),
        (["none", *FROZEN], "data is 'none', and there is no such file or folder"),
    ],
)
def test_bad_trainings_on_images(tmp_path, refuse, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "images")
    data = [] if arguments[0] == "none" else ["images"]
    err = refuse(*TRAIN, *data, "--out", "model", *arguments)
    assert err.startswith(f"lbhash: error: {said}")
    assert not (tmp_path / "model").exists()
