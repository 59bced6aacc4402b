"""Decode clients' images in child processes, so no image can hang or crash the server."""

from __future__ import annotations

import queue
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import Lock
from typing import Any

from PIL import Image

from lbhash.data.images.decoding import decode_image, thumbnail_of
from lbhash.service.errors import ServiceError
from lbhash.service.workers import Worker, WorkerError

LARGE = 4_000_000  # pixels; only one larger image is in memory at a time: 25 million pixels take 100 MiB
_SIZE = struct.Struct("!II")
_MEMORY = 2 << 30  # bytes of address space; libraries reserve most of it without using it
_MEMORY_PER_PIXEL = 32  # for the decoder's buffers and copies in several modes


Job = tuple[str, Any]
"""A task ("image", "large", "band" or "thumbnail") and its input: the file, or the box of a band."""
_held: list[Image.Image] = []  # in a child process: the large image that is sent in bands


class Decoder:
    """Decodes images in up to ``workers`` child processes; each image may take ``seconds``."""

    def __init__(self, workers: int, seconds: float, max_bytes: int, max_pixels: int) -> None:
        self._seconds, self._memory = seconds, _MEMORY + _MEMORY_PER_PIXEL * max_pixels
        self._function = partial(_decode, max_bytes=max_bytes, max_pixels=max_pixels)
        self._idle: queue.LifoQueue[Worker | None] = queue.LifoQueue()  # None: start it on demand
        for _ in range(workers):
            self._idle.put(None)
        self._large = Lock()

    @contextmanager
    def image(self, data: bytes) -> Iterator[Image.Image]:
        """Decode an image file to RGB for the block; another large image waits until the block ends.

        Raises ``ServiceError`` 422 if the file is no image, too large, damaged, or takes too long.
        """
        answer = self._ask(("image", data))
        with ExitStack() as held:
            if answer:
                image = Image.frombytes("RGB", _SIZE.unpack_from(answer), answer[_SIZE.size :])
                del answer
            else:
                held.enter_context(self._large)
                image = self._large_image(data)
            yield image

    def _large_image(self, data: bytes) -> Image.Image:
        """Return an image that is sent in bands, so its pixels are never in memory twice."""
        with self._worker() as ask:
            width, height = _SIZE.unpack(ask(("large", data)))
            image, rows = Image.new("RGB", (width, height)), max(1, LARGE // width // 4)
            for top in range(0, height, rows):
                box = (0, top, width, min(top + rows, height))
                image.paste(Image.frombytes("RGB", (width, box[3] - top), ask(("band", box))), box)
        return image

    def thumbnail(self, data: bytes) -> bytes:
        """Return an image file as a small WebP file (``thumbnail_of``); raises the errors of ``image``."""
        return bytes(self._ask(("thumbnail", data)))

    def close(self) -> None:
        """End the child processes."""
        while not self._idle.empty():
            if (worker := self._idle.get()) is not None:
                worker.kill()

    def _ask(self, job: Job) -> memoryview:
        with self._worker() as ask:
            return ask(job)

    @contextmanager
    def _worker(self) -> Iterator[Callable[[Job], memoryview]]:
        """Yield a function that sends a job to one child process."""
        worker = self._idle.get()
        try:
            worker = worker or Worker(self._function, memory=self._memory)
            yield partial(worker.ask, seconds=self._seconds)
        except ValueError as error:
            raise ServiceError(422, str(error)) from None
        except WorkerError as error:
            if worker is not None:
                worker.kill()
                worker = None
            raise ServiceError(422, f"the image could not be decoded: {error}") from None
        finally:
            self._idle.put(worker)


def _decode(job: Job, *, max_bytes: int, max_pixels: int) -> bytes:
    kind, data = job
    if kind == "band":
        image = _held.pop()
        if data[3] < image.height:  # an idle child holds no image
            _held.append(image)
        return image.crop(data).tobytes()
    _held.clear()  # bands that were never requested
    image = decode_image(data, max_bytes=max_bytes, max_pixels=max_pixels)
    if kind == "image" and image.width * image.height > LARGE:
        return b""
    if kind == "large":
        _held.append(image)
        return _SIZE.pack(*image.size)
    if kind == "image":
        return _SIZE.pack(*image.size) + image.tobytes()
    return thumbnail_of(image)
