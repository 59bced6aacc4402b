"""``lbhash serve``: the process itself, its options, its log and TLS."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time

import psutil
import pytest
from fastapi.testclient import TestClient
from tests.faults.http_service import form

import app_answers
from app_answers import HOME
from lbhash.service import create_app
from lbhash.service.monitor import REQUESTS, JsonLines, Sparing
from lbhash.service.server import allowed_hosts, is_loopback, tls_options

pytestmark = pytest.mark.end_to_end

TOKEN = "s3cret-to-read"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate of 127.0.0.1 and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out cert.pem"
    command += " -days 3650 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture
def service(digits_service, certificate, tmp_path):
    """A real service with nearly every option in a process of its own, its index's folder, and what connects to it."""
    index = shutil.copytree(digits_service.index, tmp_path / "i")
    given = {"model": digits_service.model, "data": "digits", "port": 0}
    given |= {"ssl-certfile": certificate[0], "ssl-keyfile": certificate[1]}
    command = [sys.executable, "-m", "lbhash", "serve", str(index), "--json-log"]
    command += ["--allow-host", "127.0.0.1,a.example", *(f"--{name}={value}" for name, value in given.items())]
    environment = {**os.environ, "LBHASH_READ_TOKEN": TOKEN, "LBHASH_WRITE_TOKEN": "s3cret-to-write"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    context = ssl.create_default_context(cafile=certificate[0])
    try:
        line = process.stderr.readline()
        found = re.search(r"listening on https://127.0.0.1:(\d+) ", line)
        assert found, line + process.stderr.read()
        port = int(found[1])
        yield process, index, lambda: http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_a_real_service_from_its_start_to_its_end(service):
    process, index, connect = service

    def ask(method, path, body=None, token=TOKEN, **headers):
        client = connect()
        client.request(method, path, body, {"Authorization": f"Bearer {token}", **headers})
        answer = client.getresponse()
        return answer.status, answer.getheader("X-Request-ID"), answer.read()

    typed = {"Content-Type": "application/json"}
    body = json.dumps({"queries": [{"embedding": [7.0625] * 64}], "k": 3})
    status, name, first = ask("POST", "/v1/search", body, **typed, **{"X-Request-ID": "from-the-proxy"})
    assert (status, name) == (200, "from-the-proxy")
    assert ask("GET", "/health", Host="b.example")[0] == 421
    assert ask("POST", "/v1/search", body.replace("embedding", "s3cret-field"), **typed)[0] == 422
    assert ask("GET", "/v1/info", token="s3cret-guess")[0] == 401
    status, last, _ = ask("GET", "/s3cret-path?token=s3cret-query", **{"X-Request-ID": 'a"b\tc'})
    assert status == 404
    client = connect()
    client.putrequest("POST", "/v1/search")
    client.putheader("Authorization", f"Bearer {TOKEN}")
    client.putheader("Content-Length", str(10**9))
    client.endheaders(b"x" * 1000)
    assert client.getresponse().status == 413
    client.close()
    client = connect()
    client.request("POST", "/v1/search", bytes(18 << 20))
    answer = client.getresponse()
    assert (answer.status, answer.getheader("Connection")) == (401, "close")
    client.close()

    # Files that are cut in place change no answer.
    for file in index.glob("0*"):
        os.truncate(file, 0)
    assert json.loads(ask("POST", "/v1/search", body, **typed)[2])["answers"] == json.loads(first)["answers"]

    # Images are decoded by children, which end with the service.
    content, kind = form(ask("GET", "/v1/items/1/image")[2])
    assert json.loads(ask("POST", "/v1/encode", content, **{"Content-Type": kind})[2])["answers"][0]["bits"] == 16
    children = psutil.Process(process.pid).children(recursive=True)
    assert children

    # SIGTERM: no more connections, but the running request is answered.
    running = connect()
    running.putrequest("POST", "/v1/search")
    for header in {"Authorization": f"Bearer {TOKEN}", "Content-Length": len(body), **typed}.items():
        running.putheader(*header)
    running.endheaders(body[:5].encode())
    assert ask("GET", "/health")[0] == 200  # so that the other request is under way, too
    process.send_signal(signal.SIGTERM)
    ended = time.monotonic() + 20
    with contextlib.suppress(ConnectionRefusedError):
        while connect().connect() is None:
            assert time.monotonic() < ended, "it still accepts connections"
            time.sleep(0.02)
    assert process.poll() is None
    running.send(body[5:].encode())
    answer = running.getresponse()
    assert (answer.status, len(json.load(answer)["answers"][0]["neighbors"])) == (200, 3)
    running.close()
    log = process.stderr.read()
    assert process.wait(30) == 0
    assert not psutil.wait_procs(children, timeout=20)[1]

    assert "s3cret" not in log
    assert "7.0625" not in log  # no time has four decimals
    records = [json.loads(line) for line in log.splitlines()]
    assert not any("traceback" in one for one in records)
    asked = [one for one in records if one["message"] == "request"]
    assert [(one["method"], one["route"], one["status"]) for one in asked] == [
        ("POST", "/search", 200),
        ("GET", "none", 421),
        ("POST", "/search", 422),
        ("GET", "none", 401),
        ("GET", "none", 404),
        ("POST", "none", 413),
        ("POST", "none", 401),
        ("POST", "/search", 200),
        ("GET", "/items/{id}/image", 200),
        ("POST", "/encode", 200),
        ("GET", "/health", 200),
        ("POST", "/search", 200),
    ]
    assert asked[0]["request_id"] == "from-the-proxy"
    assert asked[4]["request_id"] == last
    assert re.fullmatch("[0-9a-f]{16}", last)
    assert all(one["level"] == "info" and one["ms"] > 0 and one["time"].endswith("+00:00") for one in asked)


def assert_refused(result, *parts):
    status, out, errors = result
    assert (status, out, errors.count("\n")) == (2, "", 1)
    assert "s3cret" not in errors
    for part in parts:
        assert part in errors, errors


def test_what_is_refused(command, digits_service, tmp_path, monkeypatch):
    model, index = digits_service.model, digits_service.index
    there = ("serve", index, "--port", 0, "--model", model)
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        assert_refused(command(*there, "--host", host), f"host is '{host}'", "LBHASH_READ_TOKEN", "--no-token")
        writable = command(*there, "--host", host, "--writable", "--no-token")
        assert_refused(writable, f"host is '{host}'", "LBHASH_WRITE_TOKEN")
    assert_refused(command(*there[:4], "--model", tmp_path / "no"), "there is no such folder")
    assert_refused(command("serve", tmp_path / "no", *there[2:]), "index is")
    assert_refused(command(*there, "--data", tmp_path / "no.parquet"), "there is no such file")
    assert_refused(command(*there, "--concurrency", 0), "concurrency is 0")
    assert "INDEX is missing" in command("serve")[2]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert_refused(command(*there[:2], "--port", port, *there[4:]), f"port {port}", "in use")
    monkeypatch.setenv("LBHASH_READ_TOKEN", "s3cret")
    assert_refused(command(*there, "--host", "192.0.2.1"), "192.0.2.1", "cannot listen")
    assert_refused(command(*there, "--no-token"), "LBHASH_READ_TOKEN is given, and so is --no-token")
    assert_refused(command(*there, "--writable"), "no write_token", "LBHASH_WRITE_TOKEN")
    monkeypatch.setenv("LBHASH_READ_TOKEN", "")
    assert_refused(command(*there), "read_token is empty")


def test_which_hosts_are_this_machine():
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.1.2.3", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "localhost.example.org", "")))
    assert {"localhost", "127.0.0.1", "[::1]"} == set(allowed_hosts("127.0.0.1", False, []))
    assert allowed_hosts("::1", False, ["search.example.org"])[-2:] == ("[::1]", "search.example.org")
    for given in (("127.0.0.1", True, []), ("0.0.0.0", False, []), ("127.0.0.1", False, ["*"])):
        assert allowed_hosts(*given) == ()


def test_files_that_are_no_certificate(certificate, tmp_path):
    cert, key = certificate
    (tmp_path / "text.pem").write_text("text")
    locked = tmp_path / "locked.pem"
    shut = ["openssl", "ec", "-in", key, "-out", locked, "-aes256", "-passout", "pass:word"]
    subprocess.run(shut, check=True, capture_output=True)
    assert tls_options(None, None) == {}
    for files in ((tmp_path / "no.pem", key), (cert, tmp_path / "text.pem"), (cert, locked), (cert, None)):
        with pytest.raises(ValueError, match=r"ssl_certfile is .* must be a certificate and its key"):
            tls_options(*files)
    with pytest.raises(ValueError, match="ssl_keyfile is given without ssl_certfile"):
        tls_options(None, key)


def test_what_fails_is_logged_with_its_level(digits_service, caplog, monkeypatch):
    app = create_app(digits_service)
    with TestClient(app, base_url=HOME, raise_server_exceptions=False) as client:
        monkeypatch.setattr(app.state.service.engine, "info", lambda: 1 / 0)
        assert client.get("/v1/info").status_code == 500
        assert not [record for record in caplog.records if record.name == REQUESTS.name]  # it has to be wanted
        caplog.set_level(logging.INFO, REQUESTS.name)
        app_answers.assert_refused(client.get("/v1/info"), 500, "its log says why")
        monkeypatch.setattr(app.state.service.engine, "info", lambda: (_ for _ in ()).throw(MemoryError))
        assert client.get("/v1/info").status_code == 503
        assert client.get("/health").headers["x-request-id"]
        for name in ("a" * 64, "a" * 65, "a b", ""):
            answered = client.get("/health", headers={"X-Request-ID": name}).headers["x-request-id"]
            assert (answered == name) == (name == "a" * 64)
    records = [record for record in caplog.records if record.name == REQUESTS.name]
    told = [(record.levelname, record.facts["route"], record.facts["status"]) for record in records]
    assert told == [("ERROR", "/info", 500), ("WARNING", "/info", 503), *5 * [("INFO", "/health", 200)]]


def test_lines_of_the_log_are_json_and_few():
    try:
        raise ValueError("a\nb")
    except ValueError:
        error = sys.exc_info()
    record = logging.makeLogRecord(
        {"msg": "no %s\n", "args": ('"x"\n\u2028',), "levelname": "ERROR", "exc_info": error}
    )
    line = JsonLines().format(record)
    assert line.count("\n") == 0
    assert json.loads(line)["message"] == 'no "x"'
    assert "ValueError: a\nb" in json.loads(line)["traceback"]
    sparing = Sparing()

    def passed(count, text, minute, name="uvicorn.error"):
        records = [logging.makeLogRecord({"name": name, "msg": text, "created": 60.0 * minute}) for _ in range(count)]
        return [record.getMessage() for record in records if sparing.filter(record)]

    lines = passed(1000, "socket.accept() out of system resource\nsocket: 1", 5)
    assert [line.endswith("(no more of these in this minute)") for line in lines] == [False] * 9 + [True]
    assert passed(1, "something else", 5) == ["something else"]
    assert len(passed(1000, "socket.accept() out of system resource\nsocket: 2", 6)) == 10
    assert len(passed(500, "request", 6, REQUESTS.name)) == 500
