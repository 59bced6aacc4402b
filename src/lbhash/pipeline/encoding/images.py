"""Images to encode: read and preprocessed beside the model, which embeds and encodes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.codes import code_bytes
from lbhash.codes.shards import Shard
from lbhash.data.images.loading import ImageReader, in_workers
from lbhash.pipeline.encoding.source import Batch, Source

if TYPE_CHECKING:
    from lbhash.data.images import ImageTable
    from lbhash.data.images.corrupt import Damaged
    from lbhash.hasher import Hasher
    from lbhash.models.backbone import Backbone, Precision
    from lbhash.pipeline.columns import Carried

BATCH_SIZE = 32


class ImageSource(Source):
    """Images and a backbone that embeds them.

    A batch never crosses shards, so that the codes of a shard do not depend on who encodes it, or when.

    Args:
        hasher: the model.
        images: the images.
        backbone: what embeds them.
        rows: as of every source.
        about: as of every source.
        carried: as of every source.
        damaged: whether to ``refuse`` images that are damaged or missing, or to ``skip`` them.
        batch_size: images in a pass through the backbone.
        precision: of the backbone.
        workers: processes that decode; with 0 this one does.
    """

    unit = "images"

    def __init__(
        self,
        hasher: Hasher,
        images: ImageTable,
        backbone: Backbone,
        rows: npt.NDArray[np.int64],
        labels: npt.NDArray | None,
        about: dict[str, Any],
        carried: Carried | None = None,
        *,
        damaged: Damaged = "refuse",
        batch_size: int = BATCH_SIZE,
        precision: Precision = "32",
        workers: int = 0,
    ) -> None:
        super().__init__(hasher, rows, labels, about, carried)
        self._images, self._backbone, self._damaged = images, backbone, damaged
        self._batch_size, self._precision, self._workers = batch_size, precision, workers

    def batches(self, shards: Sequence[Shard]) -> Iterator[Batch]:
        """As of every source."""
        reader = ImageReader(self._images.store.in_order(), self._backbone.processor, self._backbone.name)
        asked = (self.rows[start:stop] for _, start, stop in self._cuts(shards))
        made = in_workers(reader, asked, self._workers)
        for (shard, start, _), (pixels, read, damaged) in zip(self._cuts(shards), made, strict=True):
            if damaged and self._damaged == "refuse":
                raise ValueError(
                    f"{damaged[0].fault}; mend or remove it, or skip what is damaged (--damaged skip): the shards that "
                    "are done are kept"
                )
            codes = np.empty((0, code_bytes(self.hasher.bits)), np.uint8)
            if pixels is not None:
                codes = self.hasher.model_.encode(self._backbone.embed_pixels(pixels, self._precision))
            yield Batch(shard, start + read, codes, damaged)

    def _cuts(self, shards: Sequence[Shard]) -> Iterator[tuple[Shard, int, int]]:
        """Shard, first row and the row after the last one of every batch."""
        for shard in shards:
            for start in range(shard.start, shard.stop, self._batch_size):
                yield shard, start, min(start + self._batch_size, shard.stop)
