"""What the service and its page show of items that came after the index was built: their own, or nothing."""

from __future__ import annotations

import io
import json
import shutil

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from app_answers import HOME, assert_refused, only, search
from app_service import until
from image_tools import stored, write_small_resnet
from lbhash import Hasher
from lbhash.index import Index
from lbhash.pipeline import index as indexes
from lbhash.service import Settings, create_app

pytest.importorskip("transformers")
pytestmark = [pytest.mark.usefixtures("quiet"), pytest.mark.end_to_end]

FIRST, SECOND = 24, 6


def color(at):
    """The color of a picture, which tells it from all others; its class is by what there is most of."""
    return (250, 8 * at, 20) if at % 2 else (20, 8 * at, 250)


def picture(at):
    return stored(Image.new("RGB", (24, 16), color(at)))


def write_pictures(folder, numbers):
    """Pictures of two classes, whose files have the same names in every folder."""
    for place, at in enumerate(numbers):
        file = folder / ("red" if at % 2 else "blue") / f"{place:02}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(picture(at))
    return folder


def in_order(numbers):
    """The same numbers as rows are counted: by class, then by name."""
    return sorted(numbers, key=lambda at: at % 2)


@pytest.fixture(scope="module")
def day(tmp_path_factory):
    """Two folders of pictures, and a model that embeds and hashes them."""
    from lbhash.models.backbone import Backbone

    folder = tmp_path_factory.mktemp("day")
    write_pictures(folder / "first", range(FIRST))
    write_pictures(folder / "second", range(FIRST, FIRST + SECOND))
    backbone = Backbone.from_pretrained(write_small_resnet(folder / "backbone"))
    x = backbone.embed([Image.new("RGB", (24, 16), color(at)) for at in range(FIRST)])
    hasher = Hasher(8, method="itq").fit(x)
    hasher.model_.metadata["backbone"] = {
        "name": str(folder / "backbone"),
        "fingerprint": backbone.fingerprint(),
        "dim": backbone.dim,
    }
    hasher.save_pretrained(folder / "model")
    return folder


def build(day, out, **options):
    """An index of the first folder, and what of the second one is added to it."""
    shared = {"model": day / "model", "id_column": "next", **options}
    indexes.build(str(out), data=day / "first", **shared)
    assert indexes.add(Index.open(out, "a"), data=day / "second", **shared)["added"] == SECOND
    return Settings(day / "model", out, day / "first", writable=True, concurrency=1)


def test_each_card_shows_its_own_photo(browser, serving, day, tmp_path):
    settings = build(day, tmp_path / "i", metadata=("thumbnail", "path"))
    colors = dict(enumerate([*in_order(range(FIRST)), *in_order(range(FIRST, FIRST + SECOND))]))
    with serving(settings) as address:
        sent = {"files": {"image": picture(30)}, "data": {"metadata": json.dumps({"label": ["blue"]})}}
        (new,) = httpx.post(f"{address}/v1/items", **sent).json()["ids"]
        colors[new] = 30
        browser.get("about:blank")
        browser.get_log("browser")
        browser.get(f"{address}/#id={new}&k=31")
        until(browser, f"document.querySelectorAll('.card img').length == {len(colors)}")
        loaded = "every((image) => (image.loading = 'eager', image.naturalWidth))"
        until(browser, f"[...document.querySelectorAll('.card img, #asked img')].{loaded}")
        shown = browser.execute_script(
            """const pixel = (image) => {
                const canvas = Object.assign(document.createElement("canvas"), {width: 24, height: 16});
                canvas.getContext("2d").drawImage(image, 0, 0);
                return [...canvas.getContext("2d").getImageData(12, 8, 1, 1).data].slice(0, 3);
            };
            return [...document.querySelectorAll(".card, #asked")].map((card) => [
                card.querySelector(".row-of, #asked-name").textContent.split(" ")[1],
                pixel(card.querySelector("img"))])"""
        )
        assert [name for name, _ in shown].count(str(new)) == 2  # the query and the nearest card
        assert {int(name) for name, _ in shown} == set(colors)
        for name, seen in shown:
            np.testing.assert_allclose(seen, color(colors[int(name)]), atol=3, err_msg=name)
        browser.get("about:blank")
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_without_thumbnails_what_came_later_shows_nothing(day, tmp_path, capsys):
    settings = build(day, tmp_path / "i")
    assert "the page shows no images of what is added" in capsys.readouterr().err
    with TestClient(create_app(settings), base_url=HOME) as client:
        items = only(search(client, item=0, k=1000))["neighbors"]
        assert {one["id"]: one["image"] for one in items} == {at: at < FIRST for at in range(FIRST + SECOND)}
        for at, number in enumerate(in_order(range(FIRST))):
            shown = Image.open(io.BytesIO(client.get(f"/v1/items/{at}/image").content)).getpixel((12, 8))
            np.testing.assert_allclose(shown, color(number), atol=3)
        assert_refused(client.get(f"/v1/items/{FIRST}/image"), 404, "has no row in the data, and so no image")
        put = client.put("/v1/items", files={"image": picture(30)}, data={"ids": "[3]"})
        assert put.status_code == 200, put.text
        (item,) = client.post("/v1/items/get", json={"ids": [3]}).json()["items"]
        assert (item["image"], item["metadata"]) == (False, {"row": None, "label": None})
        assert client.get("/v1/items/4/image").headers["cache-control"] == "no-cache"


def test_data_that_have_changed_are_told_and_show_nothing(day, tmp_path, caplog):
    settings = build(day, tmp_path / "i")
    shutil.copytree(day / "first", tmp_path / "copy")
    for change in (False, True):
        if change:
            (tmp_path / "copy" / "blue" / "00a.png").write_bytes(picture(31))  # all rows after it are one more
        served = Settings(settings.model, settings.index, tmp_path / "copy")
        with TestClient(create_app(served), base_url=HOME) as client:
            (item,) = client.post("/v1/items/get", json={"ids": [5]}).json()["items"]
            assert item["image"] == (not change)
            assert ("or which has changed since" in caplog.text) == change


def test_rows_of_another_file_are_not_those_of_the_index(write_parquet, tmp_path, blobs):
    files = [write_parquet(tmp_path / f"{name}.parquet", blobs.x[at : at + 40]) for name, at in (("a", 0), ("b", 40))]
    Hasher(8, method="itq").fit(blobs.x).save_pretrained(tmp_path / "model")
    given = {"model": tmp_path / "model", "id_column": "next"}
    indexes.build(str(tmp_path / "i"), data=files[0], **given)
    for file in (files[1], shutil.copy(files[0], tmp_path / "c.parquet")):
        indexes.add(Index.open(tmp_path / "i", "a"), data=file, **given)
    rows = Index.open(tmp_path / "i").metadata_of(range(120))["row"].to_pylist()
    assert rows == [*range(40), *[None] * 40, *range(40)]


def test_thumbnails_of_a_program_are_never_in_an_answer(digits_service, tmp_path):
    index = Index(16, model=Hasher.from_pretrained(digits_service.model).model_.fingerprint())
    index.add(np.zeros((2, 2), np.uint8), ["a/1", "b"], {"thumbnail": [picture(3), None]})
    index.save(tmp_path / "i")
    with TestClient(create_app(Settings(digits_service.model, tmp_path / "i", writable=True)), base_url=HOME) as client:
        found = {one["id"]: one for one in only(search(client, code="0000"))["neighbors"]}
        assert [found[name]["metadata"] for name in ("a/1", "b")] == [{"thumbnail": True}, {"thumbnail": False}]
        assert [found[name]["image"] for name in ("a/1", "b")] == [True, False]
        assert client.get("/v1/items/a%2F1/image").headers["content-type"] == "image/webp"
        assert_refused(client.get("/v1/items/b/image"), 404, "no image")
        sent = {"embeddings": [[0.0] * 64], "ids": ["c"], "metadata": {"thumbnail": ["00"]}}
        assert_refused(
            client.post("/v1/items", json=sent), 422, "metadata.thumbnail is given, and the service makes it"
        )


def test_an_image_that_is_added_has_its_vectors_stored(day, tmp_path):
    given = {"model": day / "model", "vectors": "embeddings"}
    indexes.build(str(tmp_path / "i"), data=day / "first", **given)
    with TestClient(create_app(Settings(day / "model", tmp_path / "i", writable=True)), base_url=HOME) as client:
        (name,) = client.post("/v1/items", files={"image": picture(30)}).json()["ids"]
        asked = client.post("/v1/encode", json={"queries": [{"id": name}], "embeddings": True})
        of_file = client.post("/v1/encode", files={"image": picture(30)}, data={"embeddings": "true"})
        (kept,), (made,) = asked.json()["answers"], of_file.json()["answers"]
        assert kept["code"] == made["code"]
        np.testing.assert_allclose(kept["embedding"], made["embedding"], rtol=1e-3, atol=1e-3)


def test_thumbnails_of_a_table_go_with_its_columns_and_through_a_file_of_codes(day, tmp_path, succeed):
    files = [{"bytes": picture(at), "path": None} for at in range(8)]
    pq.write_table(pa.table({"image": files, "price": range(8)}), tmp_path / "d.parquet", row_group_size=3)
    given = ("--model", day / "model", "--metadata", "price,thumbnail")
    succeed("encode", tmp_path / "d.parquet", *given, "--out", tmp_path / "codes.parquet")
    succeed("index", "build", "--codes", tmp_path / "codes.parquet", "--out", tmp_path / "i")
    with TestClient(create_app(Settings(day / "model", tmp_path / "i")), base_url=HOME) as client:
        for at in range(8):
            shown = Image.open(io.BytesIO(client.get(f"/v1/items/{at}/image").content)).getpixel((12, 8))
            np.testing.assert_allclose(shown, color(at), atol=3)
        (item,) = client.post("/v1/items/get", json={"ids": [5]}).json()["items"]
        assert item["metadata"] == {"row": 5, "price": 5, "thumbnail": True}
