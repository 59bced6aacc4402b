from __future__ import annotations

import io
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from app_answers import HOME, assert_refused, only, png, search
from lbhash import Hasher, TrainingArguments
from lbhash.codes.io import CodeTable
from lbhash.index.factory import build_index
from lbhash.service import Settings, background, create_app, engine
from lbhash.service.rows import ImageRows, Rows, open_rows

pytestmark = pytest.mark.usefixtures("quiet")
CLASSES = 3


class MeanColor:
    """A backbone whose embedding is the mean color, so that a test can tell it by hand."""

    def embed(self, images):
        return np.stack([np.asarray(image, np.float32).mean(axis=(0, 1)) for image in images])


@pytest.fixture(scope="module")
def images():
    """Forty-five plain images, of three classes by their color."""
    rng = np.random.default_rng(0)
    labels = np.arange(45) % CLASSES
    colors = 40 + 150 * np.eye(CLASSES)[labels] + rng.integers(0, 40, (45, 3))
    return labels, [np.full((20, 30, 3), color).astype(np.uint8) for color in colors.astype(int)]


def write(path, images, **columns):
    labels, arrays = images
    files = [{"bytes": png(array), "path": None} for array in arrays]
    pq.write_table(pa.table({"image": files, "label": labels, **columns}), path, row_group_size=7)
    return path


@pytest.fixture
def service(tmp_path, images, monkeypatch):
    """Settings of a service over a Parquet file of images, with a backbone."""
    labels, arrays = images
    write(tmp_path / "d.parquet", images)
    embeddings = MeanColor().embed(arrays)
    hasher = Hasher(8, epochs=3, training=TrainingArguments(hidden=0, batch_size=8, dropout=0.0)).fit(
        embeddings, labels
    )
    hasher.save_pretrained(tmp_path / "model")
    table = CodeTable(hasher.encode(embeddings), 8, np.arange(45), labels, hasher.model_.fingerprint())
    build_index(table, tmp_path / "index")
    monkeypatch.setattr(engine, "_backbone", lambda settings, _: MeanColor() if settings.backbone else None)
    return Settings(tmp_path / "model", tmp_path / "index", tmp_path / "d.parquet", "backbone", concurrency=1), hasher


def test_images_are_searched_by_the_backbone(service, images):
    settings, hasher = service
    labels, arrays = images
    with TestClient(create_app(settings), base_url=HOME) as client:
        info = client.get("/v1/info").json()
        assert (info["rows"], info["images"], info["takes_images"]) == (45, True, True)
        for row in (0, 20, 44):
            code = hasher.encode(MeanColor().embed([arrays[row]]))[0].tobytes().hex()
            by_row = only(search(client, row=row, k=3))
            by_image = only(client.post("/v1/search", files={"image": png(arrays[row])}, data={"k": "3"}))
            assert by_row["query"]["code"] == by_image["query"]["code"] == code
            assert by_row["query"]["label"] == labels[row]
            assert by_row["neighbors"] == by_image["neighbors"]
            answer = client.get(f"/page/rows/{row}/image")
            assert answer.headers["content-type"] == "image/webp"
            shown = np.asarray(Image.open(io.BytesIO(answer.content)))
            assert shown.shape == arrays[row].shape
            np.testing.assert_allclose(shown, arrays[row], atol=6)
        notes, served = [], client.app.state.service.engine
        assert background._evidence(served, served.index, notes).query_codes is None
        assert len(notes) == 1
        assert notes[0].startswith("no mAP:")


def test_without_the_backbone_images_are_only_shown(service):
    settings, _ = service
    bare = Settings(settings.model, settings.index, settings.data)
    with TestClient(create_app(bare), base_url=HOME) as client:
        assert client.get("/v1/info").json()["takes_images"] is False
        assert client.get("/page/rows/1/image").status_code == 200
        assert_refused(search(client, row=1), 422, "no backbone")


def test_a_folder_of_class_folders_is_served(service, images, tmp_path):
    settings, hasher = service
    folder, names, order = tmp_path / "pictures", ("bird", "cat", "dog"), np.argsort(images[0], kind="stable")
    for row in order:
        file = folder / names[images[0][row]] / f"{row:02}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(png(images[1][row]))
    labels, arrays = images[0][order], [images[1][row] for row in order]
    codes = hasher.encode(MeanColor().embed(arrays))
    facts = {"model": hasher.model_.fingerprint(), "class_names": names}
    build_index(CodeTable(codes, 8, np.arange(45), labels, **facts), tmp_path / "named")
    (tmp_path / "secret.png").write_bytes(png(arrays[0]))
    (folder / "dog" / "zz.png").symlink_to(tmp_path / "secret.png")
    served = Settings(settings.model, tmp_path / "named", folder, "backbone", concurrency=1)
    with TestClient(create_app(served), base_url=HOME) as client:
        info = client.get("/v1/info").json()
        assert (info["rows"], info["images"]) == (46, True)
        found = only(search(client, row=20, k=45, where="label=bird"))
        assert found["query"]["label"] == "cat"
        assert {(one["metadata"]["label"], one["id"] < 15) for one in found["neighbors"]} == {("bird", True)}
        for row in (0, 20, 44):
            shown = np.asarray(Image.open(io.BytesIO(client.get(f"/page/rows/{row}/image").content)))
            np.testing.assert_allclose(shown, arrays[row], atol=6)
        (folder / "cat" / f"{order[20]:02}.png").unlink()
        for row in (20, 45):  # which is gone, and which leads out of the folder
            assert_refused(client.get(f"/page/rows/{row}/image"), 404, f"row {row} has no image")
            assert_refused(search(client, row=row), 422, f"row {row} has no image")


def test_embeddings_beside_the_images_are_used(tmp_path, images):
    embeddings = np.arange(135, dtype=np.float32).reshape(45, 3)
    rows = open_rows(write(tmp_path / "d.parquet", images, embedding=embeddings.tolist()))
    assert isinstance(rows, ImageRows)
    np.testing.assert_array_equal(rows.embeddings[44], embeddings[44])
    np.testing.assert_array_equal(rows.labels, images[0])
    assert len(rows) == 45
    for row in (44, 0, 6, 7, 13, 14):
        np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(rows.image(row)))), images[1][row])


def test_threads_read_rows_in_any_order(tmp_path, images):
    rows = open_rows(write(tmp_path / "d.parquet", images))
    order = np.random.default_rng(0).permutation(np.tile(np.arange(45), 4)).tolist()
    with ThreadPoolExecutor(4) as pool:
        files = list(pool.map(rows.image, order))
    assert files == [png(images[1][row]) for row in order]


def test_images_by_path_are_beside_the_file_or_below(tmp_path):
    inside = tmp_path / "data"
    (inside / "images").mkdir(parents=True)
    (inside / "images" / "a.png").write_bytes(b"a")
    (tmp_path / "secret.png").write_bytes(b"secret")
    (inside / "link.png").symlink_to(tmp_path / "secret.png")
    paths = ["images/a.png", "../secret.png", str(tmp_path / "secret.png"), "link.png", "images/none.png", "", None]
    table = pa.table({"image": [{"bytes": None, "path": path} for path in paths]})
    pq.write_table(table, inside / "d.parquet")
    rows = open_rows(inside / "d.parquet")
    assert [rows.image(row) for row in range(len(paths))] == [b"a", *[None] * 6]
    assert rows.labels is None


def test_a_binary_column_and_a_damaged_image(tmp_path, digits_service):
    pq.write_table(pa.table({"image": [png(np.zeros((4, 4))), b"damaged", None]}), tmp_path / "d.parquet")
    settings = Settings(digits_service.model, digits_service.index, tmp_path / "d.parquet")
    with TestClient(create_app(settings), base_url=HOME) as client:
        assert client.get("/page/rows/0/image").status_code == 200
        assert_refused(client.get("/page/rows/1/image"), 422, "must be an image")
        assert_refused(client.get("/page/rows/2/image"), 404, "no image")


def test_data_that_cannot_be(tmp_path, digits_service, write_parquet):
    (tmp_path / "d.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ValueError, match="which is damaged or"):
        open_rows(tmp_path / "d.parquet")
    narrow = write_parquet(tmp_path / "n.parquet", np.zeros((5, 7), np.float32))
    assert type(open_rows(narrow)) is Rows
    with pytest.raises(ValueError, match="embeddings have 7 numbers; the model takes 64"):
        create_app(Settings(digits_service.model, digits_service.index, narrow))


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_data_that_shrink_while_they_are_served(tmp_path, digits_service, images, suffix):
    file = tmp_path / f"d{suffix}"
    if suffix == ".npy":
        np.save(file, np.random.default_rng(0).normal(size=(90, 64)).astype(np.float32))
    else:
        write(file, images)
    settings = Settings(digits_service.model, digits_service.index, file)
    with TestClient(create_app(settings), base_url=HOME) as client:

        def ask(row):
            return search(client, row=row) if suffix == ".npy" else client.get(f"/page/rows/{row}/image")

        assert ask(0).status_code == 200
        os.truncate(file, 200)
        assert_refused(ask(44), 503, "which changed while it was read")
        assert client.get("/health").status_code == 200
