"""The front door: ``Hasher``, a scikit-learn estimator that learns to hash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
import torch
from safetensors import SafetensorError
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from lbhash import __version__
from lbhash.centers import center_kinds, class_centers
from lbhash.codes import PackedCodes, check_bits, code_bytes, unpack
from lbhash.data import Part, check_embeddings
from lbhash.evaluation import evaluate
from lbhash.labels import check_labels, is_class_column
from lbhash.model import HashModel, check_model_folder
from lbhash.objectives import Objective, Task, build_objective, method_name
from lbhash.plain import plain
from lbhash.posterior import Surrogate
from lbhash.recognition import knn_predict
from lbhash.training import Schedule, draw_from, train

if TYPE_CHECKING:
    from lbhash.ensemble import EpochHook


@dataclass(frozen=True)
class _Run:
    """What one training takes."""

    model: HashModel
    objective: Objective
    part: Part
    schedule: Schedule
    centers: npt.NDArray[np.int8]
    settings: dict[str, Any]


class Hasher(TransformerMixin, BaseEstimator):
    """Learns to turn embeddings into binary codes.

    Args:
        bits: h, the length of a code, 1 to 1,024.
        method: the host method, one of ``lbhash.objectives.METHODS``, or an ``Objective`` of one's own.
        guided: whether the paper's guidance is added (X_D).
        epochs: passes over the training set.
        seed: the same seed gives the same codes on the same machine, bit for bit.
        hidden: width of the head's hidden layer; 0 for a linear head.
        dropout: of the head's inputs in training.
        centers: kind of the class centres (``lbhash.centers.class_centers``).
        batch_size: rows in a step.
        lr: Adam's learning rate.
        options: of the method, a dict, for instance ``{"alpha": 0.1}``. They are stored with the model, so that they
            must be what JSON can hold; ``functools.partial`` binds anything else to a method of one's own.
        guidance: of the guidance, a dict, for instance ``{"mode": "replace"}``. Of a ``surrogate`` the model remembers
            the shape only.
        device: where to train: auto, cpu, gpu …
        threads: of PyTorch while it trains on a CPU.
        progress: whether to show a progress bar.

    Attributes:
        model_: the trained ``HashModel``.
        classes_: the label values, in the order of the centres.
        centers_: the class centres, ``int8 [C, bits]`` of ±1.
        train_codes_: the codes of the training rows, ``uint8 [n, ceil(bits / 8)]``.

    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = Hasher(bits=16, epochs=2).fit(X[:500], y[:500])
    >>> hasher.encode(X[500:]).shape
    (1297, 2)
    """

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
        centers: str = "best",
        batch_size: int = 64,
        lr: float = 1e-3,
        options: dict[str, Any] | None = None,
        guidance: dict[str, Any] | None = None,
        device: str = "auto",
        threads: int = 1,
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
        self.options = options
        self.guidance = guidance
        self.device = device
        self.threads = threads
        self.progress = progress

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Hasher:
        """Learn from embeddings ``[n, dim]`` and labels: ``[n]``, one a row, or multi-hot ``[n, C]``."""
        X, y = validate_data(self, X, y, multi_output=True, dtype=[np.float32, np.float64, np.uint8, np.float16])
        labels, classes = _encode_labels(_dense(y))
        rows = np.asarray(X)
        check_embeddings(rows, "X")
        part = Part(rows, np.arange(len(rows)), labels)
        self.fit_part(part, len(classes))
        self.classes_ = classes
        return self

    def fit_part(self, part: Part, classes: int, **training: Any) -> Hasher:
        """Learn from a split of a data set, without a copy of it.

        Args:
            part: rows and labels, the labels from 0 to ``classes`` − 1 or multi-hot.
            classes: C.
            training: further arguments of ``lbhash.training.train``.
        """
        run = self._prepare(part, classes)
        if self.progress:
            from lbhash.progress import EpochBar

            training["callbacks"] = [*training.get("callbacks", []), EpochBar(self.name)]
        train(
            run.model,
            run.objective,
            run.part,
            run.schedule,
            seed=self.seed,
            device=self.device,
            threads=self.threads,
            settings=run.settings,
            **training,
        )
        return self._finish(run, classes)

    def fit_seeds(
        self, part: Part, classes: int, seeds: Sequence[int], after_epoch: EpochHook | None = None
    ) -> list[Hasher]:
        """Learn from a split of a data set once a seed, all seeds as one computation (``lbhash.ensemble``).

        Args:
            part: as of ``fit_part``.
            classes: C.
            seeds: each gives the hasher that ``fit_part`` gives with it on a CPU, up to the rounding of sums.
            after_epoch: see ``lbhash.ensemble.train_together``.

        Returns:
            A fitted hasher a seed; this one is not fitted.
        """
        from lbhash.ensemble import train_together

        if not len(seeds):
            raise ValueError("seeds is empty; there must be one at least")
        hashers = [clone(self).set_params(seed=seed) for seed in seeds]
        runs = [hasher._prepare(part, classes) for hasher in hashers]
        train_together(
            [run.model for run in runs],
            [run.objective for run in runs],
            runs[0].part,
            runs[0].schedule,
            seeds,
            threads=self.threads,
            after_epoch=after_epoch,
        )
        return [hasher._finish(run, classes) for hasher, run in zip(hashers, runs, strict=True)]

    def _prepare(self, part: Part, classes: int) -> _Run:
        """What a training starts from; every setting is checked."""
        bits = check_bits(self.bits)
        if self.centers not in center_kinds():
            raise ValueError(f"centers is {self.centers!r}; it must be one of {', '.join(center_kinds())}")
        epochs, batch_size = _whole(self.epochs, "epochs", 1), _whole(self.batch_size, "batch_size", 2)
        hidden, seed = _whole(self.hidden, "hidden", 0), _whole(self.seed, "seed", 0)
        schedule = Schedule(epochs=epochs, batch_size=batch_size, lr=_number(self.lr, "lr"))
        dropout = _number(self.dropout, "dropout")
        options, guidance = plain(self.options, "options"), self._plain_guidance()
        centers = class_centers(classes, bits, kind=self.centers, seed=seed)
        part = _labelled(part, classes)
        assert part.labels is not None
        labels = torch.from_numpy(part.labels)
        task = Task(
            bits,
            classes,
            labels if labels.ndim == 1 else labels.float(),
            torch.from_numpy(centers).float(),
            epochs,
            seed,
        )
        with torch.random.fork_rng():
            draw_from(seed, 0)
            objective = build_objective(
                self.method, task, guided=self.guided, guidance=self._with_surrogate(guidance), options=options
            )
            has_classifier = objective.class_scores(task.centers[:1]) is not None
            classifier = classes if has_classifier else 0
            about = self._about(schedule, seed, len(part)) | {"options": options, "guidance": guidance}
            draw_from(seed, 1)  # so that a host and its guided form start from the same weights
            model = HashModel(part.dim, bits, hidden, dropout, classifier, about)
        settings = {"method": self.name, "dim": part.dim, "classes": classes, "bits": bits, "hidden": hidden}
        settings |= {"guided": bool(self.guided), "dropout": dropout, "centers": str(self.centers)}
        settings |= {"options": options, "guidance": guidance}
        return _Run(model, objective, part, schedule, centers, settings)

    def _finish(self, run: _Run, classes: int) -> Hasher:
        """Take over what was trained."""
        if run.model.classifier is not None:
            weights = run.objective.class_scores(torch.eye(run.model.bits))
            assert weights is not None
            run.model.classifier.weight.data.copy_(weights.detach().T)
        self.model_ = run.model
        self.classes_ = np.arange(classes)
        self.centers_ = run.centers
        self.train_codes_ = self.encode_part(run.part)
        self.train_labels_: Any = run.part.labels
        self.n_features_in_ = run.part.dim
        return self

    @property
    def name(self) -> str:
        """The method as the paper writes it: ``csq``, or ``csq_d`` where it is guided."""
        host = method_name(self.method)
        return f"{host}_d" if self.guided else host

    def encode(self, X: npt.ArrayLike) -> PackedCodes:
        """Codes of embeddings ``[n, dim]``: ``uint8 [n, ceil(bits / 8)]``."""
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=[np.float32, np.float64, np.uint8, np.float16])
        check_embeddings(rows, "X")
        return self.model_.encode(rows)

    def encode_part(self, part: Part) -> PackedCodes:
        """Codes of a split of a data set, ``uint8 [n, ceil(bits / 8)]``, with the memory of a chunk."""
        check_is_fitted(self)
        if part.dim != self.model_.dim:
            raise ValueError(f"embeddings have {part.dim} numbers a row; the model takes {self.model_.dim}")
        none = np.empty((0, code_bytes(self.model_.bits)), np.uint8)
        return np.concatenate([none, *(self.model_.encode(chunk) for chunk in part.chunks())])

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

    def save_pretrained(self, directory: str | Path) -> None:
        """Write the model folder: safetensors, JSON and a model card; the training rows' codes stay out."""
        check_is_fitted(self)
        self.model_.about["classes"] = self.classes_.tolist()
        self.model_.save_pretrained(directory)

    @classmethod
    def from_pretrained(cls, directory: str | Path) -> Hasher:
        """Load a model folder, or a model of the Hub by its id. Nothing is unpickled.

        The loaded hasher encodes; ``score`` and ``predict`` need the training rows, and ask to be fitted. Of a method
        or a surrogate of one's own the model has the name, which ``fit`` does not take.
        """
        if Path(directory).exists() or str(directory).count("/") != 1:  # a model of the Hub is "user/name"
            check_model_folder(directory)
        try:
            model = HashModel.from_pretrained(str(directory))
        except (AttributeError, KeyError, OSError, RuntimeError, SafetensorError, TypeError, ValueError) as error:
            line = " ".join(str(error).split())
            raise ValueError(f"model is {str(directory)!r}, which could not be loaded: {line}") from None
        about = model.about
        names = ("method", "guided", "epochs", "seed", "centers", "batch_size", "lr", "options", "guidance")
        known: dict[str, Any] = {name: about[name] for name in names if name in about}
        hasher = cls(bits=model.bits, hidden=model.hidden, dropout=model.dropout.probability, **known)
        hasher.model_ = model
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


def _labelled(part: Part, classes: int) -> Part:
    """The training rows with labels that are checked."""
    if not len(part):
        raise ValueError("part has no row; training needs at least one")
    if part.labels is None:
        raise ValueError("part has no labels; training needs one for each row")
    labels = check_labels(part.labels, "labels of part", classes)
    if len(labels) != len(part):
        raise ValueError(f"part has {len(part)} rows and {len(labels)} labels; training needs one for each row")
    return replace(part, labels=labels)


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
