"""``Hasher``, a scikit-learn estimator that learns to hash."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import update_wrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import RLock
from types import MethodType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, code_bytes, unpack
from lbhash.data.given import EMBEDDING, check_images, check_texts, from_table, holds_images, items, matrix
from lbhash.data.images import ImageSplit, ImageTable, ListedImages
from lbhash.data.readers import check_embeddings
from lbhash.data.split import EmbeddingSplit, Split
from lbhash.models.encoder import Encoder, load_encoder
from lbhash.models.folder import check_model_folder
from lbhash.training.settings import (
    METHOD,
    OF_TRAINING,
    HasherArguments,
    TrainingArguments,
    arguments,
    described,
    given,
    grouped,
    param_name,
    side_by_side,
)
from lbhash.utils.arrays import held
from lbhash.utils.labels import class_array, has_label, read_labels, rows_with_label
from lbhash.utils.names import Guessed, refusing_others, telling, unknown_name
from lbhash.utils.paths import check_folder
from lbhash.utils.system import TRAINING, check_packages
from lbhash.utils.validation import check_choice, check_filled, check_int, check_same_rows, refusing

if TYPE_CHECKING:
    from lbhash.centers.targets import Confusion

    class _Attributes(HasherArguments):  # a hasher's attributes, for type checkers
        model_: Encoder
        backbone_: Any
        method_: Any
        choice_: Any
        trained_: Any
        classes_: npt.NDArray[Any]
        centers_: Any
        train_codes_: PackedCodes
        train_labels_: Any
        n_features_in_: int
        _folder: str | None
        _backbone: Any
else:
    _Attributes = object

Method = TypeVar("Method", bound=Callable[..., Any])

VOTES = 5
"""The number of training rows that vote in ``predict``, as in scikit-learn. On held-out digits (5 to 100 rows per
class, 8 to 64 bits; ITQ, DCH and the default), 10 votes, a class's number of rows, and 100 were at most 0.2 points
better, or far worse."""
NEAREST = 10
"""The number of neighbors per row that ``score`` looks for."""

_ONE_AT_A_TIME = RLock()  # trainings share PyTorch's random state
_WORDS = {
    **dict.fromkeys(("n_bits", "nbits", "code_size", "hash_size", "n_components", "dim"), "bits"),
    **dict.fromkeys(("n_epochs", "max_iter", "n_iter", "num_train_epochs"), "epochs"),
    **dict.fromkeys(("random_state", "random_seed"), "seed"),
    **dict.fromkeys(("verbose", "show_progress_bar"), "progress"),
    **dict.fromkeys(("model", "loss", "algorithm", "name"), "method"),
    **{name: f"training=TrainingArguments({name}=…)" for name in OF_TRAINING},
    "learning_rate": "training=TrainingArguments(lr=…)",
    "n_jobs": "training=TrainingArguments(threads=…)",
    **dict.fromkeys(("save", "save_model", "dump"), "save_pretrained"),
    **dict.fromkeys(("load", "load_model"), "from_pretrained"),
    **dict.fromkeys(("fit_images", "fit_texts", "train"), "fit"),
    **dict.fromkeys(("hash", "embed", "encode_images"), "encode"),
    **dict.fromkeys(("decision_function", "predict_proba"), "outputs"),
    "similarity": "hamming_distances(codes, codes)",
    **dict.fromkeys(("add", "search", "index", "query"), "Index.from_hasher"),
}
"""Names of settings and methods in other libraries, and ours."""

_OF_ROWS = ("predict", "kneighbors", "centers_", "trained_", "choice_", "train_codes_", "train_labels_")
"""Members that exist only after ``fit``, because a model's folder does not have the training rows."""


_CALLED_WITH = {
    **dict.fromkeys(("n_neighbors", "top_k"), "k"),
    "return_distance": "kneighbors(X, k)[1]",
    "show_progress_bar": "Hasher(progress=True)",
    **dict.fromkeys(("batch_size", "precision", "convert_to_numpy"), "encode(X)"),
}
"""Names of method arguments in other libraries, and ours."""


class NoBackboneError(ValueError, AttributeError):
    """The model has no backbone that can be loaded; an ``AttributeError``, so ``hasattr`` is false."""


class _NeedsRows:
    """A method that a loaded model does not have."""

    def __init__(self, method: Any) -> None:
        self.method = method
        update_wrapper(cast(Any, self), method)

    def __get__(self, hasher: Any, owner: Any = None) -> Any:
        if hasher is None:
            return self.method
        if _is_loaded(hasher):
            raise AttributeError  # ``__getattr__`` explains it
        return MethodType(self.method, hasher)


def _needs_rows(method: Method) -> Method:
    return cast(Method, _NeedsRows(method))


class Hasher(_Attributes, metaclass=Guessed):
    """Learns to turn embeddings, images or texts into binary codes; a scikit-learn estimator and transformer.

    X holds embeddings [n, dim]; with an ``encoder``, texts; with a ``backbone``, images (paths, PIL images or bytes of
    files). X may also be a table with a column "embedding", "text" or "image"; its column "label" is then y.

    Args:
        ARGUMENTS

    Attributes (those with a *, ``predict`` and ``kneighbors`` do not exist after ``from_pretrained``):
        model_: the trained ``Encoder``, which takes embeddings.
        backbone_: the ``Backbone`` or ``TextEncoder`` that makes embeddings of images or texts.
        method_: the fitted method: ``method``, or the one that ``fit`` chose.
        choice_: * the methods that ``fit`` compared, the best first, with their recall@10 on held-out rows.
        trained_: * a summary of the training, ``Trained``; None for a method without a network.
        classes_: the label values, in the order of the centers; empty without labels.
        centers_: * the class centers, ``int8 [C, bits]`` of ±1; None if the method does not use them.
        train_codes_: * the codes of the training rows, ``uint8 [n, ceil(bits / 8)]``, including validation rows.

    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = Hasher(bits=16, epochs=2).fit(X[:500], y[:500])
    >>> hasher.encode(X[500:]).shape
    (1297, 2)
    """

    _words = _WORDS
    _sklearn_auto_wrap_output_keys = frozenset({"transform"})

    if not TYPE_CHECKING:
        __init__ = refusing_others(HasherArguments.__init__, "Hasher", _WORDS)

    def fit(self, X: Any, y: Any = None) -> Hasher:
        """Learn from rows and labels: [n] (None, NaN and "" are missing labels), multi-hot [n, C], or no labels.

        Raises ``ValueError`` or ``TypeError`` with one line if a setting, a row or a label is not valid.
        """
        check_packages("fit", "train", *TRAINING)
        X, y = from_table(X, y, self._columns())
        if self.encoder is not None:
            return _fit_texts(self, X, y)
        if isinstance(X, ImageTable) or holds_images(X, backbone=self.backbone is not None):
            return _fit_images(self, X, y)
        rows = _validated(self, X)
        labels, classes = _read_classes(y, len(rows))
        fit_split(self, EmbeddingSplit(rows, np.arange(len(rows)), labels), len(classes))
        self.classes_ = classes
        return self

    @telling(_CALLED_WITH)
    def encode(self, X: Any) -> PackedCodes:
        """Return the codes of rows, of one text or image, or of an iterator: ``uint8 [n, ceil(bits / 8)]``."""
        none = np.empty((0, code_bytes(_model_of(self).bits)), np.uint8)
        return np.concatenate([none, *map(self.model_.encode, _batches(self, X))])

    def outputs(self, X: Any) -> npt.NDArray[np.float32]:
        """Return the real outputs ℓ, ``float32 [n, bits]``; as queries they are better than their signs, the codes."""
        none = np.empty((0, _model_of(self).bits), np.float32)
        return np.concatenate([none, *(_soft(self, rows) for rows in _batches(self, X))])

    @_needs_rows
    @telling(_CALLED_WITH)
    def kneighbors(self, X: Any, k: int = 10) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Return distances ``float32 [n, k]`` and positions ``int64 [n, k]`` of the k nearest training rows.

        A distance is the sum of abs(ℓ) over the bits where a code differs from the signs of the outputs ℓ.
        """
        from lbhash.codes.real import Asked

        _model_of(self)
        k = check_int(k, "k", 1, len(self.train_codes_), "the training rows")
        found = Asked(self.outputs(X)).nearest(self.train_codes_, k)
        return found.distances.astype(np.float32), found.ids

    def transform(self, X: Any) -> Any:
        """Return the codes as features for the next step of a pipeline: ``int8 [n, bits]`` of ±1."""
        features = unpack(self.encode(X), self.model_.bits)
        if "sklearn" not in sys.modules:
            return features
        from sklearn.utils._set_output import _wrap_data_with_container

        return _wrap_data_with_container("transform", features, X, self)  # in the form chosen by ``set_output``

    @_needs_rows
    @telling(_CALLED_WITH)
    def predict(self, X: Any, k: int | None = None) -> npt.NDArray[Any]:
        """Return labels [n] by a vote of the k nearest training codes; k is 5, or less if a class has fewer rows."""
        from lbhash.evaluation.recognition import knn_predict  # Numba loads slowly, and encoding does not need it

        codes = self.encode(X)
        rows, labels = _labeled(self, "predict")
        if labels.ndim == 2:
            raise ValueError("predict gives one label a row, and the hasher was fitted to several; use score or search")
        if k is None:  # or votes of other classes would decide
            k = min(VOTES, int(np.unique(labels, return_counts=True)[1].min()))
        return self.classes_[knn_predict(codes, rows, labels, k=min(check_int(k, "k", 1), len(rows)))]

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mAP of X as queries to the training rows; without y, the recall@10 of neighbors in X."""
        X, y = from_table(X, y, self._columns())
        if y is None:
            return _neighbor_recall(self, X)
        from lbhash.codes.real import Asked
        from lbhash.evaluation.metrics import average_precision
        from lbhash.evaluation.ranking.real import distinct_rows, real_rankings

        outputs = self.outputs(X)
        rows, held_labels = _labeled(self, "score with labels")
        labels = _positions(y, self.classes_, held_labels)
        check_same_rows(labels, "y", outputs, "X")
        known = rows_with_label(labels, "rows of X")
        rankings = real_rankings(Asked(outputs[known]), labels[known], distinct_rows([(rows, held_labels)]))
        return float(np.nanmean(np.concatenate([average_precision(ranking) for ranking in rankings])))

    def save_pretrained(self, directory: str | Path) -> None:
        """Write the model to a folder, with a fine-tuned backbone; ``ValueError`` if it holds other files."""
        from lbhash.models.backbone_files import drop_backbone, save_backbone
        from lbhash.models.folder import check_replaces_ours

        _model_of(self)
        check_folder(directory, "directory")
        check_replaces_ours(directory, "directory")
        self.model_.metadata["classes"] = self.classes_.tolist()
        if self.model_.has_tuned_backbone:
            save_backbone(self.backbone_, directory)
        else:
            drop_backbone(directory)
        self.model_.save(directory)
        (Path(directory) / "metrics.json").unlink(missing_ok=True)  # of an older model in this folder

    @classmethod
    def from_pretrained(
        cls, directory: str | Path, *, encoder: str | Path | None = None, backbone: str | Path | None = None
    ) -> Hasher:
        """Load a folder or Hub id, or raise ``ValueError``; give ``encoder`` or ``backbone`` if it has moved."""
        model = load_encoder(directory, hub=True)
        moved = _moved(model, encoder, backbone)
        known = {one.name: model.metadata[one.name] for one in arguments(stored=True) if one.name in model.metadata}
        if isinstance(known.get("augment"), dict):
            from lbhash.training.images import Augmentation

            known["augment"] = Augmentation(**{**known["augment"], "crop": tuple(known["augment"]["crop"])})
        layout = model.layout
        if model.metadata.get("coder"):  # a coder does not have these settings
            known = {name: value for name, value in known.items() if name not in ("head", "pull")}
        else:
            known |= {"hidden": layout.hidden, "dropout": layout.dropout}
        hasher = cls(layout.bits, **grouped(**known))
        hasher.model_, hasher._folder, hasher._backbone = model, str(directory), moved
        with refusing(
            f"model is {str(directory)!r}, whose classes cannot be read", OverflowError, TypeError, ValueError
        ):
            hasher.classes_ = class_array(model.metadata.get("classes", []))
        hasher.method_, hasher.n_features_in_ = hasher.method, model.dim
        return hasher

    def push_to_hub(self, repo_id: str, *, private: bool | None = None, token: str | None = None) -> str:
        """Upload the model folder to the Hub, to the repository "user/name", and return its address."""
        from huggingface_hub import HfApi

        api = HfApi(token=token)
        with TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            known = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
            return str(api.upload_folder(repo_id=known, folder_path=folder, commit_message="A hash model of lbhash"))

    # scikit-learn's interface of an estimator.

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name; those of ``training`` also as ``training__lr``."""
        found = {one.name: getattr(self, one.name) for one in fields(HasherArguments)}
        training = TrainingArguments() if self.training is None else self.training
        if deep and isinstance(training, TrainingArguments):
            found |= {param_name(name): value for name, value in vars(training).items()}
        return dict(sorted(found.items()))

    def set_params(self, **params: Any) -> Hasher:
        """Change settings; ``ValueError`` for an unknown name."""
        known = self.get_params()
        inner: dict[str, Any] = {}
        for name, value in params.items():
            if name not in known:
                words = {**_WORDS, "learning_rate": "training__lr"} | {one: param_name(one) for one in OF_TRAINING}
                raise ValueError(unknown_name(name, "no setting of Hasher", known, words))
            if name.startswith("training__"):
                inner[name.removeprefix("training__")] = value
            else:
                setattr(self, name, value)
        if inner:  # another hasher may share ``training``
            self.training = replace(self.training or TrainingArguments(), **inner)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit, and return ``transform`` of the same rows."""
        return self.fit(X, y).transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[Any]:
        """Return the names of the columns that ``transform`` returns: ``hasher0``, ``hasher1`` …"""
        return np.array([f"hasher{bit}" for bit in range(_model_of(self).bits)], dtype=object)

    def set_output(self, *, transform: str | None = None) -> Hasher:
        """Make ``transform`` return an array ("default"), or a table of "pandas" or "polars"."""
        from sklearn.base import TransformerMixin

        check_choice(transform, "transform", [None, "default", "pandas", "polars"])
        return TransformerMixin.set_output(self, transform=transform)

    def __repr__(self) -> str:
        text = f"Hasher({', '.join(given(self, fields(HasherArguments)))})"
        return "\n".join(textwrap.wrap(text, 100, max_lines=5, placeholder=" …", subsequent_indent=" " * 7))

    def _repr_html_(self) -> str | None:
        """Return scikit-learn's HTML table of the settings, if scikit-learn is loaded."""
        if "sklearn" not in sys.modules:
            return None
        from sklearn.utils import estimator_html_repr

        return estimator_html_repr(self)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="classifier",  # so that folds are stratified
            classifier_tags=ClassifierTags(poor_score=True),
            target_tags=TargetTags(required=False, multi_output=True),
            transformer_tags=TransformerTags(preserves_dtype=[]),  # codes are always int8
        )

    if not TYPE_CHECKING:  # otherwise any name would pass a type checker

        def __getattr__(self, name: str) -> Any:
            if name == "backbone_" and "model_" in vars(self):
                return _backbone_of(self)
            if name in _OF_ROWS and _is_loaded(self):
                raise AttributeError(_no_rows(name))
            raise AttributeError(type(self).no_attribute(name))

    def _columns(self) -> tuple[str, ...]:
        """Return the columns of a table that may hold the rows."""
        known: Any = vars(self).get("model_")
        embedded = known is not None and "backbone" in known.metadata
        texts = self.encoder is not None or (embedded and known.takes_texts)
        images = self.backbone is not None or (embedded and not known.takes_texts)
        return (*(("text",) if texts else ("image",) if images else ()), EMBEDDING)


if Hasher.__doc__:  # None under python -OO
    Hasher.__doc__ = Hasher.__doc__.replace(" " * 8 + "ARGUMENTS", described(fields(HasherArguments)))


def fit_split(
    hasher: Hasher, split: Split, classes: int, *, known_confusion: Confusion | None = None, **training: Any
) -> Hasher:
    """Fit a hasher to a split of a data set without copying it; for images, fine-tune ``backbone``.

    Args:
        hasher: the hasher to fit and return.
        split: rows with labels from 0 to ``classes`` − 1 (``UNLABELED`` for a missing label) or multi-hot; or without
            labels, as for ``Hasher.fit``.
        classes: C; 0 without labels.
        known_confusion: returns the confusion matrix of these rows (``lbhash.training.confusion``), to share it among
            trainings; if None, or if there are validation rows, it is computed.
        training: extra arguments of ``lbhash.training.train``; a method without a network ignores them.
    """
    check_packages("fit", "train", *TRAINING)
    from lbhash.training.fit import fit_split as fit_settings

    with _ONE_AT_A_TIME:
        found = fit_settings(side_by_side(hasher), split, classes, known_confusion=known_confusion, **training)
    hasher.method_, hasher.model_, hasher.trained_ = found.method, found.model, found.trained
    hasher.choice_ = found.choice
    hasher._folder, hasher._backbone = None, found.backbone
    hasher.classes_ = np.arange(classes)
    hasher.centers_ = found.centers
    hasher.train_codes_ = encode_split(hasher, found.split)
    _warn(split, hasher.train_codes_)
    hasher.train_labels_ = found.split.labels
    hasher.n_features_in_ = hasher.model_.dim
    return hasher


def encode_split(hasher: Hasher, split: Split) -> PackedCodes:
    """Return the codes of a split of a data set, ``uint8 [n, ceil(bits / 8)]``, computed in chunks."""
    none = np.empty((0, code_bytes(_model_of(hasher).bits)), np.uint8)
    return np.concatenate([none, *map(hasher.model_.encode, _chunks(hasher, split))])


def outputs_split(hasher: Hasher, split: Split) -> npt.NDArray[np.float32]:
    """Return the real outputs of a split of a data set, ``float32 [n, bits]``; their signs are the codes."""
    none = np.empty((0, _model_of(hasher).bits), np.float32)
    return np.concatenate([none, *(_soft(hasher, rows) for rows in _chunks(hasher, split))])


def _chunks(hasher: Hasher, split: Split) -> Iterator[npt.NDArray[Any]]:
    """Yield the embeddings of a split, in chunks."""
    backbone = hasher.backbone_ if split.needs_backbone else None
    hasher.model_.check_dim(split.input_dim(backbone))
    bar = ""
    if hasher.progress:
        from lbhash.training.distributed import is_main_process

        bar = "encoding" if is_main_process() else ""
    yield from split.chunks(backbone, workers=side_by_side(hasher).workers, progress=bar)


def name_of(hasher: Hasher) -> str:
    """Return the method with its pull: ``csq``, the paper's ``csq_d``, or ``csq+bits``."""
    from lbhash.training.coders import coder_of
    from lbhash.training.defaults import full_name, pull_of

    if "model_" in vars(hasher):
        return full_name(hasher.method_, hasher.model_.metadata.get("pull"))
    method = hasher.method or METHOD
    return full_name(method, None if coder_of(method) else pull_of(side_by_side(hasher).checked()))


def load_hasher(model: str | Path, *, encoder: str | Path | None = None, backbone: str | Path | None = None) -> Hasher:
    """Load the hasher of a folder that ``train_model`` wrote (``Hasher.from_pretrained``)."""
    return Hasher.from_pretrained(check_model_folder(model), encoder=encoder, backbone=backbone)


def _moved(model: Encoder, encoder: str | Path | None, backbone: str | Path | None) -> Any:
    """Load a model's encoder or backbone from its new place; None if no place is given.

    The new place is stored in the model's metadata.
    """
    name, place = ("encoder", encoder) if backbone is None else ("backbone", backbone)
    if place is None:
        return None
    known = model.metadata.get("backbone")
    if (encoder is not None and backbone is not None) or model.takes_texts != (name == "encoder"):
        trained = "texts, by an encoder" if model.takes_texts else "images" if known else "embeddings"
        raise ValueError(f"{name} is {str(place)!r}, and the model was trained on {trained}; leave it out")
    from lbhash.models.backbone_files import load_backbone

    found = load_backbone(model, name=place)
    if known:
        model.metadata["backbone"] = found.metadata() | ({"tuned": True} if model.has_tuned_backbone else {})
    return found


def _read_classes(y: Any, rows: int) -> tuple[npt.NDArray[Any] | None, npt.NDArray[Any]]:
    """Return labels as positions among classes, and the classes; ``ValueError`` if there are fewer than two."""
    if y is None:
        return None, np.arange(0)
    read = read_labels(y, "y")
    classes = class_array(read.classes)
    check_same_rows(read.numbers, "y", range(rows), "X")
    if not len(classes):
        raise ValueError("y is missing in every row; leave y out to learn without labels")
    if len(classes) == 1:
        said = f"y has one class, {classes.tolist()[0]!r}"
        raise ValueError(f"{said}; there is nothing to learn, give labels of two or more")
    return read.numbers, classes


def _validated(hasher: Hasher, X: Any) -> npt.NDArray[Any]:
    """Return X validated by scikit-learn, with valid embeddings."""
    from sklearn.utils.validation import validate_data

    X, kinds = matrix(X), [np.float32, np.float64, np.uint8, np.float16]
    if isinstance(X, np.ndarray) and X.dtype.kind in "USTMm":
        raise TypeError(f"X holds {held(X)}; it must hold numbers")
    if numbers := isinstance(X, np.ndarray) and X.dtype.kind in "uif":
        check_embeddings(X, "X")  # first, because scikit-learn's error names no row
    rows = np.asarray(validate_data(hasher, X, dtype=kinds))
    if not numbers:
        check_embeddings(rows, "X")
    return rows


def _fit_texts(hasher: Hasher, X: Any, y: Any) -> Hasher:
    """Fit a hasher to texts, embedded by its encoder, which is not trained."""
    texts = check_texts(X, str(hasher.encoder))
    labels, classes = _read_classes(y, len(texts))
    from lbhash.models.texts import TextEncoder

    encoder = TextEncoder.from_pretrained(str(hasher.encoder), device=hasher.device)
    rows = encoder.embed(texts, progress=hasher.progress)
    fit_split(hasher, EmbeddingSplit(rows, np.arange(len(rows)), labels), len(classes))
    hasher.classes_, hasher._backbone = classes, encoder
    hasher.model_.metadata["backbone"] = encoder.metadata()
    return hasher


def _fit_images(hasher: Hasher, X: Any, y: Any) -> Hasher:
    """Fit a hasher to images: fine-tune its backbone with a head on the embeddings."""
    from lbhash.data.images.corrupt import check_images as check_decoded
    from lbhash.training.coders import coder_of
    from lbhash.training.defaults import method_for
    from lbhash.training.prepare import check_partly

    images = X if isinstance(X, ImageTable) else ImageTable(ListedImages(check_images(X)), None, "X")
    split, classes = ImageSplit(images, np.arange(len(images)), images.labels), np.arange(0)
    if y is not None:
        labels, classes = _read_classes(y, len(images))
        split = split.with_rows(split.rows, labels)
    elif images.labels is not None:
        split, used = split.compact()
        classes = class_array([images.class_names[one] for one in used.tolist()])
    method = method_for(hasher.method, has_labels=split.labels is not None, images=True)
    if coder_of(method) is None:
        check_partly(split)  # before slow decoding
    check_decoded(images, workers=side_by_side(hasher).workers, progress=hasher.progress)
    fit_split(hasher, split, len(classes))
    hasher.classes_ = classes
    return hasher


def _model_of(hasher: Hasher) -> Encoder:
    """Return the model; for an unfitted hasher, raise ``NotFittedError`` (``ValueError`` without scikit-learn)."""
    if "model_" not in vars(hasher):
        told = "this Hasher is not fitted yet; call fit, or load a model with from_pretrained"
        if "sklearn" not in sys.modules:
            raise ValueError(told)
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(told)
    return hasher.model_


def _batches(hasher: Hasher, X: Any) -> Iterator[npt.NDArray[Any]]:
    """Yield the embeddings of rows in batches, ``[n, dim]``, for the model."""
    model = _model_of(hasher)
    X, _ = from_table(X, None, hasher._columns())
    found = items(X, columns="backbone" in model.metadata)
    if found is not None:
        yield from hasher.backbone_.embed_batches(found)
        return
    X = matrix(X)
    if hasattr(hasher, "feature_names_in_"):  # check that the table has the training's columns
        from sklearn.utils.validation import validate_data

        X = validate_data(hasher, X, dtype=None, reset=False)
    rows = np.asarray(X)
    if rows.dtype.kind == "O" or rows.dtype == np.longdouble:
        rows = rows.astype(np.float64)
    check_embeddings(rows, "X")
    if rows.shape[1] != model.dim:
        raise ValueError(f"X has {rows.shape[1]} features, but Hasher is expecting {model.dim} features as input")
    yield rows


def _backbone_of(hasher: Hasher) -> Any:
    """Return the backbone or encoder that makes the model's embeddings; load it on first use.

    Raises:
        NoBackboneError: the model has none, it cannot be loaded, or it is not the one used in training.
    """
    if hasher._backbone is None:
        from lbhash.models.backbone_files import load_backbone

        try:
            hasher._backbone = load_backbone(hasher.model_, hasher._folder, device=hasher.device)
        except ValueError as error:
            raise NoBackboneError(str(error)) from None
    return hasher._backbone


def _is_loaded(hasher: Hasher) -> bool:
    """Return whether a hasher has a model but not its training rows."""
    return "model_" in vars(hasher) and "train_codes_" not in vars(hasher)


def _no_rows(what: str) -> str:
    how = "fit it here, or put codes into an Index and search these"
    return f"{what} needs the training rows, which a loaded model does not have; {how}"


def _labeled(hasher: Hasher, what: str) -> tuple[PackedCodes, npt.NDArray[Any]]:
    """Return the codes and labels of the labeled training rows."""
    if _is_loaded(hasher):
        raise ValueError(_no_rows(what))
    if hasher.train_labels_ is None:
        raise ValueError(f"{what} needs labels of the training rows, and the hasher was fitted without any")
    known = has_label(hasher.train_labels_)
    return hasher.train_codes_[known], hasher.train_labels_[known]


def _neighbor_recall(hasher: Hasher, X: Any) -> float:
    """Return the share of each row's nearest rows by cosine that its code finds among the other rows."""
    from lbhash.evaluation.neighbors import recall_of_others

    rows = np.concatenate(list(_batches(hasher, X)))
    check_filled(rows[1:], "X", "row besides the first")
    return recall_of_others(_soft(hasher, rows), rows, min(NEAREST, len(rows) - 1))


def _soft(hasher: Hasher, rows: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    return hasher.model_.soft(hasher.model_.outputs(rows))


def _positions(y: Any, classes: npt.NDArray[Any], known_labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return labels in the form of the training labels: positions in ``classes``, or one column per class."""
    labels = read_labels(y, "y")
    if labels.numbers.ndim != known_labels.ndim:
        kinds = {1: "one label a row", 2: "several labels a row"}
        raise ValueError(f"y has {kinds[labels.numbers.ndim]}, and the training rows have {kinds[known_labels.ndim]}")
    known = classes.tolist()
    if known_labels.ndim == 2 and isinstance(labels.classes, range):  # the columns of a matrix
        if len(labels.classes) != len(known):
            raise ValueError(f"y has {len(labels.classes)} columns; it must have {len(known)}, as in the training")
        return labels.numbers
    if unknown := set(labels.classes) - set(known):
        raise ValueError(f"y holds the label {min(unknown)!r}, which was not in the training rows")
    return labels.ordered(known).numbers


def _warn(split: Split, codes: PackedCodes) -> None:
    """Warn on standard error about training rows of zeros, and about one code for all rows."""
    from lbhash.training.distributed import is_main_process

    if not is_main_process():
        return
    if not split.needs_backbone:
        zeros = sum(int((~chunk.any(axis=1)).sum()) for chunk in split.chunks())
        if zeros:
            print(f"{zeros:,} of {len(split):,} training rows are all zero, and have one code", file=sys.stderr)
    if len(codes) > 1 and (codes == codes[0]).all():
        said = f"all {len(codes):,} codes of the training rows are equal, which finds nothing"
        print(f"{said}; look at the embeddings, or take more bits or another method", file=sys.stderr)
