from __future__ import annotations

import io
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from app_answers import png
from lbhash.data.images.decoding import THUMBNAIL_SIDE
from lbhash.service.decoding import LARGE, Decoder
from lbhash.service.errors import ServiceError
from lbhash.service.workers import Worker, WorkerError


@pytest.fixture
def worker():
    """A function that starts a worker, which the test's end kills."""
    started = []

    def start(function, **options):
        started.append(Worker(function, **options))
        return started[-1]

    yield start
    for one in started:
        one.kill()


@pytest.fixture(scope="module")
def decoder():
    decoder = Decoder(1, 20.0, max_bytes=1 << 20, max_pixels=1_000_000)
    yield decoder
    decoder.close()


def test_a_worker_answers_and_goes_on_after_what_it_refuses(worker):
    one = worker(bytes.fromhex)
    assert one.ask("0aff", 20) == b"\x0a\xff"
    with pytest.raises(ValueError, match="non-hexadecimal"):
        one.ask("zz", 20)
    with pytest.raises(WorkerError, match="TypeError"):
        one.ask(3, 20)
    assert one.ask("07", 20) == b"\x07"


def test_a_worker_that_hangs_is_not_waited_for(worker):
    one = worker(time.sleep)
    started = time.monotonic()
    with pytest.raises(WorkerError, match=r"longer than 0\.2 seconds"):
        one.ask(60, 0.2)
    one.kill()
    assert time.monotonic() - started < 20
    assert not one._process.is_alive()


def test_a_worker_that_dies_says_so(worker):
    one = worker(os._exit)
    with pytest.raises(WorkerError, match="ended"):
        one.ask(1, 20)
    with pytest.raises(WorkerError, match="ended"):
        one.ask(1, 20)


def test_a_worker_has_only_so_much_memory(worker):
    one = worker(bytes, memory=1 << 30)
    with pytest.raises(ValueError, match="more memory"):
        one.ask(1 << 31, 20)
    assert one.ask(2, 20) == b"\0\0"


def test_images_are_decoded_or_refused(decoder):
    pixels = np.random.default_rng(0).integers(0, 2, (30, 20, 3)) * 255
    with decoder.image(png(pixels)) as image:
        np.testing.assert_array_equal(np.asarray(image), pixels)
    with pytest.raises(ServiceError, match="truncated") as refused, decoder.image(png(pixels)[:-40]):
        pass
    assert refused.value.status_code == 422


def test_one_large_image_is_in_memory_at_a_time():
    decoder = Decoder(2, 60.0, max_bytes=1 << 20, max_pixels=LARGE + 4000)
    pixels = (np.add.outer(np.arange(LARGE // 2000 + 1), np.arange(2000)) % 256).astype(np.uint8)
    large, begun = png(pixels), threading.Event()

    def second():
        begun.set()
        with decoder.image(large) as image:
            return image.size

    try:
        with ThreadPoolExecutor(1) as pool:
            with decoder.image(large) as image:
                np.testing.assert_array_equal(np.asarray(image), pixels[:, :, None].repeat(3, 2))  # it came in bands
                waiting = pool.submit(second)
                begun.wait()
                with decoder.image(png(np.zeros((9, 9)))) as small:  # which waits for nothing
                    assert small.size == (9, 9)
                assert not waiting.done()
            assert waiting.result() == image.size == (2000, LARGE // 2000 + 1)
    finally:
        decoder.close()


def test_thumbnails_are_small(decoder):
    thumbnail = Image.open(io.BytesIO(decoder.thumbnail(png(np.full((900, 300, 3), 99)))))
    assert (thumbnail.format, thumbnail.size) == ("WEBP", (THUMBNAIL_SIDE // 3, THUMBNAIL_SIDE))
    assert abs(int(np.asarray(thumbnail)[50, 50, 0]) - 99) <= 2


def test_a_decoder_that_hangs_is_replaced():
    decoder = Decoder(1, 1e-4, max_bytes=1 << 20, max_pixels=1_000_000)
    image = png(np.zeros((9, 9)))
    try:
        for _ in range(2):
            with pytest.raises(ServiceError, match="longer") as refused, decoder.image(image):
                pass
            assert refused.value.status_code == 422
        decoder._seconds = 20
        with decoder.image(image) as decoded:
            assert decoded.size == (9, 9)
    finally:
        decoder.close()
