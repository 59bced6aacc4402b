from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest

from lbhash.service.server import allowed_hosts, is_loopback


@contextlib.contextmanager
def service(settings, *more, before=()):
    """A real ``lbhash serve`` in a process of its own, and its port."""
    command = [sys.executable, "-m", "lbhash", "serve", "--model", settings.model, "--index", settings.index]
    process = subprocess.Popen([*before, *map(str, command), "--port", "0", *more], stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()
        assert line.startswith("listening on http://127.0.0.1:"), line + process.stderr.read()
        yield process, int(re.search(r":(\d+) ", line)[1])
    finally:
        process.kill()
        process.communicate()


def test_sigterm_finishes_what_is_running_and_takes_no_more(digits_service):
    with service(digits_service) as (process, port):
        body = json.dumps({"id": 0, "k": 3}).encode()
        running = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        running.putrequest("POST", "/search")
        running.putheader("Content-Type", "application/json")
        running.putheader("Content-Length", str(len(body)))
        running.endheaders(body[:5])
        other = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        other.request("GET", "/health")  # answered, so that the first request is under way too
        assert other.getresponse().read()
        process.send_signal(signal.SIGTERM)
        ended = time.monotonic() + 20
        while time.monotonic() < ended:
            try:
                http.client.HTTPConnection("127.0.0.1", port, timeout=5).connect()
            except ConnectionRefusedError:
                break
            time.sleep(0.02)
        else:
            pytest.fail("it still accepts connections")
        assert process.poll() is None
        running.send(body[5:])
        answer = running.getresponse()
        assert answer.status == 200
        assert len(json.load(answer)["neighbors"]) == 3
        running.close()
        assert process.wait(30) == 0


def test_few_files_and_very_many_connections(digits_service):
    few = ["sh", "-c", 'ulimit -n 64 && exec "$@"', "sh"]
    with service(digits_service, before=few) as (process, port), contextlib.ExitStack() as opened:
        for _ in range(300):
            opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
        for _ in range(3):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/health")
            assert connection.getresponse().status == 200
        process.kill()
        assert "Traceback" not in process.stderr.read()


def test_files_that_are_cut_in_place_change_no_answer(digits_service, tmp_path):
    shutil.copytree(digits_service.index, tmp_path / "i")
    with service(replace(digits_service, index=tmp_path / "i")) as (process, port):

        def search():
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            question = json.dumps({"id": 3, "k": 9, "where": {"label": [3, 5]}})
            client.request("POST", "/search", question, {"Content-Type": "application/json"})
            answer = client.getresponse()
            return answer.status, json.load(answer)["neighbors"]

        before = search()
        assert before[0] == 200
        for file in (tmp_path / "i").glob("0*"):
            os.truncate(file, 0)
        assert search() == before
        assert process.poll() is None


def test_a_damaged_index_is_not_served(command, digits_service, tmp_path):
    shutil.copytree(digits_service.index, tmp_path / "i")
    flip(tmp_path / "i")
    said = command("serve", "--model", digits_service.model, "--index", tmp_path / "i", "--port", 0)
    assert said == (2, "", "lbhash: error: index is damaged: the checksum of 00000001.0.codes.npy is wrong\n")


def flip(folder):
    (file,) = folder.glob("*.codes.npy")
    content = bytearray(file.read_bytes())
    content[500] ^= 1
    file.write_bytes(content)


def test_no_process_is_left_behind(digits_service):
    with service(digits_service, "--data", "digits") as (process, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/row/1/image")
        image = connection.getresponse().read()
        boundary = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n%s\r\n--x--' % image
        connection.request("POST", "/encode", boundary, {"Content-Type": "multipart/form-data; boundary=x"})
        assert json.load(connection.getresponse())["bits"] == 16
        children = psutil.Process(process.pid).children(recursive=True)
        assert children
        process.send_signal(signal.SIGINT)
        assert process.wait(30) in (0, 130, -signal.SIGINT)  # 0 where the parent ignores the signal
        gone = time.monotonic() + 20
        while any(_is_there(child) for child in children):
            assert time.monotonic() < gone
            time.sleep(0.05)


def _is_there(process):
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def assert_refused(result, *parts):
    status, out, errors = result
    assert (status, out) == (2, "")
    assert errors.startswith("lbhash: error: ")
    assert errors.count("\n") == 1
    for part in parts:
        assert part in errors, errors


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_beyond_this_machine_only_with_a_token(command, host, monkeypatch):
    monkeypatch.delenv("LBHASH_TOKEN", raising=False)
    result = command("serve", "--model", "m", "--index", "i", "--host", host)
    assert_refused(result, f"host is '{host}'", "--token", "--no-token")


def test_what_else_is_refused(command, digits_service, tmp_path, monkeypatch):
    model, index = digits_service.model, digits_service.index
    there = ("serve", "--port", 0, "--model", model, "--index", index)
    assert_refused(command(*there[:3], "--model", tmp_path / "no", "--index", index), "there is no such folder")
    assert_refused(command(*there[:5], "--index", tmp_path / "no"), "index is")
    assert_refused(command(*there, "--data", tmp_path / "no.parquet"), "there is no such file")
    assert_refused(command(*there, "--max-body", 0), "max_body is 0")
    assert_refused(command(*there, "--token", "a", "--no-token"), "--no-token")
    assert_refused(command(*there, "--port", 70000), "65535")
    monkeypatch.setenv("LBHASH_TOKEN", "a")
    assert_refused(command(*there, "--host", "192.0.2.1"), "192.0.2.1", "cannot listen")
    assert_refused(command(*there, "--token", ""), "token is empty")


def test_a_port_that_is_taken(command, digits_service):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = command("serve", "--model", digits_service.model, "--index", digits_service.index, "--port", port)
    assert_refused(result, f"port {port}", "in use")


def test_which_hosts_are_this_machine():
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.1.2.3", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "localhost.example.org", "")))
    assert {"localhost", "127.0.0.1", "[::1]"} == set(allowed_hosts("127.0.0.1", False, []))
    assert allowed_hosts("::1", False, ["search.example.org"])[-2:] == ("[::1]", "search.example.org")
    assert (
        allowed_hosts("127.0.0.1", True, [])
        == allowed_hosts("0.0.0.0", False, [])
        == allowed_hosts("127.0.0.1", False, ["*"])
        == ()
    )
