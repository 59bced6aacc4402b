"""The description of an encoding, which can be sent to another machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lbhash.pipeline.embeddings import ImageOptions, TextOptions
from lbhash.utils.fetched import fetched
from lbhash.utils.validation import check_int

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class EncodingJob:
    """A model, the rows of a data set (``load_dataset``, ``load_images``) to encode, and the options.

    Attributes:
        split: train, base or query, or all rows of one file. If None, base if the data have splits (flags, files, a
            published test set) or a protocol is given, otherwise all rows.
        protocol: how the data are split. If None, as in training, so no training row becomes a query.
        split_seed: the seed of the split. If None, the training's.
        images: how images are embedded. If None, by the model's own backbone.
        texts: how texts are embedded. If None, by the model's own encoder, if it has one.
        metadata: columns of the data to store with the codes.
        like: columns of an index (also its ids) whose types the metadata must get.
        batch_size: images per pass through the backbone. If None, 32.
        precision: the backbone's precision. If None, 32.
        workers: processes that decode images beside the model. If None, as in ``workers_of``.
        embedding_column, label_column: of a file of embeddings, as for ``lbhash.data.load_table``.
        damaged: whether damaged images, or rows of embeddings, are refused or skipped; ``images`` has its own option.
        unreadable: rows with a damaged or missing image, which are in no split. If None, not checked yet.
    """

    model: str | Path
    data: str | Path
    split: str | None = "all"
    base: str | Path | None = None
    query: str | Path | None = None
    labels: str | Path | None = None
    protocol: str | None = None
    split_seed: int | None = None
    images: ImageOptions | None = None
    texts: TextOptions | None = None
    metadata: tuple[str, ...] = ()
    like: tuple[pa.Field, ...] = ()
    batch_size: int | None = None
    precision: Literal["32", "bf16"] | None = None
    workers: int | None = None
    unreadable: tuple[int, ...] | None = None
    embedding_column: str | None = None
    label_column: str | None = None
    damaged: Literal["refuse", "skip"] = "refuse"

    def __post_init__(self) -> None:
        for name in ("data", "base", "query", "labels"):
            if (path := getattr(self, name)) is not None:
                object.__setattr__(self, name, fetched(path, name))
        check_int(32 if self.batch_size is None else self.batch_size, "batch_size", 1)
        check_int(0 if self.workers is None else self.workers, "workers")
