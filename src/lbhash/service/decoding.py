"""Decodes images from clients in child processes, so that no image can hang or crash the server."""

from __future__ import annotations

import queue
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import Lock

from PIL import Image

from lbhash.data.images.decoding import decode_image, thumbnail_of
from lbhash.service.errors import ServiceError
from lbhash.service.workers import Worker, WorkerError

LARGE = 2_100_000  # pixels, from which on one image is held in memory at a time: 25 million take 170 MiB, these 15
_SIZE = struct.Struct("!II")
_MEMORY = 2 << 30  # bytes of address space, most of which the libraries reserve and never touch
_MEMORY_PER_PIXEL = 32  # a decoder's own buffers, and a few copies in several modes


class Decoder:
    """Decodes images in up to ``workers`` child processes, each image in at most ``seconds``."""

    def __init__(self, workers: int, seconds: float, max_bytes: int, max_pixels: int) -> None:
        self._seconds, self._memory = seconds, _MEMORY + _MEMORY_PER_PIXEL * max_pixels
        self._function = partial(_decode, max_bytes=max_bytes, max_pixels=max_pixels)
        self._idle: queue.LifoQueue[Worker | None] = queue.LifoQueue()  # None is started when it is needed
        for _ in range(workers):
            self._idle.put(None)
        self._large = Lock()

    @contextmanager
    def image(self, data: bytes) -> Iterator[Image.Image]:
        """Decode an image file to RGB for the block; another large one waits until the block is over.

        ``ServiceError`` 422 if it is no image, too large, damaged, or takes too long.
        """
        answer = self._ask(("image", data))
        with ExitStack() as held:
            if not answer:
                held.enter_context(self._large)
                answer = self._ask(("large", data))
            image = Image.frombytes("RGB", _SIZE.unpack_from(answer), answer[_SIZE.size :])
            del answer
            yield image

    def thumbnail(self, data: bytes) -> bytes:
        """Return an image file as a small WebP file (``thumbnail_of``); raises as ``image`` does."""
        return bytes(self._ask(("thumbnail", data)))

    def close(self) -> None:
        """End the child processes."""
        while not self._idle.empty():
            if (worker := self._idle.get()) is not None:
                worker.kill()

    def _ask(self, job: tuple[str, bytes]) -> memoryview:
        worker = self._idle.get()
        try:
            worker = worker or Worker(self._function, memory=self._memory)
            return worker.ask(job, self._seconds)
        except ValueError as error:
            raise ServiceError(422, str(error)) from None
        except WorkerError as error:
            if worker is not None:
                worker.kill()
                worker = None
            raise ServiceError(422, f"the image could not be decoded: {error}") from None
        finally:
            self._idle.put(worker)


def _decode(job: tuple[str, bytes], *, max_bytes: int, max_pixels: int) -> bytes:
    kind, data = job
    image = decode_image(data, max_bytes=max_bytes, max_pixels=max_pixels)
    if kind == "image" and image.width * image.height > LARGE:
        return b""
    if kind in ("image", "large"):
        return _SIZE.pack(*image.size) + image.tobytes()
    return thumbnail_of(image)
