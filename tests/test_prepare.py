"""Data sets in layouts of their own, read and written as Parquet with the splits of a protocol."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import shutil
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from image_tools import (
    KINDS,
    WORDS,
    cifar_pixels,
    put,
    python2_batch,
    shades,
    write_cifar10,
    write_imagenet,
    write_lists,
    write_nuswide,
)
from lbhash.data.dataset import SPLITS
from lbhash.data.images import FileImages, holds_images, load_images
from lbhash.data.images.cifar import read_cifar, read_pickle
from lbhash.data.images.imagenet import read_imagenet
from lbhash.data.images.list_files import read_image_lists
from lbhash.data.images.nuswide import read_nuswide
from lbhash.data.protocols import TRAIN_TEST_PROTOCOLS
from lbhash.pipeline.columns import ImageColumns, open_columns
from lbhash.pipeline.prepare import prepare
from lbhash.utils.checksums import check_file

# ------------------------------------------------------------------------------------------- images, labels and splits


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A small data set of each kind, with rows enough for its protocols."""
    root = tmp_path_factory.mktemp("published")
    write_cifar10(root / "cifar10", 370, classes=2)
    write_nuswide(root / "nuswide", 13_500, 7)
    write_imagenet(root / "imagenet", 103, 7)
    (root / "imagenet" / "classes.txt").write_text(f"{WORDS[2]} shark\n\n{WORDS[0]} tench\n")
    for at in range(9):
        put(root / "lists" / "images" / f"a b {at}.png", at)
    lines = [f"images/a b {at}.png {at % 3 == 0:d} {at % 3 == 1:d} {at % 4 == 2:d}" for at in range(9)]
    write_lists(root / "lists", lines[2:5], [*lines[5:], *lines[1:4]], lines[:1])
    return root


def told(table, rows, root):
    """What the images, labels and splits of a table are, in 16 hexadecimal digits."""
    names = () if 0 in table.class_names else table.class_names
    digest = hashlib.sha256(repr((len(table), names)).encode())
    for row in range(len(table)):
        if isinstance(table.store, FileImages):
            image = os.path.relpath(table.store.folder / table.store.files[row], root)
        else:
            image = hashlib.sha256(table.store.read(row).tobytes()).hexdigest()
        digest.update(repr((image, np.atleast_1d(table.labels[row]).tolist())).encode())
    for split in SPLITS:
        digest.update(repr((split, rows[split].tolist())).encode())
    return digest.hexdigest()[:16]


@pytest.mark.parametrize(
    ("kind", "protocol", "seed", "chosen", "expected"),
    [
        ("cifar10", None, 0, "cifar10", "c82f982da5efac01"),
        ("cifar10", "cifar10", 3, "cifar10", "7fd9e50f5a4df4a4"),
        ("cifar10", "cifar10-59k", 0, "cifar10-59k", "86fd5ed43b74a06d"),
        ("cifar10", "cifar10-50k", 0, "cifar10-50k", "41f6240ee32c272e"),
        ("cifar10", "official", 0, "official", "4da8abb0c3bc2442"),
        ("cifar10", "holdout", 1, "holdout", "7ada46d43043f964"),
        ("nuswide", None, 0, "nuswide21", "06254014a46f3b35"),
        ("nuswide", "nuswide21", 3, "nuswide21", "5e9b183fef83af84"),
        ("imagenet", None, 0, "imagenet1000", "be78ff445875bbd6"),
        ("imagenet", "imagenet1000", 3, "imagenet1000", "9c24ca1ab1d632db"),
        ("imagenet", "imagenet100", 3, "imagenet100", "6d8bc23b58476922"),
        ("imagenet with a list", None, 0, "imagenet100", "56c07d97853dde58"),
        ("lists", None, 0, "flags", "0f46bb7c12ff393d"),
    ],
)
def test_images_labels_and_splits_stay_what_they_were(published, tmp_path, kind, protocol, seed, chosen, expected):
    """The digits are those of ``load_images`` and ``split_rows`` before there was ``prepare``."""
    kind, *listed = kind.split(" with")
    options = {"class_list": published / "imagenet" / "classes.txt"} if listed else {}
    # Another place for each: beside the images their paths are relative, and elsewhere absolute.
    out = (tmp_path if protocol else published / kind) / "prepared.parquet"
    facts = prepare(kind, published / kind, out, protocol=protocol, seed=seed, overwrite=True, **options)
    check_file(out)
    table = load_images(out)
    found, rows = table.split_rows()
    assert (found, facts["protocol"], facts["images"]) == ("flags", chosen, len(table))
    assert {split: facts[split] for split in SPLITS} == {split: len(rows[split]) for split in SPLITS}
    assert told(table, rows, published) == expected
    if kind != "cifar10":
        assert os.path.isabs(table.store.files[0]) == (protocol is not None)
        paths = open_columns(out, ["path"], table).take(np.array([2, 0]))["path"].to_pylist()
        assert paths == [table.store.files[2], table.store.files[0]]


def test_datasets_knows_the_images_and_classes(published, tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.chdir(tmp_path)
    prepare("cifar10", published / "cifar10", "out/ten.parquet")
    loaded = datasets.load_dataset("parquet", data_files="out/ten.parquet", cache_dir="cache")["train"]
    assert loaded.features["label"].names == list(KINDS)
    assert pq.ParquetFile("out/ten.parquet").metadata.num_row_groups == 3


# ---------------------------------------------------------------------------------------------------------- the command


def test_the_command(published, tmp_path, command, succeed, refuse, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(published / "lists", "data")
    given = ("prepare", "lists", "data", "--out", "data/all.parquet")
    assert succeed(*given)[0] == "9 images are in data/all.parquet: 3 train, 7 base, 1 query\n"
    assert "out is 'data/all.parquet', which already exists; give another file, or --overwrite" in refuse(*given)
    assert json.loads(succeed(*given, "--overwrite", "--json")[0]) == {
        "out": "data/all.parquet",
        "protocol": "flags",
        "images": 9,
        "train": 3,
        "base": 7,
        "query": 1,
    }
    known = (tmp_path / "data" / "all.parquet").read_bytes()
    (tmp_path / "data" / "images" / "a b 3.png").unlink()
    said = "a b 3.png' is missing (1 of 9 are); mend or remove them, or skip them (--damaged skip)"
    assert said in refuse(*given, "--overwrite")
    assert (tmp_path / "data" / "all.parquet").read_bytes() == known
    assert "8 images are in" in succeed(*given, "--overwrite", "--damaged", "skip")[0]
    table = load_images("data/all.parquet")
    assert shades(table) == [2, 4, 5, 6, 7, 8, 1, 0]
    assert {split: shades(table, rows) for split, rows in table.split_rows()[1].items()} == {
        "train": [2, 4],
        "base": [2, 5, 6, 7, 8, 1],
        "query": [0],
    }
    shutil.move("data/images", "elsewhere/images")
    assert "9 images" not in succeed(*given, "--images", "elsewhere", "--overwrite", "--damaged", "skip")[0]
    assert shades(load_images("data/all.parquet")) == [2, 4, 5, 6, 7, 8, 1, 0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nus", "x"], "kind is 'nus'; it must be one of cifar10, nuswide, imagenet, lists; did you mean nuswide?"),
        (
            ["imagenet", "x", "--images", "x"],
            "--images is 'x', and KIND is 'imagenet'; it is the folder of paths in lists: give KIND nuswide or KIND",
        ),
        (
            ["lists", "x", "--class-list", "x"],
            "--class-list is 'x', and KIND is 'lists'; it lists classes of ImageNet: give KIND imagenet, or leave",
        ),
        (["lists", "x", "--images", "x"], "--images is 'x', and there is no such folder"),
        (["lists", "x", "--out", "x.npz"], "--out is 'x.npz'"),
        (["lists", "x"], "train.txt is 'x/train.txt', and there is no such file"),
        (["cifar10", "x"], "folder is 'x', which has no batch 'data_batch_1'"),
        (["nuswide", "x"], "the image list is 'x/ImageList/Imagelist.txt', and there is no such file"),
        (["imagenet", "x"], "folder is 'x', which has no folder 'train'; it must have train and val"),
        (["imagenet", "x", "--seed", "-1"], "--seed is -1"),
    ],
)
def test_bad_commands(tmp_path, refuse, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    out = [] if "--out" in arguments else ["--out", "x.parquet"]
    assert f"lbhash: error: {said}" in refuse("prepare", *arguments, *out)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["cifar10", "nuswide", "lists"])
def test_other_commands_name_prepare(published, tmp_path, kind):
    folder = shutil.copytree(published / kind, tmp_path / kind, ignore=shutil.ignore_patterns("*.parquet"))
    assert holds_images(folder)
    said = rf"^data is '.*{kind}', a data set in its original layout; .*lbhash prepare {kind} FOLDER --out FILE.parquet"
    with pytest.raises(ValueError, match=said):
        load_images(folder)


# --------------------------------------------------------------------------------------------------------------- lists


def test_lists(tmp_path):
    for value in (1, 2, 3, 4):
        put(tmp_path / "images" / f"a b {value}.png", value)
    write_lists(
        tmp_path,
        ["images/a b 2.png 0 1 0"],
        ["images/a b 1.png 1 0 0", "images/a b 2.png 0 1 0", "", "images/a b 3.png 0 0 1"],
        ["images/a b 4.png 0 1 0"],
    )
    table = read_image_lists(tmp_path)
    assert (len(table), table.labels.dtype) == (4, np.int64)
    protocol, rows = table.split_rows()
    assert protocol == "flags"
    assert [shades(table, rows[split]) for split in SPLITS] == [[2], [2, 1, 3], [4]]
    assert table.labels[rows["base"]].tolist() == [1, 0, 2]
    write_lists(tmp_path / "several", ["a.png 1 1 0"], ["b.png 0 0 0"], ["c.png 0 1 0"])
    assert read_image_lists(tmp_path / "several").labels.tolist() == [[1, 1, 0], [0, 0, 0], [0, 1, 0]]
    write_lists(tmp_path / "numbers", ["a.png 12"], ["b.png 3"], ["c.png 12"])
    found = read_image_lists(tmp_path / "numbers")
    assert (found.labels.tolist(), list(found.class_names)) == ([1, 0, 1], [3, 12])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("b.png 0 x", r"^line 2 of database.txt is 'b.png 0 x'; it must be"),
        ("b.png 0 1 0", r"^line 2 of database.txt has 3 labels and the first line 2"),
        ("b.png 0 2", r"^line 2 of database.txt has the label 2; with several labels each must be 0 or 1"),
        ("a.png 0 1", r"^line 2 of database.txt gives 'a.png' other labels than an earlier line"),
    ],
)
def test_bad_lists(tmp_path, line, said):
    write_lists(tmp_path, ["a.png 1 0"], ["a.png 1 0", line], ["c.png 1 0"])
    with pytest.raises(ValueError, match=said):
        read_image_lists(tmp_path)


# ------------------------------------------------------------------------------------------------------------- CIFAR-10


def test_cifar(tmp_path):
    batches = write_cifar10(tmp_path / "ten")
    table = read_cifar(tmp_path / "ten")
    pixels = np.concatenate([held for held, _ in batches.values()])
    assert table.labels.tolist() == [label for _, labels in batches.values() for label in labels]
    assert (table.protocol, table.class_names) == ("cifar10", KINDS)
    for row in (0, 7, len(table) - 1):  # a row is 1,024 red, then green, then blue values, line by line
        seen = np.asarray(table.store.read(row))
        for channel in range(3):
            assert seen[:, :, channel].ravel().tolist() == pixels[row, 1024 * channel : 1024 * (channel + 1)].tolist()
    _, rows = table.split_rows("official")
    assert rows["query"].tolist() == np.flatnonzero(table.test_rows).tolist() == list(range(30, 39))
    with pytest.raises(ValueError, match=r"^metadata is path, and the images of ten are not in files of their own"):
        ImageColumns(table, ["path"])


class Evil:
    def __reduce__(self):
        return os.system, ("touch ran",)


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (Evil(), r"it would run posix.system, which no batch needs"),
        ({"data": np.array([Evil()])}, r"it would run (numpy|posix)"),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_that_would_run_something(tmp_path, monkeypatch, held, said, protocol):
    monkeypatch.chdir(tmp_path)
    write_cifar10(tmp_path / "c")
    (tmp_path / "c" / "data_batch_3").write_bytes(pickle.dumps(held, protocol=protocol))
    with pytest.raises(ValueError, match=rf"^batch '.*data_batch_3' is damaged, or not a batch of CIFAR: .*({said})"):
        read_cifar(tmp_path / "c")
    assert not (tmp_path / "ran").exists()


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=6))
def test_a_damaged_batch_is_a_line_or_a_batch(tmp_path_factory, changes):
    # The head, where the structure is; the pixels are what they are.
    data = bytearray(python2_batch(cifar_pixels(1), [3]))
    for place, value in changes:
        data[int(place * 260)] = value
    file = tmp_path_factory.getbasetemp() / "batch"
    file.write_bytes(data)
    said = "batch"
    try:
        read_pickle(file)
    except ValueError as error:
        said = str(error)
    assert re.fullmatch("batch.*", said)


def test_bad_batches(tmp_path):
    write_cifar10(tmp_path)
    batch = tmp_path / "data_batch_2"
    pixels = np.zeros((2, 3072), np.uint8)
    for held, said in (
        (batch.read_bytes()[:999], r"^batch '.*data_batch_2' is damaged, or not a batch of CIFAR: "),
        (pickle.dumps([1], 2), r"^batch '.*' has no array 'data'; it must be an original batch of CIFAR"),
        (python2_batch(pixels[:, :10], [1, 2]), r"^'data' of batch '.*' has shape \(2, 10\); it must be \[n, 3072\]"),
        (python2_batch(pixels, [1]), r"has no list 'labels' of 2 class numbers"),
        (python2_batch(pixels, [1, 2]).replace(b"u1K", b"i1K"), r"of type b'i1'; it must hold bytes \(uint8\)"),
        # The value 1, numbered 2**31 - 1: Python's unpickler would make a table of so many places.
        (b"\x80\x02K\x01r\xff\xff\xff\x7f.", r"^batch .* refers to value 2147483647, which it does not hold"),
        (b"\x80\x04\x8e\xff\xff\xff\xff\xff\x00\x00\x00abc.", r"^batch .* is damaged, or no"),  # a terabyte
    ):
        batch.write_bytes(held)
        with pytest.raises(ValueError, match=said):
            read_cifar(tmp_path)
    batch.unlink()
    with pytest.raises(ValueError, match=r"^folder is '.*', which has no batch 'data_batch_2'"):
        read_cifar(tmp_path)


# ------------------------------------------------------------------------------------------------------------ NUS-WIDE


@pytest.fixture
def nuswide(tmp_path):
    """25 labels over 60 images, of which one is missing; label k has 60 - 2k."""
    hot, names = write_nuswide(tmp_path, 60, 60)
    (tmp_path / "Flickr" / "actor" / "0011_12.jpg").unlink()
    return tmp_path, hot, names


def test_nuswide(nuswide):
    root, hot, names = nuswide
    table = read_nuswide(root)
    counts = hot.sum(axis=0).tolist()
    chosen = sorted(sorted(range(25), key=lambda label: (-counts[label], names[label]))[:21], key=names.__getitem__)
    assert table.class_names == tuple(names[label] for label in chosen)
    rows = [row for row in range(60) if hot[row, chosen].any()]
    assert not {5, 9} & set(rows)
    assert table.labels.tolist() == hot[np.ix_(rows, chosen)].tolist()
    assert table.store.missing().tolist() == [rows.index(11)]
    assert shades(table, [0, 20]) == [rows[0], rows[20]]
    assert table.protocol == "nuswide21"


def test_bad_nuswide(nuswide):
    root, _, names = nuswide
    folder = root / "Groundtruth" / "AllLabels"
    file = folder / f"Labels_{names[3]}.txt"
    for text, said in (
        (file.read_text().replace("1", "2", 1), r"^line \d+ of Labels_label\d+.txt is '2'; it must be 0 or 1"),
        ("1\n0\n", r"^Labels_label\d+.txt has 2 lines and the image list 60; they must be equal"),
    ):
        file.write_text(text)
        with pytest.raises(ValueError, match=said):
            read_nuswide(root)
    for name in names[:5]:
        (folder / f"Labels_{name}.txt").unlink()
    with pytest.raises(ValueError, match=r"which has 20 files .*Labels_\*.txt; it must have one for each label, 21 at"):
        read_nuswide(root)


# ------------------------------------------------------------------------------------------------------------ ImageNet


@pytest.fixture
def imagenet(tmp_path):
    return write_imagenet(tmp_path, 3, 2)


def test_imagenet(imagenet):
    table = read_imagenet(imagenet)
    assert (table.class_names, table.protocol) == (WORDS, "imagenet1000")
    assert shades(table) == list(range(15))
    assert table.labels.tolist() == np.repeat([0, 1, 2], 5).tolist()
    assert np.flatnonzero(table.test_rows).tolist() == [3, 4, 8, 9, 13, 14]
    hot = replace(table, labels=np.eye(3, dtype=np.uint8)[table.labels])
    for some, protocol, said in (
        (table, None, r"^protocol is 'imagenet1000', the default of such data: class 'n01440764' has 2 rows"),
        (hot, "imagenet100", r"^the protocol samples by class, and the data have several labels a row"),
        (replace(table, test_rows=None), "official", r"^protocol is 'official', which needs a training set and a test"),
    ):
        with pytest.raises(ValueError, match=said):
            some.split_rows(protocol)
    with pytest.raises(ValueError, match=r"^the queries take the whole test set, and leave no base"):
        TRAIN_TEST_PROTOCOLS["imagenet1000"].split(np.zeros(15, int), np.arange(15) >= 10, 0)
    shutil.rmtree(imagenet / "val" / WORDS[1])
    with pytest.raises(ValueError, match=rf"^folder has no image of class {WORDS[1]} in val; it must have val/n"):
        read_imagenet(imagenet)


def test_imagenet_of_listed_classes(imagenet):
    listed = imagenet / "classes.txt"
    listed.write_text(f"{WORDS[2]} shark\n\n{WORDS[0]} tench\n")
    table = read_imagenet(imagenet, listed)
    assert (table.class_names, table.protocol) == ((WORDS[2], WORDS[0]), "imagenet100")
    assert (shades(table), table.labels.tolist()) == ([10, 11, 12, 13, 14, 0, 1, 2, 3, 4], [0] * 5 + [1] * 5)
    for text, said in (
        ("", r"^class_list is '.*', which lists no class"),
        (f"{WORDS[0]}\n{WORDS[0]}\n", rf"lists {WORDS[0]} twice"),
        (
            "n99999999\n",
            r"^class_list is '.*', which lists 'n99999999', and train has no such folder \(1 are missing\)",
        ),
    ):
        listed.write_text(text)
        with pytest.raises(ValueError, match=said):
            read_imagenet(imagenet, listed)
