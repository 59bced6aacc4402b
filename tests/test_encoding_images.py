"""Folders of codes, of images."""

from __future__ import annotations

import csv
import os
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from image_tools import stored, write_small_resnet
from lbhash.codes.io import read_codes
from lbhash.data.images import load_images
from lbhash.data.images.corrupt import find_unreadable
from lbhash.models.encoder import load_encoder
from lbhash.models.hash_model import HashModel
from lbhash.pipeline.embeddings import ImageOptions
from lbhash.pipeline.encode import encode_folder
from lbhash.pipeline.encoding.job import EncodingJob
from lbhash.utils.parts import MANIFEST, PART_ROWS, open_parts

pytest.importorskip("transformers")

ROWS = 50  # images, the label of row r is r % 3


def images(seed=0):
    rng = np.random.default_rng(seed)
    return [stored(Image.fromarray(rng.integers(0, 256, (16, 16, 3), np.uint8))) for _ in range(ROWS)]


@pytest.fixture(scope="module")
def backbone_folder(tmp_path_factory):
    return write_small_resnet(tmp_path_factory.mktemp("backbone"))


@pytest.fixture(scope="module")
def backbone(backbone_folder):
    from lbhash.models.backbone import Backbone

    return Backbone.from_pretrained(backbone_folder)


@pytest.fixture(scope="module")
def model(tmp_path_factory, backbone):
    """A head that was never trained, and knows its backbone; half of its bits are 1."""
    import torch

    folder = tmp_path_factory.mktemp("model")
    with torch.random.fork_rng():
        torch.manual_seed(1)
        head = HashModel(backbone.dim, 32, hidden=0, metadata={"backbone": backbone.metadata(), "classes": [0, 1, 2]})
    embeddings = backbone.embed(images())
    head.set_standardization(embeddings.mean(axis=0), embeddings.std(axis=0))
    head.encoder().save(folder)
    return folder


@pytest.fixture(scope="module")
def expected(backbone, model):
    """The codes of all images."""
    codes = load_encoder(model).encode(backbone.embed(images()))
    assert len(np.unique(codes, axis=0)) > ROWS / 2
    return codes


def write_parquet(place, files, row_group_size=20, **columns):
    image = pa.array([{"bytes": file, "path": None} for file in files])
    table = pa.table({"image": image, "label": np.arange(len(files)) % 3, **columns})
    pq.write_table(table, place, row_group_size=row_group_size)
    return place


def write_folder(root, files):
    for row, file in enumerate(files):
        path = root / f"class{row % 3}" / f"{row:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file)
    return root


@pytest.fixture
def data(tmp_path):
    return write_parquet(tmp_path / "data.parquet", images(), name=[f"image {row}" for row in range(ROWS)])


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LBHASH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def of_this_test(monkeypatch):
    monkeypatch.setitem(PART_ROWS, "images", PART_ROWS["images"])


def encode(model, backbone, data, out, *, damaged="refuse", part_rows=None, **options):
    """Encode in parts of so many images, or as before in the same test."""
    PART_ROWS["images"] = part_rows or PART_ROWS["images"]
    job = {name: options.pop(name) for name in list(options) if name in EncodingJob.__dataclass_fields__}
    job.setdefault("workers", 0)
    given = ImageOptions(str(backbone), damaged)
    return encode_folder(EncodingJob(str(model), str(data), images=given, **job), out, progress=False, **options)


def contents(folder):
    return {file.name: file.read_bytes() for file in Path(folder).iterdir() if file.name != ".lock"}


# ------------------------------------------------------------------------------------------------- what is encoded


def test_images_become_the_codes_of_their_embeddings(model, backbone_folder, data, tmp_path, expected):
    facts = encode(model, backbone_folder, data, tmp_path / "codes", part_rows=20, batch_size=7, metadata=("name",))
    assert (facts["codes"], facts["rows"], facts["parts"], facts["unit"]) == (ROWS, ROWS, 3, "images")
    found = read_codes(tmp_path / "codes")
    np.testing.assert_array_equal(found.codes, expected)
    np.testing.assert_array_equal(found.labels, np.arange(ROWS) % 3)
    np.testing.assert_array_equal(found.rows, np.arange(ROWS))
    assert found.extra_columns["name"].to_pylist() == [f"image {row}" for row in range(ROWS)]
    manifest = open_parts(tmp_path / "codes", "codes").facts
    assert manifest["backbone"] == load_encoder(model).metadata["backbone"]["fingerprint"]
    assert (manifest["precision"], manifest["data"]) == ("32", "data.parquet")


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_the_number_of_workers_changes_nothing(model, backbone_folder, data, tmp_path):
    for workers in (0, 2):
        encode(model, backbone_folder, data, tmp_path / str(workers), part_rows=20, batch_size=7, workers=workers)
    assert contents(tmp_path / "0") == contents(tmp_path / "2")


def test_images_without_labels_beside_their_table(model, backbone_folder, tmp_path, expected):
    files = images()
    for row, file in enumerate(files):
        (tmp_path / f"{row}.png").write_bytes(file)
    image = pa.array([{"bytes": None, "path": f"{row}.png"} for row in range(ROWS)], _STORED)
    pq.write_table(pa.table({"image": image}), tmp_path / "data.parquet")
    encode(model, backbone_folder, tmp_path / "data.parquet", tmp_path / "codes", part_rows=20)
    found = read_codes(tmp_path / "codes")
    np.testing.assert_array_equal(found.codes, expected)
    assert found.labels is None


_STORED = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def test_mixed_precision_is_said(model, backbone_folder, data, tmp_path, expected):
    encode(model, backbone_folder, data, tmp_path / "codes", precision="bf16")
    found = np.unpackbits(read_codes(tmp_path / "codes").codes ^ expected).mean()
    assert found < 0.05  # bits that come out otherwise
    assert open_parts(tmp_path / "codes", "codes").facts["precision"] == "bf16"
    with pytest.raises(
        ValueError, match=r"made with other settings \(precision: 'bf16' there, '32' here\); give another"
    ):
        encode(model, backbone_folder, data, tmp_path / "codes")


@pytest.mark.parametrize("row_group_size", [3, 20, 50])
def test_images_in_order_are_the_images(tmp_path, row_group_size):
    table = load_images(write_parquet(tmp_path / "data.parquet", images(), row_group_size))
    forward = table.store.in_order()
    for row in (0, 1, 5, 30, 31, 49, 2):
        assert forward.read(row).tobytes() == table.store.read(row).tobytes()
        assert forward.where(row) == table.store.where(row)
    assert forward.fingerprint() == table.store.fingerprint()
    for one in (table.store, forward):  # as processes that are not forked get them
        assert pickle.loads(pickle.dumps(one)).read(7).tobytes() == table.store.read(7).tobytes()


def test_a_few_images_are_held_however_large_a_row_group_is(tmp_path):
    noise = np.random.default_rng(0)
    image = pa.array([{"bytes": noise.bytes(50_000), "path": None} for _ in range(400)])  # what counts are bytes
    pq.write_table(pa.table({"image": image}), tmp_path / "data.parquet", row_group_size=400, write_batch_size=10)
    del image
    table = load_images(tmp_path / "data.parquet")
    forward = table.store.in_order()
    before = pa.total_allocated_bytes()
    most = 0
    for row in range(0, 400, 3):
        with pytest.raises(ValueError, match=f"^image {row} of data.parquet is not an image"):
            forward.read(row)
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 400 * 50_000 / 4


# ------------------------------------------------------------------------------------------------- damage


@pytest.fixture
def broken(tmp_path):
    files = images()
    files[4], files[33] = b"junk", files[33][: len(files[33]) // 2]
    files[20:30] = [b"junk"] * 10  # a whole part of 10
    return write_parquet(tmp_path / "broken.parquet", files, name=[f"image {row}" for row in range(ROWS)])


DAMAGED = [4, *range(20, 30), 33]


def test_damaged_images_are_named_and_counted(model, backbone_folder, broken, tmp_path, expected):
    out = tmp_path / "codes"
    facts = encode(
        model, backbone_folder, broken, out, damaged="skip", part_rows=10, batch_size=4, metadata=("name",), workers=1
    )
    assert (facts["codes"], facts["damaged"], facts["rows"]) == (ROWS - 12, 12, ROWS)
    kept = [row for row in range(ROWS) if row not in DAMAGED]
    found = read_codes(out)
    assert found.rows.tolist() == kept
    np.testing.assert_array_equal(found.codes, expected[kept])
    np.testing.assert_array_equal(found.labels, np.array(kept) % 3)
    assert found.extra_columns["name"].to_pylist() == [f"image {row}" for row in kept]
    with (out / "_damaged.csv").open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert [int(row["row"]) for row in rows] == DAMAGED
    assert rows[0]["where"] == "image 4 of broken.parquet"
    assert rows[0]["fault"].startswith("image 4 of broken.parquet is not an image")
    assert rows[-1]["fault"].startswith("image 33 of broken.parquet is a damaged or truncated PNG")
    whole = contents(out)
    assert encode(model, backbone_folder, broken, out, damaged="skip", metadata=("name",))["found"] == 5
    assert contents(out) == whole


def test_damaged_images_are_refused_and_may_be_skipped_then(model, backbone_folder, broken, tmp_path):
    files = [row["bytes"] for row in pq.read_table(broken)["image"].to_pylist()]
    files[4] = images()[4]
    write_parquet(broken, files)
    out = tmp_path / "codes"
    with pytest.raises(
        ValueError, match=r"^image 20 of broken.parquet is not an image.*--damaged skip\): the parts that"
    ):
        encode(model, backbone_folder, broken, out, part_rows=10)
    assert sorted(file.name for file in out.glob("part-*")) == ["part-00000.parquet", "part-00001.parquet"]
    facts = encode(model, backbone_folder, broken, out, damaged="skip")
    assert (facts["found"], facts["damaged"]) == (2, 11)


def test_no_image_at_all(model, backbone_folder, tmp_path):
    data = write_parquet(tmp_path / "data.parquet", [b"junk"] * 5)
    with pytest.raises(ValueError, match=r"^no image could be read: image 0 of data.parquet is not an image"):
        encode(model, backbone_folder, data, tmp_path / "codes", damaged="skip")
    assert len(read_codes(tmp_path / "codes").codes) == 0


def test_what_is_said_of_damage(model, backbone_folder, broken, tmp_path, refuse, succeed, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = ("--model", model, "--backbone", backbone_folder, broken, "--workers", 0)
    out, _ = succeed("encode", *given, "--out", "codes", "--damaged", "skip")
    assert out.splitlines() == [
        "38 codes of 32 bits (152 bytes) are in codes, 1 parts, of which 0 were there before",
        "38 codes + 12 damaged = 50 images; the damaged ones are named in codes/_damaged.csv",
    ]
    out, err = succeed("encode", *given, "--out", "base/", "--damaged", "skip", "--split", "base")
    line = next(line for line in err.splitlines() if line.startswith("image 4 of broken.parquet is not an image"))
    assert line.endswith(
        "(12 of 50 images are damaged or missing), which changes how splits are sampled; they are skipped"
    )
    assert out.splitlines()[-1] == "3 codes + 0 damaged = 3 images"
    assert "error: image 4 of broken.parquet is not an image" in refuse("encode", *given, "--out", "others")


def test_missing_images_are_named_before_any_work(model, backbone_folder, tmp_path):
    for row, file in enumerate(images()[:10]):
        (tmp_path / f"{row}.png").write_bytes(file)
    image = pa.array([{"bytes": None, "path": f"{row}.png"} for row in range(11)], _STORED)
    query = np.arange(11) < 2
    flags = {"in_train": ~query, "in_base": ~query, "in_query": query}
    pq.write_table(pa.table({"image": image, "label": np.arange(11) % 3, **flags}), tmp_path / "d.parquet")
    given = (model, backbone_folder, tmp_path / "d.parquet")
    with pytest.raises(ValueError, match=r"^image 10 of d.parquet is missing \(1 of 11 are\); mend or remove them, or"):
        encode(*given, tmp_path / "codes")
    assert not (tmp_path / "codes").exists()
    assert encode(*given, tmp_path / "codes", damaged="skip")["damaged"] == 1
    assert read_codes(tmp_path / "codes").rows.tolist() == list(range(10))
    assert encode(*given, tmp_path / "query", split="query")["damaged"] == 0  # of a split without it nothing is missing


def test_a_split_is_sampled_as_for_training(model, backbone_folder, broken, tmp_path, cache, expected):
    """From the images that can be read; a draw from all would mix queries with what the model was trained on."""
    from lbhash.models.backbone import Backbone
    from lbhash.pipeline.embeddings import embed_dataset

    table = load_images(broken)
    trained = embed_dataset(table, Backbone.from_pretrained(backbone_folder), damaged="skip").dataset("holdout", 3)
    for split in ("query", "base"):
        out = tmp_path / split
        given = {"split": split, "protocol": "holdout", "split_seed": 3}
        assert encode(model, backbone_folder, broken, out, damaged="skip", **given)["damaged"] == 0
        found = read_codes(out)
        np.testing.assert_array_equal(found.rows, trained.split(split).rows)
        np.testing.assert_array_equal(found.codes, expected[found.rows])
    with pytest.raises(ValueError, match=r"^image 4 of broken.parquet is not an image.*\(12 of 50 images are damaged"):
        encode(model, backbone_folder, broken, tmp_path / "refused", **given)


def test_what_cannot_be_read_is_looked_for_once(broken, cache, monkeypatch):
    table = load_images(broken)
    assert list(find_unreadable(table, workers=1)) == DAMAGED
    monkeypatch.setattr(type(table.store), "in_order", None)
    assert list(find_unreadable(table)) == DAMAGED
    (kept,) = (cache / "unreadable").iterdir()
    kept.write_text("{")
    monkeypatch.undo()
    assert list(find_unreadable(load_images(broken))) == DAMAGED


# ------------------------------------------------------------------------------------------------- going on


def test_changed_images_are_refused(model, backbone_folder, tmp_path):
    root = write_folder(tmp_path / "images", images())
    encode(model, backbone_folder, root, tmp_path / "codes", part_rows=20)
    os.utime(root / "class0" / "000.png", (1, 1))
    with pytest.raises(ValueError, match=r"which was made with other settings \(files: .*; give another"):
        encode(model, backbone_folder, root, tmp_path / "codes")
    assert MANIFEST in contents(tmp_path / "codes")
