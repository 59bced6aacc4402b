"""Embed images and texts with pretrained models, once: later runs read the embeddings from the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.data import Dataset
from lbhash.data.dataset import SPLITS
from lbhash.data.images import ImageStore, ImageTable, load_images
from lbhash.data.images.corrupt import Damaged, find_unreadable, report_damaged, report_missing
from lbhash.data.split import EmbeddingSplit
from lbhash.data.table import EmbeddingTable
from lbhash.data.texts import EmbeddedTexts
from lbhash.pipeline.batches import Batch, embedding_batches, image_batches, joined
from lbhash.utils.memory import check_memory
from lbhash.utils.parts import PART_ROWS, Damage
from lbhash.utils.paths import cache_folder
from lbhash.utils.progress import counted
from lbhash.utils.vectors import Vectors, key_of

if TYPE_CHECKING:
    from lbhash.hasher import Hasher
    from lbhash.models.backbone import Backbone
    from lbhash.models.texts import TextEncoder

_FORMAT = 3  # of the cache files; raise it whenever embeddings change, as by a new decoder or pooling rule


@dataclass(frozen=True)
class ImageOptions:
    """How images are embedded.

    The backbone is a folder or a Hub id; if None, it is the model's own.
    """

    backbone: str | None = None
    damaged: Damaged = "refuse"

    def open(self, data: str | Path, hasher: Hasher | None = None) -> tuple[ImageTable, Backbone]:
        """Load the images of ``data`` and the backbone, which must be the one that ``hasher`` was trained with."""
        from lbhash.models.backbone import Backbone
        from lbhash.models.backbone_files import check_backbone

        table = load_images(data)
        if self.backbone is None:
            if hasher is None:
                raise ValueError("backbone is not given; it must be a folder or a Hub id of a vision model")
            return table, hasher.backbone_
        backbone = Backbone.from_pretrained(self.backbone)
        if hasher is not None:
            check_backbone(hasher.model_, backbone)
        return table, backbone


@dataclass(frozen=True)
class TextOptions:
    """How texts of a table are found and embedded.

    The encoder is a folder or a Hub id; if None, it is the model's own. The column is found by name if it is None.
    """

    encoder: str | None = None
    column: str | None = None

    def open(self) -> dict[str, Any]:
        """Load the encoder for a new model, and return the arguments of ``lbhash.data.load_table``."""
        if self.encoder is None:
            raise ValueError(f"text_column is {self.column!r} without an encoder; it is for texts: give encoder too")
        from lbhash.models.texts import TextEncoder

        return {"encoder": TextEncoder.from_pretrained(self.encoder), "text_column": self.column}

    def reading(self, data: str | Path, hasher: Hasher) -> dict[str, Any]:
        """Return the arguments of ``lbhash.data.load_table`` for encoding data by a trained model."""
        from lbhash.models.backbone_files import load_backbone

        model = hasher.model_
        if not model.takes_texts and self != TextOptions():
            name, value = ("encoder", self.encoder) if self.column is None else ("text_column", self.column)
            raise ValueError(f"{name} is {value!r}, and the model was not trained on texts; leave it out")
        encoder = self.encoder
        reading = model.reading_of(
            data, lambda: hasher.backbone_ if encoder is None else load_backbone(model, name=encoder)
        )
        return reading if self.column is None else {**reading, "text_column": self.column}


def embed_dataset(
    images: ImageTable,
    backbone: Backbone,
    *,
    damaged: Damaged = "refuse",
    cache: bool = True,
    progress: bool = False,
) -> EmbeddingTable:
    """Return the embeddings of all images of a table ``[n, dim]``, in memory.

    The cache folder (``$LBHASH_CACHE``, or the platform's) has one file per backbone, with each embedding under a hash
    of the image's file. Later runs never embed the same image again, even in another folder or data set. Embeddings are
    written part by part, so a new run continues a killed one. Of two runs on the same images, the second waits for the
    first.

    Args:
        damaged: ``refuse`` the table if an image is missing or damaged, or ``skip`` such images with a warning: they
            get an embedding of 0, and are ``damaged`` rows of the returned table.
        cache: whether to read and write the cache.
        progress: show a bar on standard error.

    Raises:
        ValueError: an image is missing (checked before embedding starts) or damaged.
    """
    report_missing(images, damaged)
    refuse = partial(_refuse, images, progress) if damaged == "refuse" else None
    batches = partial(image_batches, images.store, backbone, refuse=refuse)
    found, faults = _embedded(images.store, backbone, batches, cache, progress)
    report_damaged(images, faults, damaged)
    return EmbeddingTable(**{**vars(images), "content": found}).without(faults)


def embed_texts(dataset: Dataset[EmbeddingSplit], *, progress: bool = False) -> Dataset[EmbeddingSplit]:
    """Embed the texts of a data set, or read them from the cache; return a data set without texts unchanged."""
    splits = {name: dataset.split(name) for name in SPLITS}
    tables = {id(split.embeddings): split.embeddings for split in splits.values()}
    made = {key: in_cache(embeddings, progress=progress) for key, embeddings in tables.items()}
    parts: Any = {name: replace(split, embeddings=made[id(split.embeddings)]) for name, split in splits.items()}
    return replace(dataset, **parts)


def in_cache(embeddings: npt.NDArray | EmbeddedTexts, *, progress: bool = False) -> npt.NDArray:
    """Embed texts, or read them from the cache as ``embed_dataset`` does; return other embeddings unchanged."""
    if not isinstance(embeddings, EmbeddedTexts):
        return embeddings
    encoder: Any = embeddings.encoder
    return _embedded(embeddings, encoder, partial(embedding_batches, embeddings), True, progress)[0]


def _embedded(
    items: ImageStore | EmbeddedTexts,
    backbone: Backbone | TextEncoder,
    batches: Callable[[npt.NDArray[np.int64], Sequence[range]], Iterator[Batch]],
    cache: bool,
    progress: bool,
) -> tuple[npt.NDArray[np.float32], dict[int, str]]:
    """Return the embeddings of images or texts, and the faults of unreadable ones, whose embedding is 0."""
    rows, unit, faults = len(items), items.unit, dict[int, str]()
    check_memory(4 * rows * backbone.dim, f"the embeddings of {rows:,} {unit}")
    file = cache_folder() / "embeddings" / f"{backbone.fingerprint()}-{_FORMAT}.sqlite"
    keys = items.keys() if cache else [b""] * rows
    lock = f".{key_of(*keys).hex()[:2]}.lock"  # one of 256 locks
    busy = f"another run embeds the same {unit}; this one waits for it"
    with Vectors(file if cache else None, backbone.dim, lock, busy) as store:
        whole, there = store.get(keys)
        missing, size = np.flatnonzero(~there), PART_ROWS[unit]
        if not len(missing):
            return whole, faults
        parts = [range(start, min(start + size, len(missing))) for start in range(0, len(missing), size)]
        with counted("embedding", rows, unit, done=rows - len(missing), show=progress) as advance:
            for made in joined(batches(missing, parts), advance):
                places, (embeddings,) = missing[made.places], made.arrays
                whole[places] = embeddings
                faults |= {row: fault for row, _, fault in made.damaged}
                store.put([keys[row] for row in places.tolist()], embeddings)
    return whole, faults


def _refuse(images: ImageTable, progress: bool, damage: Damage) -> None:
    """Refuse the table after checking all rows, so the user can fix all damaged images at once."""
    report_damaged(images, find_unreadable(images, progress=progress) or {damage.row: damage.fault}, "refuse")
