from __future__ import annotations

import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from image_tools import put, shade, shades
from lbhash.data.dataset import SPLITS
from lbhash.data.images import FileImages, holds_images, load_images
from lbhash.data.images.folders import read_image_files
from lbhash.data.protocols import PROTOCOLS, TRAIN_TEST_PROTOCOLS
from lbhash.pipeline.columns import ImageColumns


def write_images(path, shades_, struct=True, column="image", row_group_size=None, **columns):
    values = list(map(shade, shades_))
    held = pa.array([{"bytes": value, "path": f"{at}.png"} for at, value in enumerate(values)]) if struct else values
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({column: held, **columns}), path, row_group_size=row_group_size)
    return path


@pytest.mark.parametrize("struct", [True, False])
@pytest.mark.parametrize("row_group_size", [None, 2])
def test_parquet(tmp_path, struct, row_group_size):
    wanted = [10, 20, 30, 40, 50]
    path = write_images(tmp_path / "p.parquet", wanted, struct, row_group_size=row_group_size, label=[0, 1, 0, 1, 2])
    table = load_images(path)
    assert (shades(table), table.labels.tolist(), table.flags) == (wanted, [0, 1, 0, 1, 2], {})
    assert shades(table, [4, 0, 3, 3, 1]) == [50, 10, 40, 40, 20]
    assert not len(table.store.missing())
    assert table.store.where(3) == "image 3 of p.parquet"


def test_parquet_of_the_hub(tmp_path):
    # As `datasets` names its files and columns for CIFAR-100, with the names of the classes in the schema.
    about = {"info": {"features": {"fine_label": {"names": ["apple", "bear"], "_type": "ClassLabel"}}}}
    for file, some, labels in (
        ("train-00000-of-00002", [1, 2], [0, 1]),
        ("train-00001-of-00002", [3], [1]),
        ("test-00000-of-00001", [4], [1]),
        ("val-00000-of-00001", [5], [0]),
    ):
        path = write_images(tmp_path / "data" / f"{file}.parquet", some, column="img", fine_label=labels)
        held = pq.read_table(path)
        pq.write_table(held.replace_schema_metadata({"huggingface": json.dumps(about)}), path)
    (tmp_path / "README.md").write_text("")
    assert holds_images(tmp_path)
    for folder in (tmp_path, tmp_path / "data"):
        table = load_images(folder)
        assert (shades(table), table.labels.tolist()) == ([4, 1, 2, 3, 5], [1, 0, 1, 1, 0])
        assert table.class_names == ("apple", "bear")
        protocol, rows = table.split_rows()
        assert (protocol, rows["query"].tolist(), rows["base"].tolist()) == ("official", [0], [1, 2, 3, 4])


def test_parquet_with_images_beside(tmp_path):
    put(tmp_path / "sub" / "a.png", 77)
    rows = [{"bytes": shade(5), "path": None}, {"bytes": None, "path": "sub/a.png"}, {"bytes": None, "path": "b.png"}]
    pq.write_table(pa.table({"image": [*rows, None], "label": [0, 1, 0, 1]}), tmp_path / "p.parquet")
    table = load_images(tmp_path / "p.parquet")
    assert shades(table, [0, 1]) == [5, 77]
    assert table.store.missing().tolist() == [2, 3]
    with pytest.raises(ValueError, match=r"^image 2 of p.parquet \(b.png\) cannot be read: No such file or directory"):
        table.store.read(2)
    with pytest.raises(ValueError, match=r"^image 3 of p.parquet is empty"):
        table.store.read(3)
    put(tmp_path / "b.png", 78)
    pq.write_table(pa.table({"image": rows[1:]}), tmp_path / "none.parquet")  # and no bytes in any row
    table = load_images(tmp_path / "none.parquet")
    assert isinstance(table.store, FileImages)  # which takes no copy to read them in any order
    assert (shades(table), table.name, table.where(0)) == ([77, 78], "none.parquet", "image 'sub/a.png'")


def test_bad_parquet(tmp_path):
    pq.write_table(pa.table({"image": [1, 2]}), tmp_path / "b.parquet")
    write_images(tmp_path / "c.parquet", [1, 2], labels=[[0], None])
    (tmp_path / "e.parquet").write_bytes(b"junk")
    write_images(tmp_path / "f" / "1.parquet", [1], label=[0])
    write_images(tmp_path / "f" / "2.parquet", [1])
    pq.write_table(pa.table({"image": pa.array([], pa.binary())}), tmp_path / "g.parquet")
    for file, said in {
        "b.parquet": r"^column 'image' of data holds int64; it must hold bytes of images, or structs of",
        "c.parquet": r"^column 'labels' of data is missing in row 1; among lists, a row without a label is an empty",
        "e.parquet": r"e.parquet', which is damaged or no .parquet file: ",
        "f": r"^2.parquet of data has other columns than 1.parquet; they must be one table",
        "g.parquet": r"^g.parquet has no image",
    }.items():
        with pytest.raises((TypeError, ValueError), match=said):
            load_images(tmp_path / file)


def test_a_folder_a_class(tmp_path):
    for at, file in enumerate(["dog/2.JPG", "dog/1.png", "cat/deep/er/3.webp", "cat/._3.webp", "cat/notes.txt"]):
        put(tmp_path / file, at)
    put(tmp_path / ".hidden" / "x.png", 9)
    table = load_images(tmp_path)
    assert table.class_names == ("cat", "dog")
    assert table.store.files == ["cat/deep/er/3.webp", "dog/1.png", "dog/2.JPG"]
    assert (table.labels.tolist(), shades(table), table.protocol) == ([0, 1, 1], [2, 1, 0], "holdout")


def test_folders_of_splits(tmp_path):
    for at, file in enumerate(["train/a/1.png", "train/b/1.png", "base/a/2.png", "base/c/1.png", "query/b/3.png"]):
        put(tmp_path / file, at)
    table = load_images(tmp_path)
    assert table.class_names == ("a", "b", "c")
    protocol, rows = table.split_rows()
    assert protocol == "flags"
    assert [shades(table, rows[split]) for split in SPLITS] == [[0, 1], [2, 3], [4]]
    assert table.labels[rows["base"]].tolist() == [0, 2]
    for at, file in enumerate(["train/a/1.png", "train/b/1.png", "test/b/2.png"]):
        put(tmp_path / "published" / file, at)
    table = load_images(tmp_path / "published")
    assert (table.protocol, table.test_rows.tolist()) == ("official", [False, False, True])


def test_bad_folders(tmp_path):
    with pytest.raises(ValueError, match=r"^data is '.*absent', and there is no such file or folder"):
        load_images(tmp_path / "absent")
    with pytest.raises(ValueError, match=r", which has no folder; it must have one for each class"):
        load_images(tmp_path)
    put(tmp_path / "train" / "a" / "1.png", 1)
    with pytest.raises(
        ValueError, match=r"which has the folders train; it must have train, base and query, or train and"
    ):
        load_images(tmp_path)
    (tmp_path / "b").mkdir()
    with pytest.raises(ValueError, match=r"whose folder 'b' has no image .*; every class must have one"):
        load_images(tmp_path)


def test_images_without_labels(tmp_path):
    for at, file in enumerate(["b.png", "a.JFIF", ".hidden.png", "c.txt"]):
        put(tmp_path / file, at)
    (tmp_path / "empty").mkdir()
    assert holds_images(tmp_path)
    table = load_images(tmp_path)
    assert (table.store.files, table.labels, shades(table)) == (["a.JFIF", "b.png"], None, [1, 0])
    assert ImageColumns(table, ["path"]).take(np.array([1, 0])).to_pydict() == {"path": ["b.png", "a.JFIF"]}
    with pytest.raises(ValueError, match=r"^protocol is 'digits', which samples by class, and .* has no labels; give"):
        table.split_rows("digits")
    put(tmp_path / "2026" / "d.png", 7)
    assert shades(read_image_files(tmp_path)) == [7, 1, 0]
    with pytest.raises(ValueError, match=r"which has 'a.JFIF' beside the folders of its classes; put every image into"):
        load_images(tmp_path)
    with pytest.raises(ValueError, match=r"empty', which has no image \(.jpg, "):
        read_image_files(tmp_path / "empty")


def test_the_sizes_of_nuswide21():
    # The paper's own numbers of rows, with random labels in the place of the images' own.
    labels = np.eye(21, dtype=np.uint8)[np.random.default_rng(0).integers(0, 21, 195_834)]
    drawn = PROTOCOLS["nuswide21"].split(labels, 0)
    assert tuple(len(drawn[split]) for split in SPLITS) == (10_500, 193_734, 2_100)
    assert set(drawn["train"]) <= set(drawn["base"])
    assert not set(drawn["query"]) & set(drawn["base"])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(100, 130), st.integers(6, 12), st.integers(0, 2**32))
def test_protocols_of_parts(classes, train, held, seed):
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(classes), train + held))
    mask = np.zeros(len(labels), bool)
    for label in range(classes):
        mask[np.flatnonzero(labels == label)[:held]] = True
    published, others = np.flatnonzero(mask), np.flatnonzero(~mask)
    for name, protocol in TRAIN_TEST_PROTOCOLS.items():
        drawn, again = protocol.split(labels, mask, seed), protocol.split(labels, mask, seed)
        assert all((np.diff(drawn[split]) > 0).all() for split in SPLITS)
        assert all((again[split] == drawn[split]).all() for split in SPLITS)
        if name == "imagenet1000":
            np.testing.assert_array_equal(drawn["train"], others)
            np.testing.assert_array_equal(np.sort(np.concatenate([drawn["base"], drawn["query"]])), published)
            assert np.bincount(labels[drawn["query"]]).tolist() == [5] * classes
        else:
            np.testing.assert_array_equal(drawn["query"], published)
            np.testing.assert_array_equal(drawn["base"], others)
            assert set(drawn["train"]) <= set(others)
            assert name == "official" or np.bincount(labels[drawn["train"]]).tolist() == [100] * classes


def test_what_looks_like_images(tmp_path, write_parquet):
    put(tmp_path / "images" / "a" / "1.png", 1)
    assert holds_images(tmp_path / "images")
    embedded = tmp_path / "embedded"
    embedded.mkdir()
    for split in SPLITS:
        write_parquet(embedded / f"{split}.parquet", np.ones((2, 3), np.float32), label=[0, 1])
    assert not holds_images(embedded)
    assert not holds_images(embedded / "base.parquet")
    assert holds_images(write_images(tmp_path / "p.parquet", [1], label=[0]))
    assert not holds_images(tmp_path / "absent.parquet")
    (tmp_path / "runs" / "logs").mkdir(parents=True)
    assert not holds_images(tmp_path / "runs")


def test_fingerprints_change_with_the_images(tmp_path):
    image, known = tmp_path / "files" / "a" / "1.png", set()
    changes = (
        lambda: put(image, 1),
        lambda: os.utime(image, ns=(image.stat().st_atime_ns, image.stat().st_mtime_ns + 1)),
        lambda: put(image.with_name("2.png"), 3),
        lambda: image.with_name("2.png").rename(image.with_name("3.png")),
    )
    for change in changes:
        change()
        known.add(load_images(tmp_path / "files").store.fingerprint())
    for rows in (4, 5):
        write_images(tmp_path / "p.parquet", range(rows))
        known.add(load_images(tmp_path / "p.parquet").store.fingerprint())
    assert len(known) == len(changes) + 2
    assert load_images(tmp_path / "p.parquet").store.fingerprint() in known


def test_flags_labels_and_protocols_of_parquet(tmp_path):
    flags = {"in_train": [True, False, False], "in_base": [True, True, False], "in_query": [False, False, True]}
    some = load_images(write_images(tmp_path / "some.parquet", [1, 2, 3], label=["b", None, "a"]))
    assert (some.labels.tolist(), some.class_names) == ([1, -1, 0], ("a", "b"))
    table = load_images(write_images(tmp_path / "p.parquet", [1, 2, 3], labels=[[0, 2], [1], [0, 1]], **flags))
    assert table.labels.tolist() == [[1, 0, 1], [0, 1, 0], [1, 1, 0]]
    protocol, rows = table.without([0]).split_rows()
    assert (protocol, {split: rows[split].tolist() for split in SPLITS}) == (
        "flags",
        {"train": [], "base": [1], "query": [2]},
    )
    words = load_images(
        write_images(tmp_path / "words.parquet", [1, 2, 3], label=[0, 0, 1], split=["train", "val", "train"])
    )
    assert (words.test_rows.tolist(), words.protocol) == ([False, True, False], "official")
    for split, some in zip(SPLITS, ([1, 2], [3, 4], [5]), strict=True):
        write_images(tmp_path / "splits" / f"{split}.parquet", some, label=[0] * len(some))
    table = load_images(tmp_path / "splits")
    assert [shades(table, np.flatnonzero(table.flags[split])) for split in SPLITS] == [[1, 2], [3, 4], [5]]
