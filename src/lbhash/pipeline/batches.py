"""Embed rows in batches, and join batches into parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lbhash.data.images import ImageStore
from lbhash.data.images.loading import ImageReader
from lbhash.data.readers import check_embeddings
from lbhash.data.reading_ahead import ReadAhead
from lbhash.models.backbone import Backbone, Precision
from lbhash.utils.parts import Damage
from lbhash.utils.system import usable_cores


class Batch(NamedTuple):
    """A batch of a part's rows: the arrays ``[m, …]`` made from them, their m places among all rows, and damaged rows.

    A batch never crosses parts, so every process makes the same parts.
    """

    part: range
    places: npt.NDArray[np.int64]
    arrays: Sequence[npt.NDArray]
    damaged: Sequence[Damage] = ()


def embedding_batches(embeddings: Any, rows: npt.NDArray[np.int64], parts: Iterable[range]) -> Iterator[Batch]:
    """Read embeddings from memory or a file, 8,192 rows at a time, or compute them for 256 texts at a time."""
    for part, start, stop in _cut(parts, getattr(embeddings, "at_once", 8192)):
        found = embeddings[rows[start:stop]]
        check_embeddings(found, "embeddings of data", rows[start:stop])
        yield Batch(part, np.arange(start, stop), [found])


def image_batches(
    store: ImageStore,
    backbone: Backbone,
    rows: npt.NDArray[np.int64],
    parts: Sequence[range],
    *,
    refuse: Callable[[Damage], None] | None,
    size: int | None = None,
    precision: Precision | None = None,
    workers: int | None = None,
) -> Iterator[Batch]:
    """Decode and preprocess images in ``workers`` processes, and embed them, ``size`` at a time.

    ``refuse`` is called with the first damaged or missing image and raises; if it is None, such images are skipped.
    """
    size = size or store.at_once
    reader = ImageReader(store.in_order(), backbone.processor, backbone.name)
    batches = (rows[start:stop] for _, start, stop in _cut(parts, size))
    read = ReadAhead(reader, batches, workers_of(workers, backbone))
    for (part, start, _), (pixels, places, damaged) in zip(_cut(parts, size), read, strict=True):
        if damaged and refuse is not None:
            refuse(damaged[0])
        none = np.empty((0, backbone.dim), np.float32)
        embeddings = none if pixels is None else backbone.embed_pixels(pixels, precision or "32")
        yield Batch(part, start + places, [embeddings], damaged)


def workers_of(workers: int | None, backbone: Backbone) -> int:
    """Return how many processes decode images: ``workers``, or if None, one less than the usable cores, up to 8.

    On a CPU with at most two cores the default is 0: the model's threads wait for each other, and a third process makes
    them wait longer than it saves (``benchmarks/encode.py``).
    """
    if workers is not None:
        return workers
    cores = usable_cores()
    return 0 if backbone.model.device.type == "cpu" and cores <= 2 else min(cores - 1, 8)


def joined(batches: Iterable[Batch], advance: Callable[[int], None]) -> Iterator[Batch]:
    """Join the batches of each part into one, and call ``advance`` with the number of finished rows.

    Memory holds a few batches and the arrays of one part.
    """
    whole: list[npt.NDArray] = []  # places and arrays of the part
    damaged: list[Damage] = []
    filled = 0
    for batch in batches:
        made = [batch.places, *batch.arrays]
        whole = whole or [np.empty((len(batch.part), *values.shape[1:]), values.dtype) for values in made]
        for array, values in zip(whole, made, strict=True):
            array[filled : filled + len(values)] = values
        filled += len(batch.places)
        damaged += batch.damaged
        advance(len(batch.places) + len(batch.damaged))
        if filled + len(damaged) == len(batch.part):
            places, *arrays = (array[:filled] for array in whole)
            yield Batch(batch.part, places, arrays, damaged)
            whole, damaged, filled = [], [], 0


def _cut(parts: Iterable[range], size: int) -> Iterator[tuple[range, int, int]]:
    """Yield each batch as its part, its first row and the row after its last."""
    for part in parts:
        for start in range(part.start, part.stop, size):
            yield part, start, min(start + size, part.stop)
