"""Fits a method, a host or a coder, to a split of a data set; the way from ``Hasher`` to what trains."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from threadpoolctl import threadpool_limits
from torch import nn

from lbhash.data import EmbeddingSplit, Split, hold_out
from lbhash.models.encoder import Encoder
from lbhash.models.hash_model import HashModel
from lbhash.training.arguments import TrainingArguments
from lbhash.training.choice import FEWEST, Tried, compare_methods
from lbhash.training.closed_form import fit_coder, fitted_method
from lbhash.training.coders import coder_of
from lbhash.training.hardware import cpu_settings
from lbhash.training.neighborhood import neighborhood
from lbhash.training.posterior import HELD_OUT, choose, class_posterior
from lbhash.training.setup import full_name, open_backbone, prepare, prepare_images
from lbhash.utils.validation import check_filled

if TYPE_CHECKING:
    from lbhash.centers.targets import Confusion
    from lbhash.models.backbone import Backbone
    from lbhash.training.trainer import Trained


MANY = 10_000
"""Rows from which on a sixth of the epochs are steps enough to weigh the class posterior by."""


class Fitted(NamedTuple):
    """What a training has found.

    ``split`` has the labels as the training took them; of a coder ``trained`` is None. ``choice`` has the methods that
    were compared, the fitted one first; it is empty where none had to be chosen.
    """

    method: Any
    model: Encoder
    split: Split
    centers: npt.NDArray[np.int8] | None
    backbone: Backbone | None
    trained: Trained | None
    choice: Sequence[Tried] = ()


def fit_split(
    settings: TrainingArguments,
    split: Split,
    classes: int,
    *,
    known_confusion: Confusion | None = None,
    **training: Any,
) -> Fitted:
    """Fit a method; arguments and errors are those of ``Hasher.fit_split``."""
    check_filled(split, "split")
    method = fitted_method(settings.method, split.labels is not None)
    choice: Sequence[Tried] = ()
    if settings.method is None and split.labels is None and isinstance(split, EmbeddingSplit) and len(split) >= FEWEST:
        choice = compare_methods(settings, split)
        method = choice[0].method
    if coder_of(method) is not None:
        coded, centers, backbone = fit_coder(settings, method, split, classes)
        return Fitted(method, coded.encoder(), split, centers, backbone, None, choice)
    for name in ("head", "unseen", "start") if split.needs_backbone else ():
        if (given := getattr(settings, name)) not in ("bits", 0, None):
            raise ValueError(
                f"{name} is {given!r}, which is for embeddings; images that fine-tune a backbone have none"
            )
    backbone = open_backbone(settings) if split.needs_backbone else None
    setup = prepare(settings, split, classes, backbone, known_confusion)
    network: nn.Module = setup.model
    rows: Any = setup.fitted
    validation: Any = setup.validation
    if backbone is not None:
        from lbhash.training.checkpoints import has_checkpoint

        resumed = training.get("resume") and training.get("directory") and has_checkpoint(training["directory"])
        network, rows, validation = prepare_images(setup, backbone, standardize=not resumed)
    from lbhash.training.trainer import train

    with ExitStack() as bars:
        if settings.progress:
            from lbhash.training.progress import EpochBar

            bar = EpochBar(full_name(method, setup.arguments.pull), unit="rows" if backbone is None else "images")
            training["watchers"] = [*training.get("watchers", []), bars.enter_context(bar)]
        trained = train(
            network,
            setup.objective,
            rows,
            setup.arguments,
            validation=validation,
            settings=setup.identity,
            **training,
        )
    model = setup.model
    if backbone is not None:
        backbone = backbone.anew(settings.device)
        model.metadata["backbone"] = backbone.metadata() | {"tuned": True}
    if setup.arguments.head == "joined":
        join(model, settings, setup.fitted, classes, setup.centers)
    if setup.arguments.unseen:
        with cpu_settings(settings.threads), threadpool_limits(settings.threads):
            model.neighborhood = neighborhood(model, setup.fitted.embedded(), classes, setup.arguments.unseen)
    if model.classifier is not None:
        weights = setup.objective.class_scores(torch.eye(model.bits))
        assert weights is not None
        model.classifier.weight.data.copy_(weights.detach().T)
    return Fitted(method, model.encoder(), setup.split, setup.centers, backbone, trained)


def probe(
    settings: TrainingArguments, fitted: EmbeddingSplit, classes: int, epochs: int
) -> tuple[Encoder, npt.NDArray[np.int8]]:
    """Train a network of these settings for so many epochs, and return it with its class centers.

    It tells what rows that it has not seen are worth to it, and so has neither a second model nor validation rows, and
    is the same for every ``seed``.
    """
    from lbhash.training.trainer import train

    alone: dict[str, Any] = {
        "head": "bits",
        "unseen": 0.0,
        "start": None,
        "validation": None,
        "monitor": None,
        "patience": None,
    }
    setup = prepare(replace(settings.checked(), **alone, seed=0, epochs=epochs), fitted, classes)
    rows: Any = setup.fitted
    train(setup.model, setup.objective, rows, setup.arguments)
    return setup.model.encoder(), setup.centers


def join(
    model: HashModel, settings: TrainingArguments, split: Split, classes: int, centers: npt.NDArray[np.int8]
) -> None:
    """Give a trained model the class posterior of its training rows, if that helps rows held out of them.

    Settings, split and classes are those of the training, and the centers ``int8 [C, bits]`` those that it had. A
    network that has not seen the rows held out, with a sixth of the epochs, or a third of them for fewer rows than
    ``MANY``, weighs the posterior. Rows that are too few to hold any out leave the model as it is, unless the settings
    ask for the posterior.
    """
    rows = split.embedded()
    try:
        fitted, held_out = hold_out(rows, HELD_OUT, purpose="head 'joined'")
    except ValueError:
        if settings.head is not None:
            raise
        return
    seen, seen_centers = probe(settings, fitted, classes, -(-settings.epochs // (6 if len(rows) >= MANY else 3)))
    outputs = np.concatenate([seen.outputs(chunk) for chunk in held_out.chunks()])
    with cpu_settings(settings.threads):
        chosen = choose(fitted, held_out, outputs, seen_centers)
        model.metadata["posterior"] = chosen._asdict()
        if chosen.weight:
            model.posterior = class_posterior(rows, centers, chosen)
