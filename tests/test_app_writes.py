"""Changes of the index by requests."""

from __future__ import annotations

import errno
import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from fastapi.testclient import TestClient

from app_answers import HOME, assert_refused
from lbhash import Hasher
from lbhash.codes.io import CodeTable
from lbhash.data import load_table
from lbhash.index import Index, build_index, store
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


def post(client, path, **body):
    answer = client.post(f"/v1/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def nearest(client, embedding, k=1, **options):
    return post(client, "search", embedding=embedding, k=k, **options)["neighbors"]


def test_what_is_added_is_found_at_once_and_gone_once_it_is_removed(client, settings, rows):
    before = Index.open(settings.index, mode="a")
    added = post(client, "add", embeddings=rows[:2], metadata={"label": [7, 8]})
    first = before.state.next_id
    assert added == {"ids": [first, first + 1], "codes": len(before) + 2, "generation": before.generation + 1}
    found = {one["id"]: one for one in nearest(client, rows[0], 1000, radius=0)}
    assert found[first]["metadata"] == {"row": None, "label": 7}
    assert found[first]["row"] is None
    stored = Index.open(settings.index, mode="a")  # what the command would see
    stored.verify()
    assert stored.codes_of([first])[0].tobytes().hex() == post(client, "encode", row=0)["code"]
    assert post(client, "remove", ids=[first + 1, first])["codes"] == len(before)
    assert first not in {one["id"] for one in nearest(client, rows[0], 1000, radius=0)}
    health = client.get("/health").json()
    assert (health["codes"], health["generation"]) == (len(before), before.generation + 2)
    assert Index.open(settings.index, mode="a").ids().tolist() == before.ids().tolist()


@pytest.mark.parametrize("ids", [["sku 7, é", "sku-8"], [-(2**63), 2**62 + 1]], ids=["texts", "wide"])
def test_ids_that_people_have(settings, rows, ids):
    index = Index.open(settings.index, mode="a")
    table = CodeTable(index.codes_of(range(2)), index.bits, np.arange(2), None, index.model)
    build_index(table, settings.index, ids=ids, metadata={"price": [1, 2]}, overwrite=True)
    with TestClient(create_app(settings), base_url=HOME) as client:
        assert client.get("/v1/about").json()["ids"] == ("string" if isinstance(ids[0], str) else "int64")
        for asked in (ids[0], str(ids[0])):  # as text, too
            answer = post(client, "search", id=asked, k=1)
            assert (answer["query"]["id"], answer["query"]["metadata"]) == (ids[0], {"price": 1})
            assert answer["neighbors"][0]["distance"] == 0
        assert [one["id"] for one in post(client, "search", id=ids[0], where={"id": ids[1:]})["neighbors"]] == ids[1:]
        more = ids[1] + "'" if isinstance(ids[0], str) else ids[1] + 1
        added = post(client, "add", embeddings=rows[:1], ids=[more], metadata={"price": [3]})
        assert (added["ids"], added["codes"]) == ([more], 3)
        assert more in [one["id"] for one in nearest(client, rows[0], 3, radius=0)]
        again = {"embeddings": rows[:1], "ids": [more]}
        assert_refused(client.post("/v1/add", json=again), 422, f"ids holds {more!r}, which the index already has")
        assert post(client, "remove", ids=ids)["ids"] == ids
        assert_refused(client.post("/v1/search", json={"id": ids[0]}), 404, f"id is {ids[0]!r}, and the index has no")
        surrogate = {"content": '{"id": "\\ud800"}', "headers": {"Content-Type": "application/json"}}
        assert_refused(client.post("/v1/search", **surrogate), 404, "and the index has no such code")
    assert Index.open(settings.index, mode="a").ids().tolist() == [more]


REFUSED = [
    ("add", {}, ("embeddings is missing",)),
    ("add", {"embeddings": [[0.0] * 63]}, ("embeddings.0 has 63 numbers",)),
    ("add", {"embeddings": [[0.0] * 64], "ids": [1, 2]}, ("ids", "one for each code")),
    ("add", {"embeddings": [[0.0] * 64] * 2, "ids": [99999, 99999]}, ("ids holds 99999 twice",)),
    ("add", {"embeddings": [[0.0] * 64], "metadata": {"color": [1]}}, ("color", "row, label")),
    ("add", {"embeddings": [[0.0] * 64], "metadata": {"label": ["three"]}}, ("'label'", "int64")),
    ("add", {"embeddings": [[0.0] * 64] * 2, "metadata": {"label": [3, "a"]}}, ("'label'", "one type")),
    ("add", {"embeddings": [[0.0] * 64], "metadata": {"label": ["\ud800"]}}, ("",)),
    ("add", {"embeddings": [[0.0] * 64], "rows": [1]}, ("rows: there is no such field",)),
    ("remove", {"ids": [0, 10**9]}, ("1000000000",)),
    ("remove", {"ids": [0, 0]}, ("0 twice",)),
    ("remove", {"ids": [0, "zero"]}, ("ids holds texts and others",)),
    ("remove", {"ids": [1.5]}, ("ids.0: it must be an integer of 64 bits, or a text",)),
    ("remove", {"ids": [2**63]}, ("ids.0: it must be an integer",)),
    ("remove", {"ids": list(range(1001))}, ("ids has 1001 values; it must have at most 1,000",)),
]


def test_changes_that_cannot_be(client, settings):
    before = client.get("/health").json()
    for path, body, parts in REFUSED:
        answer = client.post(f"/v1/{path}", content=json.dumps(body), headers={"Content-Type": "application/json"})
        assert_refused(answer, 422, *parts)
    assert client.get("/health").json() == before
    assert not Index.open(settings.index, mode="a").outdated()


def test_a_form_changes_nothing(client):
    assert_refused(client.post("/v1/add", files={"image": b"x"}), 415, "application/json")
    assert_refused(client.post("/v1/add", content=b" " * (1 << 18) + b"{}"), 413)


def test_only_a_writable_service_has_them(digits_service):
    with TestClient(create_app(digits_service), base_url=HOME) as client:
        for path in ("/v1/add", "/v1/remove"):
            assert_refused(client.post(path, json={"ids": [0]}), 404)
            assert path not in client.get("/openapi.json").json()["paths"]


def test_other_writers_at_the_same_time_lose_nothing(client, settings, rows):
    before = len(Index.open(settings.index, mode="a"))
    begin = threading.Barrier(3)

    def by_requests(first):
        begin.wait()
        return [post(client, "add", embeddings=[row])["ids"][0] for row in rows[first : first + 6]]

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
    post(client, "add", embeddings=rows[:1])  # sees what the others wrote
    assert client.get("/health").json()["codes"] == before + 19


def test_a_change_does_not_wait_long_for_a_command(client, settings, rows, monkeypatch):
    with monkeypatch.context() as short:
        short.setattr("lbhash.service.engine.QUEUE_SECONDS", 0.05)
        with store.locked(settings.index):
            refused = client.post("/v1/add", json={"embeddings": rows[:1]})
            assert_refused(refused, 503, "another writer", "0.05 s")
            assert refused.headers["retry-after"] == "1"
            first = int(Index.open(settings.index).ids()[0])
            assert client.post("/v1/search", json={"id": first}).status_code == 200
        post(client, "add", embeddings=rows[:1])


@pytest.mark.parametrize("kept", ["outputs", "embeddings"])
def test_stored_vectors_are_added_too(digits_service, tmp_path, rows, kept):
    hasher = Hasher.from_pretrained(digits_service.model)
    x = np.array(rows[:50], np.float32)
    vectors = hasher.model_.outputs(x) if kept == "outputs" else x
    table = CodeTable(hasher.encode(x), 16, np.arange(50), None, hasher.model_.fingerprint())
    build_index(table, tmp_path / "i", vectors=vectors, store=kept)
    with TestClient(create_app(Settings(digits_service.model, tmp_path / "i", writable=True)), base_url=HOME) as client:
        post(client, "add", embeddings=rows[1790:1791])
        (best,) = nearest(client, rows[1790], rerank=kept)
        assert best["id"] == 50
        assert best["score"] == pytest.approx(0, abs=1e-3)


def test_codes_without_classes_are_ranked_again_by_the_cosine_alone(tmp_path, rows):
    x = np.array(rows[:50], np.float32)
    hasher = Hasher(16, method="itq").fit(x)
    hasher.save_pretrained(tmp_path / "m")
    table = CodeTable(hasher.encode(x), 16, np.arange(50), None, hasher.model_.fingerprint())
    build_index(table, tmp_path / "i", vectors=x, store="embeddings")
    with TestClient(create_app(Settings(tmp_path / "m", tmp_path / "i")), base_url=HOME) as client:
        found = nearest(client, rows[60], 50, rerank="embeddings", candidates=50)
    cosines = x @ rows[60] / np.linalg.norm(x, axis=1) / np.linalg.norm(rows[60])
    assert [one["score"] for one in found] == pytest.approx(np.sort(1 - cosines), abs=1e-3)


def test_a_full_disk_is_told_and_changes_nothing(client, settings, rows, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, "write_manifest", full)
    assert_refused(client.post("/v1/add", json={"embeddings": rows[:1]}), 503, "No space left on device")
    monkeypatch.undo()
    index = Index.open(settings.index, mode="a")
    index.verify()
    assert client.get("/health").json()["codes"] == len(index)
    assert post(client, "add", embeddings=rows[:1])["codes"] == len(index) + 1


def test_nothing_is_added_to_a_damaged_index(client, settings, rows):
    writer = Index.open(settings.index, mode="a")
    writer.add(np.zeros((1, 2), np.uint8), None, {"row": [0], "label": [0]})
    (newest,) = settings.index.glob("00000002.*.codes.npy")
    newest.write_bytes(newest.read_bytes()[:-1] + b"\xff")
    assert_refused(client.post("/v1/add", json={"embeddings": rows[:1]}), 503, "index is damaged")
    assert Index.open(settings.index, mode="a").generation == writer.generation


def test_an_index_that_is_built_again_meanwhile_is_not_the_request_s_fault(client, settings, rows, monkeypatch):
    add = store.Index.insert

    def late(self, *given, **more):
        monkeypatch.undo()
        Index.open(settings.index, mode="a").save(settings.index, overwrite=True)
        return add(self, *given, **more)

    monkeypatch.setattr(store.Index, "insert", late)
    assert_refused(client.post("/v1/add", json={"embeddings": rows[:1]}), 503, "built again")
    post(client, "add", embeddings=rows[:1])


def test_an_index_that_may_not_be_written(settings, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(ValueError, match=r"may not write.*--writable"):
        create_app(settings)
