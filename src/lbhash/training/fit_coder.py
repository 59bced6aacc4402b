"""Fit a coder; its model is a linear head, a class posterior, or a head of its own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from threadpoolctl import threadpool_limits

from lbhash.centers.targets import task_centers
from lbhash.data.images import ImageSplit
from lbhash.data.split import Split
from lbhash.models.hash_model import HashModel
from lbhash.models.posterior import ClassPosterior
from lbhash.training.coders import CODERS
from lbhash.training.coders.base import MOST_ROWS, MOST_TRAINED, LinearMap
from lbhash.training.confusion import confusion
from lbhash.training.hardware import cpu_settings
from lbhash.training.prepare import labeled, model_metadata
from lbhash.training.settings import Settings, arguments
from lbhash.utils.serialization import plain

if TYPE_CHECKING:
    from lbhash.models.backbone import Backbone

_OF_IMAGES = {"backbone", "augment"}
"""The additional settings of a coder for images."""


def fit_coder(
    settings: Settings, method: str, split: Split, classes: int
) -> tuple[HashModel, npt.NDArray[np.int8] | None, Backbone | None]:
    """Fit a coder.

    Args:
        settings: the settings as given; those of a network are refused.
        method: the coder's name.
        split: embeddings, and labels from 0 to ``classes`` − 1 or multi-hot, if the coder needs any; or images, if the
            coder takes them. Their backbone is not trained.
        classes: C.

    Returns:
        The model; the class centers ``int8 [C, bits]``, or None if the coder does not use them; and the images'
        backbone.

    Raises:
        TypeError, ValueError: a setting is not valid or is a network's; or the rows are images, and the coder takes
            none.
    """
    given, kind = replace(settings.checked(), method=method), CODERS[method]
    if split.needs_backbone and not kind.takes_images:
        raise ValueError(
            f"method is {method!r}, which takes embeddings and trains no backbone; embed the images first (on the "
            "command line, --freeze)"
        )
    used = kind.settings | (_OF_IMAGES if split.needs_backbone else set())
    for one in arguments():
        value = getattr(settings, one.name)
        if one.name not in used and value != one.default:
            why = f"the method is {method!r}, which has its own settings"
            if settings.method is None:
                why = "there are no labels, and methods that need none have their own settings"
            raise ValueError(f"{one.name} is {value!r} and {why}; leave {one.name} out")
    backbone = views = centers = None
    if isinstance(split, ImageSplit):
        from lbhash.training.fine_tuning import augmentation_of, open_backbone, stored_augmentation

        backbone = open_backbone(given)
        images = split.subsample(MOST_TRAINED, given.seed)
        how: dict[str, Any] = {"workers": given.workers, "progress": "embedding" if given.progress else ""}
        rows = images.embedded(backbone, **how)
        if augmentation := augmentation_of(given):
            from lbhash.training.images import embedded_views

            views = embedded_views(images, backbone, augmentation, given.seed, **how)
    else:
        rows = split.subsample(MOST_ROWS, given.seed).embedded()
    with threadpool_limits(given.threads), cpu_settings(given.threads):
        if kind.needs_labels:
            rows = labeled(rows, classes)
        if "centers" in kind.settings:
            centers = task_centers(given.centers, classes, given.bits, given.seed, partial(confusion, rows, classes))
        coder = kind(given.bits, given.seed, classes, centers)
        coder.views = views
        found = coder.fit(rows)
    model = found if isinstance(found, HashModel) else _model(found, rows.dim, given.bits)
    model.metadata = plain(model_metadata(given, len(split)) | {"head": "bits", "pull": "none"}, "metadata")
    model.metadata |= {"coder": True, "learns_classes": kind.needs_labels}
    if backbone is not None:
        model.metadata |= {"backbone": backbone.metadata(), "augment": stored_augmentation(given)}
    return model.eval(), centers, backbone


def _model(found: LinearMap | ClassPosterior, dim: int, bits: int) -> HashModel:
    """Return the model of a linear map or of a class posterior."""
    with torch.random.fork_rng(devices=[]):
        model = HashModel(dim, bits, hidden=0, dropout=0.0)
    if isinstance(found, ClassPosterior):
        model.posterior, found = found, LinearMap(np.zeros(1), np.zeros(1), np.zeros(1))
    with torch.no_grad():
        model.mean.copy_(torch.as_tensor(found.mean))
        model.head.weight.copy_(torch.as_tensor(found.weight))  # type: ignore[operator]
        model.head.bias.copy_(torch.as_tensor(found.bias))  # type: ignore[operator]
    return model
