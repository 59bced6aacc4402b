"""The front door: ``Hasher``, a scikit-learn estimator that learns to hash."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from inspect import signature
from numbers import Real
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
import torch
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from lbhash.centers.targets import ARRANGED, DESIGNED, Confusion, check_center_kind, task_centers
from lbhash.codes import PackedCodes, check_bits, code_bytes, unpack
from lbhash.data import EmbeddingSplit, Split, check_embeddings
from lbhash.data.holdout import validation_rows
from lbhash.data.images import ImageSplit, ImageTable, ListedImages
from lbhash.data.split import SplitT
from lbhash.evaluation.recognition import knn_predict
from lbhash.evaluation.report import evaluate
from lbhash.losses import Objective, Task, build_objective, check_method, method_name, uses_centers
from lbhash.models.dropout import Dropout
from lbhash.models.hash_model import HashModel, check_model_folder, load_model
from lbhash.models.surrogate import Surrogate
from lbhash.training import Monitor, Precision, Schedule, Trained, draw_from, has_checkpoint, is_main_process, train
from lbhash.training.confusion import MOST_ROWS, confusion
from lbhash.training.monitor import check_monitor, check_validation
from lbhash.training.schedule import ScheduleName
from lbhash.utils.labels import check_labels, is_class_column
from lbhash.utils.serialization import plain
from lbhash.utils.version import __version__

if TYPE_CHECKING:
    from PIL.Image import Image

    from lbhash.models.backbone import Backbone
    from lbhash.training.ensemble import EpochHook
    from lbhash.training.images import Augmentation, BatchNorm, FineTuning


_OF_ONE_TRAINING = ("precision", "accumulate", "devices", "nodes", "monitor", "patience", "validation")
"""Settings that seeds which are trained together do not have."""


@dataclass(frozen=True)
class _Run:
    """What one training takes."""

    model: HashModel
    objective: Objective
    part: Split
    fitted: Split
    """The rows of ``part`` that are trained on."""
    held: Split | None
    """Those that validate."""
    schedule: Schedule
    centers: npt.NDArray[np.int8]
    settings: dict[str, Any]


class Hasher(TransformerMixin, BaseEstimator):
    """Learns to turn embeddings, or images, into binary codes.

    Args:
        bits: h, the length of a code, 1 to 1,024.
        method: the host method, one of ``lbhash.losses.METHODS``, or an ``Objective`` of one's own.
        guided: whether the paper's guidance is added (X_D).
        epochs: passes over the training set.
        seed: the same seed gives the same codes on the same machine, bit for bit.
        hidden: width of the head's hidden layer; 0 for a linear head.
        dropout: of the head's inputs in training.
        centers: "arranged", where classes that are mistaken for each other in the training rows are neighbors
            (``lbhash.centers.arrange_centers``), or a kind of class centers as they are designed
            (``lbhash.centers.class_centers``). A method that does not look at centers has none arranged.
        batch_size: rows in a step; in each process where there are several.
        lr: Adam's learning rate.
        schedule: how the learning rate falls: "step", the paper's, "cosine", "linear" or "constant"
            (``lbhash.training.Schedule``).
        warmup: epochs over which it rises first; fractions are allowed.
        backbone_lr: the learning rate of a backbone that is fine-tuned; a tenth of ``lr`` where it is not given.
        precision: of the model's outputs in training: "32", "bf16" or, on a GPU, "16".
        accumulate: batches whose gradients are averaged for a step; pairs are those of one batch.
        monitor: judge every epoch and keep the best one's weights: by the "ratio" or the "map" of the validation rows,
            or by the training "loss". The last epoch's are kept without.
        patience: end after so many epochs that were not better than the best; by the ratio if ``monitor`` is not given.
        validation: share of the rows of every class that is not trained on; 0.1 where ``monitor`` or ``patience`` need
            it and it is not given, else 0.
        options: of the method, a dict, for instance ``{"alpha": 0.1}``. They are stored with the model, so that they
            must be what JSON can hold; ``functools.partial`` binds anything else to a method of one's own.
        guidance: of the guidance, a dict, for instance ``{"mode": "replace"}``. Of a ``surrogate`` the model remembers
            the shape only.
        backbone: a folder or Hub id of a vision model of ``transformers``, which ``fit_images`` fine-tunes.
        image_size: side of the square images that the backbone sees; its preprocessing's own where it is not given.
        augment: whether to change training images at random, or how (``lbhash.training.images.Augmentation``).
        batch_norm: of the backbone in training, "freeze" or "train" (``lbhash.training.images.ImageModel``).
        device: where to train: auto, cpu, gpu …
        threads: of PyTorch while it trains on a CPU.
        devices: processes that train together on each machine, one a device (``lbhash.training.distributed``).
        nodes: machines.
        workers: processes that read the training rows ahead.
        progress: whether to show a progress bar.

    Attributes:
        model_: the trained ``HashModel``, of embeddings.
        backbone_: the ``Backbone`` that turns images into these; loaded when it is first asked for.
        trained_: how the training went, a ``Trained``; of ``fit_seeds`` there is none.
        classes_: the label values, in the order of the centers.
        centers_: the class centers, ``int8 [C, bits]`` of ±1.
        train_codes_: the codes of the training rows, ``uint8 [n, ceil(bits / 8)]``, validation rows among them.

    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = Hasher(bits=16, epochs=2).fit(X[:500], y[:500])
    >>> hasher.encode(X[500:]).shape
    (1297, 2)
    """

    _folder: str | None = None
    """What the model was loaded from."""
    _backbone: Backbone | None = None

    def __init__(
        self,
        bits: int = 64,
        method: str | Callable[..., Objective] = "csq",
        guided: bool = True,
        epochs: int = 30,
        seed: int = 0,
        *,
        hidden: int = 1024,
        dropout: float = 0.5,
        centers: str = ARRANGED,
        batch_size: int = 64,
        lr: float = 1e-3,
        schedule: ScheduleName = "step",
        warmup: float = 0.0,
        backbone_lr: float | None = None,
        precision: Precision = "32",
        accumulate: int = 1,
        monitor: Monitor | None = None,
        patience: int | None = None,
        validation: float | None = None,
        options: dict[str, Any] | None = None,
        guidance: dict[str, Any] | None = None,
        backbone: str | Path | None = None,
        image_size: int | None = None,
        augment: bool | Augmentation = True,
        batch_norm: BatchNorm = "freeze",
        device: str = "auto",
        threads: int = 1,
        devices: int = 1,
        nodes: int = 1,
        workers: int = 0,
        progress: bool = False,
    ) -> None:
        self.bits = bits
        self.method = method
        self.guided = guided
        self.epochs = epochs
        self.seed = seed
        self.hidden = hidden
        self.dropout = dropout
        self.centers = centers
        self.batch_size = batch_size
        self.lr = lr
        self.schedule = schedule
        self.warmup = warmup
        self.backbone_lr = backbone_lr
        self.precision = precision
        self.accumulate = accumulate
        self.monitor = monitor
        self.patience = patience
        self.validation = validation
        self.options = options
        self.guidance = guidance
        self.backbone = backbone
        self.image_size = image_size
        self.augment = augment
        self.batch_norm = batch_norm
        self.device = device
        self.threads = threads
        self.devices = devices
        self.nodes = nodes
        self.workers = workers
        self.progress = progress

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Hasher:
        """Learn from embeddings ``[n, dim]`` and labels: ``[n]``, one a row, or multi-hot ``[n, C]``."""
        X, y = validate_data(self, X, y, multi_output=True, dtype=[np.float32, np.float64, np.uint8, np.float16])
        labels, classes = _encode_labels(_dense(y))
        rows = np.asarray(X)
        check_embeddings(rows, "X")
        part = EmbeddingSplit(rows, np.arange(len(rows)), labels)
        self.fit_split(part, len(classes))
        self.classes_ = classes
        return self

    def fit_images(
        self, images: ImageTable | Sequence[Image | bytes], y: npt.ArrayLike | None = None, **training: Any
    ) -> Hasher:
        """Learn from images: fine-tune ``backbone``, with a head on its embeddings.

        Args:
            images: a table of images (``lbhash.data.images.load_images``), PIL images, or bytes of image files.
            y: labels as of ``fit``; the table's own where they are not given.
            training: further arguments of ``lbhash.training.train``.

        Raises:
            ValueError: a setting is not as it must be, the backbone cannot be loaded or takes no images of
                ``image_size``, an image is damaged or missing, or what ``fit`` refuses.
        """
        from lbhash.training.images import check_images

        if not isinstance(images, ImageTable):
            images = ImageTable(ListedImages(list(images)), None, "images")
        labels = images.labels if y is None else y
        if labels is None:
            raise ValueError(f"y is not given, and {images.name} has no labels; training needs one for each image")
        known, classes = _encode_labels(_dense(labels))
        check_images(images, workers=self.workers, progress=self.progress)
        self.fit_split(ImageSplit(images, np.arange(len(images)), known), len(classes), **training)
        self.classes_ = classes
        return self

    def fit_split(self, part: Split, classes: int, *, confused: Confusion | None = None, **training: Any) -> Hasher:
        """Learn from a split of a data set, without a copy of it: of images, by fine-tuning ``backbone``.

        Args:
            part: rows and labels, the labels from 0 to ``classes`` − 1 or multi-hot.
            classes: C.
            confused: what is confused in these rows (``lbhash.training.confusion``), where several trainings are to
                have it from one place; it is computed where it is not given, or where some rows validate.
            training: further arguments of ``lbhash.training.train``.
        """
        backbone = self._open_backbone() if part.needs_backbone else None
        run = self._prepare(part, classes, backbone, confused)
        resumed = training.get("resume") and training.get("directory") and has_checkpoint(training["directory"])
        tuning = None if backbone is None else self._fine_tuning(run, backbone, standardize=not resumed)
        if tuning is None:
            rows = run.fitted.training_rows()
            validation = None if run.held is None else run.held.training_rows()
        else:
            rows, validation = tuning.rows, tuning.validation
        if self.progress:
            from lbhash.training.progress import EpochBar

            bar = EpochBar(self.name, unit="rows" if tuning is None else "images")
            training["callbacks"] = [*training.get("callbacks", []), bar]
        self.trained_: Trained = train(
            run.model if tuning is None else tuning.model,
            run.objective,
            rows,
            run.schedule,
            validation=validation,
            settings=run.settings,
            **self._training(),
            **training,
        )
        self._folder = self._backbone = None
        if backbone is not None:
            self._backbone = backbone.anew(self._device)
            run.model.about["backbone"] = self._backbone.about() | {"tuned": True}
        return self._finish(run, classes)

    def _open_backbone(self) -> Backbone:
        """The backbone as it is before it is fine-tuned."""
        from lbhash.models.backbone import Backbone
        from lbhash.training.images import resized

        if self.backbone is None:
            raise ValueError("backbone is not given; images need one: a folder or Hub id of a vision model")
        backbone = Backbone.from_pretrained(self.backbone, device=self._device)
        return backbone if self.image_size is None else resized(backbone, self.image_size)

    def _fine_tuning(self, run: _Run, backbone: Backbone, *, standardize: bool) -> FineTuning:
        """What is trained on images; the run's settings and what its model remembers say so too."""
        from lbhash.training.images import Augmentation, fine_tuning

        augment = Augmentation() if self.augment is True else self.augment
        if augment is not False and not isinstance(augment, Augmentation):
            raise TypeError(f"augment is {augment!r}; it must be True, False or an Augmentation")
        said = {"image_size": self.image_size, "batch_norm": self.batch_norm}
        said |= {"augment": plain(asdict(augment), "augment") if augment else False}
        run.model.about |= said
        run.settings.update(said, backbone=backbone.fingerprint())
        return fine_tuning(
            backbone,
            run.model,
            run.fitted,
            run.held,
            augmentation=augment or None,
            batch_norm=self.batch_norm,
            seed=self.seed,
            standardize=standardize,
            workers=self.workers,
            progress=self.progress and is_main_process(),
        )

    @property
    def _device(self) -> str:
        """Where a backbone runs that does not learn."""
        return "cpu" if self.device == "cpu" else "auto"

    def _training(self) -> dict[str, Any]:
        """The settings of ``lbhash.training.train`` that are settings of a hasher under the same name."""
        names = ("seed", "device", "threads", "devices", "nodes", "workers", "precision", "accumulate", "monitor")
        return {name: getattr(self, name) for name in (*names, "patience")}

    def fit_seeds(
        self,
        part: EmbeddingSplit | Sequence[EmbeddingSplit],
        classes: int,
        seeds: Sequence[int],
        after_epoch: EpochHook | None = None,
    ) -> list[Hasher]:
        """Learn from a split of a data set once a seed, all seeds as one computation (``lbhash.training.ensemble``).

        Args:
            part: as of ``fit_split``, or one a seed, of equally many rows.
            classes: C.
            seeds: each gives the hasher that ``fit_split`` gives with it on a CPU, up to the rounding of sums.
            after_epoch: see ``lbhash.training.ensemble.train_together``.

        Returns:
            A fitted hasher a seed; this one is not fitted.
        """
        from lbhash.training.ensemble import splits_of_seeds, train_together

        if not len(seeds):
            raise ValueError("seeds is empty; there must be one at least")
        for name in _OF_ONE_TRAINING:
            value, default = getattr(self, name), signature(Hasher).parameters[name].default
            if value != default:
                raise ValueError(
                    f"{name} is {value!r}, and seeds that are trained together have {default!r}; fit them one by one"
                )
        hashers = [clone(self).set_params(seed=seed) for seed in seeds]
        given = splits_of_seeds(part, len(seeds))
        labeled = {id(own): _labeled(own, classes) for own in given}
        confusions = {key: cache(partial(confusion, own, classes)) for key, own in labeled.items()}
        runs = [
            hasher._prepare(labeled[id(own)], classes, confused=confusions[id(own)])
            for hasher, own in zip(hashers, given, strict=True)
        ]
        train_together(
            [run.model for run in runs],
            [run.objective for run in runs],
            [labeled[id(own)] for own in given],
            runs[0].schedule,
            seeds,
            threads=self.threads,
            after_epoch=after_epoch,
        )
        return [hasher._finish(run, classes) for hasher, run in zip(hashers, runs, strict=True)]

    def _prepare(
        self,
        part: Split,
        classes: int,
        backbone: Backbone | None = None,
        confused: Confusion | None = None,
    ) -> _Run:
        """What a training starts from; every setting is checked. Images have a backbone."""
        bits = check_bits(self.bits)
        kind = check_center_kind(self.centers)
        epochs, batch_size = _whole(self.epochs, "epochs", 1), _whole(self.batch_size, "batch_size", 2)
        hidden, seed = _whole(self.hidden, "hidden", 0), _whole(self.seed, "seed", 0)
        schedule = self._schedule(epochs, batch_size)
        monitor, _ = check_monitor(self.monitor, self.patience)
        validation = check_validation(self.validation, monitor)
        dropout = Dropout(_number(self.dropout, "dropout")).probability
        options, guidance = plain(self.options, "options"), self._plain_guidance()
        check_method(self.method, guidance=guidance, options=options)  # before what is confused, which takes longest
        part = _labeled(part, classes)
        fitted: Split = part
        held: Split | None = None
        if validation:
            chosen = validation_rows(part.labels, validation, seed, name="validation", purpose="validation")
            fitted, held = part.where(~chosen), part.where(chosen)
        assert fitted.labels is not None
        labels = torch.from_numpy(fitted.labels)
        if not uses_centers(self.method, self.guided) and kind == ARRANGED:
            kind = DESIGNED
        known = confused if held is None else None
        asked = known or (lambda: confusion(self._embedded(fitted, backbone), classes))
        centers = task_centers(kind, classes, bits, seed, asked)
        hot = labels if labels.ndim == 1 else labels.float()
        task = Task(bits, classes, hot, torch.from_numpy(centers).float(), epochs, seed)
        with torch.random.fork_rng():
            draw_from(seed, 0)
            objective = build_objective(
                self.method, task, guided=self.guided, guidance=self._with_surrogate(guidance), options=options
            )
            has_classifier = objective.class_scores(task.centers[:1]) is not None
            classifier = classes if has_classifier else 0
            about = self._about(schedule, seed, len(fitted)) | {"options": options, "guidance": guidance}
            draw_from(seed, 1)  # so that a host and its guided form start from the same weights
            dim = part.input_dim(backbone)
            model = HashModel(dim, bits, hidden, dropout, classifier, about)
        settings = {"method": self.name, "dim": dim, "classes": classes, "bits": bits, "hidden": hidden}
        settings |= {"guided": bool(self.guided), "dropout": dropout, "centers": str(self.centers)}
        settings |= {"options": options, "guidance": guidance, "validation": validation}
        return _Run(model, objective, part, fitted, held, schedule, centers, settings)

    def _embedded(self, part: Split, backbone: Backbone | None = None) -> EmbeddingSplit:
        """What tells of rows what they are confused with: of images what the backbone sees before it learns."""
        sample = part.subsample(MOST_ROWS)
        return sample.embedded(backbone, workers=self.workers, progress=self._bar("embedding"))

    def _schedule(self, epochs: int, batch_size: int) -> Schedule:
        backbone_lr = None if self.backbone_lr is None else _number(self.backbone_lr, "backbone_lr")
        return Schedule(
            epochs=epochs,
            batch_size=batch_size,
            lr=_number(self.lr, "lr"),
            schedule=self.schedule,
            warmup=_number(self.warmup, "warmup"),
            backbone_lr=backbone_lr,
        )

    def _finish(self, run: _Run, classes: int) -> Hasher:
        """Take over what was trained."""
        if run.model.classifier is not None:
            weights = run.objective.class_scores(torch.eye(run.model.bits))
            assert weights is not None
            run.model.classifier.weight.data.copy_(weights.detach().T)
        self.model_ = run.model
        self.classes_ = np.arange(classes)
        self.centers_ = run.centers
        self.train_codes_ = self.encode_split(run.part)
        self.train_labels_: Any = run.part.labels
        self.n_features_in_ = run.model.dim
        return self

    @property
    def name(self) -> str:
        """The method as the paper writes it: ``csq``, or ``csq_d`` where it is guided."""
        host = method_name(self.method)
        return f"{host}_d" if self.guided else host

    def encode(self, X: npt.ArrayLike | Iterable[Image | bytes]) -> PackedCodes:
        """Codes of embeddings ``[n, dim]`` or of images: ``uint8 [n, ceil(bits / 8)]``.

        Images are a list, or an iterator that is taken as it is needed, of PIL images or bytes of image files. They
        take the backbone that the model was trained with (``backbone_``).
        """
        check_is_fitted(self)
        images = _images(X)
        if images is not None:
            none = np.empty((0, code_bytes(self.model_.bits)), np.uint8)
            return np.concatenate([none, *map(self.model_.encode, self.backbone_.embed_batches(images))])
        rows = validate_data(self, X, reset=False, dtype=[np.float32, np.float64, np.uint8, np.float16])
        check_embeddings(rows, "X")
        return self.model_.encode(rows)

    def encode_split(self, part: Split) -> PackedCodes:
        """Codes of a split of a data set, ``uint8 [n, ceil(bits / 8)]``, with the memory of a chunk."""
        check_is_fitted(self)
        backbone = self.backbone_ if part.needs_backbone else None
        dim = part.input_dim(backbone)
        if dim != self.model_.dim:
            raise ValueError(f"embeddings have {dim} numbers a row; the model takes {self.model_.dim}")
        none = np.empty((0, code_bytes(self.model_.bits)), np.uint8)
        chunks = part.chunks(backbone, workers=self.workers, progress=self._bar("encoding"))
        return np.concatenate([none, *map(self.model_.encode, chunks)])

    def _bar(self, work: str) -> str:
        """Return what a progress bar calls some work; nothing if there is to be none."""
        return work if self.progress and is_main_process() else ""

    def transform(self, X: npt.ArrayLike) -> npt.NDArray[np.int8]:
        """Codes of embeddings ``[n, dim]`` as features for the next step: ``int8 [n, bits]`` of ±1."""
        return unpack(self.encode(X), self.model_.bits)

    def predict(self, X: npt.ArrayLike, k: int = 100) -> npt.NDArray:
        """Labels ``[n]`` by a vote of the k nearest training codes (single-label only)."""
        codes = self.encode(X)
        self._check_memory("predict")
        return self.classes_[
            knn_predict(codes, self.train_codes_, self.train_labels_, k=min(k, len(self.train_codes_)))
        ]

    def score(self, X: npt.ArrayLike, y: npt.ArrayLike) -> float:
        """mAP of ``X`` as queries on the training rows as base, in expectation over ties."""
        codes = self.encode(X)
        self._check_memory("score")
        y = _dense(y)
        single = self.train_labels_.ndim == 1 and (y.ndim == 1 or y.shape[1:] == (1,))
        labels = _positions(y.ravel(), self.classes_) if single else y
        return evaluate(codes, labels, self.train_codes_, self.train_labels_).map

    @property
    def backbone_(self) -> Backbone:
        """What turns images into the embeddings that the model takes.

        Raises:
            ValueError: the model knows none, or it cannot be loaded, or it is not the one of the training.
        """
        check_is_fitted(self)
        if self._backbone is None:
            from lbhash.models.backbone_files import load_backbone

            self._backbone = load_backbone(self.model_, self._folder, device=self._device)
        return self._backbone

    def save_pretrained(self, directory: str | Path) -> None:
        """Write the model folder: safetensors, JSON and a model card; the training rows' codes stay out.

        A backbone that was fine-tuned goes with it, in the folder ``backbone``, which is one of ``transformers`` like
        any other.
        """
        from lbhash.models.backbone_files import drop_backbone, save_backbone

        check_is_fitted(self)
        self.model_.about["classes"] = self.classes_.tolist()
        if self.model_.has_tuned_backbone:
            save_backbone(self.backbone_, directory)
        else:
            drop_backbone(directory)
        self.model_.save_pretrained(directory)

    def push_to_hub(self, repo_id: str, *, private: bool | None = None, token: str | None = None) -> str:
        """Upload the model folder, with its backbone where it has one, to a repository of the Hub; return its address.

        Args:
            repo_id: ``user/name``; made where there is none.
            private: whether a new repository is.
            token: of the Hub; the one that the machine is logged in with where it is not given.
        """
        from huggingface_hub import HfApi

        api = HfApi(token=token)
        with TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            known = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
            return str(api.upload_folder(repo_id=known, folder_path=folder, commit_message="A hash model of lbhash"))

    @classmethod
    def from_pretrained(cls, directory: str | Path) -> Hasher:
        """Load a model folder, or a model of the Hub by its id. Nothing is unpickled.

        The loaded hasher encodes; ``score`` and ``predict`` need the training rows, and ask to be fitted. Of a method
        or a surrogate of one's own the model has the name, which ``fit`` does not take.
        """
        model = load_model(directory, hub=True)
        about = model.about
        names = ["method", "guided", "epochs", "seed", "centers", "batch_size", "lr", "schedule", "warmup"]
        names += [
            "image_size",
            "batch_norm",
            "backbone_lr",
            "precision",
            "accumulate",
            "monitor",
            "patience",
            "validation",
            "options",
            "guidance",
        ]
        known: dict[str, Any] = {name: about[name] for name in names if name in about}
        hasher = cls(bits=model.bits, hidden=model.hidden, dropout=model.dropout.probability, **known)
        augment = about.get("augment")
        if augment:
            from lbhash.training.images import Augmentation

            augment = Augmentation(**{**augment, "crop": tuple(augment["crop"])})
        hasher.augment = True if augment is None else augment
        hasher.model_, hasher._folder, hasher._backbone = model, str(directory), None
        hasher.classes_ = np.asarray(about.get("classes", []))
        hasher.n_features_in_ = model.dim
        return hasher

    def _about(self, schedule: Schedule, seed: int, rows: int) -> dict[str, Any]:
        return {
            "method": method_name(self.method),
            "guided": bool(self.guided),
            "centers": str(self.centers),
            "epochs": schedule.epochs,
            "batch_size": schedule.batch_size,
            "lr": schedule.lr,
            "schedule": schedule.schedule,
            "warmup": schedule.warmup,
            "backbone_lr": schedule.backbone_lr,
            "precision": str(self.precision),
            "accumulate": self.accumulate,
            "monitor": self.monitor,
            "patience": self.patience,
            "validation": self.validation,
            "seed": seed,
            "training rows": rows,
            "lbhash": __version__,
        }

    def _plain_guidance(self) -> dict[str, Any] | None:
        """The options of the guidance as JSON can hold them: of a surrogate what kind it is."""
        if not isinstance(self.guidance, dict):
            return plain(self.guidance, "guidance")
        held = {
            name: f"Surrogate(bits={value.bits}, block_bits={value.block_bits}, hidden={value.hidden}, "
            f"dropout={value.dropout})"
            if isinstance(value, Surrogate)
            else value
            for name, value in self.guidance.items()
        }
        return plain(held, "guidance")

    def _with_surrogate(self, guidance: dict[str, Any] | None) -> dict[str, Any] | None:
        if guidance is None or not isinstance(self.guidance, dict) or "surrogate" not in self.guidance:
            return guidance
        return {**guidance, "surrogate": self.guidance["surrogate"]}

    def _check_memory(self, what: str) -> None:
        if not hasattr(self, "train_codes_"):
            raise ValueError(f"{what} needs the training rows' codes, which a loaded model does not have; use evaluate")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.non_deterministic = False
        tags.transformer_tags.preserves_dtype = []  # codes are int8 whatever comes in
        return tags


def load_hasher(model: str | Path) -> Hasher:
    """Load the hasher of a folder that ``train_model`` wrote."""
    return Hasher.from_pretrained(check_model_folder(model))


def _whole(value: Any, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} is {value!r}; it must be an integer of at least {least}")
    if not least <= value < 2**63:
        raise ValueError(f"{name} is {value}; it must be at least {least}{' and below 2^63' if value > 0 else ''}")
    return int(value)


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} is {value!r}; it must be a number")
    return float(value)


def _labeled(part: SplitT, classes: int) -> SplitT:
    """The training rows with labels that are checked."""
    if not len(part):
        raise ValueError("part has no row; training needs at least one")
    if part.labels is None:
        raise ValueError("part has no labels; training needs one for each row")
    labels = check_labels(part.labels, "labels of part", classes)
    if len(labels) != len(part):
        raise ValueError(f"part has {len(part)} rows and {len(labels)} labels; training needs one for each row")
    return part.with_rows(part.rows, labels)


def _images(X: Any) -> Iterator[Image | bytes] | None:
    """What ``X`` holds, where it holds images; an iterator can hold nothing else that is encoded."""
    if isinstance(X, Iterator):
        return X
    if not isinstance(X, (list, tuple)) or not X:
        return None
    pil = sys.modules.get("PIL.Image")  # without it there is no PIL image
    kinds = (bytes, bytearray, memoryview, *((pil.Image,) if pil is not None else ()))
    return iter(X) if isinstance(X[0], kinds) else None


def _dense(y: Any) -> npt.NDArray:
    """Labels as an array; multi-hot ones may come as a sparse matrix."""
    return np.asarray(y.toarray() if scipy.sparse.issparse(y) else y)


def _encode_labels(y: npt.NDArray) -> tuple[npt.NDArray, npt.NDArray]:
    """Labels as 0 … C − 1 with their values, or multi-hot as they are."""
    if y.dtype.kind == "f" and (y != np.floor(y)).any():
        value = y[y != np.floor(y)][0]
        raise ValueError(f"y holds {value}; it must hold classes, [n] or multi-hot [n, C], and no measurements")
    if y.ndim == 2 and not is_class_column(y):
        if y.shape[1] == 1:
            raise ValueError(
                f"y has shape {y.shape} and holds 0 and 1 only, which is multi-hot of one class; it must be class "
                "numbers [n], or multi-hot [n, C] of two classes or more"
            )
        labels = check_labels(y.astype(np.uint8) if set(np.unique(y)) <= {0, 1} else y, "y")
        return labels, np.arange(labels.shape[1])
    classes, labels = np.unique(y.ravel(), return_inverse=True)
    return labels.astype(np.int64), classes


def _positions(y: npt.NDArray, classes: npt.NDArray) -> npt.NDArray[np.int64]:
    unknown = ~np.isin(y, classes)
    if unknown.any():
        raise ValueError(f"y holds the label {y[unknown].tolist()[0]!r}, which was not in the training rows")
    return np.searchsorted(classes, y)
