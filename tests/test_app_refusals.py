from __future__ import annotations

import json
import socket
import threading

import numpy as np
import pytest
from fastapi.testclient import TestClient

from app_answers import HOME, assert_refused, png, search
from lbhash.service import Settings, create_app, requests

pytestmark = pytest.mark.usefixtures("quiet")
FIELD = b"--x\r\nContent-Disposition: form-data"


def asked(**query):
    return {"queries": [query]}


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        ({}, ("queries is missing",)),
        ({"id": 1}, ("id: there is no such field; there are queries, k,",)),
        ({"queries": {"id": 1}}, ("queries is {'id': 1}; it must be a list",)),
        ({"queries": [1]}, ("queries.0 is 1; it must be an object",)),
        (asked(), ("queries.0: nothing is given", "embedding, text, code and id")),
        (asked(code="00ff", id=2), ("queries.0: code and id is given",)),
        (asked(row=1), ("queries.0: row: there is no such field; there are embedding, text, code, id",)),
        (asked(id=2**63), ("queries.0.id: it must be an integer of 64 bits, or a text",)),
        (asked(id="zero"), ("queries.0.id is 'zero'; the index's ids are integers of 64 bits",)),
        (asked(code="abc"), ("queries.0.code is 'abc'", "4 hexadecimal digits")),
        (asked(code="0" * 100000), ("queries.0.code is", "…")),
        (asked(embedding=[1e39] * 64), ("queries.0.embedding is so large", "not finite")),
        (asked(id=1) | {"k": 1001}, ("k is 1001; it must be at most 1000",)),
        (asked(id=1) | {"radius": 17}, ("radius is 17", "(16)")),
        (
            asked(id=1) | {"where": {"label": None}},
            ("where: label must be a text, a number of 64 bits, true or false",),
        ),
        (asked(id=1) | {"where": "row < "}, ("where is 'row < '; it must be conditions such as",)),
        (asked(id=1) | {"where": "row < x"}, ("where wants 'row' to be < 'x'; the column holds int64",)),
        (asked(id=1) | {"where": ", ".join(["row < 9"] * 17)}, ("where: 17 columns are given; there may be 16",)),
        (asked(id=1) | {"where": 3}, ("where: it must be a text, a number",)),
        (asked(id=1) | {"ranking": "magic"}, ("ranking is 'magic'; it must be 'hamming' or 'real'",)),
        (asked(id=1) | {"rerank": "asymmetric"}, ("rerank is 'asymmetric'; it must be 'outputs' or 'embeddings'",)),
        (asked(id=1) | {"rerank": "outputs"}, ("rerank is 'outputs', and the index stores no vectors",)),
        (asked(code="0000") | {"ranking": "real"}, ("ranking is 'real'", "queries.0 has only a code", "its embedding")),
        (asked(id=1) | {"ranking": "real"}, ("ranking is 'real'", "queries.0 has only a code")),
        (asked(embedding="AAAA" * 16), ("embedding has 12 numbers; the model takes 64",)),
        (asked(embedding="é"), ("embedding: it is text, but not the base64 of float32",)),
        ([], ("",)),
        # What follows must be short and writable, too, however long or strange the body is.
        (asked(id=1) | {"x" * 100_000: 1}, ("",)),
        (asked(**{"x" * 100_000: 1}), ("",)),
        (asked(id=1) | {"where": {"x" * 100_000: None}}, ("",)),
        (asked(id=1) | {"where": {"label": "\ud800"}}, ("",)),
        (asked(id="\ud800"), ("",)),
        (asked(**{"\ud800": 1}), ("",)),
        (asked(id=1) | {"a\n\u2028b": 1}, ("",)),
        (asked(id=1) | {"where": {"a\nb": None}}, ("",)),
        (b"\xff\xfe", ("",)),
        (b'{"queries": [{"embedding": [' + b"NaN," * 63 + b"-Infinity]}]}", ("",)),
        (b"[" * 100_000, ("",)),
        (b'{"where":' * 15_000, ("",)),
        (b'{"queries": [{"id": ' + b"9" * 10_000 + b"}]}", ("",)),
    ],
)
def test_searches_that_cannot_be(client, body, parts):
    content = body if isinstance(body, bytes) else json.dumps(body)
    answer = client.post("/v1/search", content=content, headers={"Content-Type": "application/json"})
    assert_refused(answer, 422, *parts)
    assert len(answer.content) < 1000


def test_an_unknown_id_is_not_found(client):
    """Neither by a search nor by what else asks for ids."""
    for path in ("/v1/search", "/v1/encode"):
        told = "queries.1.id is 1000000000, which the index does not have"
        assert_refused(client.post(path, json={"queries": [{"id": 1}, {"id": 10**9}]}), 404, told)
    got = client.post("/v1/items/get", json={"ids": [1, 10**9]})
    assert_refused(got, 404, "ids holds 1000000000, which the index does not have")
    assert_refused(client.get("/v1/items/1000000000/image"), 404, "the id is 1000000000, which the index does not have")


def test_a_row_out_of_range_is_not_found(client):
    for row in (-1, 1797, 2**70):
        assert_refused(search(client, row=row), 404, f"row is {row}; it must be from 0 to 1796")
        assert_refused(client.get(f"/page/rows/{row}/image"), 404, f"row is {row}")


@pytest.mark.parametrize(
    ("image", "part"),
    [
        (b"", "empty"),
        (b"this is text and not an image", "must be an image in one of the formats"),
        (png(np.zeros((9, 9)))[:40], ""),
        (png(np.zeros((5001, 5000))), "pixels"),
    ],
)
def test_files_that_are_not_images(client, image, part):
    assert_refused(client.post("/v1/encode", files={"image": ("a.png", image, "image/png")}), 422, part)


def test_an_image_needs_no_good_name(client):
    for name in ("../../etc/passwd", "a\x00b", "é" * 300, ""):
        answer = client.post("/v1/encode", files={"image": (name, png(np.zeros((8, 8))), "text/html")})
        assert answer.status_code == (200 if name else 422)


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"k": ""}, "k is ''"),
        ({"k": ["1", "2"]}, "k is given twice"),
        ({"where": "[" * 5000}, "where is"),
        ({"queries": "1"}, "queries: there is no such field"),
        ({f"f{number}": "1" for number in range(40)}, "fields"),
        ({"k": "1" * 2_000_000}, ""),
    ],
)
def test_forms_that_cannot_be(client, fields, part):
    answer = client.post("/v1/search", files={"image": png(np.zeros((8, 8)))}, data=fields)
    assert answer.status_code in (400, 422)
    assert_refused(answer, answer.status_code, part)


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("multipart/form-data", b"", 400),
        ("multipart/form-data; boundary=x", b"garbage", 400),
        ("multipart/form-data; boundary=x", FIELD + b'; name="image"\r\n\r\nabc\r\n--x--', 422),
        ("multipart/form-data; boundary=x; charset=bogus", FIELD + b"; nam\xe9\r\n\r\n--x--", 400),
        ("multipart/form-data; boundary=x", b"--x\r\nA" + b"a" * 100_000 + b": b\r\n\r\n--x--", 400),
        ("text/plain", b'{"row": 1}', 415),
        (None, b'{"row": 1}', 415),
    ],
)
def test_bodies_that_are_no_form(client, kind, body, status):
    assert_refused(
        client.post("/v1/search", content=body, headers={"Content-Type": kind} if kind is not None else {}), status
    )


def test_images_that_cannot_be(client):
    image = png(np.zeros((8, 8)))
    assert_refused(client.post("/v1/search", files=[("image", image)] * 101), 400, "Maximum number of files is 100")
    assert_refused(
        client.post("/v1/encode", files=[("image", image), ("image", b"text")]), 422, "image 2 of 2: image is"
    )
    assert_refused(client.post("/v1/search", files={"picture": image}), 422, "'image'")


@pytest.mark.parametrize("path", ["/v1/search", "/v1/encode", "/health"])
def test_too_large_a_body_is_refused_while_it_comes_in(digits_service, path, monkeypatch):
    sent = 0

    def endless():
        nonlocal sent
        for _ in range(1000):
            sent += 1000
            yield b"x" * 1000

    monkeypatch.setattr("lbhash.service.middleware.MAX_BODY", 20_000)
    app = create_app(Settings(digits_service.model, digits_service.index))
    with TestClient(app, base_url=HOME) as client:
        headers = {"Content-Type": "multipart/form-data; boundary=x"}
        if path != "/health":
            assert_refused(client.post(path, content=endless(), headers=headers), 413, "20,000 bytes")
            assert_refused(client.post(path, content=b"x" * 20_001, headers=headers), 413, "20,000 bytes")
        assert_refused(client.request("GET", path, headers={"Content-Length": "9" * 40}), 413)


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_body_of_two_lengths_is_refused_and_ends_the_connection(digits_service, serving, version):
    body = b'{"queries":[{"id":1}]}'
    head = f"POST /v1/search HTTP/{version}\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    with serving(digits_service) as address:
        port = int(address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), 20) as client, client.makefile("rb") as told:
            client.sendall(head.encode() + chunks + b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            answer = told.read()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"Content-Length and Transfer-Encoding" in answer


def test_json_is_small_however_large_an_image_may_be(client):
    body = b'{"queries":[' + b"[]," * 175_000 + b"[]]}"
    typed = {"Content-Type": "application/json"}
    for kind in (typed, {"Content-Type": "text/plain"}, {}):
        assert_refused(client.post("/v1/search", content=body, headers=kind), 413, "422,144 bytes")
    assert_refused(client.post("/v1/search", content=iter([body[:-2], b"]}"]), headers=typed), 413, "422,144 bytes")
    assert client.get("/v1/info").json()["limits"]["max_json"] == 422_144
    many = b'{"queries":[{"embedding":[' + b"1," * 200_000 + b"1]}]}"
    assert_refused(client.post("/v1/search", content=many, headers=typed), 422, "more values than any query")


NAMES = b"".join(b',"%x":1' % number for number in range(25_000))


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (b'{"queries":[' + b"[]," * 80_000 + b"[]]}", "more lists"),
        (b'{"queries":[' + b"{}," * 90 + b"{}]}", "queries.0: nothing is given"),
        (
            b'{"queries":[{"embedding":[' + b'"a",' * 60_000 + b"1]}]}",
            "queries.0.embedding.0 is 'a'; it must be a number",
        ),
        (b'{"queries":[{"id":1' + NAMES + b"}]}", "queries.0: 0: there is no such field"),
        (b'{"queries":[{"id":1}]' + NAMES + b"}", "0: there is no such field"),
        (b'{"queries":[{"id":1}],"where":{"":1' + NAMES + b"}}", "25,001 columns"),
        (b'{"queries":[{"id":1}],"where":{"label":[' + b"{}," * 15_000 + b"1]}}", "a list of at most 1,000 of these"),
        (b'{"queries":[{"id":1}],"where":{"label":[' + b"null," * 900 + b"1]}}", "where: label must be"),
    ],
)
def test_one_error_is_made_of_json_full_of_errors(client, monkeypatch, body, part):
    made = []
    line_for = requests.line_for
    monkeypatch.setattr(requests, "line_for", lambda error: made.append(error.error_count()) or line_for(error))
    answer = client.post("/v1/search", content=body, headers={"Content-Type": "application/json"})
    assert_refused(answer, 422, part)
    assert sum(made) <= 20  # a value may be one of several types, which is an error for each


def test_bodies_are_parsed_in_a_thread(client, monkeypatch):
    threads = []
    for name in ("parse_json", "_parse_form"):
        parse = getattr(requests, name)
        monkeypatch.setattr(
            requests, name, lambda *given, parse=parse: threads.append(threading.current_thread().name) or parse(*given)
        )
    assert client.post("/v1/encode", json=asked(id=1)).status_code == 200
    assert client.post("/v1/encode", files={"image": png(np.zeros((8, 8)))}).status_code == 200
    assert len(threads) == 2
    assert all(name.startswith("lbhash-request") for name in threads)


def test_no_redirect_leads_to_the_host_that_a_request_names(client):
    for path in ("/health/", "/v1/search/", "/static", "/v1/info/"):
        answer = client.get(path, headers={"Host": "evil.example"}, follow_redirects=False)
        assert_refused(answer, 404)
        assert "evil" not in str(answer.headers)


def test_wrong_methods_and_places(client):
    assert_refused(client.get("/v1/search"), 405)
    for path in ("/", "/docs", "/static/app.js", "/health", "/ready", "/metrics", "/v1/info", "/v1/items/3/image"):
        asked, read = client.head(path), client.get(path)
        assert (asked.status_code, asked.headers["content-type"]) == (200, read.headers["content-type"])
    assert client.head("/v1/search").status_code == 405
    assert_refused(client.post("/health"), 405)
    assert_refused(client.get("/nothing"), 404, "there is no route '/nothing' for GET")
    assert_refused(client.post("/v1/items", json={}), 404, "start the service with --writable")


def test_the_host(digits_service):
    settings = Settings(digits_service.model, digits_service.index, hosts=("localhost", "[::1]"))
    names = ("evil.example", "localhost.evil.example", "evil.example:8000", "", "[::2]:8000", "[::1]evil.com")
    with TestClient(create_app(settings)) as client:
        for host in ("localhost", "localhost:8000", "LOCALHOST:1", "[::1]", "[::1]:8000"):
            assert client.get("/health", headers={"Host": host}).status_code == 200
        for host in (*names, "[::1]:evil", "[::1]:80evil.com", "localhost:evil", "localhost:80:80", "localhost/"):
            assert_refused(client.get("/health", headers={"Host": host}), 421, "host")


def test_pages_of_other_sites_are_refused_without_a_token(digits_service):
    local = "http://localhost:8000"
    sites = ("http://evil.example", "null", "", "http://localhost", "http://localhost:8001", "file://localhost:8000")
    body = {"files": {"image": png(np.zeros((8, 8)))}}
    with TestClient(create_app(digits_service), base_url=local) as client:
        assert client.post("/v1/encode", **body).status_code == 200
        for origin in (local, "http://LOCALHOST:8000"):
            assert client.post("/v1/encode", **body, headers={"Origin": origin}).status_code == 200
        for origin in (*sites, f"{local}.evil.example", f"{local}@evil.example", "localhost:8000"):
            for path in ("/v1/encode", "/v1/search"):
                assert_refused(client.post(path, **body, headers={"Origin": origin}), 403, "another web site")
        for scheme, host in (("http", "codes.example"), ("https", "codes.example"), ("https", "codes.example:443")):
            headers = {"Origin": f"{scheme}://codes.example", "Host": host}  # a proxy in front may do TLS
            assert client.get("/health", headers=headers).status_code == 200
    settings = Settings(digits_service.model, digits_service.index, read_token="s3cret")
    with TestClient(create_app(settings), base_url=local) as client:
        headers = {"Origin": "http://evil.example", "Authorization": "Bearer s3cret"}
        assert client.post("/v1/search", json=asked(id=0), headers=headers).status_code == 200
