"""The service as its operator sets it up: options from a file, a log for programs, TLS."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import re
import shutil
import ssl
import subprocess
import sys

import pytest
from fastapi.testclient import TestClient

from app_answers import HOME, assert_refused
from lbhash.service import create_app
from lbhash.service.log import REQUESTS, JsonLines, Sparing, request_id
from lbhash.service.server import tls_options

TOKENS = '[robot]\ntoken = "s3cret-of-the-robot"\nscopes = ["search"]\n'


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


@contextlib.contextmanager
def started(*options):
    """A real service in a process of its own, its port, and a function that ends it and returns the rest of its log."""
    command = [sys.executable, "-m", "lbhash", "serve", *map(str, options)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()
        found = re.search(r"listening on https?://127.0.0.1:(\d+) ", line)
        assert found, line + process.stderr.read()

        def end():
            process.terminate()  # it finishes what it does, and so its log
            return process.stderr.read()

        yield line, int(found[1]), end
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_all_of_it_together(digits_service, certificate, tmp_path):
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(TOKENS)
    tokens.chmod(0o600)
    config = tmp_path / "serve.toml"
    given = {"model": digits_service.model, "index": digits_service.index, "tokens": tokens}
    given |= {"ssl-certfile": certificate[0], "ssl_keyfile": certificate[1]}
    lines = [f"{name} = {json.dumps(str(value))}" for name, value in given.items()]
    config.write_text("\n".join([*lines, "port = 1", "json-log = true", "allow-host = ['127.0.0.1', 'a.example']"]))
    context = ssl.create_default_context(cafile=certificate[0])
    embedding = [7.0625] * 64
    with started("--config", config, "--port", 0) as (line, port, end):

        def ask(method, path, body=None, token="s3cret-of-the-robot", **headers):
            client = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
            client.request(method, path, body, {"Authorization": f"Bearer {token}", **headers})
            answer = client.getresponse()
            answer.read()
            return answer.status, answer.getheader("X-Request-ID")

        assert "https://" in json.loads(line)["message"]
        typed = {"Content-Type": "application/json"}
        body = json.dumps({"embedding": embedding})
        assert ask("POST", "/v1/search", body, **typed, **{"X-Request-ID": "from-the-proxy"}) == (200, "from-the-proxy")
        assert ask("GET", "/health", Host="b.example")[0] == 421
        assert ask("POST", "/v1/search", body.replace("embedding", "s3cret-field"), **typed)[0] == 422
        assert ask("GET", "/v1/about", token="s3cret-guess")[0] == 401
        status, last = ask("GET", "/s3cret-path?token=s3cret-query", **{"X-Request-ID": 'a"b\tc'})
        assert status == 404
        client = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
        client.putrequest("POST", "/v1/search")
        client.putheader("Authorization", "Bearer s3cret-of-the-robot")
        client.putheader("Content-Length", str(10**9))
        client.endheaders(b"x" * 1000)
        assert client.getresponse().status == 413
        assert ask("GET", "/health")[0] == 200
        log = end()
    assert "s3cret" not in log
    assert "7.0625" not in log  # no time has four decimals
    records = [json.loads(line) for line in log.splitlines()]
    assert not any("traceback" in one for one in records)
    asked = [one for one in records if one["message"] == "request"]
    assert [(one["method"], one["route"], one["status"], one["token"]) for one in asked] == [
        ("POST", "/search", 200, "robot"),
        ("GET", "none", 421, None),
        ("POST", "/search", 422, "robot"),
        ("GET", "none", 401, None),
        ("GET", "none", 404, "robot"),
        ("POST", "none", 413, "robot"),
        ("GET", "/health", 200, None),
    ]
    assert asked[0]["request_id"] == "from-the-proxy"
    assert asked[4]["request_id"] == last
    assert re.fullmatch("[0-9a-f]{16}", last)
    assert all(one["level"] == "info" and one["ms"] > 0 and one["time"].endswith("+00:00") for one in asked)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("modle = 'm'", ("an option in serve.toml is 'modle'", "model, index")),
        ("config = 'other.toml'", ("is 'config'",)),
        ("port = 'many'", ("'--port'", "integer")),
        ("port = 70000", ("'--port'", "65535")),
        ("verify = 'never'", ("'--verify'", "never")),
        ("model", ("no TOML",)),
        ("token = 's3cret'", ("others may read", "chmod 600")),
        ("host = '192.0.2.1'\nwritable = true", ("'192.0.2.1'", "--writable")),
    ],
)
def test_files_of_options_that_cannot_be(command, tmp_path, monkeypatch, text, parts):
    monkeypatch.delenv("LBHASH_TOKEN", raising=False)
    (tmp_path / "serve.toml").write_text(text)
    (tmp_path / "serve.toml").chmod(0o644)
    status, out, errors = command("serve", "--model", "m", "--index", "i", "--config", tmp_path / "serve.toml")
    assert (status, out, errors.count("\n")) == (2, "", 1)
    assert "s3cret" not in errors
    for part in parts:
        assert part in errors


def test_the_model_can_be_in_the_file(command, tmp_path):
    (tmp_path / "serve.toml").write_text("model = 'of-the-file'\nindex = 'i'\nport = 0")
    given = ("serve", "--config", tmp_path / "serve.toml")
    assert "model is 'of-the-file'" in command(*given)[2]
    assert "model is 'typed'" in command(*given, "--model", "typed")[2]
    assert "Missing option" in command("serve")[2]


def test_files_that_are_no_certificate(certificate, tmp_path):
    cert, key = certificate
    (tmp_path / "text.pem").write_text("text")
    locked = tmp_path / "locked.pem"
    shut = ["openssl", "ec", "-in", key, "-out", locked, "-aes256", "-passout", "pass:word"]
    subprocess.run(shut, check=True, capture_output=True)
    assert tls_options(None, None) == {}
    assert tls_options(cert, key) == {"ssl_certfile": str(cert), "ssl_keyfile": str(key)}
    for files in ((tmp_path / "no.pem", key), (cert, tmp_path / "text.pem"), (cert, locked), (cert, None)):
        with pytest.raises(ValueError, match=r"ssl_certfile is .* must be a certificate and its key"):
            tls_options(*files)
    with pytest.raises(ValueError, match="ssl_keyfile is given without ssl_certfile"):
        tls_options(None, key)


def test_what_fails_is_logged_with_its_level(digits_service, caplog, monkeypatch):
    app = create_app(digits_service)
    with TestClient(app, base_url=HOME, raise_server_exceptions=False) as client:
        monkeypatch.setattr(app.state.service.engine, "about", lambda: 1 / 0)
        assert client.get("/v1/about").status_code == 500
        assert not [record for record in caplog.records if record.name == REQUESTS.name]  # it has to be wanted
        caplog.set_level(logging.INFO, REQUESTS.name)
        assert_refused(client.get("/v1/about"), 500, "its log says why")
        monkeypatch.setattr(app.state.service.engine, "about", lambda: (_ for _ in ()).throw(MemoryError))
        assert client.get("/v1/about").status_code == 503
        assert client.get("/health").headers["x-request-id"]
    records = [record for record in caplog.records if record.name == REQUESTS.name]
    told = [(record.levelname, record.facts["route"], record.facts["status"]) for record in records]
    assert told == [("ERROR", "/about", 500), ("WARNING", "/about", 503), ("INFO", "/health", 200)]


def test_lines_of_the_log_are_json():
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
    assert all(sparing.filter(logging.makeLogRecord({"name": REQUESTS.name, "msg": "request"})) for _ in range(500))
    assert request_id("a" * 64) == "a" * 64
    assert all(request_id(wrong) != wrong for wrong in (None, "", "a" * 65, "a b", "a\nb", "é"))
