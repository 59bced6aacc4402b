"""What is to be encoded, in words that a process on another machine understands too."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from lbhash.data.dataset import SPLITS
from lbhash.models.backbone import Precision
from lbhash.pipeline.embeddings import ImageOptions
from lbhash.utils.validation import check_choice, check_int

T = TypeVar("T", "EncodingJob", ImageOptions)


@dataclass(frozen=True)
class EncodingJob:
    """A model, the rows of a data set that it encodes, and how.

    Attributes:
        model: a folder that ``lbhash train`` wrote.
        data: a data set (``lbhash.data.load_dataset``, ``lbhash.data.images.load_images``), as are base and query.
        split: train, base or query, or all rows of one file.
        labels: an ``.npy`` with the labels.
        protocol: how the data is split. If None, as in training, so that no training row becomes a query.
        split_seed: the seed of the split. If None, that of the training.
        images: how images are embedded. If None, by the model's own backbone.
        columns: extra columns of the data that go with the codes.
        batch_size: images in a pass through the backbone. If None, 32.
        precision: of the backbone. If None, 32.
        workers: processes that decode images beside the model. If None, ``default_workers``.
        unreadable: rows whose image is known to be damaged or missing, which no split has. If None, nobody has looked.
    """

    model: str | Path
    data: str | Path
    split: str = "all"
    base: str | Path | None = None
    query: str | Path | None = None
    labels: str | Path | None = None
    protocol: str | None = None
    split_seed: int | None = None
    images: ImageOptions | None = None
    columns: tuple[str, ...] = ()
    batch_size: int | None = None
    precision: Precision | None = None
    workers: int | None = None
    unreadable: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_choice(self.split, "split", (*SPLITS, "all"))
        check_int(32 if self.batch_size is None else self.batch_size, "batch_size", 1)
        check_int(0 if self.workers is None else self.workers, "workers")
        check_choice(self.precision or "32", "precision", ("32", "bf16"))

    def absolute(self) -> EncodingJob:
        """Return the same job with absolute paths, for processes that were started in another folder."""
        images = None if self.images is None else _absolute(self.images, "backbone", "images", "classes")
        return replace(_absolute(self, "model", "data", "base", "query", "labels"), images=images)


def _absolute(options: T, *names: str) -> T:
    """Make paths that exist absolute; names of data sets and ids of the Hub stay as they are."""
    given = {name: getattr(options, name) for name in names}
    there: dict[str, Any] = {
        name: str(Path(path).absolute()) for name, path in given.items() if path is not None and Path(path).exists()
    }
    return replace(options, **there)
