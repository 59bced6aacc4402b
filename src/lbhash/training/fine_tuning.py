"""What fine-tuning has besides ``prepare``: the backbone as it begins, augmented images, and their standardization."""

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
"""Training images from which mean and deviation of the embeddings are computed."""

_STANDARDIZATION = 3  # keeps this sample apart from the others of a seed


def prepare_images(
    setup: Setup, backbone: Backbone, *, standardize: bool
) -> tuple[ImageModel, TrainingRows, TrainingRows | None]:
    """Return backbone and head, the training images, augmented, and the validation images, if there are any.

    The settings of images are added to the run's identity and the model's metadata. The head's standardization is of
    what the backbone makes of up to 2,000 training images before it learns anything.

    Args:
        setup: what ``prepare`` made, with this backbone.
        backbone: its model is trained in place.
        standardize: whether to set the head's standardization; a resumed run has it from its checkpoint.
    """
    given = setup.arguments
    said = {"image_size": given.image_size, "batch_norm": given.batch_norm, "augment": stored_augmentation(given)}
    setup.model.metadata |= said
    setup.identity.update(said, backbone=backbone.fingerprint())
    model = ImageModel(backbone.model, setup.model, given.batch_norm)
    fitted: Any = setup.fitted  # images, and so are those held out
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
    """Return how training images are augmented; None if they are not."""
    augment = Augmentation() if settings.augment is True else settings.augment
    return check_type(augment, "augment", (bool, Augmentation), "True, False or an Augmentation") or None


def stored_augmentation(settings: Settings) -> Any:
    """Return how training images are augmented, as a model stores it; False if they are not."""
    augment = augmentation_of(settings)
    return plain(asdict(augment), "augment") if augment else False


def open_backbone(settings: Settings) -> Backbone:
    """Return the backbone of images, as it is before it learns."""
    if settings.backbone is None:
        raise ValueError("backbone is not given; images need one: a folder or Hub id of a vision model")
    backbone = Backbone.from_pretrained(settings.backbone, device=settings.device)
    return backbone if settings.image_size is None else resized(backbone, settings.image_size)
