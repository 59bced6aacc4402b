"""Folders and objects of images that are read wrong by other tools, by kind of fault."""

from __future__ import annotations

import os
from io import BytesIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from image_tools import put, shade, shades, stored, stripes, write_backbone
from lbhash import Hasher, TrainingArguments, evaluate
from lbhash.codes import pack
from lbhash.data.dataset import SPLITS
from lbhash.data.images import ListedImages, load_images
from lbhash.data.images.decoding import as_image, decode_image
from lbhash.evaluation.neighbors import evaluate_neighbors

# ---------------------------------------------------------------------------------------------- splits by other names


def write_parts(root, *parts):
    """Two classes with an image each, in a folder for each part; the shade tells the part and the class."""
    for at, part in enumerate(parts):
        for label in range(2):
            put(root / part / f"class{label}" / "1.png", 10 * at + label)


@pytest.mark.parametrize("train", ["train", "Train", "training", "TRAIN"])
@pytest.mark.parametrize("test", ["test", "TEST", "testing", "val", "valid", "Validation", "dev"])
def test_a_training_set_and_another(tmp_path, capsys, train, test):
    write_parts(tmp_path, train, test)
    table = load_images(tmp_path)
    assert table.class_names == ("class0", "class1")
    protocol, rows = table.split_rows()
    assert protocol == "official"
    assert [shades(table, rows[split]) for split in SPLITS] == [[0, 1], [0, 1], [10, 11]]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("valid", ["valid", "val", "dev", "Validation"])
def test_a_validation_set_besides_is_trained_on(tmp_path, capsys, valid):
    write_parts(tmp_path, "train", valid, "Testing")
    table = load_images(tmp_path)
    rows = table.split_rows()[1]
    assert [set(shades(table, rows[split])) for split in SPLITS] == [{0, 1, 10, 11}, {0, 1, 10, 11}, {20, 21}]
    line = capsys.readouterr().err
    assert line.endswith(f": the queries are those of Testing, and {valid} counts as train\n")


def test_splits_of_the_library_in_capitals(tmp_path):
    write_parts(tmp_path, "Train", "Gallery", "Query")
    table = load_images(tmp_path)
    protocol, rows = table.split_rows()
    assert (protocol, [shades(table, rows[split]) for split in SPLITS]) == ("flags", [[0, 1], [10, 11], [20, 21]])


def test_two_validation_sets_are_one(tmp_path):
    write_parts(tmp_path, "train", "dev", "valid")
    assert shades(load_images(tmp_path), load_images(tmp_path).split_rows()[1]["query"]) == [10, 11, 20, 21]


def test_a_folder_beside_the_splits_is_named(tmp_path, capsys):
    write_parts(tmp_path, "train", "test", "unlabeled")
    (tmp_path / "annotations").mkdir()
    assert len(load_images(tmp_path)) == 4
    assert capsys.readouterr().err.endswith(": others are left out, unlabeled (2 images)\n")


def test_classes_that_are_called_like_splits(tmp_path):
    write_parts(tmp_path, "train", "plane", "test-tube")
    assert load_images(tmp_path).class_names == ("plane", "test-tube", "train")


@pytest.mark.parametrize("parts", [("valid", "test"), ("Training",), ("train", "base"), ("train", "query", "test")])
def test_parts_that_are_no_data_set(tmp_path, parts):
    write_parts(tmp_path, *parts)
    with pytest.raises(
        ValueError, match=r"it must have train, base and query, or train and test \(or validation\), or"
    ):
        load_images(tmp_path)


def test_files_of_splits_by_other_names(tmp_path, capsys):
    for at, part in enumerate(["Training-0-of-2", "Training-1-of-2", "valid", "test"]):
        pq.write_table(pa.table({"image": [shade(at)], "label": [at % 2]}), tmp_path / f"{part}.parquet")
    table = load_images(tmp_path)
    rows = table.split_rows()[1]
    assert [sorted(shades(table, rows[split])) for split in SPLITS] == [[0, 1, 2], [0, 1, 2], [3]]
    assert "valid counts as train" in capsys.readouterr().err


# ------------------------------------------------------------------------------------- folders that hold themselves


def links_to(target, *links):
    for link in links:
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target, target_is_directory=True)


@pytest.mark.parametrize("target", ["", "..", "a", "b", "a/deep"])
def test_links_to_what_is_counted(tmp_path, capsys, target):
    root = tmp_path / "root"
    for at, file in enumerate(["a/1.png", "a/deep/er/2.png", "b/1.png"]):
        put(root / file, at)
    put(tmp_path / "outside" / "c" / "9.png", 9)
    links_to((root / target).resolve(), root / "a" / "deep" / "up", root / "b" / "up")
    table = load_images(root)
    assert (table.class_names, table.labels.tolist(), shades(table)) == (("a", "b"), [0, 0, 1], [0, 1, 2])
    assert capsys.readouterr().err.endswith("they are left out (2): a/deep/up, b/up\n")


def test_links_at_the_top(tmp_path, capsys):
    for at, file in enumerate(["a/1.png", "b/1.png"]):
        put(tmp_path / file, at)
    links_to(tmp_path, tmp_path / "all")
    links_to(tmp_path / "b", tmp_path / "aa")  # a class by another name
    table = load_images(tmp_path)
    assert (table.class_names, shades(table)) == (("a", "b"), [0, 1])
    assert "(2): aa, all\n" in capsys.readouterr().err


def test_links_to_other_places_count(tmp_path, capsys):
    put(tmp_path / "elsewhere" / "x" / "1.png", 5)
    put(tmp_path / "root" / "b" / "1.png", 6)
    links_to(tmp_path / "elsewhere", tmp_path / "root" / "a")
    links_to(tmp_path / "root", tmp_path / "same")
    for root in (tmp_path / "root", tmp_path / "same"):
        assert shades(load_images(root)) == [5, 6]
    links_to(tmp_path / "root", tmp_path / "splits" / "train", tmp_path / "splits" / "test")  # the same for both
    assert len(load_images(tmp_path / "splits")) == 4
    assert capsys.readouterr().err == ""


def test_images_without_labels_and_a_loop(tmp_path, capsys):
    put(tmp_path / "1.png", 1)
    links_to(tmp_path, tmp_path / "up")
    table = load_images(tmp_path)
    assert (table.labels, shades(table)) == (None, [1])
    assert capsys.readouterr().err.endswith("(1): up\n")


# -------------------------------------------------------------------------------------------- files that are no images


def test_files_that_are_left_out(tmp_path, capsys):
    put(tmp_path / "a" / "1.png", 1)
    put(tmp_path / "b" / "1.png", 2)
    for file in (".DS_Store", "Thumbs.db", "desktop.ini", "._1.png"):
        (tmp_path / "a" / file).write_bytes(b"x")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x").write_bytes(b"")
    assert shades(load_images(tmp_path)) == [1, 2]
    assert capsys.readouterr().err == ""
    for file in ("b/x/d.avif", "a/b.HEIC", "a.heic", "a/noext"):
        put(tmp_path / file, 3)
    assert shades(load_images(tmp_path)) == [1, 2]
    line = "data has files that are no images lbhash reads; they are left out (4): a.heic, a/b.HEIC, a/noext, …\n"
    assert capsys.readouterr().err == line


def test_files_that_are_left_out_of_images_alone(tmp_path, capsys):
    put(tmp_path / "1.png", 1)
    put(tmp_path / "2.heic", 2)
    assert shades(load_images(tmp_path)) == [1]
    assert capsys.readouterr().err.endswith("(1): 2.heic\n")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads all folders")
def test_a_folder_that_cannot_be_read(tmp_path):
    put(tmp_path / "a" / "x" / "1.png", 1)
    put(tmp_path / "a" / "2.png", 1)
    (tmp_path / "a" / "x").chmod(0)
    try:
        with pytest.raises(PermissionError):
            load_images(tmp_path)
    finally:
        (tmp_path / "a" / "x").chmod(0o700)


# ------------------------------------------------------------------------------------------- objects beside their files


def turned(turn, kind="JPEG"):
    """An image of four corners whose EXIF asks for a turn, as a file."""
    four = np.array([[[250, 0, 0], [0, 250, 0]], [[0, 0, 250], [9, 9, 9]]], np.uint8)
    corners = Image.fromarray(four.repeat(8, axis=0).repeat(12, axis=1))
    exif = corners.getexif()
    exif[0x0112] = turn
    held = BytesIO()
    corners.save(held, kind, exif=exif)
    return held.getvalue()


def modes():
    """Small images in every mode of a file or of a program, as files."""
    rng = np.random.default_rng(0)
    color = Image.fromarray(rng.integers(0, 256, (6, 5, 4), np.uint8))
    deep = Image.fromarray(rng.integers(0, 65536, (6, 5)).astype(np.uint16))
    real = Image.fromarray(rng.normal(size=(6, 5)).astype(np.float32))
    files = {mode: (color.convert("RGB").convert(mode), "TIFF") for mode in ("1", "L", "P", "CMYK", "YCbCr", "RGB")}
    files |= {"LA": (color.convert("LA"), "PNG"), "RGBA": (color, "PNG"), "I;16": (deep, "PNG"), "F": (real, "TIFF")}
    files["I"] = Image.fromarray(rng.integers(-9, 70000, (6, 5)).astype(np.int32)), "TIFF"
    files["P of a GIF"] = color.convert("RGB").quantize(9), "GIF"
    return {name: stored(*one) for name, one in files.items()}


@pytest.mark.parametrize("mode", modes())
def test_a_pil_image_is_as_its_file(mode):
    file = modes()[mode]
    opened = Image.open(BytesIO(file))
    before = opened.mode, opened.size
    assert np.array_equal(as_image(opened), decode_image(file))
    assert (opened.mode, opened.size) == before


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("turn", range(1, 9))
def test_a_turned_pil_image_is_as_its_file(kind, turn):
    file = turned(turn, kind)
    opened = Image.open(BytesIO(file))
    found = as_image(opened)
    assert np.array_equal(found, decode_image(file))
    assert (found.width < found.height) == (turn > 4)
    assert kind == "TIFF" or opened.getexif()[0x0112] == turn  # Pillow itself turns a TIFF; others stay as they are
    assert np.array_equal(as_image(found), found)


def test_a_truncated_pil_image(tmp_path, monkeypatch):
    monkeypatch.setenv("LBHASH_CACHE", str(tmp_path / "cache"))
    file = turned(1)[:-40]
    for given in (Image.open(BytesIO(file)), file):
        with pytest.raises(ValueError, match=r"^image 1 is a damaged or truncated JPEG: "):
            as_image(given, "image 1")
    images, labels = stripes(8)
    hasher = Hasher(
        bits=8, epochs=1, backbone=write_backbone(tmp_path / "resnet"), training=TrainingArguments(workers=0)
    )
    with pytest.raises(ValueError, match=r"^image 3 is a damaged or truncated JPEG: .* \(1 of 8 images are damaged"):
        hasher.fit([*images[:3], Image.open(BytesIO(file)), *images[4:]], labels)


def test_fingerprints_of_pil_images():
    turns = [ListedImages([Image.open(BytesIO(turned(turn)))]).fingerprint() for turn in (1, 3)]
    palettes = []
    for color in (9, 200):
        indices = Image.new("P", (2, 2))
        indices.putpalette([color] * 768)
        palettes.append(ListedImages([indices]).fingerprint())
    assert turns[0] != turns[1]
    assert palettes[0] != palettes[1]


@pytest.mark.parametrize("size", [(0, 0), (0, 5), (5, 0)])
@pytest.mark.parametrize("mode", ["RGB", "L", "F"])
def test_an_image_without_pixels(size, mode):
    with pytest.raises(ValueError, match=r"^image has [05] × [05] pixels, none at all"):
        as_image(Image.new(mode, size))


@pytest.mark.parametrize("given", [None, 5, np.zeros((4, 4, 3), np.uint8), [1], object()])
def test_what_is_no_image(given):
    with pytest.raises(TypeError, match=r"^image 2 is of type .*; it must be a PIL image"):
        as_image(given, "image 2")


def test_columns_of_images(tmp_path, monkeypatch):
    pd = pytest.importorskip("pandas")
    monkeypatch.setenv("LBHASH_CACHE", str(tmp_path / "cache"))
    images, labels = stripes(8)
    files = []
    for at, image in enumerate(images):
        files.append(tmp_path / f"{at}.png")
        files[-1].write_bytes(stored(image))
    pictures = np.empty(8, object)
    pictures[:] = images
    texts = list(map(str, files))
    write_backbone(tmp_path / "resnet")

    def fitted(given):
        return Hasher(bits=8, epochs=1, backbone=tmp_path / "resnet").fit(given, labels)

    hasher = fitted(files)
    codes = hasher.encode(images)
    ways = files, texts, np.array(texts), np.array(texts, object), np.array(files, object), pd.Series(texts), pictures
    for given in ways:
        assert np.array_equal(hasher.encode(given), codes), type(given)
    for given in (np.array(files, object), pd.Series(texts)):
        assert np.array_equal(fitted(given).encode(images), codes), type(given)


TENSORS = {
    "bfloat16": lambda torch, x: x.bfloat16(),
    "with a gradient": lambda torch, x: x.requires_grad_(),
    "bfloat16 with a gradient": lambda torch, x: x.bfloat16().requires_grad_(),
    "8 bits": lambda torch, x: x.to(torch.float8_e4m3fn),
    "half": lambda torch, x: x.half(),
    "sparse": lambda torch, x: x.to_sparse(),
    "a view": lambda torch, x: x.T.contiguous().T,
    "a list of rows": lambda torch, x: list(x.bfloat16()),
    "on a GPU": lambda torch, x: x.cuda().bfloat16(),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_tensors(kind, tmp_path):
    torch = pytest.importorskip("torch")
    if "GPU" in kind and not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    X = torch.from_numpy(np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32).round(1))
    given = TENSORS[kind](torch, X)
    plain = (torch.stack(given) if isinstance(given, list) else given).detach().to_dense().cpu().float().numpy()
    hasher = Hasher(method="itq", bits=8).fit(given)
    codes = hasher.encode(plain)
    assert np.array_equal(Hasher(method="itq", bits=8).fit(plain).encode(plain), codes)
    assert np.array_equal(hasher.encode(given), codes)
    found, wanted = (evaluate_neighbors(codes, rows, codes, rows).as_dict() for rows in (given, plain))
    assert found == wanted


def test_tensors_of_codes():
    torch = pytest.importorskip("torch")
    signs = torch.from_numpy(np.sign(np.random.default_rng(0).normal(size=(20, 16))))
    labels = np.arange(20) % 3
    wanted = evaluate(pack(signs.numpy()), labels, pack(signs.numpy()), labels).map
    assert evaluate(signs.bfloat16(), labels, signs.bfloat16().requires_grad_(), labels).map == wanted
