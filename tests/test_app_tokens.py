"""The tokens to read and to write: who may ask what."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from app_answers import HOME, assert_refused
from lbhash.service import create_app
from lbhash.service.server import check_access

pytestmark = pytest.mark.usefixtures("quiet")
READ, WRITE = "to-read", "to-write"
READS = [
    ("POST", "/v1/search", {"queries": [{"id": 0}]}),
    ("POST", "/v1/encode", {"queries": [{"id": 0}]}),
    ("POST", "/v1/items/get", {"ids": [0]}),
    ("POST", "/page/search", {"row": 0}),
    *(("GET", path, None) for path in ("/v1/info", "/page/map", "/page/summary", "/page/rows/1/image")),
    ("GET", "/v1/items/1/image", None),
    *(("GET", path, None) for path in ("/metrics", "/openapi.json")),
]
ITEM = {"embeddings": [[0.0] * 64], "ids": [9000]}
CHANGES = [("POST", "/v1/items", ITEM), ("PUT", "/v1/items", ITEM), ("POST", "/v1/items/delete", {"ids": [9000]})]
WRONG = ("Bearer to-rea", "Bearer ", "Bearer to-read to-write", "Basic to-write", "to-write", "Bearer \xe9", "")


@pytest.fixture
def writable(digits_service, tmp_path):
    """The settings of a service whose index requests may change."""
    return replace(digits_service, index=shutil.copytree(digits_service.index, tmp_path / "i"), writable=True)


@pytest.mark.parametrize(
    ("tokens", "readers", "writers"),
    [
        ({}, ("", READ, WRITE), ("", READ, WRITE)),
        ({"write_token": WRITE}, ("", READ, WRITE), (WRITE,)),
        ({"read_token": READ, "write_token": WRITE}, (READ, WRITE), (WRITE,)),
    ],
)
def test_who_may_read_and_who_may_write(writable, tokens, readers, writers):
    with TestClient(create_app(replace(writable, **tokens)), base_url=HOME) as client:
        for token in ("", READ, WRITE):
            headers = {"Authorization": f"bearer {token}"} if token else {}
            for asked, allowed in ((READS, token in readers), (CHANGES, token in writers)):
                for method, path, body in asked:
                    answer = client.request(method, path, json=body, headers=headers)
                    if allowed:
                        assert answer.status_code == 200, (path, token, answer.text)
                    else:
                        assert_refused(answer, 401, "token", "Authorization: Bearer TOKEN")
                        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("tokens", [{"write_token": WRITE}, {"read_token": READ, "write_token": WRITE}])
def test_wrong_tokens(writable, tokens):
    with TestClient(create_app(replace(writable, **tokens)), base_url=HOME) as client:
        before = client.get("/health").json()
        for path in ("/health", "/ready", "/", "/docs", "/static/app.js"):
            assert client.get(path).status_code == 200
        for wrong in WRONG:
            headers = {"Authorization": wrong.encode("latin-1")}
            for method, path, body in [*READS, ("GET", "/nothing", None)] if "read_token" in tokens else ():
                assert_refused(client.request(method, path, json=body, headers=headers), 401)
            for method, path, body in CHANGES:
                assert_refused(client.request(method, path, json=body, headers=headers), 401)
        assert client.get("/health").json() == before


def test_without_changes_both_tokens_read(digits_service):
    with TestClient(create_app(replace(digits_service, read_token=READ, write_token=WRITE)), base_url=HOME) as client:
        for token in (READ, WRITE):
            headers = {"Authorization": f"Bearer {token}"}
            assert client.get("/v1/info", headers=headers).status_code == 200
            assert_refused(client.post("/v1/items", json={}, headers=headers), 404)
    with TestClient(create_app(replace(digits_service, read_token=READ)), base_url=HOME) as client:
        assert_refused(client.get("/v1/info"), 401, "this service needs a token")
        assert_refused(client.get("/v1/info", headers={"Authorization": "Bearer x"}), 401, "the token is wrong")


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"read_token": ""}, "read_token is empty"),
        ({"write_token": "schlüssel"}, "write_token is empty or not printable ASCII"),
        ({"read_token": READ, "write_token": READ}, "are the same"),
        ({"read_token": READ, "writable": True}, "no write_token"),
    ],
)
def test_tokens_that_cannot_be(digits_service, change, part):
    with pytest.raises(ValueError, match=part) as raised:
        replace(digits_service, **change)
    assert READ not in str(raised.value)
    assert READ not in repr(replace(digits_service, read_token=READ, write_token=WRITE))
    assert WRITE not in repr(replace(digits_service, write_token=WRITE))


def test_what_others_may_reach(digits_service):
    def check(host="0.0.0.0", no_token=False, **change):
        check_access(host, replace(digits_service, **change), no_token)

    check("127.0.0.1", writable=True)
    check(no_token=True)
    check(read_token=READ)
    check(read_token=READ, write_token=WRITE, writable=True)
    check(write_token=WRITE, writable=True, no_token=True)
    for change in ({}, {"write_token": WRITE}, {"write_token": WRITE, "writable": True}):
        with pytest.raises(ValueError, match=r"host is '0\.0\.0\.0'.*LBHASH_READ_TOKEN.*--no-token"):
            check(**change)
    for no_token in (True, False):
        with pytest.raises(ValueError, match=r"host is '0\.0\.0\.0'.*--writable.*LBHASH_WRITE_TOKEN"):
            check(no_token=no_token, writable=True)
    with pytest.raises(ValueError, match="LBHASH_READ_TOKEN is given, and so is --no-token"):
        check(no_token=True, read_token=READ)
