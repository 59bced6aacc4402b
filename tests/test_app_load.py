"""The service under load, while its index changes, and over damaged files."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import threading
from dataclasses import replace

import numpy as np
import pytest

from app_answers import assert_refused, asynchronous, found, only, search, until, until_told
from lbhash.codes.io import CodeTable
from lbhash.index import DamagedIndexError, Index
from lbhash.index.factory import build_index
from lbhash.service import Settings, create_app, engine

pytestmark = [pytest.mark.usefixtures("quiet"), pytest.mark.end_to_end]
BITS = 16
WRONG = "index is damaged: the checksum of 00000001.0.codes.npy is wrong"


@pytest.fixture
def slow(monkeypatch):
    """An event that every search waits for, and a counter of those that do."""
    gate, entered = threading.Event(), threading.Semaphore(0)
    at_once = Index.search

    def waiting(self, *arguments, **options):
        entered.release()
        assert gate.wait(20)
        return at_once(self, *arguments, **options)

    monkeypatch.setattr(Index, "search", waiting)
    yield gate, entered
    gate.set()


def test_the_queue_is_bounded_and_health_is_not_in_it(digits_service, slow, monkeypatch):
    gate, entered = slow

    async def play(client):
        tasks = [asyncio.create_task(search(client, id=0, k=2)) for _ in range(9)]
        for _ in range(2):
            await asyncio.to_thread(entered.acquire)
        await until(lambda: sum(task.done() for task in tasks) == 4)
        assert (await client.get("/health")).status_code == 200
        text = (await client.get("/metrics")).text
        assert "lbhash_running 2.0" in text
        assert "lbhash_queue_depth 3.0" in text
        assert 'route="/search",status="503"} 4.0' in text
        gate.set()
        return await asyncio.gather(*tasks)

    monkeypatch.setattr("lbhash.service.state.QUEUE", 3)
    answers = asynchronous(Settings(digits_service.model, digits_service.index, concurrency=2), play)
    assert sorted(answer.status_code for answer in answers) == [200] * 5 + [503] * 4
    for answer in answers:
        if answer.status_code == 503:
            assert_refused(answer, 503, "busy")
            assert answer.headers["retry-after"] == "1"


def test_nobody_waits_for_ever(digits_service, slow, monkeypatch):
    gate, entered = slow

    async def play(client):
        first = asyncio.create_task(search(client, id=0))
        await asyncio.to_thread(entered.acquire)
        second = await search(client, id=0)
        gate.set()
        return (await first).status_code, second

    monkeypatch.setattr("lbhash.service.state.QUEUE_SECONDS", 0.2)
    settings = Settings(digits_service.model, digits_service.index, concurrency=1)
    first, second = asynchronous(settings, play)
    assert first == 200
    assert_refused(second, 503, "waited")


def test_a_body_that_does_not_come_is_not_waited_for(digits_service, monkeypatch):
    async def play(client):
        async def dripping():
            for _ in range(100):
                yield b" "
                await asyncio.sleep(0.05)

        return await client.post("/v1/search", content=dripping(), headers={"Content-Type": "application/json"})

    monkeypatch.setattr("lbhash.service.middleware.BODY_SECONDS", 0.3)
    assert_refused(asynchronous(digits_service, play), 408, "0.3 seconds")


def test_a_body_that_does_not_come_takes_no_place(digits_service, monkeypatch):
    async def play(client):
        arriving, end = asyncio.Event(), asyncio.Event()

        async def stalled():
            arriving.set()
            yield b'{"queries": [{"id": '
            await end.wait()
            yield b"0}]}"

        headers = {"Content-Type": "application/json"}
        first = asyncio.create_task(client.post("/v1/search", content=stalled(), headers=headers))
        await arriving.wait()
        second = await search(client, id=0)
        end.set()
        return (await first).status_code, second.status_code

    monkeypatch.setattr("lbhash.service.state.QUEUE", 0)
    settings = Settings(digits_service.model, digits_service.index, concurrency=1)
    assert asynchronous(settings, play) == (200, 200)


def test_a_newer_index_is_served_without_losing_a_request(copied):
    async def play(client):
        before = Index.open(copied.index, mode="a").generation
        stop = False

        async def asking():
            answers = []
            while not stop:
                answer = await search(client, code="00ff", k=3)
                answers.append((answer.status_code, answer.json()["generation"]))
                seen.append(answers[-1][1])
            return answers

        seen = []
        tasks = [asyncio.create_task(asking()) for _ in range(4)]
        await until(lambda: len(seen) > 20)
        writer = Index.open(copied.index, mode="a")
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
        last = await search(client, code="00ff", k=1)
        assert found(last) == ([0], [5000])
        assert (await client.get("/health")).json()["codes"] == 1598
        assert 'lbhash_index_reloads_total{outcome="loaded"} 1.0' in (await client.get("/metrics")).text

    asynchronous(copied, play)


def test_a_model_of_another_index_is_refused(tmp_path, digits_service):
    held = Index.open(digits_service.index, mode="a")
    build_index(CodeTable(held.codes_of([0]), BITS, np.array([0]), None, "0123456789abcdef"), tmp_path / "other")
    with pytest.raises(ValueError, match="index and the model do not go together: codes of model 0123456789abcdef"):
        create_app(Settings(digits_service.model, tmp_path / "other"))


@pytest.fixture
def copied(tmp_path, digits_service, monkeypatch):
    """The settings of a service over a copy of the index, which a test may damage."""
    shutil.copytree(digits_service.index, tmp_path / "i")
    monkeypatch.setattr("lbhash.service.state.RELOAD_SECONDS", 0.05)
    return replace(digits_service, index=tmp_path / "i")


@pytest.fixture
def large(monkeypatch):
    """Any index is as large as one that is not checked at once."""
    monkeypatch.setattr(engine, "AT_ONCE", 0)


def flip(folder):
    """Flip a bit of the codes, and return a function that flips it back."""
    (file,) = folder.glob("*.codes.npy")
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    return lambda: file.write_bytes(content)


def test_a_small_index_is_checked_before_anything_is_served(copied):
    flip(copied.index)
    with pytest.raises(DamagedIndexError, match=WRONG):
        create_app(copied)


def test_a_service_is_ready_once_its_index_is_checked(copied, large, monkeypatch, caplog):
    begun, go_on = threading.Event(), threading.Event()

    def slow(self):
        begun.set()
        go_on.wait()

    async def play(client):
        await asyncio.to_thread(begun.wait)
        answer = await client.get("/ready")
        assert (answer.status_code, list(answer.json())) == (503, ["detail"])
        assert (await client.get("/health")).status_code == 200
        go_on.set()
        await until_told(client, 'lbhash_index_check{lbhash_index_check="intact"} 1.0')
        assert (await client.get("/ready")).json() == (await client.get("/health")).json()

    caplog.set_level(logging.INFO, "lbhash.service")
    monkeypatch.setattr(Index, "read_all", slow)
    asynchronous(copied, play)
    assert "checking the files of the index" in caplog.text
    assert "the files of the index are intact" in caplog.text


def test_no_answer_comes_from_damaged_files_and_a_repaired_index_is_served(copied, large, caplog):
    repair = flip(copied.index)

    async def play(client):
        for query in ({"code": "00ff"}, {"id": 3}, {"code": "00ff", "radius": 2}):
            answer = await search(client, **query)
            assert (answer.status_code, answer.json()) == (503, {"detail": WRONG})
        await until_told(client, 'lbhash_index_check{lbhash_index_check="damaged"} 1.0')
        health = await client.get("/health")
        assert (health.status_code, health.json()) == (503, {"detail": WRONG})
        assert (await client.get("/ready")).json() == {"detail": WRONG}
        repair()
        await until_told(client, 'lbhash_index_check{lbhash_index_check="intact"} 1.0')
        assert (await client.get("/health")).status_code == 200
        assert (await search(client, id=3)).status_code == 200

    asynchronous(copied, play)
    assert WRONG in [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


@pytest.mark.parametrize("size", [0, 1 << 30])
def test_a_newer_index_that_is_damaged_is_not_served(copied, tmp_path, monkeypatch, size):
    monkeypatch.setattr(engine, "AT_ONCE", size)
    Index.open(copied.index, mode="a").save(tmp_path / "newer")
    writer = Index.open(tmp_path / "newer", mode="a")
    writer.remove(writer.ids()[::2])
    flip(tmp_path / "newer")
    (tmp_path / "current").symlink_to(copied.index)

    async def play(client):
        before = only(await search(client, id=0, k=5))
        (tmp_path / "link").symlink_to(tmp_path / "newer")
        os.replace(tmp_path / "link", tmp_path / "current")
        await until_told(client, 'lbhash_index_reloads_total{outcome="failed"} 1.0')
        after = only(await search(client, id=0, k=5))
        assert after["neighbors"] == before["neighbors"]
        assert (await client.get("/health")).json()["codes"] == len(Index.open(copied.index, mode="a"))

    asynchronous(replace(copied, index=tmp_path / "current"), play)


def test_a_reload_reads_only_what_is_new(copied):
    index = Index.open(copied.index, mode="a")
    index.read_all()
    codes = index.state.segments[0].arrays["codes"]
    writer = Index.open(copied.index, mode="a")
    writer.add(np.zeros((1, 2), np.uint8), [5000], {"row": [5000], "label": [0]})
    newer = Index.open(copied.index, known=index, mode="a")
    assert newer.state.segments[0].arrays["codes"] is codes
    assert len(newer) == len(index) + 1
    assert index.generation == newer.generation - 1
