"""Fine-tuning: what ``lbhash.training.train`` is given, and the codes of images afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, code_bytes
from lbhash.data.images import ImageSplit, ImageTable
from lbhash.data.images.corrupt import (
    Damaged,
    check_missing,
    damaged_line,
    fault_of,
    find_unreadable,
    refuse_or_skip,
)
from lbhash.data.images.loading import ImageReader, in_workers
from lbhash.models.backbone import Backbone
from lbhash.models.hash_model import HashModel
from lbhash.training.images.augment import Augmentation
from lbhash.training.images.dataset import ImageRows
from lbhash.training.images.model import BatchNorm, ImageModel
from lbhash.utils.progress import counted
from lbhash.utils.validation import check_choice, check_int

STANDARDIZED = 2000
"""Training images that the mean and the deviation of the embeddings are taken of."""

_BATCH = 32  # images in a pass through a backbone that does not learn
_STANDARDIZATION = 3  # keeps this draw apart from the others of a seed


@dataclass(frozen=True)
class FineTuning:
    """What is trained, and on what.

    Attributes:
        model: backbone and head.
        rows: the training images, augmented.
        validation: those that validate, where there are any.
    """

    model: ImageModel
    rows: ImageRows
    validation: ImageRows | None


def fine_tuning(
    backbone: Backbone,
    head: HashModel,
    part: ImageSplit,
    held: ImageSplit | None = None,
    *,
    augmentation: Augmentation | None = None,
    batch_norm: BatchNorm = "freeze",
    seed: int = 0,
    standardize: bool = True,
    workers: int = 0,
    progress: bool = False,
) -> FineTuning:
    """What a training takes that fine-tunes a backbone.

    The head's standardization is set here, from what the backbone makes of up to 2,000 training images before it
    learns anything; it stays as it is from then on.

    Args:
        backbone: its model is trained in place.
        head: takes its embeddings.
        part: the training images.
        held: the images that validate.
        augmentation: of the training images.
        batch_norm: the policy (``ImageModel``).
        seed: of the augmentation.
        standardize: whether to set the standardization; a run that is resumed has it from its checkpoint.
        workers: processes that read the images ahead.
        progress: show a bar on standard error.
    """
    model = ImageModel(backbone.model, head, batch_norm)
    rows = ImageRows(part, backbone, augmentation=augmentation, seed=seed)
    validation = None if held is None else ImageRows(held, backbone)
    if standardize:
        drawn = np.random.default_rng([seed, 0, _STANDARDIZATION]).permutation(len(part))[:STANDARDIZED]
        sample = part.rows[np.sort(drawn)]
        with counted("measuring", len(sample), "images", show=progress) as advance:
            found = list(_embedded(backbone, part.images, sample, workers, advance))
        embeddings = np.concatenate(found).astype(np.float64)
        head.set_standardization(embeddings.mean(axis=0), embeddings.std(axis=0))
    return FineTuning(model, rows, validation)


def encode_images(
    backbone: Backbone,
    head: HashModel,
    images: ImageTable,
    rows: npt.NDArray[np.int64],
    *,
    workers: int = 0,
    progress: bool = False,
) -> PackedCodes:
    """Codes of rows of a table of images, ``uint8 [n, ceil(bits / 8)]``, with the memory of a batch.

    Raises:
        ValueError: an image is damaged or missing; the message names it.
    """
    codes = [np.empty((0, code_bytes(head.bits)), np.uint8)]
    with counted("encoding", len(rows), "images", show=progress) as advance:
        codes += [head.encode(made) for made in _embedded(backbone, images, rows, workers, advance)]
    return np.concatenate(codes)


def embed_images(
    backbone: Backbone,
    images: ImageTable,
    rows: npt.NDArray[np.int64],
    *,
    workers: int = 0,
    progress: bool = False,
) -> npt.NDArray[np.float32]:
    """Embeddings of rows of a table of images, ``float32 [n, dim]``, which are not kept.

    Raises:
        ValueError: an image is damaged or missing; the message names it.
    """
    made = [np.empty((0, backbone.dim), np.float32)]
    with counted("embedding", len(rows), "images", show=progress) as advance:
        made += _embedded(backbone, images, rows, workers, advance)
    return np.concatenate(made)


def check_images(
    images: ImageTable, *, damaged: Damaged = "refuse", workers: int = 0, progress: bool = False
) -> npt.NDArray[np.bool_]:
    """Which images of a table can be read, ``bool [n]``, so that missing and damaged ones come out before training.

    All images are decoded once; what is found is kept in the cache folder, so that the next run starts at once.

    Args:
        images: the images.
        damaged: ``refuse`` the table where an image is missing or damaged, or ``skip`` such images and say so.
        workers: processes that decode.
        progress: show a bar on standard error.

    Raises:
        ValueError: an image is missing or damaged and is not to be skipped; or all are.
    """
    check_int(workers, "workers")
    check_choice(damaged, "damaged", ("refuse", "skip"))
    if damaged == "refuse":
        check_missing(images)
    kept = np.ones(len(images), bool)
    unreadable = find_unreadable(images, workers, progress=progress)
    if unreadable:
        kept[unreadable] = False
        fault = fault_of(images, unreadable[0])
        if damaged == "skip" and not kept.any():
            raise ValueError(f"no image of {images.name} could be read: {fault}")
        refuse_or_skip(damaged_line(fault, len(unreadable), len(images)), damaged)
    return kept


def _embedded(
    backbone: Backbone, images: ImageTable, rows: npt.NDArray[np.int64], workers: int, advance: Any
) -> Iterator[npt.NDArray[np.float32]]:
    """Embeddings of rows of a table, in their order, a batch at a time."""
    reader = ImageReader(images.store.in_order(), backbone.processor, backbone.name)
    batches = [rows[start : start + _BATCH] for start in range(0, len(rows), _BATCH)]
    for pixels, _, damaged in in_workers(reader, batches, workers):
        if damaged:
            raise ValueError(damaged[0].fault)
        yield backbone.embed_pixels(pixels)
        advance(len(pixels))
