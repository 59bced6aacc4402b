"""Changes of the index by requests."""

from __future__ import annotations

import base64
import datetime
import errno
import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pytest
from fastapi.testclient import TestClient

from app_answers import HOME, assert_refused, only, png, search
from lbhash import Hasher
from lbhash.codes.io import CodeTable
from lbhash.data import load_table
from lbhash.index import Index, store
from lbhash.index.factory import build_index
from lbhash.service import Settings, create_app

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture
def settings(tmp_path, digits_service, monkeypatch):
    """The settings of a service over a copy of the index, which requests may change."""
    shutil.copytree(digits_service.index, tmp_path / "i")
    monkeypatch.setattr("lbhash.service.state.RELOAD_SECONDS", 0.05)
    return replace(digits_service, index=tmp_path / "i", writable=True)


@pytest.fixture
def client(settings):
    with TestClient(create_app(settings), base_url=HOME) as client:
        yield client


@pytest.fixture(scope="module")
def rows():
    return load_table("digits").embeddings.astype(np.float64).tolist()


def sent(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()


def add(client, **body):
    return sent(client.post("/v1/items", json=body))


def delete(client, *ids):
    return sent(client.post("/v1/items/delete", json={"ids": ids}))


def get(client, *ids):
    return sent(client.post("/v1/items/get", json={"ids": ids}))["items"]


def nearest(client, embedding, k=1, **options):
    return only(search(client, embedding=embedding, k=k, **options))["neighbors"]


def test_what_is_added_is_found_at_once_and_gone_once_it_is_deleted(client, settings, rows):
    before = Index.open(settings.index, mode="a")
    added = add(client, embeddings=rows[:2], metadata={"label": [7, 8]})
    first = before.state.next_id
    assert added == {"ids": [first, first + 1], "codes": len(before) + 2, "generation": before.generation + 1}
    found = {one["id"]: one for one in nearest(client, rows[0], 1000, radius=0)}
    assert found[first]["metadata"] == {"row": None, "label": 7}
    assert get(client, first)[0].items() <= found[first].items()
    stored = Index.open(settings.index, mode="a")  # what the command would see
    stored.verify()
    assert stored.codes_of([first])[0].tobytes().hex() == only(search(client, row=0))["query"]["code"]
    assert delete(client, first + 1, first)["codes"] == len(before)
    assert first not in {one["id"] for one in nearest(client, rows[0], 1000, radius=0)}
    health = client.get("/health").json()
    assert (health["codes"], health["generation"]) == (len(before), before.generation + 2)
    assert Index.open(settings.index, mode="a").ids().tolist() == before.ids().tolist()


def test_a_put_adds_and_replaces(client, settings, rows):
    before = Index.open(settings.index, mode="a")
    body = {"embeddings": rows[:2], "ids": [3, 9000], "metadata": {"label": [7, 8]}}
    for change in (1, 2):  # repeating it is safe
        changed = sent(client.put("/v1/items", json=body))
        assert changed == {"ids": [3, 9000], "codes": len(before) + 1, "generation": before.generation + change}
        codes = Hasher.from_pretrained(settings.model).encode(np.array(rows[:2], np.float32))
        assert get(client, 9000, 3) == [
            {
                "id": name,
                "code": code.tobytes().hex(),
                "label": label,
                "metadata": {"row": None, "label": label},
                "image": False,
            }
            for name, code, label in ((9000, codes[1], 8), (3, codes[0], 7))
        ]


def test_a_put_that_is_refused_loses_nothing(client, settings, rows):
    before, held = client.get("/health").json(), get(client, 3)
    body = {"embeddings": rows[:1], "ids": [3]}
    assert_refused(client.put("/v1/items", json=body | {"metadata": {"label": ["seven"]}}), 422, "holds int64")
    assert (client.get("/health").json(), get(client, 3)) == (before, held)
    assert sent(client.put("/v1/items", json=body | {"metadata": {"label": [None]}}))["codes"] == before["codes"]
    assert get(client, 3)[0]["metadata"] == {"row": None, "label": None}


@pytest.fixture
def shop(digits_service, tmp_path):
    """A service over an index with a column of each type that people have."""
    columns = {
        "name": ["a", "b"],
        "in_stock": ["yes", "no"],
        "count": [1, 2],
        "price": [0.5, 1.5],
        "new": [True, False],
        "tags": [["x"], ["y", "z"]],
        "since": [datetime.date(2024, 1, 2), None],
        "kind": pa.array(["k", "l"]).dictionary_encode(),
        "weight": pa.array([0.5, 0.1], pa.float32()),
        "cost": [Decimal("1.10"), None],
    }
    model = Hasher.from_pretrained(digits_service.model).model_.fingerprint()
    table = CodeTable(np.zeros((2, 2), np.uint8), 16, np.arange(2), None, model)
    build_index(table, tmp_path / "shop", ids=["99121", "99122"], metadata=columns)
    settings = Settings(digits_service.model, tmp_path / "shop", writable=True)
    with TestClient(create_app(settings), base_url=HOME) as client:
        yield client


def test_types_are_those_of_the_columns(shop, rows):
    def post(**metadata):
        return shop.post("/v1/items", json={"embeddings": rows[:1], "ids": [99123], "metadata": metadata})

    for name, wrong, kind in (
        ("in_stock", True, "string"),
        ("in_stock", 1.5, "string"),
        ("kind", [1], "dictionary"),
        ("count", 1.5, "int64"),
        ("count", "1", "int64"),
        ("count", True, "int64"),
        ("price", "0.5", "double"),
        ("price", 2**53 + 1, "double"),
        ("new", 1, "bool"),
        ("new", "true", "bool"),
        ("tags", "x", "list"),
        ("tags", [True], "list"),
        ("since", 19724, "date32"),
        ("since", "soon", "date32"),
        ("since", "2024-01-02 10:00", "date32"),
        ("weight", 16777217, "float"),
        ("weight", 1e-46, "float"),
        ("weight", 1e300, "float"),
        ("cost", 1.239, "decimal128(3, 2)"),
        ("cost", "1.239", "decimal128(3, 2)"),
    ):
        said = f"metadata.{name}.0 is {json.dumps(wrong)}; the column holds {kind}"
        assert_refused(post(**{name: [wrong]}), 422, said)
    for price in (10**400, [[None]]):
        must = "must be a text, a number of 64 bits, true or false, or a list of at most 1,000 of these, or null"
        assert_refused(post(price=[price]), 422, "metadata.price.0", must)
    assert sent(post(in_stock=[12], count=[3.0], tags=[["x", 7]], since=["2024-05-06"], kind=["new"], name=[None]))
    assert sent(shop.put("/v1/items", json={"embeddings": rows[:1], "ids": ["5"], "metadata": {"cost": ["1.1"]}}))
    assert [one["metadata"]["cost"] for one in get(shop, "5")] == ["1.10"]
    (item,) = get(shop, 99123)
    assert item["id"] == "99123"
    given = {"in_stock": "12", "count": 3, "tags": ["x", "7"], "since": "2024-05-06", "kind": "new"}
    assert item["metadata"] == dict.fromkeys(("name", "price", "new", "weight", "cost")) | given


def test_large_integers_are_kept_or_refused(digits_service, tmp_path):
    large = 2**63 + 1
    columns = {
        "number": pa.array([large, 0], pa.uint64()),
        "amount": pa.array([Decimal(large), None], pa.decimal128(30)),
        "numbers": pa.array([[large], []], pa.list_(pa.uint64())),
    }
    model = Hasher.from_pretrained(digits_service.model).model_.fingerprint()
    table = CodeTable(np.zeros((2, 2), np.uint8), 16, np.arange(2), None, model)
    build_index(table, tmp_path / "i", metadata=columns)
    with TestClient(create_app(Settings(digits_service.model, tmp_path / "i", writable=True)), base_url=HOME) as client:

        def put(**metadata):
            return client.put("/v1/items", json={"codes": ["0000"], "ids": [1], "metadata": metadata})

        for value in (large, 2**64 - 1):
            sent(put(number=[value], amount=[value], numbers=[[1, value]]))
            assert get(client, 1)[0]["metadata"] == {"number": value, "amount": str(value), "numbers": [1, value]}
            for name in columns:
                found = {one["id"] for one in only(search(client, code="0000", where={name: value}))["neighbors"]}
                assert found == ({0, 1} if value == large else {1})
        for value in (2**64, 12345678901234567890123, -(2**63) - 1):
            for name in ("number", "amount"):
                assert_refused(put(**{name: [value]}), 422, f"metadata.{name}.0", "a number of 64 bits")
                where = client.post("/v1/search", json={"queries": [{"code": "0000"}], "where": {name: value}})
                assert_refused(where, 422, f"where: {name} must be", "a number of 64 bits")


def test_codes_are_items_too(shop, digits_service, tmp_path, rows):
    assert sent(shop.put("/v1/items", json={"codes": ["0b0c"], "ids": [99121]}))["codes"] == 2
    assert get(shop, "99121")[0]["code"] == "0b0c"
    x = np.array(rows[:50], np.float32)
    hasher = Hasher.from_pretrained(digits_service.model)
    table = CodeTable(hasher.encode(x), 16, np.arange(50), None, hasher.model_.fingerprint())
    build_index(table, tmp_path / "i", vectors=x, store="embeddings")
    with TestClient(create_app(Settings(digits_service.model, tmp_path / "i", writable=True)), base_url=HOME) as client:
        refused = client.post("/v1/items", json={"codes": ["0b0c"]})
        assert_refused(refused, 422, "codes are given, and the index stores embeddings")
        queries = [{"embedding": rows[60]}, {"id": 7}, {"code": "0b0c"}]
        answer = sent(client.post("/v1/encode", json={"queries": queries, "embeddings": True}))["answers"]
        assert [one["embedding"] for one in answer] == [rows[60], rows[7], None]
        image = client.post("/v1/items", files={"image": png(np.zeros((8, 8)))})
        assert_refused(image, 422, "no backbone to encode images")
        # Another index lies there before the service has noticed it.
        build_index(table, tmp_path / "i", overwrite=True)
        assert sent(client.post("/v1/items", json={"codes": ["0b0c"]}))["codes"] == 51
        build_index(table, tmp_path / "i", vectors=x, store="embeddings", overwrite=True)
        refused = client.post("/v1/items", json={"codes": ["0b0c"]})
        assert_refused(refused, 422, "codes are given, and the index stores embeddings")


def test_an_id_that_is_there_is_a_conflict(client, settings, rows):
    before = client.get("/health").json()
    body = {"embeddings": rows[:2], "ids": [9000, 3]}
    assert_refused(
        client.post("/v1/items", json=body), 409, "ids holds 3, which the index already has; PUT replaces its item"
    )
    assert client.get("/health").json() == before


def test_ids_that_are_not_there_are_not_found(client):
    before = client.get("/health").json()
    for path in ("/v1/items/get", "/v1/items/delete"):
        assert_refused(client.post(path, json={"ids": [0, 10**9]}), 404, "ids holds 1000000000, which the index does")
    assert client.get("/health").json() == before


def test_an_item_has_the_image_of_its_row_whatever_its_id(settings, rows):
    names = ["shoes/grün 1", "a/image", "50 %?#", "ä" * 100]
    index = Index.open(settings.index, mode="a")
    table = CodeTable(index.codes_of(range(4)), index.bits, np.arange(4), None, index.model)
    build_index(table, settings.index, ids=names, metadata={"row": [7, 8, 9, None]}, overwrite=True)
    with TestClient(create_app(settings), base_url=HOME) as client:
        for name, row in zip(names[:3], (7, 8, 9), strict=True):
            shown = client.get(f"/v1/items/{quote(name, safe='')}/image")
            assert shown.content == client.get(f"/page/rows/{row}/image").content
        assert_refused(client.get(f"/v1/items/{quote(names[3])}/image"), 404, "which has no row in the data")
        assert_refused(client.get("/v1/items/shoes%2F/image"), 404, "the id is 'shoes/', which the index does not have")


@pytest.mark.parametrize("ids", [["sku 7, é", "sku-8"], [-(2**63), 2**62 + 1]], ids=["texts", "wide"])
def test_ids_that_people_have(settings, rows, ids):
    index = Index.open(settings.index, mode="a")
    table = CodeTable(index.codes_of(range(2)), index.bits, np.arange(2), None, index.model)
    build_index(table, settings.index, ids=ids, metadata={"price": [1, 2]}, overwrite=True)
    with TestClient(create_app(settings), base_url=HOME) as client:
        assert client.get("/v1/info").json()["ids"] == ("string" if isinstance(ids[0], str) else "int64")
        for asked in (ids[0], str(ids[0])):  # as text, too
            answer = only(search(client, id=asked, k=1))
            assert (answer["query"]["id"], answer["query"]["metadata"]) == (ids[0], {"price": 1})
            assert answer["neighbors"][0]["distance"] == 0
            assert get(client, asked)[0]["id"] == ids[0]
        other = only(search(client, id=ids[0], where={"id": ids[1:]}))["neighbors"]
        assert [one["id"] for one in other] == ids[1:]
        more = ids[1] + "'" if isinstance(ids[0], str) else ids[1] + 1
        added = add(client, embeddings=rows[:1], ids=[more], metadata={"price": [3]})
        assert (added["ids"], added["codes"]) == ([more], 3)
        assert more in [one["id"] for one in nearest(client, rows[0], 3, radius=0)]
        again = {"embeddings": rows[:1], "ids": [more]}
        assert_refused(client.post("/v1/items", json=again), 409, f"ids holds {more!r}, which the index already has")
        assert delete(client, *ids)["ids"] == ids
        assert_refused(search(client, id=ids[0]), 404, f"queries.0.id is {ids[0]!r}, which the index does not have")
    assert Index.open(settings.index, mode="a").ids().tolist() == [more]


ONE = {"embeddings": [[0.0] * 64]}
TWO = {"embeddings": [[0.0] * 64] * 2}
REFUSED = [
    ("items", {}, ("nothing is given; it must be one of embeddings, texts and codes",)),
    ("items", ONE | {"texts": ["a"]}, ("embeddings and texts is given",)),
    ("items", {"texts": ["a"]}, ("texts.0 is a text, and the model takes none",)),
    ("items", {"embeddings": [[0.0] * 64, [0.0] * 63]}, ("embeddings.1 has 63 numbers",)),
    ("items", ONE | {"ids": [1, 2]}, ("ids has 2 values; it must have 1, one for each item",)),
    ("items", ONE | {"ids": ["a"]}, ("ids.0 is 'a'; the index's ids are integers",)),
    ("items", ONE | {"ids": ["007"]}, ("ids.0 is '007'; the index's ids are integers of 64 bits, such as 7",)),
    ("items", ONE | {"ids": ["-0"]}, ("ids.0 is '-0'; the index's ids are integers",)),
    ("items", TWO | {"ids": [99999, 99999]}, ("ids holds 99999 twice",)),
    (
        "items",
        ONE | {"metadata": {"color": [1]}},
        ("metadata.color: there is no such column; the index has row, label",),
    ),
    ("items", ONE | {"metadata": {"label": [1, 2]}}, ("metadata.label has 2 values; it must have 1",)),
    ("items", ONE | {"metadata": {"label": ["three"]}}, ('metadata.label.0 is "three"; the column holds int64',)),
    ("items", TWO | {"metadata": {"label": [3, "a"]}}, ('metadata.label.1 is "a"; the column holds int64',)),
    ("items", {"codes": ["00"]}, ("codes.0: code is '00'; it must be 4 hexadecimal digits",)),
    ("items", ONE | {"metadata": {"label": ["\ud800"]}}, ("",)),
    ("items", ONE | {"rows": [1]}, ("rows: there is no such field",)),
    ("items/delete", {"ids": [0, 0]}, ("0 twice",)),
    ("items/delete", {"ids": [0, "zero"]}, ("ids.1 is 'zero'; the index's ids are integers of 64 bits",)),
    ("items/delete", {"ids": [1.5]}, ("ids.0: it must be an integer of 64 bits, or a text",)),
    ("items/get", {"ids": [2**63]}, ("ids.0: it must be an integer",)),
    ("items/get", {"ids": list(range(1001))}, ("ids has 1001 values; it must have at most 1,000",)),
]


def test_changes_that_cannot_be(client, settings):
    before = client.get("/health").json()
    for path, body, parts in REFUSED:
        answer = client.post(f"/v1/{path}", content=json.dumps(body), headers={"Content-Type": "application/json"})
        assert_refused(answer, 422, *parts)
    assert_refused(client.put("/v1/items", json=ONE), 422, "ids is missing")
    assert client.get("/health").json() == before
    assert not Index.open(settings.index, mode="a").outdated()


def test_a_form_that_is_refused_changes_nothing(client):
    before = client.get("/health").json()
    image = {"image": png(np.zeros((8, 8)))}
    assert_refused(client.post("/v1/items", files={"image": b"x"}), 422, "must be an image")
    assert_refused(client.put("/v1/items", files=image), 422, "ids is missing")
    assert_refused(client.post("/v1/items", files=image, data={"ids": "[1, 2]"}), 422, "ids has 2 values")
    assert_refused(client.post("/v1/items", files=image, data={"metadata": '{"label": ["a"]}'}), 422, "holds int64")
    assert client.get("/health").json() == before


def test_a_full_batch_of_embeddings_has_room(tmp_path):
    x = np.random.default_rng(0).normal(size=(100, 1280)).astype(np.float32)
    hasher = Hasher(8, method="itq").fit(x)
    hasher.save_pretrained(tmp_path / "m")
    build_index(CodeTable(hasher.encode(x), 8, np.arange(100), None, hasher.model_.fingerprint()), tmp_path / "i")
    packed = [base64.b64encode(row.astype("<f4")).decode() for row in x]
    with TestClient(create_app(Settings(tmp_path / "m", tmp_path / "i", writable=True)), base_url=HOME) as client:
        limits = client.get("/v1/info").json()["limits"]
        assert limits["max_batch"] == 100
        for embeddings in (packed, x.astype(np.float64).tolist()):
            assert len(add(client, embeddings=embeddings)["ids"]) == 100
            answer = client.post("/v1/search", json={"queries": [{"embedding": one} for one in embeddings], "k": 1})
            assert [one["neighbors"][0]["hamming"] for one in sent(answer)["answers"]] == [0] * 100
        refused = client.put("/v1/items", content=b" " * limits["max_json"] + b"{}")
        assert_refused(refused, 413, f"{limits['max_json']:,} bytes, which is the limit of a body that is no form")


def test_only_a_writable_service_changes_items(digits_service):
    with TestClient(create_app(digits_service), base_url=HOME) as client:
        for method, path in (("POST", "/v1/items"), ("PUT", "/v1/items"), ("POST", "/v1/items/delete")):
            assert_refused(client.request(method, path, json={"ids": [0]}), 404)
            assert path not in client.get("/openapi.json").json()["paths"]
        assert get(client, 0)[0]["id"] == 0


def test_other_writers_at_the_same_time_lose_nothing(client, settings, rows):
    before = len(Index.open(settings.index, mode="a"))
    begin = threading.Barrier(3)

    def by_requests(first):
        begin.wait()
        return [add(client, embeddings=[row])["ids"][0] for row in rows[first : first + 6]]

    def by_command():
        begin.wait()
        writer = Index.open(settings.index, mode="a")
        for _ in range(6):
            writer.add(np.zeros((1, 2), np.uint8), None, {"row": [0], "label": [0]})

    with ThreadPoolExecutor(3) as pool:
        tasks = [pool.submit(by_requests, 0), pool.submit(by_requests, 6)]
        pool.submit(by_command).result()
        ids = [name for task in tasks for name in task.result()]
    assert len(set(ids)) == 12
    index = Index.open(settings.index, mode="a")
    index.verify()
    assert len(index) == before + 18
    assert set(ids) <= set(index.ids().tolist())
    add(client, embeddings=rows[:1])  # sees what the others wrote
    assert client.get("/health").json()["codes"] == before + 19


def test_a_change_does_not_wait_long_for_a_command(client, settings, rows, monkeypatch):
    with monkeypatch.context() as short:
        short.setattr("lbhash.service.engine.QUEUE_SECONDS", 0.05)
        with store.locked(settings.index):
            refused = client.post("/v1/items", json={"embeddings": rows[:1]})
            assert_refused(refused, 503, "another writer", "0.05 s")
            assert refused.headers["retry-after"] == "1"
            first = int(Index.open(settings.index).ids()[0])
            assert search(client, id=first).status_code == 200
        add(client, embeddings=rows[:1])


@pytest.mark.parametrize("kept", ["outputs", "embeddings"])
def test_stored_vectors_are_added_too(digits_service, tmp_path, rows, kept):
    hasher = Hasher.from_pretrained(digits_service.model)
    x = np.array(rows[:50], np.float32)
    vectors = hasher.model_.outputs(x) if kept == "outputs" else x
    table = CodeTable(hasher.encode(x), 16, np.arange(50), None, hasher.model_.fingerprint())
    build_index(table, tmp_path / "i", vectors=vectors, store=kept)
    with TestClient(create_app(Settings(digits_service.model, tmp_path / "i", writable=True)), base_url=HOME) as client:
        add(client, embeddings=rows[1790:1791])
        (best,) = nearest(client, rows[1790], rerank=kept)
        assert best["id"] == 50
        by_id = search(client, id=50, k=1, rerank=kept)
        assert (only(by_id)["ranking"], only(by_id)["neighbors"][0]["id"]) == (kept, 50)
        refused = search(client, code="0000", rerank=kept)
        assert_refused(refused, 422, f"rerank is {kept!r}", "queries.0 has only a code: give its embedding")
        assert client.get("/v1/info").json()["rerank"] == [kept]
        assert best["distance"] == pytest.approx(0, abs=1e-3)


def test_embeddings_of_whole_numbers_are_added_to_those_of_uint8(digits_service, tmp_path, rows):
    hasher, x = Hasher.from_pretrained(digits_service.model), np.array(rows[:50], np.uint8)
    table = CodeTable(hasher.encode(x), 16, np.arange(50), None, hasher.model_.fingerprint())
    build_index(table, tmp_path / "i", vectors=x, store="embeddings")
    with TestClient(create_app(Settings(digits_service.model, tmp_path / "i", writable=True)), base_url=HOME) as client:
        add(client, embeddings=rows[1790:1791])
        for wrong in (0.5, -1.0, 256.0):
            refused = client.post("/v1/items", json={"embeddings": [[wrong, *rows[0][1:]]]})
            assert_refused(refused, 422, f"vectors holds {wrong}; this index stores whole numbers from 0 to 255")
    index = Index.open(tmp_path / "i", mode="a")
    assert index.vectors_of([50]).dtype == np.uint8
    assert index.vectors_of([50])[0].tolist() == rows[1790]
    for wrong in (np.nan, np.inf, 300, -1):
        given = np.array([[wrong, *rows[0][1:]]])
        with pytest.raises(ValueError, match=f"^vectors holds {wrong}.*; this index stores whole numbers"):
            index.add(hasher.encode(x[:1]), metadata={"row": [50]}, vectors=given)


def test_codes_without_classes_are_ranked_again_by_the_cosine_alone(tmp_path, rows):
    x = np.array(rows[:50], np.float32)
    hasher = Hasher(16, method="itq").fit(x)
    hasher.save_pretrained(tmp_path / "m")
    table = CodeTable(hasher.encode(x), 16, np.arange(50), None, hasher.model_.fingerprint())
    build_index(table, tmp_path / "i", vectors=x, store="embeddings")
    with TestClient(create_app(Settings(tmp_path / "m", tmp_path / "i")), base_url=HOME) as client:
        found = nearest(client, rows[60], 50, rerank="embeddings", candidates=50)
    cosines = x @ rows[60] / np.linalg.norm(x, axis=1) / np.linalg.norm(rows[60])
    assert [one["distance"] for one in found] == pytest.approx(np.sort(1 - cosines), abs=1e-3)


def test_a_full_disk_is_told_and_changes_nothing(client, settings, rows, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, "write_manifest", full)
    assert_refused(client.post("/v1/items", json={"embeddings": rows[:1]}), 503, "No space left on device")
    monkeypatch.undo()
    index = Index.open(settings.index, mode="a")
    index.verify()
    assert client.get("/health").json()["codes"] == len(index)
    assert add(client, embeddings=rows[:1])["codes"] == len(index) + 1


def test_nothing_is_added_to_a_damaged_index(client, settings, rows, monkeypatch):
    # Otherwise the service may read what the other writer added before it is damaged.
    monkeypatch.setattr(client.app.state.service.engine, "refresh", lambda: False)
    writer = Index.open(settings.index, mode="a")
    writer.add(np.zeros((1, 2), np.uint8), None, {"row": [0], "label": [0]})
    (newest,) = settings.index.glob("00000002.*.codes.npy")
    newest.write_bytes(newest.read_bytes()[:-1] + b"\xff")
    assert_refused(client.post("/v1/items", json={"embeddings": rows[:1]}), 503, "index is damaged")
    assert Index.open(settings.index, mode="a").generation == writer.generation


def test_an_index_that_is_gone_is_called_as_the_operator_calls_it(client, settings, rows):
    settings.index.rename(settings.index.with_name("elsewhere"))
    said = f"index is '{settings.index}', and there is no such folder"
    assert_refused(client.post("/v1/items", json={"embeddings": rows[:1]}), 503, said)
    with pytest.raises(ValueError, match=said):
        create_app(settings)


def test_an_index_that_is_built_again_meanwhile_is_not_the_request_s_fault(client, settings, rows, monkeypatch):
    insert = store.Index.insert

    def late(self, *given, **more):
        monkeypatch.undo()
        Index.open(settings.index, mode="a").save(settings.index, overwrite=True)
        return insert(self, *given, **more)

    monkeypatch.setattr(store.Index, "insert", late)
    assert_refused(client.post("/v1/items", json={"embeddings": rows[:1]}), 503, "built again")
    add(client, embeddings=rows[:1])


def test_an_index_that_may_not_be_written(settings, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(ValueError, match=r"may not write.*--writable"):
        create_app(settings)
