from __future__ import annotations

import json
import os
import pickle
import re
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from image_tools import stored
from lbhash.data import SPLITS, TRAIN_TEST_PROTOCOLS
from lbhash.data.images import holds_images, load_images
from lbhash.data.images.cifar import read_pickle
from lbhash.pipeline.columns import ImagePaths


def data_of(shade):
    return stored(Image.new("RGB", (4, 4), (shade, 0, 255 - shade)))


def put(path, shade):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data_of(shade))


def shades(table, rows=None):
    """The shade of each image, by which the tests know it."""
    rows = range(len(table)) if rows is None else rows
    return [np.asarray(table.store.read(row))[0, 0, 0] for row in rows]


def write_images(path, shades_, struct=True, column="image", row_group_size=None, **columns):
    values = [data_of(shade) for shade in shades_]
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
        assert (protocol, rows["query"].tolist(), rows["base"].tolist()) == ("official", [0, 4], [1, 2, 3])


def test_parquet_with_images_beside(tmp_path):
    put(tmp_path / "sub" / "a.png", 77)
    rows = [{"bytes": data_of(5), "path": None}, {"bytes": None, "path": "sub/a.png"}, {"bytes": None, "path": "b.png"}]
    pq.write_table(pa.table({"image": [*rows, None], "label": [0, 1, 0, 1]}), tmp_path / "p.parquet")
    table = load_images(tmp_path / "p.parquet")
    assert shades(table, [0, 1]) == [5, 77]
    assert table.store.missing().tolist() == [2, 3]
    with pytest.raises(ValueError, match=r"^image 2 of p.parquet cannot be read: No such file or directory: b.png"):
        table.store.read(2)
    with pytest.raises(ValueError, match=r"^image 3 of p.parquet is empty"):
        table.store.read(3)


def test_bad_parquet(tmp_path):
    pq.write_table(pa.table({"image": [1, 2]}), tmp_path / "b.parquet")
    write_images(tmp_path / "c.parquet", [1, 2], labels=[[0], None])
    (tmp_path / "e.parquet").write_bytes(b"junk")
    write_images(tmp_path / "f" / "1.parquet", [1], label=[0])
    write_images(tmp_path / "f" / "2.parquet", [1])
    pq.write_table(pa.table({"image": pa.array([], pa.binary())}), tmp_path / "g.parquet")
    for file, said in {
        "b.parquet": r"^column 'image' of data holds int64; it must hold bytes of images, or structs of",
        "c.parquet": r"^column 'labels' of data is missing in row 1; every row must have a label",
        "e.parquet": r"e.parquet', which is damaged or no Parquet file: ",
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
    with pytest.raises(ValueError, match=r"which has the folders train; beside train there must be base and query, or"):
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
    assert ImagePaths(table).take(np.array([1, 0])).to_pydict() == {"path": ["b.png", "a.JFIF"]}
    with pytest.raises(ValueError, match=r"^protocol is 'digits', which samples by class, and .* has no labels; give"):
        table.split_rows("digits")
    put(tmp_path / "2026" / "d.png", 7)
    assert shades(load_images(tmp_path, layout="files")) == [7, 1, 0]
    with pytest.raises(ValueError, match=r"which has 'a.JFIF' beside the folders of its classes; an image must be in"):
        load_images(tmp_path)
    with pytest.raises(ValueError, match=r"empty', which has no image \(.jpg, "):
        load_images(tmp_path / "empty", layout="files")


def write_lists(folder, train, base, query):
    folder.mkdir(parents=True, exist_ok=True)
    for file, lines in (("train", train), ("database", base), ("test", query)):
        (folder / f"{file}.txt").write_text("".join(f"{line}\n" for line in lines))


def test_lists(tmp_path):
    for shade in (1, 2, 3, 4):
        put(tmp_path / "images" / f"a b {shade}.png", shade)
    write_lists(
        tmp_path,
        ["images/a b 2.png 0 1 0"],
        ["images/a b 1.png 1 0 0", "images/a b 2.png 0 1 0", "", "images/a b 3.png 0 0 1"],
        ["images/a b 4.png 0 1 0"],
    )
    table = load_images(tmp_path)
    assert (len(table), table.labels.dtype) == (4, np.int64)
    protocol, rows = table.split_rows()
    assert protocol == "flags"
    assert [shades(table, rows[split]) for split in SPLITS] == [[2], [2, 1, 3], [4]]
    assert table.labels[rows["base"]].tolist() == [1, 0, 2]
    write_lists(tmp_path / "several", ["a.png 1 1 0"], ["b.png 0 0 0"], ["c.png 0 1 0"])
    assert load_images(tmp_path / "several").labels.tolist() == [[1, 1, 0], [0, 0, 0], [0, 1, 0]]
    write_lists(tmp_path / "numbers", ["a.png 12"], ["b.png 3"], ["c.png 12"])
    assert load_images(tmp_path / "numbers").labels.tolist() == [12, 3, 12]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("b.png 0 x", r"^line 2 of database.txt is 'b.png 0 x'; it must be"),
        ("b.png 0 1 0", r"^line 2 of database.txt has 3 labels and the first line 2"),
        ("b.png 0 2", r"^line 2 of database.txt has the label 2; of several labels each must be 0 or 1"),
        ("a.png 0 1", r"^line 2 of database.txt labels 'a.png' otherwise than another line does"),
    ],
)
def test_bad_lists(tmp_path, line, said):
    write_lists(tmp_path, ["a.png 1 0"], ["a.png 1 0", line], ["c.png 1 0"])
    with pytest.raises(ValueError, match=said):
        load_images(tmp_path)


def python2_string(data):
    """A byte string as Python 2's cPickle writes it in protocol 2."""
    if len(data) < 256:
        return b"U" + bytes([len(data)]) + data
    return b"T" + len(data).to_bytes(4, "little") + data


def python2_array(array):
    """A uint8 array as NumPy under Python 2 pickled it."""
    shape = b"".join(b"M" + int(size).to_bytes(2, "little") for size in array.shape)
    return (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + python2_string(b"b") + b"\x87R("
        b"K\x01" + shape + b"\x86cnumpy\ndtype\n" + python2_string(b"u1") + b"K\x00K\x01\x87R"
        b"(K\x03" + python2_string(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89" + python2_string(array.tobytes()) + b"tb"
    )


def cifar_pixels(rows):
    rng = np.random.default_rng(rows)
    return rng.integers(0, 256, (rows, 3072), dtype=np.uint8)


def python2_batch(pixels, labels, key=b"labels"):
    """A batch, byte for byte of the form that the original files have."""
    strings = [b"batch_label", b"training batch 1 of 5", key, b"data", b"filenames", b"a_s_000001.png"]
    about, said, key, data, files, file = map(python2_string, strings)
    numbers = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(" + about + said + key + numbers + data + python2_array(pixels) + files + b"](" + file + b"eu."


def python2_names(key, names):
    """The file with the names of the classes."""
    listed = b"".join(python2_string(name.encode()) for name in names)
    return b"\x80\x02}(" + python2_string(key) + b"](" + listed + b"eu."


KINDS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def write_cifar10(folder, rows=4):
    folder.mkdir(parents=True, exist_ok=True)
    batches = {}
    for at, name in enumerate([*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]):
        pixels, labels = cifar_pixels(rows + at), [(at + row) % 10 for row in range(rows + at)]
        (folder / name).write_bytes(python2_batch(pixels, labels))
        batches[name] = pixels, labels
    (folder / "batches.meta").write_bytes(python2_names(b"label_names", KINDS))
    return batches


def test_cifar(tmp_path):
    batches = write_cifar10(tmp_path / "ten")
    table = load_images(tmp_path / "ten")
    pixels = np.concatenate([held for held, _ in batches.values()])
    assert table.labels.tolist() == [label for _, labels in batches.values() for label in labels]
    assert (table.protocol, table.class_names) == ("cifar10", KINDS)
    for row in (0, 7, len(table) - 1):  # a row is 1,024 red, then green, then blue values, line by line
        seen = np.asarray(table.store.read(row))
        for channel in range(3):
            assert seen[:, :, channel].ravel().tolist() == pixels[row, 1024 * channel : 1024 * (channel + 1)].tolist()
    _, rows = table.split_rows("official")
    assert rows["query"].tolist() == np.flatnonzero(table.test_rows).tolist() == list(range(30, 39))
    with pytest.raises(ValueError, match=r"^columns is path, and the images of ten are not in files of their own"):
        ImagePaths(table)
    for name, count in (("train", 6), ("test", 3)):
        labels = [(7 * row) % 100 for row in range(count)]
        (tmp_path / name).write_bytes(python2_batch(cifar_pixels(count), labels, b"fine_labels"))
    names = [f"fruit {number}" for number in range(100)]
    (tmp_path / "meta").write_bytes(python2_names(b"fine_label_names", names))
    table = load_images(tmp_path)
    assert (table.labels.tolist(), table.class_names) == ([0, 7, 14, 21, 28, 35, 0, 7, 14], tuple(names))
    assert table.split_rows()[0] == "official"
    (tmp_path / "meta").write_bytes(python2_names(b"fine_label_names", ["apple"]))
    with pytest.raises(ValueError, match=r" has a class 35, and names for 1 classes; they must name every class$"):
        load_images(tmp_path)


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
    with pytest.raises(ValueError, match=rf"^batch '.*data_batch_3' is damaged, or no batch of CIFAR: .*({said})"):
        load_images(tmp_path / "c")
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
        (batch.read_bytes()[:999], r"^batch '.*data_batch_2' is damaged, or no batch of CIFAR: "),
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
            load_images(tmp_path)
    batch.unlink()
    with pytest.raises(ValueError, match=r"^data is '.*', which has no batch 'data_batch_2'"):
        load_images(tmp_path)


@pytest.fixture
def nuswide(tmp_path):
    """25 labels over 60 images; label k has 60 - 2k of them, so that the first 21 are the most frequent."""
    rng = np.random.default_rng(0)
    hot = np.zeros((60, 25), np.uint8)
    for label in range(25):
        hot[rng.permutation(60)[: 60 - 2 * label], label] = 1
    hot[[5, 9]] = 0
    hot[5, 24] = 1  # an image with a rare label only, and one with none
    names = [f"label{(7 * label) % 25:02}" for label in range(25)]
    (tmp_path / "Groundtruth" / "AllLabels").mkdir(parents=True)
    for label, name in enumerate(names):
        lines = "".join(f"{value}\r\n" for value in hot[:, label])
        (tmp_path / "Groundtruth" / "AllLabels" / f"Labels_{name}.txt").write_text(lines)
    files = [f"actor\\{at:04}_12.jpg" for at in range(60)]
    (tmp_path / "ImageList").mkdir()
    (tmp_path / "ImageList" / "Imagelist.txt").write_text("".join(f"{file} \r\n" for file in files))
    for at in range(60):
        if at != 11:
            put(tmp_path / "Flickr" / "actor" / f"{at:04}_12.jpg", at)
    return tmp_path, hot, names


def test_nuswide(nuswide):
    root, hot, names = nuswide
    table = load_images(root)
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
            load_images(root)
    for name in names[:5]:
        (folder / f"Labels_{name}.txt").unlink()
    with pytest.raises(ValueError, match=r"which has 20 files .*Labels_\*.txt; it must have one for each label, 21 at"):
        load_images(root)


def test_the_sizes_of_the_papers_protocols():
    # The paper's own numbers of rows, with random labels in the place of the images' own.
    from lbhash.data import PROTOCOLS

    rng = np.random.default_rng(0)
    for name, rows, classes, sizes in (
        ("nuswide21", 195_834, 21, (10_500, 193_734, 2_100)),
        ("coco", 122_218, 80, (10_000, 117_218, 5_000)),
        ("mirflickr25k", 24_581, 24, (5_000, 22_581, 2_000)),
    ):
        labels = np.zeros((rows, classes), np.uint8)
        labels[np.arange(rows), rng.integers(0, classes, rows)] = 1
        drawn = PROTOCOLS[name].split(labels, 0)
        assert tuple(len(drawn[split]) for split in SPLITS) == sizes
        assert set(drawn["train"]) <= set(drawn["base"])
        assert not set(drawn["query"]) & set(drawn["base"])


def coco_json(images, objects):
    categories = ((1, "person"), (3, "car"), (90, "toothbrush"))
    content = {
        "images": [{"id": name, "file_name": file, "height": 4} for name, file in images],
        "annotations": [{"id": at, "image_id": one, "category_id": what} for at, (one, what) in enumerate(objects)],
        "categories": [{"id": name, "name": word, "supercategory": "x"} for name, word in categories],
    }
    return json.dumps(content)


def test_coco(tmp_path):
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations" / "instances_train2014.json").write_text(
        coco_json([(9, "t9.jpg"), (2, "t2.jpg"), (4, "t4.jpg")], [(9, 1), (9, 90), (9, 1), (2, 3)])
    )
    (tmp_path / "annotations" / "instances_val2014.json").write_text(coco_json([(1, "v1.jpg")], [(1, 90)]))
    for file, shade in (("train2014/t2.jpg", 2), ("train2014/t9.jpg", 9), ("val2014/v1.jpg", 1)):
        put(tmp_path / file, shade)
    table = load_images(tmp_path)
    assert (shades(table), table.labels.tolist()) == ([2, 9, 1], [[0, 1, 0], [1, 0, 1], [0, 0, 1]])
    assert (table.class_names, table.protocol) == (("person", "car", "toothbrush"), "coco")
    assert not len(table.store.missing())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", r"^instances_a.json of data is no file of COCO's instances: "),
        ('{"images": []}', r"'categories' is missing"),
        (coco_json([(1, "a.jpg")], [(1, 2)]), r"an object has the category 2, which the file does not list"),
    ],
)
def test_bad_coco(tmp_path, text, said):
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations" / "instances_a.json").write_text(text)
    with pytest.raises(ValueError, match=said):
        load_images(tmp_path)


def test_mirflickr(tmp_path):
    notes = tmp_path / "mirflickr25k_annotations_v080"
    notes.mkdir()
    for file, text in (("sky", "1\n3\n\n10\n"), ("sky_r1", "2\n"), ("baby", "3\n"), ("README", "words\n")):
        (notes / f"{file}.txt").write_text(text)
    for number in (1, 2, 3, 10):
        put(tmp_path / "mirflickr" / f"im{number}.jpg", number)
    table = load_images(tmp_path)
    assert (shades(table), table.labels.tolist()) == ([1, 3, 10], [[0, 1], [1, 1], [0, 1]])
    assert (table.class_names, table.protocol) == (("baby", "sky"), "mirflickr25k")
    (notes / "baby.txt").write_text("3\nim4\n")
    with pytest.raises(ValueError, match=r"^line 2 of baby.txt is 'im4'; it must be the number of an image"):
        load_images(tmp_path)
    with pytest.raises(ValueError, match=r"which has no mirflickr25k_annotations\*/LABEL.txt"):
        load_images(tmp_path / "mirflickr", layout="mirflickr")


WORDS = ("n01440764", "n01443537", "n01484850")


@pytest.fixture
def imagenet(tmp_path):
    shade = 0
    for label in WORDS:
        for at in range(3):
            put(tmp_path / "train" / label / f"{label}_{at}.JPEG", shade)
            shade += 1
        for _ in range(2):
            put(tmp_path / "val" / label / f"ILSVRC2012_val_{shade:08}.JPEG", shade)
            shade += 1
    return tmp_path


def test_imagenet(imagenet):
    table = load_images(imagenet)
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
    with pytest.raises(ValueError, match=rf"^data has no image of class {WORDS[1]} in val; it must have val/n"):
        load_images(imagenet)


def test_imagenet_of_listed_classes(imagenet, tmp_path):
    (tmp_path / "classes.txt").write_text(f"{WORDS[2]} shark\n\n{WORDS[0]} tench\n")
    table = load_images(imagenet, classes=tmp_path / "classes.txt")
    assert (table.class_names, table.protocol) == ((WORDS[2], WORDS[0]), "imagenet100")
    assert (shades(table), table.labels.tolist()) == ([10, 11, 12, 13, 14, 0, 1, 2, 3, 4], [0] * 5 + [1] * 5)
    same = load_images(imagenet, classes=[WORDS[2], WORDS[0]])
    assert (same.class_names, same.store.files) == (table.class_names, table.store.files)
    for text, said in (
        ("", r"^classes is '.*', which lists none"),
        (f"{WORDS[0]}\n{WORDS[0]}\n", rf"lists {WORDS[0]} twice"),
        ("n99999999\n", r"^classes lists 'n99999999', which has no folder in train \(1 have none\)"),
    ):
        (tmp_path / "classes.txt").write_text(text)
        with pytest.raises(ValueError, match=said):
            load_images(imagenet, classes=tmp_path / "classes.txt")


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


def test_options_that_do_not_go_together(imagenet, tmp_path):
    with pytest.raises(ValueError, match=r"^layout is 'nus'; it must be one of parquet, lists, cifar, nuswide, coco"):
        load_images(imagenet, layout="nus")
    with pytest.raises(ValueError, match=r"^images is 'x', and data is of the layout 'imagenet', which takes none"):
        load_images(imagenet, images="x")
    with pytest.raises(ValueError, match=r"^classes is 'x', and data is of the layout 'folder', which takes none"):
        load_images(imagenet, layout="folder", classes="x")


def test_what_looks_like_images(imagenet, nuswide, tmp_path, write_parquet):
    assert holds_images(imagenet)
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
        write_cifar10(tmp_path / "c", rows)
        write_images(tmp_path / "p.parquet", range(rows))
        known |= {load_images(tmp_path / name).store.fingerprint() for name in ("c", "p.parquet")}
    assert len(known) == len(changes) + 4
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
    for split, some in zip(SPLITS, ([1, 2], [3, 4], [5]), strict=True):
        write_images(tmp_path / "splits" / f"{split}.parquet", some, label=[0] * len(some))
    table = load_images(tmp_path / "splits")
    assert [shades(table, np.flatnonzero(table.flags[split])) for split in SPLITS] == [[1, 2], [3, 4], [5]]
