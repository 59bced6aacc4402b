"""Fine-tuning: what ``lbhash.training.train`` is given, and the codes of images afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from lbhash.data.images import ImageTable
from lbhash.data.images.corrupt import (
    Damaged,
    check_missing,
    damaged_line,
    fault_of,
    find_unreadable,
    refuse_or_skip,
)
from lbhash.data.split import Split, TrainingRows
from lbhash.models.backbone import Backbone
from lbhash.models.hash_model import HashModel
from lbhash.training.images.augment import Augmentation
from lbhash.training.images.dataset import ImageRows
from lbhash.training.images.model import BatchNorm, ImageModel
from lbhash.utils.validation import check_choice, check_int

STANDARDIZED = 2000
"""Training images that the mean and the deviation of the embeddings are taken of."""

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
    rows: TrainingRows
    validation: TrainingRows | None


def fine_tuning(
    backbone: Backbone,
    head: HashModel,
    split: Split,
    validation: Split | None = None,
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
        split: the training images.
        validation: the images that validate.
        augmentation: of the training images.
        batch_norm: the policy (``ImageModel``).
        seed: of the augmentation.
        standardize: whether to set the standardization; a run that is resumed has it from its checkpoint.
        workers: processes that read the images ahead.
        progress: show a bar on standard error.
    """
    model = ImageModel(backbone.model, head, batch_norm)
    rows = split.training_rows(partial(ImageRows, backbone=backbone, augmentation=augmentation, seed=seed))
    judged = None if validation is None else validation.training_rows(partial(ImageRows, backbone=backbone))
    if standardize:
        sample = split.subsample(STANDARDIZED, [seed, 0, _STANDARDIZATION])
        embedded = sample.embedded(backbone, workers=workers, progress="measuring" if progress else "")
        embeddings = embedded.embeddings.astype(np.float64)
        head.set_standardization(embeddings.mean(axis=0), embeddings.std(axis=0))
    return FineTuning(model, rows, judged)


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
