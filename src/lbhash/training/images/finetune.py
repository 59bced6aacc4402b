"""Fine-tuning: what ``lbhash.training.train`` is given to train a backbone and a head."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from lbhash.data.split import Split, TrainingRows
from lbhash.models.backbone import Backbone
from lbhash.models.hash_model import HashModel
from lbhash.training.images.augment import Augmentation
from lbhash.training.images.dataset import ImageRows
from lbhash.training.images.model import BatchNorm, ImageModel

STANDARDIZED = 2000  # training images from which mean and deviation of the embeddings are computed
_STANDARDIZATION = 3  # keeps this sample apart from the others of a seed


class FineTuning(NamedTuple):
    """A backbone with a head, the training images, augmented, and the validation images, if there are any."""

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
    """Return what a training takes that fine-tunes a backbone in place, with a head on its embeddings.

    The head's standardization is set here, from what the backbone makes of up to 2,000 training images before it
    learns anything; it stays as it is from then on. A run that is resumed has it from its checkpoint.
    """
    model = ImageModel(backbone.model, head, batch_norm)
    rows = split.training_rows(partial(ImageRows, backbone=backbone, augmentation=augmentation, seed=seed))
    unchanged = None if validation is None else validation.training_rows(partial(ImageRows, backbone=backbone))
    if standardize:
        sample = split.subsample(STANDARDIZED, [seed, 0, _STANDARDIZATION])
        embedded = sample.embedded(backbone, workers=workers, progress="measuring" if progress else "")
        embeddings = embedded.embeddings.astype(np.float64)
        head.set_standardization(embeddings.mean(axis=0), embeddings.std(axis=0))
    return FineTuning(model, rows, unchanged)
