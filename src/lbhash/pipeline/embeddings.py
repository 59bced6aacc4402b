"""Embeddings of images by a frozen backbone: computed once, kept on disk, and then read like any others."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from lbhash.data import Dataset, EmbeddingSplit
from lbhash.data.images import ImageTable, holds_images, layout_of, load_images
from lbhash.data.images.corrupt import MEND, Damaged, damaged_line, missing_line, refuse_or_skip
from lbhash.utils.files import cache_folder, replacing, write_json
from lbhash.utils.progress import counted

if TYPE_CHECKING:
    from lbhash.hasher import Hasher
    from lbhash.models.backbone import Backbone

CLASS_LIST = "class list"
"""Under what a model remembers the classes that a list chose."""

CHUNK = 2048
"""Rows that are kept at a time while a table is embedded; a run that was killed goes on after the last of them."""

_FORMAT = 1  # of the files; raise it with any change of what an embedding is, by a decoder or a rule of pooling


@dataclass(frozen=True)
class ImageOptions:
    """How images become embeddings, as the commands say it.

    Attributes:
        backbone: the name or folder of the backbone (``Backbone.from_pretrained``); where it is not given, the one that
            goes with the model (``Hasher.backbone_``).
        layout: of the data (``lbhash.data.images.load_images``).
        images: as ``layout``.
        classes: as ``layout``.
        damaged: what becomes of missing and damaged images (``embed_dataset``).
    """

    backbone: str | None = None
    layout: str | None = None
    images: str | Path | None = None
    classes: str | Path | None = None
    damaged: Damaged = "refuse"

    def table(self, data: str | Path, hasher: Hasher | None = None) -> ImageTable:
        """The images of ``data``; of an ImageNet those of the classes that ``hasher``'s model was trained with."""
        layout = self.layout or layout_of(data)
        classes: str | Path | list[str] | None = self.classes
        if classes is None and hasher is not None and layout == "imagenet":
            classes = hasher.model_.about.get(CLASS_LIST)
        return load_images(data, layout=layout, images=self.images, classes=classes)

    def about(self, table: ImageTable) -> dict[str, Any]:
        """What a model is to remember of how its images were found."""
        return {} if self.classes is None else {CLASS_LIST: list(table.classes)}

    def open(self, data: str | Path, hasher: Hasher | None = None) -> tuple[ImageTable, Backbone]:
        """The images of ``data`` and what embeds them, which must be what ``hasher``'s model was trained with."""
        from lbhash.models.backbone import Backbone
        from lbhash.models.backbone_files import check_backbone

        table = self.table(data, hasher)
        if self.backbone is None:
            if hasher is None:
                raise ValueError("backbone is not given; it must be a folder or a Hub id of a vision model")
            return table, hasher.backbone_
        backbone = Backbone.from_pretrained(self.backbone)
        if hasher is not None:
            check_backbone(hasher.model_, backbone)
        return table, backbone

    def embed(self, data: str | Path, hasher: Hasher | None = None, *, progress: bool = True) -> Embedded:
        """Embed the images of ``data``, by what ``hasher``'s model was trained with.

        The embeddings are kept but for those of a backbone that was fine-tuned with its head, which no other uses.
        """
        own = hasher is not None and hasher.model_.has_tuned_backbone
        return embed_dataset(*self.open(data, hasher), damaged=self.damaged, cache=not own, progress=progress)


def data_image_options(data: str | Path, images: ImageOptions | None) -> ImageOptions | None:
    """How ``data`` become embeddings where they are images, as is said or seen; ``None`` of embeddings."""
    return ImageOptions() if images is None and holds_images(data) else images


@dataclass(frozen=True)
class Embedded:
    """A table of images with an embedding a row.

    Attributes:
        images: the table.
        embeddings: ``float32 [n, dim]``, memory-mapped where they come from the cache; 0 in a row that is damaged.
        damaged: what is wrong with the images that have no embedding, by row.
        backbone: what a model is to remember of the backbone (``Backbone.about``).
    """

    images: ImageTable
    embeddings: npt.NDArray[np.float32]
    damaged: dict[int, str]
    backbone: dict[str, Any]

    @property
    def kept(self) -> npt.NDArray[np.bool_]:
        """Which rows have an embedding, ``bool [n]``."""
        kept = np.ones(len(self.images), bool)
        kept[list(self.damaged)] = False
        return kept

    def part(self, rows: npt.NDArray[np.int64] | None = None) -> EmbeddingSplit:
        """Some rows as a split of a data set; all that have an embedding where none are named."""
        rows = np.flatnonzero(self.kept) if rows is None else rows
        return EmbeddingSplit(self.embeddings, rows, None if self.images.labels is None else self.images.labels[rows])

    def dataset(self, protocol: str | None = None, seed: int = 0) -> Dataset[EmbeddingSplit]:
        """Train, base and query, of the rows that have an embedding.

        Args:
            protocol: as ``lbhash.data.Table.split_rows`` takes it.
            seed: of the draw.
        """
        chosen, rows = self.images.split_rows(protocol, seed, self.kept)
        return Dataset(self.images.name, chosen, *(self.part(rows[split]) for split in ("train", "base", "query")))


def embed_dataset(
    images: ImageTable,
    backbone: Backbone,
    *,
    damaged: Damaged = "refuse",
    batch_size: int = 32,
    cache: bool = True,
    progress: bool = False,
) -> Embedded:
    """Embed all images of a table, or find that it was done before.

    The embeddings are kept in the cache folder (``$LBHASH_CACHE``, or the platform's) under a key of the backbone's
    weights and preprocessing and of the images; labels and splits are no part of it. They are written a chunk at a
    time, so that a run that was killed is taken up, and of two runs at once the second waits for the first.

    Args:
        images: the images.
        backbone: what embeds them.
        damaged: ``refuse`` the table where an image is missing or damaged, or ``skip`` such images and say so.
        batch_size: images in a pass through the backbone.
        cache: whether to keep the embeddings, and to look for kept ones.
        progress: show a bar on standard error.

    Raises:
        ValueError: an image is missing, which is found out before any is embedded, or damaged.
    """
    if damaged not in ("refuse", "skip"):
        raise ValueError(f"damaged is {damaged!r}; it must be refuse or skip")
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}; it must be at least 1")
    said = missing_line(images)
    if said is not None:
        refuse_or_skip(said, damaged)
    folder = _folder(images, backbone) if cache else None
    if folder is not None:
        found, faults = _kept_or_made(folder, images, backbone, damaged, batch_size, progress)
    else:
        chunks = list(_chunks(images, backbone, damaged, batch_size, progress, 0))
        found = np.concatenate([rows for rows, _ in chunks])
        faults = {row: fault for _, some in chunks for row, fault in some.items()}
    if faults:
        fault = next(iter(faults.values()))
        refuse_or_skip(damaged_line(fault, len(faults), len(images)), damaged)
        if len(faults) == len(images):
            raise ValueError(f"no image of {images.name} could be read: {fault}")
    return Embedded(images, found, faults, backbone.about())


def embedding_key(images: ImageTable, backbone: Backbone) -> str:
    """What the embeddings of these images by this backbone are kept under, 32 hexadecimal digits."""
    said = f"{_FORMAT}\0{backbone.fingerprint()}\0{images.store.fingerprint()}\0{len(images)}"
    return hashlib.sha256(said.encode()).hexdigest()[:32]


def _folder(images: ImageTable, backbone: Backbone) -> Path | None:
    """The folder of these embeddings in the cache; ``None`` where it cannot be made."""
    folder = cache_folder() / "embeddings" / embedding_key(images, backbone)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"the embeddings are not kept: {error.strerror}: {error.filename}", file=sys.stderr)
        return None
    return folder


def _kept_or_made(
    folder: Path, images: ImageTable, backbone: Backbone, damaged: Damaged, batch_size: int, progress: bool
) -> tuple[npt.NDArray[np.float32], dict[int, str]]:
    shape = (len(images), backbone.dim)
    found = _load(folder, shape)
    if found is not None:
        return found
    with _alone(folder):
        found = _load(folder, shape)  # by the run that this one waited for
        if found is None:
            _make(folder, shape, images, backbone, damaged, batch_size, progress)
            found = _load(folder, shape)
        if found is None:
            raise OSError(5, "the embeddings that were just written could not be read", str(folder))
    return found


def _make(
    folder: Path,
    shape: tuple[int, int],
    images: ImageTable,
    backbone: Backbone,
    damaged: Damaged,
    batch_size: int,
    progress: bool,
) -> None:
    """Embed in chunks, each kept in a file of its own, and then put them together."""
    chunks = folder / "chunks"
    faults: dict[int, str] = {}
    done = 0
    while (held := _load_chunk(chunks, done, shape)) is not None:
        faults |= held[1]
        done += len(held[0])
    if faults and damaged == "refuse":
        _refuse(images, faults, done, progress)
    start = done
    for rows, some in _chunks(images, backbone, damaged, batch_size, progress, done):
        with replacing(chunks / f"{start:09}.npy") as temporary, temporary.open("wb") as opened:
            np.save(opened, rows)
        write_json(chunks / f"{start:09}.json", {str(row): fault for row, fault in some.items()})
        faults |= some
        start += len(rows)
    with replacing(folder / "embeddings.npy") as temporary:
        whole = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.float32, shape=shape)
        start = 0
        while start < shape[0] and (held := _load_chunk(chunks, start, shape)) is not None:
            whole[start : start + len(held[0])] = held[0]
            start += len(held[0])
        whole.flush()
        del whole
    # Last, so that embeddings without it are none.
    write_json(folder / "damaged.json", {str(row): fault for row, fault in faults.items()})
    shutil.rmtree(chunks, ignore_errors=True)


def _chunks(
    images: ImageTable, backbone: Backbone, damaged: Damaged, batch_size: int, progress: bool, start: int
) -> Iterator[tuple[npt.NDArray[np.float32], dict[int, str]]]:
    """The embeddings from a row on, ``CHUNK`` rows at a time, and what is wrong with the damaged ones."""
    with counted("embedding", len(images), "images", done=start, show=progress) as advance:
        for first in range(start, len(images), CHUNK):
            rows = range(first, min(first + CHUNK, len(images)))
            made = np.zeros((len(rows), backbone.dim), np.float32)
            faults: dict[int, str] = {}
            for at in range(0, len(rows), batch_size):
                batch: dict[int, Any] = {}
                for row in rows[at : at + batch_size]:
                    try:
                        batch[row] = images.read(row)
                    except ValueError as error:
                        faults[row] = str(error)
                        if damaged == "refuse":
                            _refuse(images, {row: str(error)}, row + 1, progress)
                if batch:
                    made[np.array(list(batch)) - first] = backbone.embed(list(batch.values()), batch_size)
                advance(len(rows[at : at + batch_size]))
            yield made, faults


def _refuse(images: ImageTable, faults: dict[int, str], start: int, progress: bool) -> NoReturn:
    """Refuse a table, after a look at the rest of it, so that what is damaged can be mended at once."""
    count = len(faults)
    with counted("checking", len(images), "images", done=start, show=progress) as advance:
        for row in range(start, len(images)):
            try:
                images.read(row)
            except ValueError:
                count += 1
            advance(1)
    raise ValueError(f"{damaged_line(next(iter(faults.values())), count, len(images))}; {MEND}")


def _load(folder: Path, shape: tuple[int, int]) -> tuple[npt.NDArray[np.float32], dict[int, str]] | None:
    """What ``_make`` left, memory-mapped; ``None`` where it is not whole."""
    try:
        faults = json.loads((folder / "damaged.json").read_text(encoding="utf-8"))
        found = np.lib.format.open_memmap(folder / "embeddings.npy", mode="r")
        whole = found.shape == shape and found.dtype == np.float32
        return (found, {int(row): str(fault) for row, fault in faults.items()}) if whole else None
    except (OSError, ValueError, EOFError, AttributeError):
        return None


def _load_chunk(
    folder: Path, start: int, shape: tuple[int, int]
) -> tuple[npt.NDArray[np.float32], dict[int, str]] | None:
    """A chunk by its first row, or ``None`` where there is none."""
    try:
        faults = json.loads((folder / f"{start:09}.json").read_text(encoding="utf-8"))
        found = np.lib.format.open_memmap(folder / f"{start:09}.npy", mode="r")
        whole = found.shape == (min(CHUNK, shape[0] - start), shape[1]) and found.dtype == np.float32
        return (found, {int(row): str(fault) for row, fault in faults.items()}) if whole else None
    except (OSError, ValueError, EOFError, AttributeError):
        return None


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """While no other process is in here; the lock goes with a process that is killed."""
    from filelock import FileLock, Timeout

    lock = FileLock(folder / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        print("another run embeds the same images; this one waits for it", file=sys.stderr)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
