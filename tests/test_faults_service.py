"""The tools that attack the service work: they count what a bad server does, and bring a good one through."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.faults import http_load, http_requests, http_service
from tests.faults.attack import Run
from tests.faults.http_service import Answer, Service, judge, request

pytestmark = pytest.mark.end_to_end

ROOT = Path(__file__).parent.parent

BAD = """
import http.server, sys

class Bad(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/traceback":
            print("Traceback (most recent call last):\\n  File\\nKeyError: 'bad'", file=sys.stderr, flush=True)
        self.answer(200, b'{"ready": true}')

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, said = {
            "/echo": (422, b'{"detail": "' + body + b'"}'),
            "/lines": (422, b'{"detail": "one\\\\nanother"}'),
            "/fail": (500, b'{"detail": "failed"}'),
        }.get(self.path, (200, b'{"answers": []}'))
        self.answer(status, said)

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bad)
print(f"listening on http://127.0.0.1:{server.server_port} ", file=sys.stderr, flush=True)
server.serve_forever()
"""


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    """A server that does nearly everything wrong."""
    folder = tmp_path_factory.mktemp("bad")
    (folder / "bad.py").write_text(BAD)
    service = Service([sys.executable, folder / "bad.py"], folder / "server.log")
    yield service
    service.end()


@pytest.fixture
def run(tmp_path):
    return Run("http", tmp_path, tmp_path, 0, 0.001)


def test_what_a_bad_server_answers_is_counted_as_what_it_is(bad):
    def ending(path, body=b"{}", **options):
        return judge(bad.ask(request("POST", path, body)), **options)[0]

    assert ending("/v1/search") == "survived"
    assert ending("/v1/search", refused=True) == "wrong"
    assert ending("/fail") == "crashed"
    assert ending("/lines") == "wrong"
    assert ending("/echo", b"short") == "refused"
    assert ending("/echo", b"long" * 1000) == "wrong"
    assert [judge(Answer(status))[0] for status in (-1, 0)] == ["crashed", "refused"]
    assert "wrong" in {http_requests.mislead(bad, random.Random(number), 0)[0] for number in range(30)}


def test_connections_that_stay_open_are_counted(bad, run, tmp_path):
    http_requests.hold(run, bad, [(b"", b"")] * 3, patience=0.01)
    assert run.counts == {"crashed": 3}
    http_requests.hold(run, bad, [(b"nonsense\r\n\r\n", b"")], patience=60)
    assert run.counts == {"crashed": 3, "refused": 1}


def test_each_limit_is_one(bad, run):
    good = {"health": [0.001] * 99, "bare": [0.001], "unanswered": 0, "searches": {"right": 3}}
    http_service.report(run, bad, good, 0, 0)
    assert run.findings == []
    for figures, grown, logged, said in (
        ({"health": [0.001] * 97 + [0.5] * 3}, 0, 0, "0.50 s at the 99th percentile"),
        ({"unanswered": 1}, 0, 0, "not answered 1 times"),
        ({"searches": {"wrong": 2}}, 0, 0, "something else: {'wrong': 2}"),
        ({"searches": {"unanswered": 2}}, 0, 0, "not answered: {'unanswered': 2}"),
        ({}, 201 << 20, 0, "memory grew by 201 MiB"),
        ({}, 0, 2 << 20, "the log grew by 2,048 KiB"),
    ):
        http_service.report(run, bad, {**good, **figures}, grown, logged)
        (finding,) = run.findings
        assert said in finding
        run.findings.clear()


def test_an_answer_of_another_state_is_wrong():
    codes = np.array([[0, 0], [1, 0]], np.uint8)
    state = http_load.State(np.arange(2), codes, np.arange(2), np.arange(2))
    index = http_load.Index(Path(), Path(), {1: state, 2: state.only(np.array([False, True]))}, state)

    def ending(generation, neighbors, seen=0):
        found = {"query": {"code": "0000"}, "neighbors": neighbors, "within": None}
        content = {"answers": [found], "generation": generation}
        asked = http_load.Asked("code", "0000", {}, Answer(200, {}, json.dumps(content).encode()), seen)
        return http_load.check(asked, index)

    first, second = (index.states[generation].neighbors(codes[0], {})[0] for generation in (1, 2))
    assert ending(1, first)[0] == ending(2, second)[0] == "survived"
    assert ending(2, first)[0] == ending(1, second)[0] == "wrong"
    assert ending(1, first, seen=2)[0] == "wrong"
    assert ending(3, first) is None
    gone = http_load.Asked("id", 0, {}, Answer(404, {}, b'{"detail": "no"}'), 2)
    assert http_load.check(gone, index)[0] == "survived"
    gone.value = 1
    assert http_load.check(gone, index) is None


def test_a_server_that_ended_or_wrote_a_traceback_is_found(bad, run):
    """The last one, as it ends the server."""
    bad.ask(request("GET", "/traceback"))
    bad.end()
    http_service.report(run, bad, {"health": [], "bare": [], "unanswered": 0, "searches": {}}, 0, 0)
    assert "ended with status" in run.findings[0]
    assert "KeyError: 'bad'" in run.findings[1]


@pytest.mark.slow
def test_every_attack_runs():
    """Which of them find something is said by the run of some minutes each, not here."""
    names = ["headers", "garbage", "disconnects", "images", "schema", "trickled", "few-handles", "unread", "load"]
    command = [sys.executable, "-m", "tests.faults", "--minutes", "0.02", *(f"http-{name}" for name in names)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "the attack itself stopped" not in done.stderr
    for name in names:
        assert f"| `http-{name}` |" in done.stdout, done.stderr
