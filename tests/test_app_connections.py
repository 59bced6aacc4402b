from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time

import pytest

pytest.importorskip("uvicorn")

from app_service import running
from lbhash.service import connections
from lbhash.service.admission import Bodies
from lbhash.service.connections import make_server
from lbhash.service.errors import ServiceError

pytestmark = pytest.mark.end_to_end

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


async def at_once(scope, receive, send):
    """Answer without a look at the body."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"no"})


async def to_the_body(scope, receive, send):
    """Read the whole body, and answer it."""
    body, more = b"", scope["type"] == "http"
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    length = str(len(body)).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
    await send({"type": "http.response.body", "body": body})


@contextlib.contextmanager
def serving(app):
    """A server of an application, and a function that connects to it."""
    with running(app, 1, force=True) as (server, port), contextlib.ExitStack() as opened:
        yield (
            server,
            lambda source="127.0.0.1": opened.enter_context(
                socket.create_connection(("127.0.0.1", port), 20, (source, 0))
            ),
        )


def until(condition):
    ended = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < ended
        time.sleep(0.01)


def rest_of(client):
    """What the server sends until it closes the connection; fails if that takes 20 seconds."""
    told = b""
    with contextlib.suppress(ConnectionError):
        while piece := client.recv(65536):
            told += piece
    return told


def answered(client, request=GET):
    """Whether the client gets an answer that ends with ``no``."""
    client.sendall(request)
    told = b""
    while not told.endswith(b"\r\n\r\nno"):
        told += (piece := client.recv(65536))
        if not piece:
            return False
    return True


def test_the_end_of_an_answer_does_not_wait_for_the_client():
    with serving(at_once) as (server, connect):
        assert answered(connect())
        (served,) = server.server_state.connections
        held = served.transport.get_extra_info("socket")
        assert held.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHo"])
def test_headers_that_do_not_come_are_not_waited_for(monkeypatch, sent):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    with serving(at_once) as (_, connect):
        client = connect()
        client.sendall(sent)
        assert rest_of(client) == b""
        client = connect()
        assert answered(client)
        client.sendall(b"GET")  # the second request of a connection has no more time
        assert rest_of(client) == b""


def test_headers_that_trickle_have_no_more_time(monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    with serving(at_once) as (_, connect):
        client = connect()
        client.settimeout(0.01)
        ended = time.monotonic() + 20
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < ended:
                client.sendall(b"G")
                with contextlib.suppress(TimeoutError):
                    assert client.recv(1) == b""
                    return
            pytest.fail("the connection is still open")


def test_a_request_that_waits_behind_another_keeps_its_body():
    with serving(to_the_body) as (_, connect):
        client = connect()
        client.sendall(GET + POST + b"2\r\n")
        time.sleep(0.1)
        client.sendall(b"no\r\n0\r\n\r\n")
        assert answered(client, b"")


def test_an_idle_connection_is_closed(monkeypatch):
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.2)
    with serving(at_once) as (_, connect):
        client = connect()
        client.sendall(GET)
        assert rest_of(client).endswith(b"\r\n\r\nno")


def test_a_client_that_does_not_read_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(connections, "READ_SECONDS", 0.2)

    async def long(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while scope["type"] == "http":
            await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})
            if not server.server_state.connections:
                return

    with serving(long) as (server, connect):
        client = connect()
        client.sendall(GET)
        until(lambda: server.server_state.connections)
        until(lambda: not server.server_state.connections)


def test_what_follows_an_early_answer_is_not_read_for_ever(monkeypatch):
    monkeypatch.setattr(connections, "LINGER_SECONDS", 0.2)
    chunk = b"10000\r\n" + bytes(1 << 16) + b"\r\n"
    with serving(at_once) as (_, connect):
        client = connect()
        client.sendall(POST + chunk)
        assert rest_of(client).endswith(b"\r\n\r\nno")
        with contextlib.suppress(ConnectionError):
            ended = time.monotonic() + 20
            while time.monotonic() < ended:
                client.sendall(chunk)
            pytest.fail("it still reads")


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_a_large_body_that_is_refused_does_not_cost_the_answer(version):
    body = bytes(18 << 20)
    head = b"POST / HTTP/%s\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (version, len(body))
    with serving(at_once) as (_, connect):
        for _ in range(5):
            client = connect()
            client.sendall(head)
            client.sendall(body)  # fails where the connection is reset
            assert rest_of(client).endswith(b"\r\n\r\nno")
        client = connect()
        client.sendall(GET[:-2] + b"X: " + b"x" * (2 << 20) + b"\r\n\r\n")  # headers that are too long
        assert rest_of(client).startswith(b"HTTP/1.1 400 ")


def test_a_body_in_very_many_small_pieces_is_refused():
    with serving(to_the_body) as (_, connect):
        client = connect()
        client.sendall(POST.replace(b"a\r", b"a\r\nConnection: close\r") + b"1\r\nx\r\n" * 200 + b"0\r\n\r\n")
        assert rest_of(client).endswith(b"\r\n\r\n" + b"x" * 200)
        client = connect()
        client.sendall(POST + b"1\r\nx\r\n" * 1000)
        assert rest_of(client).startswith(b"HTTP/1.1 400 ")


@pytest.fixture
def eight(monkeypatch):
    """Room for eight connections, four of them from one address."""
    monkeypatch.setattr(connections, "_free_handles", lambda: connections._SPARE + 11)


def test_a_connection_too_many_ends_the_one_that_waited_longest(eight):
    with serving(at_once) as (server, connect):
        clients = [connect() for _ in range(4)]
        until(lambda: len(server.server_state.connections) == 4)
        assert answered(clients[0])  # so it waits since then, and the second one waits for longer
        newest = connect()
        assert rest_of(clients.pop(1)) == b""
        assert all(map(answered, [*clients, newest]))
        others = [connect("127.0.0.2") for _ in range(4)]
        assert all(map(answered, others))
        assert answered(connect("127.0.0.3"))  # nine in all
        assert rest_of(clients[0]) == b""
        assert all(map(answered, others))


def test_connections_that_are_being_answered_are_not_ended(eight):
    event = threading.Event()

    async def patient(scope, receive, send):
        if scope["type"] == "http":
            await asyncio.to_thread(event.wait, 20)
        await at_once(scope, receive, send)

    with serving(patient) as (server, connect):
        clients = [connect() for _ in range(4)]
        for client in clients:
            client.sendall(GET)
        until(lambda: len(server.server_state.tasks) == 4)
        assert rest_of(connect()) == b""
        event.set()
        assert all(answered(client, b"") for client in clients)


def test_too_few_files_are_refused(monkeypatch):
    monkeypatch.setattr(connections, "_free_handles", lambda: connections._SPARE + 10)
    with pytest.raises(ValueError, match="ulimit -n"):
        make_server(at_once, 1)


def arriving(*pieces, more=False):
    """What an application receives: these pieces, and if there is more, then nothing."""
    messages = [{"type": "http.request", "body": piece, "more_body": more or piece != pieces[-1]} for piece in pieces]

    async def receive():
        if not messages:
            await asyncio.Event().wait()
        return messages.pop(0)

    return receive


def test_bodies_that_do_not_end_make_room():
    async def play():
        bodies = Bodies(10, 60)
        stalled = [asyncio.create_task(bodies.take(arriving(b"abcd", more=True), str)) for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert await bodies.take(arriving(b"12", b"34"), str) == b"1234"
        with pytest.raises(ServiceError, match="busy") as refused:
            await stalled[0]
        assert refused.value.status_code == 503
        assert not stalled[1].done()
        assert await bodies.take(arriving(b"567"), str) == b"567"
        with pytest.raises(ServiceError, match="busy"):
            await stalled[1]
        with pytest.raises(ServiceError, match="busy"):
            await bodies.take(arriving(b"5678"), str)
        bodies.give_back(4)
        assert await bodies.take(arriving(b"5678"), str) == b"5678"

    asyncio.run(play())


def test_a_client_that_leaves_is_no_failure_of_the_service():
    async def gone():
        return {"type": "http.disconnect"}

    with pytest.raises(ServiceError) as refused:
        asyncio.run(Bodies(10, 60).take(gone, str))
    assert refused.value.status_code == 400
