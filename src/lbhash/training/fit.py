"""Fit a method (a host or a coder) to a split of a data set; ``Hasher`` calls this."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from threadpoolctl import threadpool_limits
from torch import nn

from lbhash.data.split import EmbeddingSplit, Split, TrainingRows
from lbhash.models.encoder import Encoder
from lbhash.training.choose_coder import FEWEST, Tried, compare_methods
from lbhash.training.coders import coder_of
from lbhash.training.defaults import method_for
from lbhash.training.fit_coder import fit_coder
from lbhash.training.hardware import cpu_settings
from lbhash.training.heads import join, neighborhood
from lbhash.training.prepare import Setup, prepare
from lbhash.training.settings import Settings
from lbhash.training.trainer import Trained, train
from lbhash.utils.validation import check_filled

if TYPE_CHECKING:
    from lbhash.centers.targets import Confusion
    from lbhash.models.backbone import Backbone


class Fitted(NamedTuple):
    """The result of a training.

    ``split`` has the labels that training used. ``trained`` is None for a coder. ``choice`` has the compared methods,
    the fitted one first; it is empty if the method was not chosen by comparison.
    """

    method: Any
    model: Encoder
    split: Split
    centers: npt.NDArray[np.int8] | None
    backbone: Backbone | None
    trained: Trained | None
    choice: Sequence[Tried] = ()


def fit_split(
    settings: Settings,
    split: Split,
    classes: int,
    *,
    known_confusion: Confusion | None = None,
    **training: Any,
) -> Fitted:
    """Fit a method; arguments and errors are those of ``lbhash.hasher.fit_split``."""
    check_filled(split, "split")
    method = method_for(settings.method, has_labels=split.labels is not None, images=split.needs_backbone)
    choice: Sequence[Tried] = ()
    if settings.method is None and split.labels is None and isinstance(split, EmbeddingSplit) and len(split) >= FEWEST:
        choice = compare_methods(settings, split)
        method = choice[0].method
    if coder_of(method) is not None:
        coded, centers, backbone = fit_coder(settings, method, split, classes)
        return Fitted(method, coded.encoder(), split, centers, backbone, None, choice)
    if not split.needs_backbone:
        setup = prepare(settings, split, classes, known_confusion=known_confusion)
        rows: Any = setup.fitted
        trained = _train(setup, setup.model, rows, setup.validation, settings, **training)
        _add_heads(setup, settings, classes)
        backbone = None
    else:
        setup, backbone, trained = _fine_tune(settings, split, classes, known_confusion, **training)
    model = setup.model
    if model.classifier is not None:
        weights = setup.objective.class_scores(torch.eye(model.bits))
        assert weights is not None
        model.classifier.weight.data.copy_(weights.detach().T)
    return Fitted(method, model.encoder(), setup.split, setup.centers, backbone, trained)


def _fine_tune(
    settings: Settings, split: Split, classes: int, known_confusion: Confusion | None, **training: Any
) -> tuple[Setup, Backbone, Trained]:
    """Train head and backbone on images, and return the fine-tuned backbone."""
    from lbhash.training.checkpoints import has_checkpoint
    from lbhash.training.fine_tuning import open_backbone, prepare_images

    for name in ("head", "unseen", "start"):
        if (given := getattr(settings, name)) not in ("bits", 0, None):
            raise ValueError(
                f"{name} is {given!r}, which is for embeddings; images that fine-tune a backbone have none"
            )
    backbone = open_backbone(settings)
    setup = prepare(settings, split, classes, backbone, known_confusion)
    resumed = training.get("resume") and training.get("directory") and has_checkpoint(training["directory"])
    network, rows, validation = prepare_images(setup, backbone, standardize=not resumed)
    trained = _train(setup, network, rows, validation, settings, **training)
    backbone = backbone.anew(settings.device)
    setup.model.metadata["backbone"] = backbone.metadata() | {"tuned": True}
    return setup, backbone, trained


def _train(
    setup: Setup, network: nn.Module, rows: TrainingRows, validation: Any, settings: Settings, **training: Any
) -> Trained:
    """Train, with a progress bar if the settings ask for it."""
    with ExitStack() as bars:
        if settings.progress:
            from lbhash.training.epoch_bar import EpochBar

            bar = EpochBar(setup.identity["method"], unit="images" if setup.split.needs_backbone else "rows")
            training["watchers"] = [*training.get("watchers", []), bars.enter_context(bar)]
        return train(
            network,
            setup.objective,
            rows,
            setup.arguments,
            validation=validation,
            settings=setup.identity,
            **training,
        )


def _add_heads(setup: Setup, settings: Settings, classes: int) -> None:
    """Add the class posterior or the neighborhood to the model, if the settings ask for it."""
    if setup.arguments.head == "joined":
        join(setup.model, settings, setup.known, classes, setup.centers)
    if unseen := setup.arguments.unseen:
        with cpu_settings(settings.threads), threadpool_limits(settings.threads):
            setup.model.neighborhood = neighborhood(setup.model, setup.fitted.embedded(), classes, unseen)
