from __future__ import annotations

import asyncio
import threading
import time

import httpx
import numpy as np
import pytest

from app_answers import HOME, assert_refused, found
from lbhash.codes.io import CodeTable
from lbhash.index import FlatIndex, build_index, open_index
from lbhash.service import Settings, create_app

BITS = 16


@pytest.fixture
def slow(monkeypatch):
    """An event that every search waits for, and a counter of those that do."""
    gate, entered = threading.Event(), threading.Semaphore(0)
    search = FlatIndex.search

    def waiting(self, *arguments, **options):
        entered.release()
        assert gate.wait(20)
        return search(self, *arguments, **options)

    monkeypatch.setattr(FlatIndex, "search", waiting)
    yield gate, entered
    gate.set()


def asynchronous(settings, play):
    """Run ``play(client)`` against the application, with an asynchronous client that can have many requests at once."""

    async def run():
        app = create_app(settings)
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url=HOME, timeout=30) as client:
                return await play(client)

    return asyncio.run(run())


async def until(condition, seconds=20):
    ended = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ended
        await asyncio.sleep(0.01)


def test_the_queue_is_bounded_and_health_is_not_in_it(digits_service, slow):
    gate, entered = slow

    async def play(client):
        tasks = [asyncio.create_task(client.post("/search", json={"id": 0, "k": 2})) for _ in range(9)]
        for _ in range(2):
            await asyncio.to_thread(entered.acquire)
        await until(lambda: sum(task.done() for task in tasks) == 4)
        assert (await client.get("/health")).status_code == 200
        text = (await client.get("/metrics")).text
        assert "lbhash_running 2.0" in text
        assert "lbhash_queue_depth 3.0" in text
        assert "lbhash_refused_total 4.0" in text
        gate.set()
        return await asyncio.gather(*tasks)

    answers = asynchronous(Settings(digits_service.model, digits_service.index, concurrency=2, queue=3), play)
    assert sorted(answer.status_code for answer in answers) == [200] * 5 + [503] * 4
    for answer in answers:
        if answer.status_code == 503:
            assert_refused(answer, 503, "busy")
            assert answer.headers["retry-after"] == "1"


def test_nobody_waits_for_ever(digits_service, slow):
    gate, entered = slow

    async def play(client):
        first = asyncio.create_task(client.post("/search", json={"id": 0}))
        await asyncio.to_thread(entered.acquire)
        second = await client.post("/search", json={"id": 0})
        gate.set()
        return (await first).status_code, second

    settings = Settings(digits_service.model, digits_service.index, concurrency=1, queue_seconds=0.2)
    first, second = asynchronous(settings, play)
    assert first == 200
    assert_refused(second, 503, "waited")


def test_a_body_that_does_not_come_is_not_waited_for(digits_service):
    async def play(client):
        async def dripping():
            for _ in range(100):
                yield b" "
                await asyncio.sleep(0.05)

        return await client.post("/search", content=dripping(), headers={"Content-Type": "application/json"})

    settings = Settings(digits_service.model, digits_service.index, body_seconds=0.3)
    assert_refused(asynchronous(settings, play), 408, "0.3 seconds")


def test_a_body_that_does_not_come_takes_no_place(digits_service):
    async def play(client):
        arriving, end = asyncio.Event(), asyncio.Event()

        async def stalled():
            arriving.set()
            yield b'{"id": '
            await end.wait()
            yield b"0}"

        headers = {"Content-Type": "application/json"}
        first = asyncio.create_task(client.post("/search", content=stalled(), headers=headers))
        await arriving.wait()
        second = await client.post("/search", json={"id": 0})
        end.set()
        return (await first).status_code, second.status_code

    settings = Settings(digits_service.model, digits_service.index, concurrency=1, queue=0)
    assert asynchronous(settings, play) == (200, 200)


@pytest.fixture
def copy(tmp_path, digits_service):
    """A copy of the index of the digits that a test may change."""
    open_index(digits_service.index).save(tmp_path / "copy")
    return tmp_path / "copy"


def test_a_newer_index_is_served_without_losing_a_request(digits_service, copy):
    async def play(client):
        before = open_index(copy).generation
        stop = False

        async def asking():
            answers = []
            while not stop:
                answer = await client.post("/search", json={"code": "00ff", "k": 3})
                answers.append((answer.status_code, answer.json()["generation"]))
                seen.append(answers[-1][1])
            return answers

        seen = []
        tasks = [asyncio.create_task(asking()) for _ in range(4)]
        await until(lambda: len(seen) > 20)
        writer = open_index(copy)
        await asyncio.to_thread(writer.add, np.array([[0x00, 0xFF]], np.uint8), [5000], {"row": [5000], "label": [4]})
        await until(lambda: max(seen) > before)
        stop = True
        for answers in await asyncio.gather(*tasks):
            assert {status for status, _ in answers} == {200}
            # Two searches run at once, so one that began before the change may end after one that began later;
            # whoever asks one after the other never goes back.
            generations = [generation for _, generation in answers]
            assert generations == sorted(generations)
            assert set(generations) <= {before, before + 1}
        last = await client.post("/search", json={"code": "00ff", "k": 1})
        assert found(last) == ([0], [5000])
        assert (await client.get("/health")).json()["codes"] == 1598
        assert 'lbhash_index_reloads_total{outcome="loaded"} 1.0' in (await client.get("/metrics")).text

    asynchronous(Settings(digits_service.model, copy, reload_seconds=0.05), play)


def test_a_newer_index_that_is_broken_is_not_served(digits_service, copy):
    async def play(client):
        (copy / "index.json").write_text("{}")

        async def failed():
            text = (await client.get("/metrics")).text
            return 'outcome="failed"} 1.0' in text

        ended = time.monotonic() + 20
        while not await failed():
            assert time.monotonic() < ended
            await asyncio.sleep(0.05)
        assert (await client.post("/search", json={"id": 0})).status_code == 200

    asynchronous(Settings(digits_service.model, copy, reload_seconds=0.05), play)


def test_a_model_of_another_index_is_refused(tmp_path, digits_service):
    held = open_index(digits_service.index)
    build_index(CodeTable(held.codes_of([0]), BITS, np.array([0]), None, "0123456789abcdef"), tmp_path / "other")
    with pytest.raises(ValueError, match="index was made by model 0123456789abcdef"):
        create_app(Settings(digits_service.model, tmp_path / "other"))
