"""From settings, rows and labels to what a training starts from: class centers, model and loss."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from lbhash.centers.targets import ARRANGED, DESIGNED, Confusion, task_centers
from lbhash.data.holdout import validation_rows
from lbhash.data.split import Split, SplitT, TrainingRows
from lbhash.losses import (
    Objective,
    Task,
    build_objective,
    check_method,
    method_name,
    stored_method,
    uses_centers,
)
from lbhash.models.backbone import Backbone
from lbhash.models.encoder import Encoder, load_encoder
from lbhash.models.hash_model import HashModel
from lbhash.training.arguments import PULL_MARKS, TrainingArguments, arguments
from lbhash.training.batches import labels_of
from lbhash.training.coders import coder_of
from lbhash.training.confusion import MOST_ROWS, confusion
from lbhash.training.distributed import is_main_process
from lbhash.training.hardware import cpu_settings, draw_from
from lbhash.training.monitor import check_validation
from lbhash.training.partial import WithNeighbors, with_guesses
from lbhash.training.recipes import with_recipe
from lbhash.utils.labels import check_numbers, has_label
from lbhash.utils.serialization import plain
from lbhash.utils.validation import check_same_rows, check_type
from lbhash.utils.version import __version__

if TYPE_CHECKING:
    from lbhash.training.images import Augmentation, ImageModel

STANDARDIZED = 2000
"""Training images from which mean and deviation of the embeddings are computed."""

_STANDARDIZATION = 3  # keeps this sample apart from the others of a seed


@dataclass(frozen=True)
class Setup:
    """What one training starts from.

    Attributes:
        arguments: the settings, checked.
        model: the head, with the weights that it starts from.
        objective: the loss.
        split: all rows, with labels that are checked.
        fitted: the rows of ``split`` that are trained on, with a guess where one has no label.
        validation: the rows of ``split`` that validate; None if there are none.
        centers: the class centers, ``int8 [C, bits]`` of ±1.
        identity: what tells the run from others, besides the settings that ``train`` knows.
    """

    arguments: TrainingArguments
    model: HashModel
    objective: Objective
    split: Split
    fitted: Split
    validation: Split | None
    centers: npt.NDArray[np.int8]
    identity: dict[str, Any]


def prepare(
    settings: TrainingArguments,
    split: Split,
    classes: int,
    backbone: Backbone | None = None,
    known_confusion: Confusion | None = None,
) -> Setup:
    """Check every setting, and make what a training starts from.

    Args:
        settings: as they were given.
        split: rows and labels, the labels from 0 to ``classes`` − 1 or multi-hot; embeddings may have no label
            (``lbhash.training.partial``).
        classes: C.
        backbone: of images, as it is before it learns.
        known_confusion: gives the confusion matrix of these rows, if several trainings have it from one place; it is
            computed if None, or if some rows validate.

    Raises:
        TypeError, ValueError: a setting is not as it must be, or the labels do not fit the rows.
    """
    given = with_recipe(settings.checked(), len(split), images=backbone is not None)
    kind = given.centers
    share = check_validation(given.validation, given.monitor)
    pull = given.pull
    assert pull is not None
    options, guidance = plain(given.options, "options"), plain(given.guidance, "guidance")
    # What can be wrong is found before the confusion, which takes longest.
    check_method(given.method, pull, guidance=guidance, options=options)
    start = _start(given, split)
    asked = settings.head and given.head  # None where the default chose it
    partly = check_partly(split, asked)
    if partly:
        given = replace(given, head="bits")
    assert given.dropout is not None
    checked = labeled(split.labeled(), classes)
    split = split if partly else checked
    fitted, validation = split, None
    if share:
        chosen = validation_rows(split.labels, share, given.seed, name="validation", purpose="validation")
        fitted, validation = split.where(~chosen), split.where(chosen)
    if partly:
        with cpu_settings(given.threads):
            fitted = with_guesses(fitted.embedded(), classes)
    if not uses_centers(given.method, pull) and kind == ARRANGED:
        kind = DESIGNED

    def ask() -> npt.NDArray[np.floating]:
        if known_confusion is not None and validation is None:
            return known_confusion()
        bar = "embedding" if given.progress and is_main_process() else ""
        sample = fitted.subsample(MOST_ROWS).embedded(backbone, workers=given.workers, progress=bar)
        return confusion(sample, classes)

    centers = task_centers(kind, classes, given.bits, given.seed, ask)
    labels = labels_of(fitted)
    task = Task(given.bits, classes, labels, torch.from_numpy(centers).float(), given.epochs, given.seed)
    with torch.random.fork_rng():
        draw_from(given.seed, 0)
        objective = build_objective(given.method, task, pull, guidance=guidance, options=options)
        if partly:
            objective = WithNeighbors(objective, fitted.embedded())
        has_classifier = objective.class_scores(task.centers[:1]) is not None
        metadata = model_metadata(given, len(fitted)) | {"options": options, "guidance": guidance}
        draw_from(given.seed, 1)  # so that a host and its guided form start from the same weights
        dim = split.input_dim(backbone)
        model = HashModel(
            dim, given.bits, given.hidden, given.dropout, classes if has_classifier else 0, metadata=metadata
        )
    identity = {"method": full_name(given.method, pull), "dim": dim, "classes": classes}
    identity |= {name: getattr(given, name) for name in ("bits", "hidden", "dropout")}
    identity |= {"pull": pull, "centers": str(given.centers)}  # as a checkpoint can store them
    identity |= {"options": options, "guidance": guidance, "validation": share}
    if start is not None:
        model.head.load_state_dict(HashModel.of(start).head.state_dict())
        identity["start"] = model.metadata["start"] = start.fingerprint()
    return Setup(given, model, objective, split, fitted, validation, centers, identity)


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
    from lbhash.training.images import ImageModel, ImageRows

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


def augmentation_of(settings: TrainingArguments) -> Augmentation | None:
    """Return how training images are augmented; None if they are not."""
    from lbhash.training.images import Augmentation

    augment = Augmentation() if settings.augment is True else settings.augment
    return check_type(augment, "augment", (bool, Augmentation), "True, False or an Augmentation") or None


def stored_augmentation(settings: TrainingArguments) -> Any:
    """Return how training images are augmented, as a model stores it; False if they are not."""
    augment = augmentation_of(settings)
    return plain(asdict(augment), "augment") if augment else False


def open_backbone(settings: TrainingArguments) -> Backbone:
    """Return the backbone of images, as it is before it learns."""
    from lbhash.training.images import resized

    if settings.backbone is None:
        raise ValueError("backbone is not given; images need one: a folder or Hub id of a vision model")
    backbone = Backbone.from_pretrained(settings.backbone, device=settings.device)
    return backbone if settings.image_size is None else resized(backbone, settings.image_size)


def _start(given: TrainingArguments, split: Split) -> Encoder | None:
    """Return the trained model whose weights a training begins with, if one is given.

    Raises:
        ValueError: there is no such model, or its weights do not fit.
    """
    if given.start is None:
        return None
    said = f"start is {str(given.start)!r}"
    trained = load_encoder(given.start, name="start")
    for name, ours in (("dim", split.input_dim()), ("bits", given.bits), ("hidden", given.hidden)):
        if (theirs := getattr(trained.layout, name)) != ours:
            raise ValueError(f"{said}, a model with {name} {theirs}; this training has {ours}, and it must be the same")
    return trained


def check_partly(split: Split, head: str | None = None) -> bool:
    """Return whether some rows have no label; raise ``ValueError`` if a method that is no coder cannot learn from them.

    Args:
        split: embeddings, or images that fine-tune a backbone.
        head: the one that the user asks for; None if it is the default's.
    """
    if split.labels is None or not (missing := int((~has_label(np.asarray(split.labels))).sum())):
        return False
    said = f"{missing:,} of {len(split):,} rows have no label"
    if missing == len(split):
        raise ValueError(f"{said}; leave the labels out to learn without any")
    if split.needs_backbone:
        how = "leave them out, or embed the images first (on the command line, --freeze)"
        raise ValueError(f"{said}, and a backbone is fine-tuned by labeled rows; {how}")
    if head == "joined":
        raise ValueError(f"head is 'joined', whose class posterior needs labels, and {said}; take 'bits'")
    return True


def labeled(split: SplitT, classes: int) -> SplitT:
    """Return the training rows with labels that are checked."""
    assert split.labels is not None
    missing = len(split) - len(split.labeled())
    if missing:
        said = f"{missing:,} of {len(split):,} rows have no label"
        raise ValueError(f"{said}, which only a host method that is fitted by itself takes; leave them out")
    labels = check_numbers(split.labels, classes, "labels of split")
    check_same_rows(labels, "labels of split", split, "split")
    return split.with_rows(split.rows, labels)


def full_name(method: Any, pull: str | None) -> str:
    """Return the method with its pull: ``csq``, the paper's ``csq_d``, or ``csq+bits``; a coder is never pulled."""
    return method_name(method) + ("" if coder_of(method) is not None else PULL_MARKS.get(pull, ""))


def model_metadata(given: TrainingArguments, rows: int) -> dict[str, Any]:
    """Return what the model remembers of its training: the settings, the number of rows and the library's version."""
    values = {one.name: getattr(given, one.name) for one in arguments(stored=True, images=False)}
    values |= {"method": stored_method(given.method), "pull": given.pull, "centers": str(given.centers)}
    return values | {"backbone_lr": given.backbone_lr, "training_rows": rows, "lbhash": __version__}
