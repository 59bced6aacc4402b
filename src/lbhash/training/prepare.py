"""Prepare a training from settings, rows and labels: class centers, model and loss."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from lbhash.centers.targets import ARRANGED, DESIGNED, Confusion, task_centers
from lbhash.data.holdout import validation_rows
from lbhash.data.split import Split, SplitT
from lbhash.losses import Objective, Task
from lbhash.losses.registry import build_objective, check_method, method_name, stored_method, uses_centers
from lbhash.models.backbone import Backbone
from lbhash.models.encoder import Encoder, load_encoder
from lbhash.models.hash_model import HashModel
from lbhash.training.batches import labels_of
from lbhash.training.confusion import MOST_ROWS, confusion
from lbhash.training.defaults import completed, full_name
from lbhash.training.distributed import is_main_process
from lbhash.training.epoch_metrics import check_validation
from lbhash.training.hardware import cpu_settings, draw_from
from lbhash.training.partial import WithNeighbors, few_labels, with_guesses
from lbhash.training.settings import Settings, arguments
from lbhash.utils.labels import check_numbers, has_label
from lbhash.utils.serialization import plain
from lbhash.utils.validation import check_same_rows
from lbhash.utils.version import __version__


@dataclass(frozen=True)
class Setup:
    """The starting point of a training.

    Attributes:
        arguments: the checked settings.
        model: the head with its initial weights.
        objective: the loss.
        split: all rows, with checked labels.
        fitted: the training rows of ``split``; missing labels are guessed.
        known: the training rows with a label.
        validation: the validation rows of ``split``; None if there are none.
        centers: the class centers, ``int8 [C, bits]`` of ±1.
        identity: values that identify the run, besides the settings that ``train`` knows.
    """

    arguments: Settings
    model: HashModel
    objective: Objective
    split: Split
    fitted: Split
    known: Split
    validation: Split | None
    centers: npt.NDArray[np.int8]
    identity: dict[str, Any]


def prepare(
    settings: Settings,
    split: Split,
    classes: int,
    backbone: Backbone | None = None,
    known_confusion: Confusion | None = None,
) -> Setup:
    """Check every setting, and prepare a training.

    Args:
        settings: the settings as given.
        split: rows with labels from 0 to ``classes`` − 1 or multi-hot; labels of embeddings may be missing
            (``lbhash.training.partial``).
        classes: C.
        backbone: the images' backbone before fine-tuning.
        known_confusion: returns the confusion matrix of these rows, to share it among trainings; if None, or if there
            are validation rows, it is computed.

    Raises:
        TypeError, ValueError: a setting is not valid, or the labels do not fit the rows.
    """
    partly = check_partly(split)
    guessed = partly and few_labels(split)
    known = split.labeled()
    given = completed(settings.checked(), len(split if guessed else known), images=backbone is not None)
    options, guidance = plain(given.options, "options"), plain(given.guidance, "guidance")
    given = replace(given, options=options, guidance=guidance)
    assert given.pull is not None
    share = check_validation(given.validation, given.monitor)
    # Find errors before computing the confusion, which takes longest.
    check_method(given.method, given.pull, guidance=guidance, options=options)
    start = _start(given, split)
    checked = labeled(known, classes)
    split = split if partly else checked
    fitted, validation = split, None
    if share:
        chosen = validation_rows(split.labels, share, given.seed, name="validation", purpose="validation")
        fitted, validation = split.where(~chosen), split.where(chosen)
    known = fitted.labeled()
    if guessed:
        with cpu_settings(given.threads):
            fitted = with_guesses(fitted.embedded(), classes)
    else:
        fitted = known
    centers = _centers(given, fitted, classes, backbone, None if validation is not None else known_confusion)
    dim = split.input_dim(backbone)
    model, objective = _model(given, fitted, dim, centers, neighbors=guessed)
    identity = {"method": full_name(given.method, given.pull), "dim": dim, "classes": classes}
    identity |= {name: getattr(given, name) for name in ("bits", "hidden", "dropout")}
    identity |= {"pull": given.pull, "centers": str(given.centers)}  # a form that checkpoints can store
    identity |= {"options": options, "guidance": guidance, "validation": share}
    if start is not None:
        model.head.load_state_dict(HashModel.of(start).head.state_dict())
        identity["start"] = model.metadata["start"] = start.fingerprint()
    return Setup(given, model, objective, split, fitted, known, validation, centers, identity)


def _centers(
    given: Settings, fitted: Split, classes: int, backbone: Backbone | None, known: Confusion | None
) -> npt.NDArray[np.int8]:
    """Return the class centers; for a method that does not use them, a kind that needs no confusion matrix."""

    def confusion_of_rows() -> npt.NDArray[np.floating]:
        bar = "embedding" if given.progress and is_main_process() else ""
        sample = fitted.subsample(MOST_ROWS).embedded(backbone, workers=given.workers, progress=bar)
        return confusion(sample, classes)

    assert given.pull is not None
    used = uses_centers(given.method, given.pull)
    kind = DESIGNED if given.centers == ARRANGED and not used else given.centers
    return task_centers(kind, classes, given.bits, given.seed, known or confusion_of_rows)


def _model(
    given: Settings, fitted: Split, dim: int, centers: npt.NDArray[np.int8], *, neighbors: bool
) -> tuple[HashModel, Objective]:
    """Return model and loss with initial weights, which are equal for a host and its guided form."""
    classes = len(centers)
    task = Task(
        given.bits, classes, labels_of(fitted), torch.from_numpy(centers).float(), epochs=given.epochs, seed=given.seed
    )
    assert given.pull is not None
    assert given.dropout is not None
    with torch.random.fork_rng():
        draw_from(given.seed, 0)
        objective = build_objective(given.method, task, given.pull, guidance=given.guidance, options=given.options)
        if neighbors:
            objective = WithNeighbors(objective, fitted.embedded())
        outputs = classes if _has_classifier(objective, given.bits, method_name(given.method)) else 0
        metadata = model_metadata(given, len(fitted)) | {"options": given.options, "guidance": given.guidance}
        draw_from(given.seed, 1)
        return HashModel(dim, given.bits, given.hidden, given.dropout, outputs, metadata=metadata), objective


@torch.no_grad()
def _has_classifier(objective: Objective, bits: int, name: str) -> bool:
    """Return whether a method has a classifier; ``ValueError`` unless the model can store it, as a matrix."""
    weights = objective.class_scores(torch.eye(bits))
    if weights is None:
        return False
    codes = torch.ones(2, bits)
    codes[1] = -1
    scores = objective.class_scores(codes)
    if scores is None or not torch.allclose(scores, codes @ weights, rtol=1e-3, atol=1e-4):
        raise ValueError(f"method {name} has class_scores that are not linear; they must be signs @ W, without a bias")
    return True


def _start(given: Settings, split: Split) -> Encoder | None:
    """Return the trained model that provides the initial weights, if one is given.

    Raises:
        ValueError: the model does not exist, or its weights do not fit.
    """
    if given.start is None:
        return None
    said = f"start is {str(given.start)!r}"
    trained = load_encoder(given.start, name="start")
    for name, ours in (("dim", split.input_dim()), ("bits", given.bits), ("hidden", given.hidden)):
        if (theirs := getattr(trained.layout, name)) != ours:
            raise ValueError(f"{said}, a model with {name} {theirs}; this training has {ours}, and it must be the same")
    return trained


def check_partly(split: Split) -> bool:
    """Return whether some rows have no label; ``ValueError`` if a network cannot be trained on such rows.

    The rows are embeddings, or images for fine-tuning a backbone.
    """
    if split.labels is None or not (missing := int((~has_label(np.asarray(split.labels))).sum())):
        return False
    said = f"{missing:,} of {len(split):,} rows have no label"
    if missing == len(split):
        raise ValueError(f"{said}; leave the labels out to learn without any")
    if split.needs_backbone:
        how = "leave them out, or embed the images first (on the command line, --freeze)"
        raise ValueError(f"{said}, and a backbone is fine-tuned by labeled rows; {how}")
    return True


def labeled(split: SplitT, classes: int) -> SplitT:
    """Return the training rows with checked labels."""
    assert split.labels is not None
    missing = len(split) - len(split.labeled())
    if missing:
        said = f"{missing:,} of {len(split):,} rows have no label"
        raise ValueError(f"{said}, and this training needs one for each; leave them out")
    labels = check_numbers(split.labels, classes, "labels of split")
    check_same_rows(labels, "labels of split", split, "split")
    return split.with_rows(split.rows, labels)


def model_metadata(given: Settings, rows: int) -> dict[str, Any]:
    """Return the training facts that a model stores: the settings, the number of rows and the library's version."""
    values = {one.name: getattr(given, one.name) for one in arguments(stored=True, images=False)}
    values |= {"method": stored_method(given.method), "pull": given.pull, "centers": str(given.centers)}
    return values | {"backbone_lr": given.backbone_lr, "training_rows": rows, "lbhash": __version__}
