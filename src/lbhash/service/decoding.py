"""Pictures from outside, decoded in child processes that cannot hang the server."""

from __future__ import annotations

import io
import queue
import struct
from functools import partial
from typing import TYPE_CHECKING

from lbhash.service.errors import Refused
from lbhash.service.workers import Worker, WorkerError

if TYPE_CHECKING:
    from PIL.Image import Image

THUMBNAIL = 256
"""The longer side of a thumbnail, in pixels."""

_SIZE = struct.Struct("!II")
_MEMORY = 2 << 30  # address space, most of which the libraries reserve and never touch
_MEMORY_PER_PIXEL = 32  # a decoder's own buffers, and a few copies in several modes


class Decoder:
    """Decodes pictures in up to ``workers`` child processes, which start when they are first needed.

    Args:
        workers: how many at once.
        seconds: how long a picture may take.
        max_bytes: the most bytes of a file.
        max_pixels: the most pixels of a picture.
    """

    def __init__(self, workers: int, seconds: float, max_bytes: int, max_pixels: int) -> None:
        self._seconds = seconds
        self._function = partial(_decode, max_bytes=max_bytes, max_pixels=max_pixels)
        self._memory = _MEMORY + _MEMORY_PER_PIXEL * max_pixels
        self._idle: queue.LifoQueue[Worker | None] = queue.LifoQueue()
        for _ in range(workers):
            self._idle.put(None)

    def picture(self, data: bytes) -> Image:
        """The picture of a file's bytes, RGB; blocks, and is for threads.

        Raises:
            Refused: 422 where it is no picture, too large, damaged, or takes too long.
        """
        from PIL import Image

        answer = self._ask(("picture", data))
        return Image.frombytes("RGB", _SIZE.unpack_from(answer), answer[_SIZE.size :])

    def thumbnail(self, data: bytes) -> bytes:
        """The picture of a file's bytes as a WebP file of at most ``THUMBNAIL`` pixels a side; as ``picture``."""
        return self._ask(("thumbnail", data))

    def close(self) -> None:
        """End the child processes."""
        while not self._idle.empty():
            worker = self._idle.get()
            if worker is not None:
                worker.kill()

    def _ask(self, job: tuple[str, bytes]) -> bytes:
        worker = self._idle.get()
        try:
            if worker is None:
                worker = Worker(self._function, memory=self._memory)
            return worker.ask(job, self._seconds)
        except ValueError as error:
            raise Refused(422, str(error)) from None
        except WorkerError as error:
            if worker is not None:
                worker.kill()
                worker = None
            raise Refused(422, f"the picture could not be decoded: {error}") from None
        finally:
            self._idle.put(worker)


def _decode(job: tuple[str, bytes], *, max_bytes: int, max_pixels: int) -> bytes:
    from lbhash.data.images.decoding import decode_image

    what, data = job
    picture = decode_image(data, max_bytes=max_bytes, max_pixels=max_pixels)
    if what == "picture":
        return _SIZE.pack(*picture.size) + picture.tobytes()
    picture.thumbnail((THUMBNAIL, THUMBNAIL))
    file = io.BytesIO()
    picture.save(file, "WEBP", quality=85)
    return file.getvalue()
