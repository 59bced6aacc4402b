"""Prepare fine-tuning, in addition to ``prepare``: the backbone, augmented images, and the head's standardization."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from lbhash.data.split import TrainingRows
from lbhash.models.backbone import Backbone
from lbhash.training.distributed import is_main_process
from lbhash.training.images.augment import Augmentation
from lbhash.training.images.dataset import ImageRows
from lbhash.training.images.model import ImageModel
from lbhash.training.images.preprocessing import resized
from lbhash.training.prepare import Setup
from lbhash.training.settings import Settings
from lbhash.utils.serialization import plain
from lbhash.utils.validation import check_type

STANDARDIZED = 2000
"""The most training images for computing the embeddings' mean and deviation."""

_STANDARDIZATION = 3  # makes this sample differ from others of the same seed


def prepare_images(
    setup: Setup, backbone: Backbone, *, standardize: bool
) -> tuple[ImageModel, TrainingRows, TrainingRows | None]:
    """Return backbone and head, the augmented training images, and the validation images, if any.

    The image settings are added to the run's identity and the model's metadata. The head's standardization comes from
    the untrained backbone's embeddings of up to 2,000 training images.

    Args:
        setup: the result of ``prepare`` with this backbone.
        backbone: its model is trained in place.
        standardize: whether to set the head's standardization; a resumed run has it from its checkpoint.
    """
    given = setup.arguments
    said = {"image_size": given.image_size, "batch_norm": given.batch_norm, "augment": stored_augmentation(given)}
    setup.model.metadata |= said
    setup.identity.update(said, backbone=backbone.fingerprint())
    model = ImageModel(backbone.model, setup.model, given.batch_norm)
    fitted: Any = setup.fitted  # images, like the held-out rows
    held_out: Any = setup.validation
    rows = ImageRows(fitted, backbone, augmentation=augmentation_of(given), seed=given.seed)
    validation = None if held_out is None else ImageRows(held_out, backbone)
    if standardize:
        sample = setup.fitted.subsample(STANDARDIZED, [given.seed, 0, _STANDARDIZATION])
        bar = "measuring" if given.progress and is_main_process() else ""
        embeddings = sample.embedded(backbone, workers=given.workers, progress=bar).embeddings.astype(np.float64)
        setup.model.set_standardization(embeddings.mean(axis=0), embeddings.std(axis=0))
    return model, rows, validation


def augmentation_of(settings: Settings) -> Augmentation | None:
    """Return the augmentation of training images, or None."""
    augment = Augmentation() if settings.augment is True else settings.augment
    return check_type(augment, "augment", (bool, Augmentation), "True, False or an Augmentation") or None


def stored_augmentation(settings: Settings) -> Any:
    """Return the augmentation of training images in a model's stored form; False if there is none."""
    augment = augmentation_of(settings)
    return plain(asdict(augment), "augment") if augment else False


def open_backbone(settings: Settings) -> Backbone:
    """Return the image backbone before fine-tuning."""
    if settings.backbone is None:
        raise ValueError("backbone is not given; images need one: a folder or Hub id of a vision model")
    backbone = Backbone.from_pretrained(settings.backbone, device=settings.device)
    return backbone if settings.image_size is None else resized(backbone, settings.image_size)
