"""Tokens from a file: what each allows, and how often."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from app_answers import HOME, assert_refused
from lbhash.service import create_app, tokens
from lbhash.service.tokens import read_tokens

pytestmark = pytest.mark.usefixtures("quiet")
FILE = """
[page]
token = "for-the-page"
scopes = ["search"]

[robot]
token = "for-the-robot"
scopes = ["search", "write"]
per_minute = 3

[prometheus]
token = "for-prometheus"
scopes = ["metrics"]
"""


def write(folder, text, mode=0o600):
    file = folder / "tokens.toml"
    file.write_text(text)
    file.chmod(mode)
    return file


@pytest.fixture
def client(digits_service, tmp_path):
    index = shutil.copytree(digits_service.index, tmp_path / "i")
    settings = replace(digits_service, index=index, tokens=write(tmp_path, FILE), writable=True)
    with TestClient(create_app(settings), base_url=HOME) as client:
        yield client


def bearer(token):
    return {"headers": {"Authorization": f"Bearer {token}"}}


def test_each_allows_what_its_scopes_say(client):
    asked = [("POST", "/v1/search", {"id": 0}), ("POST", "/v1/encode", {"row": 0})]
    asked += [("GET", path, None) for path in ("/v1/about", "/v1/map", "/v1/summary", "/v1/row/1/image")]
    changes = [("POST", "/v1/add", {"embeddings": [[0.0] * 64]}), ("POST", "/v1/remove", {"ids": [0]})]
    for method, path, body in asked:
        assert client.request(method, path, json=body, **bearer("for-the-page")).status_code == 200
        answer = client.request(method, path, json=body, **bearer("for-prometheus"))
        assert_refused(answer, 403, "'prometheus' does not allow 'search'", "metrics")
    for method, path, body in changes:
        for token in ("for-the-page", "for-prometheus"):
            assert_refused(client.request(method, path, json=body, **bearer(token)), 403, "does not allow 'write'")
        assert client.request(method, path, json=body, **bearer("for-the-robot")).status_code == 200
    assert client.get("/metrics", **bearer("for-prometheus")).status_code == 200
    assert_refused(client.get("/metrics", **bearer("for-the-page")), 403, "does not allow 'metrics'")


def test_no_token_and_wrong_ones(client):
    for path in ("/health", "/ready", "/", "/docs"):
        assert client.get(path).status_code == 200
    for path in ("/v1/about", "/metrics", "/openapi.json", "/nothing"):
        assert_refused(client.get(path), 401, "needs a token")
        assert client.get(path).headers["www-authenticate"] == "Bearer"
        for wrong in ("Bearer for-the-pag", "Bearer page", "Bearer ", "Bearer for-the-page for-the-robot",
                      "Basic for-the-page", "for-the-page", "Bearer \xe9"):  # fmt: skip
            assert_refused(client.get(path, headers={"Authorization": wrong.encode("latin-1")}), 401)
    assert client.get("/openapi.json", **bearer("for-prometheus")).status_code == 200


def test_a_single_token_allows_all(digits_service):
    with TestClient(create_app(replace(digits_service, token="s3cret")), base_url=HOME) as client:
        assert_refused(client.get("/v1/about"), 401, "needs a token")
        for path in ("/v1/about", "/metrics", "/v1/map", "/openapi.json"):
            assert client.get(path, headers={"Authorization": "bearer s3cret"}).status_code == 200


def test_no_more_than_its_rate(client, monkeypatch):
    now = tokens.monotonic() + 600
    monkeypatch.setattr(tokens, "monotonic", lambda: now)

    def ask(token="for-the-robot"):
        return client.get("/v1/about", **bearer(token))

    assert [ask().status_code for _ in range(5)] == [200, 200, 200, 429, 429]
    refused = ask()
    assert_refused(refused, 429, "'robot'", "3 requests a minute", "20 s")
    assert refused.headers["retry-after"] == "20"
    assert ask("for-the-page").status_code == 200
    now += 21
    assert [ask().status_code for _ in range(2)] == [200, 429]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "has no token"),
        ("a = 1", "tokens.a must be a table with token and scopes"),
        ("[a]\ntoken = ''\nscopes = ['search']", "tokens.a.token: it is empty"),
        (
            "[a]\ntoken = 'x'\nscopes = ['read']",
            "scopes.0 is 'read'; it must be 'search', 'write' or 'metrics'",
        ),
        ("[a]\ntoken = 'x'\nscopes = ['search']\nrate = 5", "there are token, scopes and per_minute"),
        ("[a]\ntoken = 'x'\nscopes = ['search']\n[b]\ntoken = 'x'\nscopes = ['write']", "'a' and 'b' are the same"),
    ],
)
def test_files_that_cannot_be(tmp_path, text, part):
    with pytest.raises(ValueError, match="tokens") as raised:
        read_tokens(write(tmp_path, text))
    assert part in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
def test_a_file_that_others_may_read_is_refused(tmp_path, command):
    file = write(tmp_path, FILE, 0o644)
    status, out, errors = command("serve", "--model", "m", "--index", "i", "--tokens", file)
    assert (status, out) == (2, "")
    assert "others may read (mode 644)" in errors
    assert "chmod 600" in errors
    assert errors.count("\n") == 1
    for mode in (0o600, 0o640, 0o400):
        file.chmod(mode)
        assert [token.name for token in read_tokens(file)] == ["page", "robot", "prometheus"]
    assert "for-the" not in repr(read_tokens(file))


def test_one_token_or_a_file(command, tmp_path, digits_service):
    file = write(tmp_path, FILE)
    with pytest.raises(ValueError, match="token is given, and so is tokens"):
        replace(digits_service, token="a", tokens=file)
    for more in (("--no-token",), ("--token", "a")):
        status, _, errors = command("serve", "--model", "m", "--index", "i", "--tokens", file, *more)
        assert status == 2
        assert "give one of the two" in errors
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        read_tokens(tmp_path / "nothing.toml")
