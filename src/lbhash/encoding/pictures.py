"""Pictures to encode: read, decoded and preprocessed in processes beside the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.codefolder import Shard
from lbhash.codes import code_bytes
from lbhash.encoding.source import Batch, Damage, Source

if TYPE_CHECKING:
    from torch import Tensor

    from lbhash.backbones import Backbone, Precision
    from lbhash.data.images import ImageTable, Pictures
    from lbhash.data.streamed import ParquetRows
    from lbhash.embeddings import Damaged
    from lbhash.hasher import Hasher

BATCH_SIZE = 32


class PictureSource(Source):
    """Pictures and a backbone that embeds them.

    A batch never crosses shards, so that the codes of a shard do not depend on who encodes it, or when.

    Args:
        hasher: the model.
        images: the pictures.
        backbone: what embeds them.
        rows: as of every source.
        about: as of every source.
        carried: as of every source.
        damaged: whether to ``refuse`` pictures that are damaged or missing, or to ``skip`` them.
        batch_size: pictures in a pass through the backbone.
        precision: of the backbone.
        workers: processes that decode; with 0 this one does.
    """

    unit = "pictures"

    def __init__(
        self,
        hasher: Hasher,
        images: ImageTable,
        backbone: Backbone,
        rows: npt.NDArray[np.int64],
        labels: npt.NDArray | None,
        about: dict[str, Any],
        carried: ParquetRows | None = None,
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
        reader = PictureReader(self._images.pictures.in_order(), self._backbone.processor, self._backbone.name)
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


class PictureReader:
    """Decodes and preprocesses pictures, a batch at a time.

    Args:
        pictures: where they come from.
        processor: of a backbone; ``None`` to decode them and no more.
        name: of the backbone, for messages.
    """

    def __init__(self, pictures: Pictures, processor: Any = None, name: str = "") -> None:
        self.pictures, self.processor, self.name = pictures, processor, name

    def __getitem__(
        self, rows: npt.NDArray[np.int64]
    ) -> tuple[Tensor | None, npt.NDArray[np.int64], tuple[Damage, ...]]:
        """What the backbone takes of these rows, which of them it is, from 0, and what is wrong with the others."""
        from lbhash.backbones import preprocess

        images, read, damaged = [], [], []
        for at, row in enumerate(rows.tolist()):
            try:
                image = self.pictures.read(row)
            except ValueError as error:
                damaged.append(Damage(row, self.pictures.where(row), str(error)))
                continue
            read.append(at)
            if self.processor is not None:
                images.append(image)
        pixels = preprocess(self.processor, images, self.name) if images else None
        return pixels, np.array(read, np.int64), tuple(damaged)


def in_workers(reader: PictureReader, batches: Iterable[npt.NDArray[np.int64]], workers: int) -> Iterator[Any]:
    """What a reader makes of batches of rows, in their order, by processes that are a few batches ahead."""
    from torch.utils.data import DataLoader

    yield from DataLoader(
        reader,  # type: ignore[arg-type]
        sampler=batches,
        batch_size=None,
        num_workers=workers,
        collate_fn=_as_it_is,
    )


def _as_it_is(made: Any) -> Any:
    return made
