"""The real service as a child process, raw requests to it, and what is watched beside an attack."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import random
import re
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
from tests.faults import health
from tests.faults.attack import Run

GOOD, ATTACKER = "127.0.0.1", "127.0.0.66"
"""Where good clients and attacks come from: two addresses, since a service may limit what one address gets."""

LATE, GROWTH, LOG = 0.2, 200 << 20, 1 << 20
"""The limits: the 99th percentile of ``/health`` in seconds, and by how much memory and log may grow, in bytes."""

Ending = tuple[str, str]
"""An outcome of ``Run.count``, and why."""


@dataclass
class Answer:
    """What came back: ``status`` is 0 if the connection was closed without an answer, -1 if neither happened in time.

    ``after`` is how many bytes were sent after the answer was there, ``open`` whether the connection was open still.
    """

    status: int = -1
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    after: int = 0
    open: bool = True


def material(run: Run) -> Path:
    """Return a folder with a small model of the digits, an index and the codes of all rows; made once."""
    folder = run.shared / "service"
    if folder.exists():
        return folder
    given = ("digits", "--model", folder / "model")
    lbhash("train", "digits", "--bits", 16, "--hidden", 32, "--epochs", 1, "--out", folder / "model")
    lbhash("encode", *given, "--out", folder / "codes.parquet")
    lbhash("index", "build", *given, "--out", folder / "index")
    return folder


def lbhash(*arguments: object) -> str:
    """Run a command of ``lbhash`` in a process of its own, and return what it prints."""
    command = [sys.executable, "-m", "lbhash", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-1000:]}")
    return done.stdout


class Client:
    """Whoever asks the service at a ``port``."""

    def __init__(self, port: int) -> None:
        self.port = port

    def connect(self, source: str = ATTACKER) -> socket.socket:
        """Return a new connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=30, source_address=(source, 0))

    def ask(self, *chunks: bytes, source: str = ATTACKER, seconds: float = 60.0) -> Answer:
        """Send a request on a connection of its own, and return the answer."""
        try:
            connection = self.connect(source)
        except OSError:
            return Answer(0, open=False)
        with connection:
            return exchange(connection, chunks, seconds)

    def get(self, path: str) -> Any:
        """Return the content of an answer in JSON."""
        return json.loads(self.ask(request("GET", path), source=GOOD).body)


class Service(Client):
    """A running service: its process and its log."""

    def __init__(self, command: Sequence[object], log: Path, handles: int | None = None) -> None:
        self.log = log
        limit = ["prlimit", f"--nofile={handles}"] if handles else []
        with log.open("wb") as errors:
            self.process = subprocess.Popen([*limit, *map(str, command)], stderr=errors)
        while (found := re.search(rb"^listening on http://\S+:(\d+)", log.read_bytes())) is None:
            if self.process.poll() is not None:
                raise RuntimeError(f"the service did not start: {log.read_text()[-1000:]}")
            time.sleep(0.02)
        super().__init__(int(found[1]))

    def end(self) -> None:
        """Kill it with its children."""
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(self.process.pid).children(recursive=True)
            self.process.kill()
            for child in children:
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
        self.process.wait()


def request(
    method: str, path: str, body: bytes | None = None, headers: Iterable[tuple[str, str]] = (), host: str = "127.0.0.1"
) -> bytes:
    """Return a request as it is sent; a body is JSON if ``headers`` have no ``Content-Type``."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body is not None:
        if not any(name.lower() == "content-type" for name, _ in headers):
            lines.append("Content-Type: application/json")
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


def form(image: bytes, fields: Iterable[tuple[str, str]] = (), boundary: str = "limit") -> tuple[bytes, str]:
    """Return the body of a form with an image, and its type."""
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields
    ]
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'
    content = "".join(parts).encode() + head.encode() + image + f"\r\n--{boundary}--\r\n".encode()
    return content, f"multipart/form-data; boundary={boundary}"


def parse(received: bytes, ended: bool) -> Answer | None:
    """Return the first answer in what was received; None if there is no whole one."""
    response = http.client.HTTPResponse(SimpleNamespace(makefile=lambda _: io.BytesIO(received)))  # type: ignore
    try:
        response.begin()
        to_the_end = response.length is None and not response.chunked
        body, whole = response.read(), ended or not to_the_end
    except http.client.IncompleteRead as short:
        body, whole = short.partial, ended
    except (http.client.HTTPException, OSError, ValueError):
        return None
    headers = {name.lower(): value.lower() for name, value in response.getheaders()}
    return Answer(response.status, headers, body) if whole else None


def exchange(
    connection: socket.socket, chunks: Iterable[bytes], seconds: float = 60.0, seconds_after: float = 0.0
) -> Answer:
    """Send while listening, as a patient client would, until the answer is there, or the connection is closed.

    It goes on for ``seconds_after`` the answer, if the connection is not closed before.
    """
    source, ahead, received, answer = iter(chunks), memoryview(b""), bytearray(), None
    ends, sending, listening, is_open, after = time.monotonic() + seconds, True, True, True, 0
    connection.setblocking(False)
    poll = select.poll()
    poll.register(connection)
    while is_open and time.monotonic() < ends:
        if sending and not ahead:
            chunk = next(source, None)
            ahead, sending = memoryview(chunk or b""), chunk is not None
        poll.modify(connection, (select.POLLIN if listening else 0) | (select.POLLOUT if ahead else 0))
        for _, events in poll.poll(200):
            try:
                if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                    data = connection.recv(1 << 20)
                    is_open = bool(data) or (listening and seconds_after > 0)  # its end may still take what is sent
                    listening = bool(data)
                    received += data
                    if answer is None and (answer := parse(bytes(received), not listening)) is not None:
                        ends = time.monotonic() + seconds_after
                elif events & select.POLLOUT:
                    sent = connection.send(ahead)
                    ahead = ahead[sent:]
                    after += sent if answer is not None else 0
            except BlockingIOError:
                pass
            except OSError:  # reset: whatever was received counts
                is_open = False
    answer = answer or parse(bytes(received), True) or Answer(0 if not is_open else -1)
    answer.after, answer.open = after, is_open
    return answer


def judge(answer: Answer, *, refused: bool = False) -> Ending:
    """Return what an answer comes to: right or refused in one line, else what is wrong with it.

    With ``refused`` there must be no answer but a refusal.
    """
    line = answer.body[:80]
    if answer.status == 0:
        return "refused", "closed"
    if answer.status < 0:
        return "crashed", "neither answered nor closed"
    if answer.status == 200:
        return ("wrong", f"answered: {line!r}") if refused else ("survived", "")
    if answer.status >= 500 and answer.status != 503:
        return "crashed", f"status {answer.status}: {line!r}"
    try:
        content = json.loads(answer.body)
        detail = content["detail"] if set(content) == {"detail"} else None
    except (ValueError, TypeError):
        # What is no HTTP is refused by the server below the application, in plain text.
        detail = answer.body.decode("latin-1") if answer.headers.get("content-type", "").startswith("text/") else None
    if not isinstance(detail, str) or not detail.strip() or "\n" in detail or len(detail) > 500:
        return "wrong", f"status {answer.status} without one line that says why: {len(answer.body):,} bytes, {line!r}"
    return "refused", detail


@contextlib.contextmanager
def served(run: Run, index: Path | None = None, handles: int | None = None, steady: bool = True) -> Iterator[Service]:
    """Run a service, let its time begin when it is ready, and count at the end what it came to beside the attack.

    It has the index of ``material`` if no other is given, and so many file ``handles``. ``steady`` says that the index
    stays as it is, so that a search that is repeated finds the same.
    """
    folder = material(run)
    given = (index or folder / "index", "--model", folder / "model", "--data", "digits", "--port", 0)
    service = Service([sys.executable, "-m", "lbhash", "serve", *given], run.folder / "server.log", handles)
    try:
        with watched(run, service, steady):
            run.started = time.monotonic()
            yield service
    finally:
        service.end()


@contextlib.contextmanager
def watched(run: Run, service: Service, steady: bool) -> Iterator[None]:
    """Watch health, searches, memory and log while the block runs, and count and note what they came to."""
    while service.get("/page/map")["pending"] or service.get("/page/summary")["state"] == "computing":
        time.sleep(0.1)  # otherwise what it computes at the start would be taken for what the attack does
    body = json.dumps({"queries": [{"id": service_id(service)}], "k": 5}).encode()
    first = json.loads(service.ask(request("POST", "/v1/search", body), source=GOOD).body)
    picture = service.ask(request("GET", "/page/rows/1/image"), source=GOOD).body
    content, kind = form(picture)
    service.ask(request("POST", "/v1/encode", content, [("Content-Type", kind)]), source=GOOD)
    expected = json.dumps(first["answers"][0]["neighbors"] if steady else None)
    program = [sys.executable, health.__file__, str(service.port), body.decode(), expected]
    watcher = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    memory, log_before = Memory(service.process.pid), service.log.stat().st_size
    try:
        yield
    finally:
        grown = memory.end()
        seen = json.loads(watcher.communicate()[0])
        report(run, service, seen, grown, service.log.stat().st_size - log_before)


def service_id(service: Service) -> int:
    """Return an id that the index has, and which attacks leave in it."""
    return service.get("/page/map")["ids"][0]


class Memory:
    """The most memory that a process had since this was made, beyond what it had then."""

    def __init__(self, process: int) -> None:
        self._process, self._stopped = psutil.Process(process), threading.Event()
        self._before = self._most = self._process.memory_info().rss
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            ended = False
            while not ended:  # the last look is after the end
                ended = self._stopped.wait(0.05)
                self._most = max(self._most, self._process.memory_info().rss)

    def end(self) -> int:
        """Return by how many bytes it grew at most."""
        self._stopped.set()
        self._thread.join()
        return self._most - self._before


def report(run: Run, service: Service, seen: dict[str, Any], grown: int, logged: int) -> None:
    """Note the figures, and count each limit that was passed as a crash, since others had to suffer for the attack."""
    late, searches = percentiles(seen["health"])[1], seen["searches"]
    run.note("/health p50, p99, max", shown(seen["health"]))
    run.note("the same of a server that does nothing", shown(seen["bare"]))
    run.note("memory", f"+{grown / (1 << 20):,.0f} MiB")
    run.note("log", f"+{logged / 1024:,.0f} KiB")
    run.note("searches beside", " ".join(f"{count:,} {name}" for name, count in sorted(searches.items())) or "none")
    with service.log.open("rb") as file:
        start = file.read(LOG)
    place = start.find(b"Traceback")
    # Its last line is the first one that is not indented, and says what was raised.
    raised = re.search(rb"(?m)^(?!Traceback)\S.*", start[max(place, 0) :])
    for found, outcome, what in (
        (service.process.poll() is not None, "crashed", f"the service ended with status {service.process.returncode}"),
        (
            seen["unanswered"],
            "crashed",
            f"/health was not answered {seen['unanswered']} times",
        ),
        (late >= LATE, "over", f"/health took {late:.2f} s at the 99th percentile; the limit is {LATE} s"),
        (searches.get("wrong"), "wrong", f"searches beside the attack found something else: {searches}"),
        (searches.get("unanswered"), "crashed", f"searches beside the attack were not answered: {searches}"),
        (grown > GROWTH, "over", f"memory grew by {grown >> 20:,} MiB; the limit is {GROWTH >> 20} MiB"),
        (logged > LOG, "over", f"the log grew by {logged >> 10:,} KiB; the limit is {LOG >> 10:,} KiB"),
        (place >= 0, "crashed", f"the log has tracebacks, the first of {(raised or [b'?'])[0][:300]!r}"),
    ):
        if found:
            run.count(outcome, what)


def percentiles(latencies: list[float]) -> list[float]:
    """Return the median, the 99th percentile and the largest."""
    ordered = sorted(latencies) or [0.0]
    return [ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in (0.5, 0.99, 1.0)]


def shown(latencies: list[float]) -> str:
    """Return these figures of seconds in milliseconds."""
    return " / ".join(f"{1e3 * second:,.0f}" for second in percentiles(latencies)) + " ms"


def at_once(run: Run, clients: int, one: Callable[[random.Random], Ending]) -> None:
    """Let so many clients at once try ``one`` fault each, again and again until the run is over."""
    with ThreadPoolExecutor(clients) as pool:
        for rng in run.faults():
            for outcome, what in pool.map(one, [random.Random(rng.random()) for _ in range(clients)]):
                run.count(outcome, what)
