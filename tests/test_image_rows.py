"""Images as rows to learn from: read in any order, augmented, by any number of processes, and checked before."""

from __future__ import annotations

import multiprocessing
import pickle
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from image_tools import SIDE, stored, stripes, write_backbone, write_stripes
from lbhash.data.images import ImageSplit, ImageTable, ListedImages, load_images
from lbhash.data.reading_ahead import ReadAhead
from lbhash.models.backbone import Backbone
from lbhash.training import TrainingRows
from lbhash.training.batches import labels_of
from lbhash.training.images import Augmentation, ImageRows, augmentation_numbers, check_images, resized

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def backbone(tmp_path_factory):
    return Backbone.from_pretrained(write_backbone(tmp_path_factory.mktemp("backbone")))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LBHASH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def parquet(tmp_path):
    """24 images in six row groups, two of them in files beside."""
    images, labels = stripes(24)
    rows = [{"bytes": stored(image), "path": None} for image in images]
    for at in (3, 17):
        (tmp_path / f"{at}.png").write_bytes(rows[at]["bytes"])
        rows[at] = {"bytes": None, "path": f"{at}.png"}
    pq.write_table(pa.table({"image": rows, "label": labels}), tmp_path / "images.parquet", row_group_size=4)
    return load_images(tmp_path / "images.parquet")


def part_of(table, rows=None):
    rows = np.arange(len(table)) if rows is None else rows
    return ImageSplit(table, rows, table.labels[rows])


def pixels_of(images):
    return [np.asarray(image) for image in images]


def test_images_in_any_order(parquet, monkeypatch):
    rows = np.array([21, 3, 8, 17, 0])
    expected = pixels_of(parquet.store.read(int(row)) for row in rows)
    spooled = parquet.store.in_any_order(rows)
    monkeypatch.setattr(type(parquet.store), "stored", lambda *_: pytest.fail("the file was read again"))
    for _ in range(2):
        np.testing.assert_array_equal(pixels_of(spooled.read(int(row)) for row in rows), expected)
    assert len(spooled) == 24
    assert spooled.where(3) == "image 3 of images.parquet"
    assert spooled.fingerprint() == parquet.store.fingerprint()
    with pytest.raises(ValueError, match=r"^image 4 of images.parquet is not among the 5 images that were asked"):
        spooled.read(4)


def test_spooled_images_leave_no_file(parquet, tmp_path, monkeypatch):
    (tmp_path / "spool").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "spool"))
    spooled = parquet.store.in_any_order(np.arange(24))
    assert list((tmp_path / "spool").iterdir()) == []
    monkeypatch.undo()
    copied = pickle.loads(pickle.dumps(spooled))
    np.testing.assert_array_equal(pixels_of([copied.read(9)]), pixels_of([parquet.store.read(9)]))


def test_images_that_a_program_holds(tmp_path):
    images, _ = stripes(3)
    held = ListedImages([images[0], stored(images[1]), images[2].convert("L")])
    np.testing.assert_array_equal(pixels_of([held.read(0), held.read(1)]), pixels_of(images[:2]))
    assert held.read(2).mode == "RGB"
    assert held.in_order() is held.in_any_order(np.arange(3)) is held
    known = held.fingerprint()
    assert ListedImages(list(held.images)).fingerprint() == known
    others = [[*held.images[:2], images[2]], held.images[::-1], held.images[:2]]
    assert len({ListedImages(other).fingerprint() for other in others} | {known}) == 4
    file = tmp_path / "1.png"
    for image in images[:2]:
        image.save(file)
        listed = ListedImages([str(file)])
        np.testing.assert_array_equal(pixels_of([listed.read(0)]), pixels_of([image]))
        assert listed.fingerprint() != known
        known = listed.fingerprint()
    for image, kind, said in (
        (b"junk", ValueError, "^image 0 is not an image"),
        (5, TypeError, "^image 0 is of type int"),
        ("a.jpg", ValueError, "^image 'a.jpg' cannot be read: No such file"),
    ):
        with pytest.raises(kind, match=said):
            ListedImages([image]).read(0)


def test_a_split_of_images(tmp_path):
    table = load_images(write_stripes(tmp_path / "images", 48))
    dataset = table.dataset(seed=3)
    assert (dataset.name, dataset.protocol, dataset.classes, dataset.multi_label) == ("images", "holdout", 4, False)
    rows = np.sort(np.concatenate([dataset.train.rows, dataset.base.rows, dataset.query.rows]))
    assert rows.tolist() == list(range(48))
    np.testing.assert_array_equal(dataset.train.labels, table.labels[dataset.train.rows])
    some = dataset.train.where(dataset.train.labels != 1)
    compact, classes = some.compact()
    assert classes.tolist() == [0, 2, 3]
    np.testing.assert_array_equal(classes[compact.labels], some.labels)
    parts = [some, compact, replace(some, rows=some.rows[::-1]), replace(some, labels=None)]
    assert len({part.fingerprint() for part in parts}) == 4
    assert len(replace(some, labels=None).where(np.arange(len(some)) < 2)) == 2
    with pytest.raises(ValueError, match=r"^the query split of images has no row"):
        replace(table, flags={"train": table.labels < 9, "base": table.labels < 9, "query": table.labels > 9}).dataset()


def test_images_become_embeddings(backbone, parquet):
    split = part_of(parquet, np.arange(24)[::-3])
    embedded = split.embedded(backbone)
    expected = backbone.embed([parquet.store.read(int(row)) for row in split.rows])
    np.testing.assert_allclose(embedded.embeddings, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(embedded.labels, split.labels)
    assert (split.needs_backbone, embedded.needs_backbone) == (True, False)
    assert split.input_dim(backbone) == embedded.dim == backbone.dim
    assert [len(chunk) for chunk in split.chunks(backbone, size=3)] == [3, 3, 2]
    assert len(split.where(np.zeros(8, bool)).embedded(backbone)) == 0


def test_rows_that_validate_are_preprocessed(backbone):
    images, labels = stripes(6)
    rows = ImageRows(part_of(ImageTable(ListedImages(images), labels, "p")), backbone)
    assert isinstance(rows, TrainingRows)
    made = rows.inputs(np.array([4, 1]), 3)
    assert (made.dtype, made.shape, len(rows)) == (torch.float32, (2, 3, SIDE, SIDE), 6)
    expected = backbone.processor([images[4], images[1]], return_tensors="pt")["pixel_values"]
    torch.testing.assert_close(made, expected, rtol=0, atol=0)
    torch.testing.assert_close(rows.inputs(np.array([4, 1]), 0), made, rtol=0, atol=0)
    made = labels_of(rows)
    assert (made.dtype, made.tolist()) == (torch.int64, labels.tolist())
    hot = labels_of(ImageRows(replace(rows.split, labels=np.eye(4, dtype=np.uint8)[labels]), backbone))
    assert (hot.dtype, hot.shape) == (torch.float32, (6, 4))
    with pytest.raises(ValueError, match=r"^split has no labels; training needs one for each row"):
        labels_of(ImageRows(replace(rows.split, labels=None), backbone))


def test_augmented_rows(backbone):
    """The slow way: each image by itself, and then the preprocessing without its scaling."""
    images, labels = stripes(20)
    table = ImageTable(ListedImages(images), labels, "p")
    chosen = np.array([2, 5, 7, 11, 13])
    augmentation = Augmentation()
    rows = ImageRows(part_of(table, chosen), backbone, augmentation=augmentation, seed=9)
    for epoch in range(3):
        made = rows.inputs(np.array([3, 0]), epoch)
        assert made.is_contiguous(memory_format=torch.channels_last)
        changed = [
            augmentation.apply(images[row], (SIDE, SIDE), augmentation_numbers(9, epoch, row), 2) for row in (11, 2)
        ]
        expected = backbone.processor(changed, do_resize=False, return_tensors="pt")["pixel_values"]
        torch.testing.assert_close(made, expected, rtol=0, atol=0)


def test_processes_that_read_make_no_difference(backbone, parquet):
    rows = ImageRows(part_of(parquet), backbone, augmentation=Augmentation())
    batches = [np.array([20, 3, 7]), np.array([1]), np.array([17, 0, 23, 2])]

    class Asked:
        def __getitem__(self, index):
            return rows.inputs(index, 2)

    read = [list(ReadAhead(Asked(), batches, number)) for number in (0, 2)]
    for here, there in zip(*read, strict=True):
        torch.testing.assert_close(here, there, rtol=0, atol=0)
        assert there.is_contiguous(memory_format=torch.channels_last)


class Halves:
    def __getitem__(self, rows):
        if len(rows) > 2:
            raise ValueError(f"row {rows[2]} is damaged")
        return torch.from_numpy(rows / 2), len(rows)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_of_a_reading_process_is_one_line(workers):
    read = ReadAhead(Halves(), [np.array([4, 5]), np.array([7, 8, 9]), np.array([])], workers)
    found = iter(read)
    assert next(found)[0].tolist() == [2.0, 2.5]
    with pytest.raises(ValueError, match=r"^row 9 is damaged$"):
        next(found)


@pytest.mark.end_to_end
def test_full_shared_memory_is_one_line(monkeypatch):
    def full(tensor):
        raise RuntimeError("unable to allocate shared memory(shm)")

    monkeypatch.setattr(torch.Tensor, "share_memory_", full)
    with pytest.raises(ValueError, match=r"^workers is 1, and the memory that they share \(/dev/shm\) is full; .*"):
        list(ReadAhead(Halves(), [np.array([4, 5])], 1))
    assert len(list(ReadAhead(Halves(), [np.array([4, 5])], 0))) == 1


def test_processes_that_cannot_start_are_one_line(monkeypatch):
    def fork(_):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(multiprocessing.Process, "start", fork)
    with pytest.raises(
        ValueError, match=r"^workers is 2, whose processes cannot start: .*unavailable; take fewer, or 0$"
    ):
        list(ReadAhead(Halves(), [np.array([4, 5])], 2))


def test_the_fingerprint_of_rows(backbone, parquet):
    part = part_of(parquet)
    known = ImageRows(part, backbone, augmentation=Augmentation(), seed=1).fingerprint()
    assert ImageRows(part_of(parquet), backbone, augmentation=Augmentation(), seed=1).fingerprint() == known
    others = [
        ImageRows(part, backbone, augmentation=Augmentation(flip=0.4), seed=1),
        ImageRows(part, backbone, augmentation=Augmentation(), seed=2),
        ImageRows(part, backbone, seed=1),
        ImageRows(part, resized(backbone, 24), augmentation=Augmentation(), seed=1),
        ImageRows(part.where(part.labels > 0), backbone, augmentation=Augmentation(), seed=1),
    ]
    assert len({rows.fingerprint() for rows in others} | {known}) == 6


@pytest.mark.parametrize(("limit", "reads"), [(1 << 20, 5), (3 * SIDE * SIDE * 3, 10)])
def test_small_splits_are_decoded_once(backbone, monkeypatch, limit, reads):
    """Of a split that grows larger than the limit nothing is held any more."""
    import lbhash.training.images.dataset

    monkeypatch.setattr(lbhash.training.images.dataset, "CACHED_BYTES", limit)
    images, labels = stripes(5)
    table = ImageTable(ListedImages(images), labels, "p")
    seen = []
    read = ListedImages.read
    monkeypatch.setattr(ListedImages, "read", lambda self, row: seen.append(row) or read(self, row))
    rows = ImageRows(part_of(table), backbone, augmentation=Augmentation())
    first = [rows.inputs(np.arange(5), epoch) for epoch in range(2)]
    assert len(seen) == reads
    fresh = ImageRows(part_of(table), backbone, augmentation=Augmentation())
    torch.testing.assert_close(first[1], fresh.inputs(np.arange(5), 1), rtol=0, atol=0)


@pytest.fixture
def folder(tmp_path, cache):
    return write_stripes(tmp_path / "images", 24)


@pytest.mark.end_to_end
def test_missing_images_are_named_first(folder, monkeypatch):
    table = load_images(folder)
    assert len(check_images(table).split()) == 24
    with monkeypatch.context() as patched:
        patched.setattr("lbhash.data.images.stores.as_image", lambda *_, **__: pytest.fail("decoded again"))
        moved = shutil.copytree(folder, folder.parent / "moved")  # which keeps the times of change
        assert len(check_images(load_images(moved)).split()) == 24
    (folder / "class1" / "005.png").unlink()
    (folder / "class1" / "001.png").write_bytes(b"junk")
    with monkeypatch.context() as patched:
        patched.setattr("lbhash.data.images.corrupt.find_unreadable", lambda *_, **__: pytest.fail("looked for more"))
        with pytest.raises(ValueError, match=r"^image 'class1/005.png' is missing \(1 of 24 are\); mend or remove"):
            check_images(table)
    assert len(check_images(table, damaged="skip").split()) == 22
    for file in folder.rglob("*.png"):
        file.write_bytes(b"junk")
    with pytest.raises(ValueError, match=r"^no image of images could be read: image 'class0/000.png' is not an image"):
        check_images(load_images(folder), damaged="skip")
