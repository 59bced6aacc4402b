"""Embeddings of images and texts by what is not trained: computed once, stored in the cache, then read like others."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.codes.shards import Shard, shards_of
from lbhash.data import SPLITS, Dataset, EmbeddingSplit, EmbeddingTable
from lbhash.data.images import ImageStore, ImageTable, load_images
from lbhash.data.images.corrupt import Damaged, find_unreadable, report_damaged, report_missing
from lbhash.data.texts import EmbeddedTexts
from lbhash.pipeline.shard_store import EmbeddingShards, StoredEmbeddings
from lbhash.utils.files import cache_folder, exclusive
from lbhash.utils.progress import counted

if TYPE_CHECKING:
    from lbhash.hasher import Hasher
    from lbhash.models.backbone import Backbone
    from lbhash.models.texts import TextEncoder

CHUNK = 2048
"""Rows of a shard of embeddings; a run after a killed one goes on after its last shard."""

_FORMAT = 1  # of the files; raise it with any change of what an embedding is, by a decoder or a rule of pooling


@dataclass(frozen=True)
class ImageOptions:
    """How images become embeddings.

    The backbone is a folder or a Hub id; if None, it is the model's own.
    """

    backbone: str | None = None
    damaged: Damaged = "refuse"

    def open(self, data: str | Path, hasher: Hasher | None = None) -> tuple[ImageTable, Backbone]:
        """Load the images of ``data`` and the backbone, which must be the one of ``hasher``'s training."""
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
    """How texts of a table are found and become embeddings.

    The encoder is a folder or a Hub id; if None, it is the model's own. The column is found by name if it is None.
    """

    encoder: str | None = None
    column: str | None = None

    def open(self) -> dict[str, Any]:
        """Return the arguments of ``lbhash.data.load_table`` for a new model, whose encoder they load."""
        if self.encoder is None:
            raise ValueError(f"text_column is {self.column!r} without an encoder; it is for texts: give encoder too")
        from lbhash.models.texts import TextEncoder

        return {"encoder": TextEncoder.from_pretrained(self.encoder), "text_column": self.column}

    def reading(self, data: str | Path, hasher: Hasher) -> dict[str, Any]:
        """Return the arguments of ``lbhash.data.load_table`` for what a trained model encodes."""
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
    """Return the embeddings of all images of a table ``[n, dim]``, memory-mapped if they come from the cache.

    Embeddings are stored in the cache folder (``$LBHASH_CACHE``, or the platform's) under a fingerprint of the images,
    the backbone's weights and its preprocessing; labels and splits are not part of it. They are written in shards, so
    that a run goes on after one that was killed. Of two runs at once the second waits for the first.

    Args:
        damaged: ``refuse`` the table if an image is missing or damaged, or ``skip`` such images and say so: they have
            an embedding of 0, and are ``damaged`` rows of the table that is returned.
        cache: whether to read and write the cache.
        progress: show a bar on standard error.

    Raises:
        ValueError: an image is missing, which is found out before any is embedded, or damaged.
    """
    report_missing(images, damaged)
    refuse = partial(_refuse, images, progress) if damaged == "refuse" else None
    found, faults = _embedded(images.store, backbone, refuse, cache, progress)
    report_damaged(images, faults, damaged)
    return EmbeddingTable(**{**vars(images), "content": found}).without(faults)


def embed_texts(dataset: Dataset[EmbeddingSplit], *, progress: bool = False) -> Dataset[EmbeddingSplit]:
    """Return a data set whose texts are embedded, each table once, or found in the cache; another as it is."""
    splits = {name: dataset.split(name) for name in SPLITS}
    tables = {id(split.embeddings): split.embeddings for split in splits.values()}
    made = {key: in_cache(embeddings, progress=progress) for key, embeddings in tables.items()}
    parts: Any = {name: replace(split, embeddings=made[id(split.embeddings)]) for name, split in splits.items()}
    return replace(dataset, **parts)


def in_cache(embeddings: npt.NDArray | EmbeddedTexts, *, progress: bool = False) -> npt.NDArray:
    """Return embeddings of texts, computed or from the cache as those of ``embed_dataset`` are; others as they are."""
    if not isinstance(embeddings, EmbeddedTexts):
        return embeddings
    encoder: Any = embeddings.encoder
    return _embedded(embeddings, encoder, None, True, progress)[0]


def embedding_fingerprint(items: ImageStore | EmbeddedTexts, backbone: Backbone | TextEncoder) -> str:
    """Return the fingerprint of embeddings, 32 hexadecimal digits: it names their folder in the cache."""
    text = f"{_FORMAT}\0{backbone.fingerprint()}\0{items.fingerprint()}\0{len(items)}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _embedded(
    items: ImageStore | EmbeddedTexts,
    backbone: Backbone | TextEncoder,
    refuse: Callable[[str], None] | None,
    cache: bool,
    progress: bool,
) -> StoredEmbeddings:
    """Return the embeddings of images or texts, and the faults of those that cannot be read."""
    embed = partial(_embed, items, backbone, refuse, progress)
    shards = shards_of(len(items), CHUNK)
    folder = cache_folder() / "embeddings" / embedding_fingerprint(items, backbone)
    try:
        if cache:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"the embeddings are not cached: {error.strerror}: {error.filename}", file=sys.stderr)
        cache = False
    if cache:
        store = EmbeddingShards(folder, len(items), backbone.dim)
        return store.find(None) or _fill(store, shards, embed, refuse, items.unit)
    made = list(embed(shards))
    return np.concatenate([rows for _, rows, _ in made]), {
        row: fault for _, _, some in made for row, fault in some.items()
    }


def _fill(
    store: EmbeddingShards,
    shards: Sequence[Shard],
    embed: Callable[[Sequence[Shard]], Iterator[tuple[Shard, npt.NDArray[np.float32], dict[int, str]]]],
    refuse: Callable[[str], None] | None,
    unit: str,
) -> StoredEmbeddings:
    """Embed the shards that the cache does not have yet, and put all of them together."""
    with exclusive(store.folder, "lock", f"another run embeds the same {unit}; this one waits for it", None):
        found = store.find(None)  # what the run that this one waited for has written
        if found is None:
            done = {shard: store.find(shard) for shard in shards}
            faults = [fault for stored in done.values() if stored for fault in stored[1].values()]
            if faults and refuse:
                refuse(faults[0])
            for made in embed([shard for shard, stored in done.items() if stored is None]):
                store.write(*made)
            store.finish(shards)
            found = store.find(None)
    if found is None:
        raise OSError(5, "the embeddings that were just written could not be read", str(store.folder))
    return found


def _embed(
    items: ImageStore | EmbeddedTexts,
    backbone: Backbone | TextEncoder,
    refuse: Callable[[str], None] | None,
    progress: bool,
    shards: Sequence[Shard],
) -> Iterator[tuple[Shard, npt.NDArray[np.float32], dict[int, str]]]:
    """Yield the embeddings ``[rows, dim]`` of each shard, and the faults of its damaged rows."""
    done = len(items) - sum(map(len, shards))
    with counted("embedding", len(items), items.unit, done=done, show=progress) as advance:
        for shard in shards:
            made = np.zeros((len(shard), backbone.dim), np.float32)
            faults: dict[int, str] = {}
            for first in range(shard.start, shard.stop, items.at_once):
                rows = range(first, min(first + items.at_once, shard.stop))
                batch: dict[int, Any] = {}
                for row in rows:
                    try:
                        batch[row - shard.start] = items.read(row)
                    except ValueError as error:
                        faults[row] = str(error)
                        if refuse:
                            refuse(faults[row])
                if batch:
                    made[list(batch)] = backbone.embed(list(batch.values()), items.at_once)
                advance(len(rows))
            yield shard, made, faults


def _refuse(images: ImageTable, progress: bool, fault: str) -> None:
    """Refuse the table, after a look at all rows, so that all damaged images can be mended at once."""
    report_damaged(images, find_unreadable(images, progress=progress) or {0: fault}, "refuse")
