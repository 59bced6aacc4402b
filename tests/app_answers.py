"""What the tests of the service ask of its answers."""

from __future__ import annotations

import asyncio
import io
import time

import numpy as np

HOME = "http://127.0.0.1"
"""The host that a test's client asks for."""


def png(pixels, **options):
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.asarray(pixels, np.uint8)).save(file, "PNG", **options)
    return file.getvalue()


def assert_refused(answer, status, *parts):
    """That status, and a reason as one line of JSON."""
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"detail"}
    detail = answer.json()["detail"]
    assert isinstance(detail, str)
    assert detail.strip()
    assert "\n" not in detail
    for part in parts:
        assert part in detail, detail


def search(client, **given):
    """Ask for one query, such as ``id=3``, with options; the answer is awaited if the client is asynchronous.

    An ``item`` and a ``row`` of the data are asked for as the page does.
    """
    if "item" in given:
        given["id"] = given.pop("item")
        return client.post("/page/search", json=given)
    if "row" in given:
        return client.post("/page/search", json=given)
    kind = next(name for name in ("embedding", "text", "code", "id") if name in given)
    return client.post("/v1/search", json={"queries": [{kind: given.pop(kind)}], **given})


def only(answer):
    """What was found for the only query."""
    assert answer.status_code == 200, answer.text
    (found,) = answer.json()["answers"]
    return found


def found(answer):
    neighbors = only(answer)["neighbors"]
    return [one["distance"] for one in neighbors], [one["id"] for one in neighbors]


def wait_for(client, path, ready, seconds=60):
    ended = time.monotonic() + seconds
    while not ready(body := client.get(path).json()):
        assert time.monotonic() < ended, body
        time.sleep(0.1)
    return body


def asynchronous(settings, play):
    """Run ``play(client)`` against the application, with an asynchronous client that can have many requests at once."""
    import httpx

    from lbhash.service import create_app

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


async def until_told(client, text):
    """Wait until the metrics have this text."""
    ended = time.monotonic() + 60
    while text not in (await client.get("/metrics")).text:
        assert time.monotonic() < ended
        await asyncio.sleep(0.02)
