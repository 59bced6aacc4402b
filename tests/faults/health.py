"""Asks a service for ``/health`` every 50 ms, and for a search four times a second, until its standard input ends.

A program of its own, so that an attack that keeps its own process busy is not taken for a service that is late:
``python tests/faults/health.py PORT REQUEST ANSWER``. It prints JSON: the latencies of ``/health`` in seconds, beside
them those of a bare server on the same machine, how often ``/health`` was not answered, and how the searches ended.
ANSWER is what every search finds, or ``null`` if that changes.
"""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import Any

EVERY, SEARCH_EVERY, PATIENCE = 0.05, 0.25, 60.0


ANSWER = b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\nConnection: close\r\n\r\n{"ready": true}'


def serve() -> None:
    """Serve as a program that does nothing else would: its latency is that of the machine."""
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as listening:
        print(listening.getsockname()[1], flush=True)
        while True:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(ANSWER)


def ask(port: int, body: bytes | None) -> tuple[int, Any]:
    """Return status and content of ``/health``, or of a search, asked on a new connection; 0 if there is no answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        if body is None:
            connection.request("GET", "/health")
        else:
            connection.request("POST", "/v1/search", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.load(answer)
    except (OSError, http.client.HTTPException, ValueError):
        return 0, None
    finally:
        connection.close()


def watch_health(port: int, stopped: threading.Event, seen: dict[str, Any], name: str) -> None:
    """Ask when it is due; a late answer also counts for the questions that were due while it was awaited."""
    due = time.monotonic()
    while not stopped.wait(max(0.0, due - time.monotonic())):
        asked = time.monotonic()
        status, content = ask(port, None)
        took = time.monotonic() - asked
        if status != 200 or not content.get("ready"):
            seen["unanswered"] += name == "health"
        seen[name].append(took)
        due = asked + EVERY
        while due < asked + took:
            seen[name].append(asked + took - due)
            due += EVERY


def watch_search(port: int, body: bytes, expected: Any, stopped: threading.Event, ended: Counter[str]) -> None:
    """Ask as a good client would, and compare what was found."""
    while not stopped.wait(SEARCH_EVERY):
        status, content = ask(port, body)
        if status == 200:
            ended["right" if expected is None or content["answers"][0]["neighbors"] == expected else "wrong"] += 1
        else:
            ended["refused" if status == 503 else "unanswered"] += 1


def main() -> None:
    """Watch until standard input ends."""
    if sys.argv[1:] == ["serve"]:
        serve()
    bare = subprocess.Popen([sys.executable, __file__, "serve"], stdout=subprocess.PIPE, text=True)
    assert bare.stdout is not None
    port, body, expected = int(sys.argv[1]), sys.argv[2].encode(), json.loads(sys.argv[3])
    stopped, seen, searches = threading.Event(), {"health": [], "bare": [], "unanswered": 0}, Counter[str]()
    threads = [
        threading.Thread(target=watch_health, args=(port, stopped, seen, "health")),
        threading.Thread(target=watch_health, args=(int(bare.stdout.readline()), stopped, seen, "bare")),
        threading.Thread(target=watch_search, args=(port, body, expected, stopped, searches)),
    ]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    stopped.set()
    for thread in threads:
        thread.join()
    bare.kill()
    json.dump({**seen, "searches": searches}, sys.stdout)


if __name__ == "__main__":
    main()
