"""Requests that a service has to refuse or to bear, while ``/health`` and a search are asked beside them."""

from __future__ import annotations

import contextlib
import itertools
import random
import resource
import select
import socket
import struct
import time
from collections.abc import Callable

from tests.faults.attack import Run, attack
from tests.faults.http_service import (
    Answer,
    Client,
    Ending,
    Service,
    at_once,
    exchange,
    form,
    judge,
    parse,
    request,
    served,
    service_id,
)  # fmt: skip

BODY = (16 << 20) - 1024
"""Just below the largest body of a service."""

PATIENCE, SECONDS_AFTER = 90.0, 15.0
"""Seconds after which a connection that asks for nothing must be gone, and one that was refused and goes on sending."""


def _filled(start: bytes, unit: bytes, end: bytes) -> Callable[[int], bytes]:
    return lambda size: start + unit * (size // len(unit)) + end


def _numbered(start: bytes, unit: bytes, end: bytes) -> Callable[[int], bytes]:
    return lambda size: start + b",".join(unit % n for n in range(size // 14)) + end


ASKED = b'{"queries":[{"id":1}],'
BODIES: list[Callable[[int], bytes]] = [
    _filled(b'{"queries":[', b"[],", b"[]]}"),
    _filled(b'{"queries":[', b'{"id":1},', b"0]}"),
    _filled(b'{"queries":[{"embedding":[', b"[],", b"[]]}]}"),
    _filled(b'{"queries":[{"embedding":[', b"{},", b"0]}]}"),
    _filled(b'{"queries":[{"embedding":[', b"0.1,", b"0]}]}"),
    _filled(b'{"queries":[{"embedding":[', b"NaN,", b"0]}]}"),
    _filled(b'{"queries":', b"[", b""),
    _filled(b'{"where":', b'{"a":', b"1"),
    _filled(b'{"queries":[{"id":', b"1", b"}]}"),
    _filled(b'{"queries":[{"code":"', b"f", b'"}]}'),
    _filled(b'{"queries":[{"code":"', b"\\u0000", b'"}]}'),
    _filled(b'{"queries":[{"code":"', b"\xff", b'"}]}'),
    _filled(ASKED + b'"where":{"label":[', b"1,", b"1]}}"),
    _filled(ASKED + b'"where":{"label":[', b"[],", b"1]}}"),
    _numbered(b"{", b'"a%d":0', b"}"),
    _numbered(b'{"queries":[{', b'"a%d":0', b"}]}"),
    _numbered(ASKED + b'"where":{', b'"a%d":0', b"}}"),
    _filled(b"", b" ", b""),
    _filled(b"", b'{"queries":[{"id":1}]}', b""),
]


def nest(service: Client, rng: random.Random, size: int | None = None) -> Ending:
    """Send JSON that is nested, repeated or of wrong types, or a form with such a field."""
    body = rng.choice(BODIES)(size or rng.choice([1 << 10, 1 << 16, 1 << 20, BODY, BODY]))
    headers = []
    if rng.random() < 0.2:
        body, kind = form(b"no image", [(rng.choice(["where", "k", "rerank"]), body.decode("latin-1"))])
        headers = [("Content-Type", kind)]
    return judge(service.ask(request("POST", rng.choice(["/v1/search", "/v1/encode"]), body, headers)))


@attack("http-nested", "JSON of up to 16 MiB: nested, repeated, of wrong types; also in the fields of a form")
def nested(run: Run) -> None:
    """Every one is refused, in a line that does not repeat what was sent."""
    with served(run) as service:
        run.count(*judge(service.ask(request("POST", "/v1/search", BODIES[0](BODY))), refused=True))
        at_once(run, 2, lambda rng: nest(service, rng))


def send_on(service: Client, rng: random.Random) -> Ending:
    """Send a body or headers without an end, also after the answer."""
    size = rng.choice([1, 100, 1 << 16, 1 << 16])
    head = f"POST {rng.choice(['/v1/search', '/nowhere'])} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    kind = rng.choice(["application/json", "multipart/form-data; boundary=x", "text/plain"])
    how = rng.choice(["chunks", "chunks", "length", "headers"])
    if how == "headers":
        start, unit = head, b"X-%s: a\r\n" % (b"a" * min(size, 1000))
    elif how == "chunks":
        start = f"{head}Content-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
        unit = b"%x\r\n%s\r\n" % (size, b"[" * size)
    else:
        start, unit = f"{head}Content-Type: {kind}\r\nContent-Length: {10**12}\r\n\r\n", b"[" * size
    unit *= max(1, (1 << 16) // len(unit))
    try:
        connection = service.connect()
    except OSError:
        return "refused", "closed"
    with connection:
        answer = exchange(connection, itertools.chain([start.encode()], itertools.repeat(unit)), 60, SECONDS_AFTER)
    if answer.open:
        return "crashed", f"{how}: answer {answer.status}, and still open after {answer.after >> 20} MiB more"
    return judge(answer, refused=True)


@attack("http-endless", "bodies and headers without an end, in chunks of every size; sent on after the refusal")
def endless(run: Run) -> None:
    """Each is refused, and the connection is closed: what comes after the refusal is not swallowed for ever."""
    with served(run) as service:
        at_once(run, 4, lambda rng: send_on(service, rng))


def overflow(service: Client, rng: random.Random) -> Ending:
    """Send a body that is too large, and read the answer after its end, as most clients do."""
    size = rng.choice([1, 4, 17, 20]) << 20
    head = f"POST /v1/search HTTP/{rng.choice(['1.0', '1.1'])}\r\nHost: 127.0.0.1\r\nContent-Length: {size}\r\n"
    head += rng.choice(["", "Connection: close\r\n", "Connection: keep-alive\r\n"])
    head += "Content-Type: application/json\r\n\r\n"
    try:
        with service.connect() as connection:
            connection.sendall(head.encode() + bytes(size))
            answer = exchange(connection, [])
    except OSError as error:
        return "crashed", f"{error} in place of an answer"
    if answer.status != 413:
        return "crashed", f"status {answer.status} in place of 413, after {head!r}"
    return judge(answer, refused=True)


@attack("http-refused", "bodies of 1 to 20 MiB that are too large and are sent to their end; also by HTTP/1.0")
def refused(run: Run) -> None:
    """Each client gets the answer 413, and no reset of its connection."""
    with served(run) as service:
        at_once(run, 4, lambda rng: overflow(service, rng))


@attack("http-trickled", "80 bodies at once that come byte by byte")
def trickled(run: Run) -> None:
    """Each is refused in time, and others are answered meanwhile."""
    head = request("POST", "/v1/search", b"").replace(b"Content-Length: 0", b"Content-Length: 9999")
    hold_all(run, 80, [(head, b" ")])


@attack("http-large-bodies", "80 images of 16 MiB at once, the end of which does not come")
def large_bodies(run: Run) -> None:
    """The memory is bounded by all of the bodies, not by each of them."""
    content, kind = form(bytes(BODY))
    head = request("POST", "/v1/encode", b"", [("Content-Type", kind)])
    head = head.replace(b"Content-Length: 0", b"Content-Length: %d" % BODY)
    hold_all(run, 80, [(head + content[: BODY - 1000], b"x")])


@attack("http-idle", "1,000 connections that say nothing, or send a header line by line, or ask once and stay")
def idle(run: Run) -> None:
    """All are closed after a while, and others are answered meanwhile."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    trickle = (b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ", b"a\r\nX-A: ")
    hold_all(run, 1000, [(b"", b""), (b"GET /hea", b""), trickle, (request("GET", "/v1/info"), b"")])


@attack("http-few-handles", "300 connections to a service that may have 128 file handles")
def few_handles(run: Run) -> None:
    """All are closed after a while, others are answered meanwhile, and the log stays small."""
    hold_all(run, 300, [(b"", b""), (b"GET /hea", b"")], handles=128)


@attack("http-unread", "thousands of requests on each of 40 connections, whose answers nobody reads")
def unread(run: Run) -> None:
    """Answers wait for their reader in a memory that is bounded, and not for ever."""
    hold_all(run, 40, [(request("GET", "/page/map") * 20_000, b"")], reads=False)


def hold_all(
    run: Run, count: int, kinds: list[tuple[bytes, bytes]], *, handles: int | None = None, reads: bool = True
) -> None:
    """Hold so many connections of these kinds (``hold``) at a service, again and again."""
    with served(run, handles=handles) as service:
        for rng in run.faults():
            hold(run, service, [rng.choice(kinds) for _ in range(count)], PATIENCE, reads)


def hold(run: Run, service: Service, kinds: list[tuple[bytes, bytes]], patience: float, reads: bool = True) -> None:
    """Open connections, send each its first bytes, and its second ones every second, until the service closes them.

    Those that are still open after ``patience`` count as crashed, but not where the run has less time than that. If it
    does not read, it sends only what the service takes at once.
    """
    seconds = min(patience, max(2.0, 60 * run.minutes))
    held: dict[int, tuple[socket.socket, bytes]] = {}
    received: dict[int, bytearray] = {}
    rests: dict[int, memoryview] = {}
    poll = select.poll()
    for first, more in kinds:
        try:
            connection = service.connect()
        except OSError:
            run.count("refused", "closed")
            continue
        connection.setblocking(False)
        number = connection.fileno()
        held[number], received[number], rests[number] = (connection, more), bytearray(), memoryview(first)
        if not reads:
            with contextlib.suppress(OSError):
                connection.send(first)
            rests[number] = memoryview(b"")
        poll.register(connection, select.POLLIN | select.POLLOUT if reads else select.POLLRDHUP)
    ends, due = time.monotonic() + seconds, time.monotonic() + 1
    while held and time.monotonic() < ends:
        for number, events in poll.poll(200):
            connection, _ = held[number]
            closed = not reads
            try:
                if events & select.POLLOUT and rests[number]:
                    rests[number] = rests[number][connection.send(rests[number]) :]
                if reads and events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                    data = connection.recv(1 << 16)
                    received[number] += data
                    closed = not data
            except BlockingIOError:
                pass
            except OSError:
                closed = True
            if closed:
                poll.unregister(connection)
                connection.close()
                del held[number]
                outcome, what = judge(parse(bytes(received[number]), True) or Answer(0))
                run.count("refused" if outcome == "survived" else outcome, what)
            elif not rests[number]:
                poll.modify(connection, select.POLLIN)
        if time.monotonic() >= due:
            due += 1
            for number, (connection, more) in held.items():
                if more and not rests[number]:
                    with contextlib.suppress(OSError):
                        connection.send(more)
    for connection, _ in held.values():
        connection.close()
    if held and seconds < patience:
        run.count("survived", times=len(held))
        run.note("not waited for", f"{len(held):,} connections")
    elif held:
        run.count("crashed", f"the connection was still open after {seconds:.0f} s", times=len(held))


HOSTS = (
    "evil.example", "[::1]evil.example", "[::1].evil.example", "[::1", "localhost:evil", "localhost:80:80", "",
    "localhost.evil.example", "127.0.0.1.evil.example", "evil.example@127.0.0.1", "127.0.0.1@evil.example",
    "localhost:80@evil.example", "evil.example#localhost", "evil.example/localhost", "localhost,evil.example",
    "e" * 10_000, "\xe9vil", "[evil.example]",
)  # fmt: skip
TYPES = (
    None, "", "text/plain", "text/plain; a=application/json", "application/x-www-form-urlencoded", "application/xml",
    "multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=" + "b" * 5000,
    "multipart/mixed; boundary=x", "application/jsonp", "*/*", "\xe9", "a" * 10_000,
)  # fmt: skip
ORIGINS = ("http://evil.example", "https://localhost.evil.example", "null", "http://evil.example:80", "x" * 9999)
PATHS = ("/health", "/v1/info", "/page/map", "/metrics", "/v1/items/1/image", "/", "/static/page.js", "/openapi.json")


def mislead(service: Client, rng: random.Random, name: int) -> Ending:
    """Send a request as another web site could make a browser send it, or one that has to be let through."""
    good, search = b'{"queries":[{"id":%d}]}' % name, ("Content-Type", "application/json")
    how = rng.choice(["host", "host", "type", "origin", "redirect", "own", "twice"])
    if how == "host":
        host = rng.choice(HOSTS)
        sent = request("GET", rng.choice(PATHS), host=host)
        if rng.random() < 0.5:
            sent = request("POST", "/v1/search", good, host=host)
    elif how == "type":
        kind = rng.choice(TYPES)
        head = f"POST /v1/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(good)}\r\n"
        sent = (head + ("" if kind is None else f"Content-Type: {kind}\r\n") + "\r\n").encode("latin-1") + good
    elif how == "origin":
        sent = request("POST", "/v1/search", good, [("Origin", rng.choice(ORIGINS)), search])
    elif how == "own":
        own = f"127.0.0.1:{service.port}"
        sent = request("POST", "/v1/search", good, [("Origin", f"http://{own}"), search], host=own)
    elif how == "twice":
        sent = request("GET", "/health", headers=[("Host", "evil.example")])
    else:
        path = rng.choice(["/health/", "/v1/search/", "/v1/items/1/image/", "//evil.example/", "/static", "/static/.."])
        sent = request("GET", path, host="localhost:6666")
    answer = service.ask(sent)
    place = answer.headers.get("location", "")
    if "6666" in place or "evil" in place:
        return "wrong", f"led to {place} by {sent[:40]!r}"
    if how == "redirect" and answer.status in (301, 302, 307, 308):
        return "survived", ""
    outcome, what = judge(answer, refused=how not in ("own", "redirect"))
    return outcome, what and f"{how}: {what} for {sent[:120]!r}"


@attack("http-headers", "other hosts, foreign origins, bodies of another type or of none")
def headers(run: Run) -> None:
    """Whatever another web site could send is refused, and no answer leads to a host of the sender's choice."""
    with served(run) as service:
        name = service_id(service)
        at_once(run, 2, lambda rng: mislead(service, rng, name))


def _garbage(rng: random.Random) -> list[bytes]:
    """Return what is sent on one connection: no HTTP, or nearly so, or good requests with something in between."""
    health, noise = request("GET", "/health"), rng.randbytes(rng.choice([1, 100, 10_000, 1_000_000]))
    get = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    post = b"POST /v1/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    good = bytearray(request("POST", "/v1/search", b'{"queries":[{"id":1}]}'))
    for _ in range(rng.randint(1, 4)):
        good[rng.randrange(len(good))] = rng.randrange(256)
    return rng.choice(
        [
            [noise],
            [health, noise],
            [health * 200],
            [health * 50 + noise + health],
            [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + noise],  # TLS
            [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + noise],
            [request("GET", "/health", headers=[("Upgrade", "websocket"), ("Connection", "Upgrade")])],
            [post + b"Content-Length: -1\r\n\r\n{}"],
            [post + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}}"],
            [post + b"Content-Length: 99999999999999999999999\r\n\r\n{}"],
            [post + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + health],
            [post + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"],
            [post + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 1000 + b"\r\n"],
            [post + b"Transfer-Encoding: gzip\r\n\r\n" + noise],
            [post + b"Expect: 100-continue\r\nContent-Length: 22\r\n\r\n", b'{"queries":[{"id":1}]}'],
            [post + b"X: " + b"a" * 1_000_000 + b"\r\n\r\n"],
            [post + b"".join(b"X%d: a\r\n" % n for n in range(10_000)) + b"\r\n"],
            [get % (b"/" + b"a" * 100_000)],
            [b"GET http://evil.example/health HTTP/1.1\r\nHost: evil.example\r\n\r\n"],
            [get % (b"/v1/items/%s/image" % rng.choice([b"-1", b"9" * 5000, b"%00", b"1e3"]))],
            [get % (b"/static/%s" % rng.choice([b"../app.py", b"%2e%2e/app.py", b"%00"]))],
            [get.replace(b"GET", rng.choice([b"TRACE", b"CONNECT", b"OPTIONS", b"PUT", b"A" * 9999])) % b"/"],
            [bytes(good)],
        ]
    )  # fmt: skip


def babble(service: Client, rng: random.Random) -> Ending:
    """Send garbage, and end the connection where the service waits for more of it."""
    sent = _garbage(rng)
    try:
        connection = service.connect()
    except OSError:
        return "refused", "closed"
    with connection:
        answer = exchange(connection, sent, 5)
        if answer.status < 0:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
            answer = exchange(connection, [], 60)
    outcome, what = judge(answer)
    return outcome, what and f"{what} for {sent[0][:120]!r}"


@attack("http-garbage", "what is no HTTP, or nearly so, and good requests with garbage in between")
def garbage(run: Run) -> None:
    """Each is refused, or answered where it is a good request after all, and the connection ends when we end it."""
    with served(run) as service:
        at_once(run, 4, lambda rng: babble(service, rng))


def leave(service: Client, rng: random.Random, sent: list[bytes]) -> Ending:
    """Send a request or a part of it, read the answer or a part of it, and break the connection."""
    whole = rng.choice(sent)
    try:
        with service.connect() as connection:
            if rng.random() < 0.5:  # a reset in place of an orderly end
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if rng.random() < 0.5:
                connection.sendall(whole[: rng.randrange(len(whole))])
            else:
                connection.sendall(whole)
                if rng.random() < 0.7:
                    connection.recv(rng.choice([1, 1000, 10_000]))
    except OSError:
        return "refused", "closed"
    return "survived", ""


def to_leave(service: Client, name: int) -> list[bytes]:
    """Return requests with large answers, and one with a large body."""
    content, kind = form(bytes(1 << 20))
    search = b'{"queries":[{"id":%d}],"k":1000}' % name
    image = request("POST", "/v1/search", content, [("Content-Type", kind)])
    return [request("POST", "/v1/search", search), request("GET", "/page/map"), image]


@attack("http-disconnects", "connections that break while the body is sent, while the answer is awaited or read")
def disconnects(run: Run) -> None:
    """Nothing is left of them, in places, memory or log."""
    with served(run) as service:
        sent = to_leave(service, service_id(service))
        at_once(run, 8, lambda rng: leave(service, rng, sent))
