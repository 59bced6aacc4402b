"""A service over an index whose files are checked beside the requests, or are damaged."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import threading
import time
from dataclasses import replace

import httpx
import numpy as np
import pytest

from lbhash.index import DamagedIndexError, FlatIndex, open_index
from lbhash.service import create_app, engine

HOME = "http://127.0.0.1:8000"
WRONG = "index is damaged: the checksum of 00000001.0.codes.npy is wrong"


@pytest.fixture
def copied(tmp_path, digits_service):
    """The settings of a service over a copy of the index, which a test may damage."""
    shutil.copytree(digits_service.index, tmp_path / "i")
    return replace(digits_service, index=tmp_path / "i", reload_seconds=0.05)


@pytest.fixture
def large(monkeypatch):
    """Any index is as large as one that is not checked at once."""
    monkeypatch.setattr(engine, "AT_ONCE", 0)


def flip(folder):
    """Flip a bit of the codes, and return a function that flips it back."""
    (file,) = folder.glob("*.codes.npy")
    content = file.read_bytes()
    file.write_bytes(content[:500] + bytes([content[500] ^ 1]) + content[501:])
    return lambda: file.write_bytes(content)


def asynchronous(settings, play):
    """Run ``play(client)`` against the application."""

    async def run():
        app = create_app(settings)
        transport = httpx.ASGITransport(app)
        async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=HOME) as client:
            return await play(client)

    return asyncio.run(run())


async def until_told(client, text):
    """Wait until the metrics have this text."""
    ended = time.monotonic() + 60
    while text not in (await client.get("/metrics")).text:
        assert time.monotonic() < ended
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("verify", ["background", "before-serving"])
def test_a_small_index_is_checked_before_anything_else(copied, verify):
    flip(copied.index)
    with pytest.raises(DamagedIndexError, match=WRONG):
        create_app(replace(copied, verify=verify))


def test_a_large_index_is_checked_first_if_that_is_chosen(copied, large):
    flip(copied.index)
    with pytest.raises(DamagedIndexError, match=WRONG):
        create_app(replace(copied, verify="before-serving"))
    with pytest.raises(ValueError, match="verify is 'never'; it must be one of background, before-serving"):
        replace(copied, verify="never")


def test_a_large_index_is_checked_beside_the_requests(copied, large, caplog):
    async def play(client):
        assert (await client.post("/search", json={"id": 0, "k": 2})).status_code == 200
        await until_told(client, 'lbhash_index_check{lbhash_index_check="intact"} 1.0')
        assert (await client.get("/health")).status_code == 200
        assert (await client.get("/ready")).json() == (await client.get("/health")).json()

    caplog.set_level(logging.INFO, "lbhash.service")
    asynchronous(copied, play)
    assert "checking the files of the index" in caplog.text
    assert "the files of the index are intact" in caplog.text


def test_a_service_is_ready_once_its_index_is_checked(copied, large, monkeypatch):
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
        assert (await client.get("/ready")).status_code == 200

    monkeypatch.setattr(FlatIndex, "load", slow)
    asynchronous(copied, play)


def test_no_answer_comes_from_damaged_files_and_a_repaired_index_is_served(copied, large, caplog):
    repair = flip(copied.index)

    async def play(client):
        for query in ({"code": "00ff"}, {"id": 3}, {"code": "00ff", "radius": 2}):
            answer = await client.post("/search", json=query)
            assert (answer.status_code, answer.json()) == (503, {"detail": WRONG})
        await until_told(client, 'lbhash_index_check{lbhash_index_check="damaged"} 1.0')
        health = await client.get("/health")
        assert (health.status_code, health.json()) == (503, {"detail": WRONG})
        assert (await client.get("/ready")).json() == {"detail": WRONG}
        repair()
        await until_told(client, 'lbhash_index_check{lbhash_index_check="intact"} 1.0')
        assert (await client.get("/health")).status_code == 200
        assert (await client.post("/search", json={"id": 3})).status_code == 200

    asynchronous(copied, play)
    assert WRONG in [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


@pytest.mark.parametrize("size", [0, 1 << 30])
def test_a_newer_index_that_is_damaged_is_not_served(copied, tmp_path, monkeypatch, size):
    monkeypatch.setattr(engine, "AT_ONCE", size)
    open_index(copied.index).save(tmp_path / "newer")
    writer = open_index(tmp_path / "newer")
    writer.remove(writer.ids()[::2])
    flip(tmp_path / "newer")
    (tmp_path / "current").symlink_to(copied.index)

    async def play(client):
        before = (await client.post("/search", json={"id": 0, "k": 5})).json()
        (tmp_path / "link").symlink_to(tmp_path / "newer")
        os.replace(tmp_path / "link", tmp_path / "current")
        await until_told(client, 'lbhash_index_reloads_total{outcome="failed"} 1.0')
        after = (await client.post("/search", json={"id": 0, "k": 5})).json()
        assert after["neighbors"] == before["neighbors"]
        assert (await client.get("/health")).json()["codes"] == len(open_index(copied.index))

    asynchronous(replace(copied, index=tmp_path / "current"), play)


def test_a_reload_reads_only_what_is_new(copied):
    index = open_index(copied.index)
    index.load()
    codes = index.state.segments[0].arrays["codes"]
    writer = open_index(copied.index)
    writer.add(np.zeros((1, 2), np.uint8), [5000], {"row": [5000], "label": [0]})
    newer = open_index(copied.index, known=index)
    assert newer.state.segments[0].arrays["codes"] is codes
    assert len(newer) == len(index) + 1
    assert index.generation == newer.generation - 1
