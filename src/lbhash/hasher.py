"""``Hasher``, a scikit-learn estimator that learns to hash."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, code_bytes, unpack
from lbhash.data import EmbeddingSplit, Split, check_embeddings
from lbhash.data.images import ImageSplit, ImageTable, ListedImages
from lbhash.models.encoder import load_encoder
from lbhash.models.folder import check_model_folder
from lbhash.training.settings import METHOD, TrainingArguments, arguments, described
from lbhash.utils.arrays import as_matrix, check_unmasked, held
from lbhash.utils.files import check_folder
from lbhash.utils.formatting import shown
from lbhash.utils.labels import class_array, has_label, read_labels, rows_with_label
from lbhash.utils.system import TRAINING, check_packages
from lbhash.utils.validation import check_choice, check_int, check_same_rows, did_you_mean

if TYPE_CHECKING:
    from PIL.Image import Image

    from lbhash.centers.targets import Confusion
    from lbhash.models.backbone import Backbone
    from lbhash.models.texts import TextEncoder
    from lbhash.training.trainer import Trained


class NoBackboneError(ValueError, AttributeError):
    """The model has no backbone that could be loaded; an ``AttributeError``, so that ``hasattr`` is false."""


class Hasher(TrainingArguments):
    """Learns to turn embeddings, images or texts into binary codes.

    It is an estimator and a transformer of scikit-learn without its base classes, which take a second to import:
    encoding needs neither scikit-learn nor PyTorch.

    Args:
        ARGUMENTS

    Attributes:
        model_: the trained ``Encoder``, of embeddings.
        backbone_: the ``Backbone`` that turns images into these, or the ``TextEncoder`` that does so of texts; loaded
            when it is first asked for.
        method_: the method that was fitted: ``method``, or the one that ``fit`` chose.
        choice_: the methods that were compared to choose it, the best first, each with its recall@10 on held-out rows:
            ``recall`` of the codes alone, and ``reranked`` with 100 candidates. Empty if ``method`` or labels said it.
        trained_: how the training went, a ``Trained``; None of a coder.
        classes_: the label values, in the order of the centers; empty without labels.
        centers_: the class centers, ``int8 [C, bits]`` of ±1; None if the method has no use for them.
        train_codes_: the codes of the training rows, ``uint8 [n, ceil(bits / 8)]``, validation rows among them.

    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = Hasher(bits=16, epochs=2).fit(X[:500], y[:500])
    >>> hasher.encode(X[500:]).shape
    (1297, 2)
    """

    _folder: str | None = None
    """The folder or Hub id that the model was loaded from."""
    _backbone: Backbone | TextEncoder | None = None
    trained_: Trained | None
    _sklearn_auto_wrap_output_keys = frozenset({"transform"})

    @wraps(TrainingArguments.__init__)  # type: ignore[misc]  # whose signature it has
    def __init__(self, *args: Any, **settings: Any) -> None:
        if unknown := sorted(settings.keys() - {one.name for one in arguments()}):
            raise TypeError(_no_setting(unknown[0]))
        named = [one.name for one in arguments() if not one.kw_only]
        if len(args) > len(named):
            said = f"a Hasher has {len(args)} settings without a name; it must be at most {len(named)}"
            raise TypeError(f"{said} ({', '.join(named)}), name the others")
        super().__init__(*args, **settings)

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike | None = None) -> Hasher:
        """Learn from embeddings ``[n, dim]`` and labels: ``[n]``, one a row, or multi-hot ``[n, C]``.

        With an ``encoder`` X are n texts, a list or a column; it embeds them, and is not trained.

        Of labels ``[n]`` some may be missing, which is None, NaN or "" (−1 is a class like any other). A logistic
        regression then guesses them, and rows learn to keep the neighbors of their embeddings, too.

        Without labels, a method that needs none is fitted: the one that ``method`` names. If it is None, ``signs``,
        ``lsh``, ``itq`` and ``sne`` are compared on held-out rows (``choice_``). The highest recall@10 of the codes
        decides; within 0.01 of it, that after re-ranking. Fewer than 100 rows are fitted by ``sne``.
        """
        texts, labels, classes = self._texts(X), None, np.arange(0)
        rows = self._validated(X) if texts is None else np.empty((len(texts), 0))
        if y is not None:
            read = read_labels(y, "y")
            labels, classes = read.numbers, class_array(read.classes)
            check_same_rows(labels, "y", rows, "X")
            if not len(classes):
                raise ValueError("y is missing in every row; leave y out to learn without labels")
            if len(classes) == 1:
                raise ValueError(
                    f"y has one class, {classes.tolist()[0]!r}; there is nothing to learn, give labels of two or more"
                )
        encoder: TextEncoder | None = None
        if texts is not None:  # after the checks of the labels
            check_packages("fit", "train", *TRAINING)
            from lbhash.models.texts import TextEncoder

            encoder = TextEncoder.from_pretrained(str(self.encoder), device=self.device)
            rows = encoder.embed(texts, progress=self.progress)
        self.fit_split(EmbeddingSplit(rows, np.arange(len(rows)), labels), len(classes))
        self.classes_ = classes
        if encoder is not None:
            self._backbone = encoder
            self.model_.metadata["backbone"] = encoder.metadata()
        return self

    def _texts(self, X: Any) -> list[str] | None:
        """Return the texts that an encoder is given for, or None without an encoder."""
        if self.encoder is None:
            return None
        texts = _listed(X)
        if not isinstance(texts, (list, tuple)) or not len(texts):
            raise TypeError(f"X is {shown(X)} and encoder {str(self.encoder)!r}; it must be texts, a list or a column")
        for row, text in enumerate(texts):
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"X has {shown(text)} in row {row}; each row must be a text: leave others out")
        return list(texts)

    def _validated(self, X: Any) -> npt.NDArray:
        """Return X as scikit-learn wants it, with embeddings that a model takes."""
        check_packages("fit", "train", *TRAINING)
        from sklearn.utils.validation import validate_data

        X, kinds = _matrix(X), [np.float32, np.float64, np.uint8, np.float16]
        if isinstance(X, np.ndarray) and X.dtype.kind in "USTMm":
            raise TypeError(f"X holds {held(X)}; it must hold numbers")
        if numbers := isinstance(X, np.ndarray) and X.dtype.kind in "uif":
            check_embeddings(X, "X")  # before scikit-learn, which names no row
        rows = np.asarray(validate_data(self, X, dtype=kinds))
        if not numbers:
            check_embeddings(rows, "X")
        return rows

    def _rows(self, X: Any) -> npt.NDArray:
        """Return embeddings ``[n, dim]`` that the model takes; columns of a table are those of the training."""
        X = _matrix(X)
        if hasattr(self, "feature_names_in_"):
            from sklearn.utils.validation import validate_data

            X = validate_data(self, X, dtype=None, reset=False)
        rows = np.asarray(X)
        if rows.dtype.kind == "O" or rows.dtype == np.longdouble:
            rows = rows.astype(np.float64)
        check_embeddings(rows, "X")
        if rows.shape[1] != self.model_.dim:
            raise ValueError(
                f"X has {rows.shape[1]} features, but Hasher is expecting {self.model_.dim} features as input"
            )
        return rows

    def fit_images(
        self, images: ImageTable | Sequence[Image | bytes | str | Path], y: npt.ArrayLike | None = None, **training: Any
    ) -> Hasher:
        """Learn from images: fine-tune ``backbone``, with a head on its embeddings.

        The method "cibhash" leaves it as it is, and needs no labels.

        Args:
            images: a table of images (``lbhash.data.images.load_images``), PIL images, or image files: paths or bytes.
            y: labels as ``fit`` takes them. If None, the table's own.
            training: further arguments of ``lbhash.training.train``.

        Raises:
            ValueError: a setting is not as it must be, the backbone cannot be loaded or takes no images of
                ``image_size``, an image is damaged or missing, or what ``fit`` refuses.
        """
        check_packages("fit_images", "train", *TRAINING)
        from lbhash.data.images.corrupt import check_images
        from lbhash.training.coders import coder_of
        from lbhash.training.defaults import method_for
        from lbhash.training.prepare import check_partly

        if not isinstance(images, ImageTable):
            images = ImageTable(ListedImages(_check_images(images)), None, "images")
        split, classes = ImageSplit(images, np.arange(len(images)), images.labels), np.arange(0)
        if y is not None:
            read = read_labels(y, "y")
            split, classes = split.with_rows(split.rows, read.numbers), class_array(read.classes)
        elif images.labels is not None:
            split, used = split.compact()
            classes = class_array([images.class_names[one] for one in used.tolist()])
        method = method_for(self.method, has_labels=split.labels is not None, images=True)
        if coder_of(method) is None:
            check_partly(split)  # before the work of decoding
        check_images(images, workers=self.workers, progress=self.progress)
        self.fit_split(split, len(classes), **training)
        self.classes_ = classes
        return self

    def fit_split(
        self,
        split: Split,
        classes: int,
        *,
        known_confusion: Confusion | None = None,
        **training: Any,
    ) -> Hasher:
        """Learn from a split of a data set, without a copy of it; from images, by fine-tuning ``backbone``.

        Args:
            split: rows and labels, the labels from 0 to ``classes`` − 1 (``UNLABELED`` where a row has none) or
                multi-hot; or no labels, as for ``fit``.
            classes: C; 0 without labels.
            known_confusion: gives the confusion matrix of these rows (``lbhash.training.confusion``), if several
                trainings have it from one place; it is computed if None, or if some rows validate.
            training: extra arguments of ``lbhash.training.train``, which a method without a network does not need.
        """
        check_packages("fit", "train", *TRAINING)
        from lbhash.training.fit import fit_split

        found = fit_split(self, split, classes, known_confusion=known_confusion, **training)
        self.method_, self.model_, self.trained_ = found.method, found.model, found.trained
        self.choice_ = found.choice
        self._folder, self._backbone = None, found.backbone
        self.classes_ = np.arange(classes)
        self.centers_: Any = found.centers
        self.train_codes_ = self.encode_split(found.split)
        _warn(split, self.train_codes_)
        self.train_labels_: Any = found.split.labels
        self.n_features_in_ = self.model_.dim
        return self

    @property
    def name(self) -> str:
        """The method with its pull: ``csq``, the paper's ``csq_d``, or ``csq+bits``."""
        from lbhash.training.coders import coder_of
        from lbhash.training.defaults import full_name, pull_of

        if hasattr(self, "model_"):
            return full_name(self.method_, self.model_.metadata.get("pull"))
        method = self.method or METHOD
        return full_name(method, None if coder_of(method) else pull_of(self.checked()))

    def encode(self, X: npt.ArrayLike | Iterable[Image | bytes | str | Path]) -> PackedCodes:
        """Return the codes of embeddings ``[n, dim]``, of images or of texts: ``uint8 [n, ceil(bits / 8)]``.

        Images are a list, or an iterator that is taken as it is needed, of paths, PIL images or bytes of image files.
        They take the backbone that the model was trained with (``backbone_``). A model that was trained on texts takes
        a list, an iterator or a column of these.
        """
        self._check_fitted()
        items = _items(X, columns="backbone" in self.model_.metadata)
        if items is not None:
            none = np.empty((0, code_bytes(self.model_.bits)), np.uint8)
            return np.concatenate([none, *map(self.model_.encode, self.backbone_.embed_batches(items))])
        return self.model_.encode(self._rows(X))

    def encode_split(self, split: Split) -> PackedCodes:
        """Return the codes of a split of a data set, ``uint8 [n, ceil(bits / 8)]``, with the memory of a chunk."""
        self._check_fitted()
        backbone = self.backbone_ if split.needs_backbone else None
        dim = split.input_dim(backbone)
        if dim != self.model_.dim:
            raise ValueError(f"embeddings have {dim} numbers a row; the model takes {self.model_.dim}")
        none = np.empty((0, code_bytes(self.model_.bits)), np.uint8)
        bar = ""
        if self.progress:
            from lbhash.training.distributed import is_main_process

            bar = "encoding" if is_main_process() else ""
        chunks = split.chunks(backbone, workers=self.workers, progress=bar)
        return np.concatenate([none, *map(self.model_.encode, chunks)])

    def transform(self, X: npt.ArrayLike) -> Any:
        """Return the codes of embeddings ``[n, dim]`` as features for the next step: ``int8 [n, bits]`` of ±1."""
        features = unpack(self.encode(X), self.model_.bits)
        if "sklearn" not in sys.modules:
            return features
        from sklearn.utils._set_output import _wrap_data_with_container

        return _wrap_data_with_container("transform", features, X, self)  # as ``set_output`` wants them

    def predict(self, X: npt.ArrayLike, k: int = 100) -> npt.NDArray:
        """Return labels ``[n]`` by a vote of the k nearest training codes (single-label only)."""
        from lbhash.evaluation.recognition import knn_predict  # Numba takes its time, and encoding has no use for it

        codes = self.encode(X)
        held, labels = self._labeled_memory("predict")
        return self.classes_[knn_predict(codes, held, labels, k=min(check_int(k, "k", 1), len(held)))]

    def score(self, X: npt.ArrayLike, y: npt.ArrayLike) -> float:
        """Return the mAP of ``X`` as queries, with the training rows as base, in expectation over ties."""
        from lbhash.evaluation.report import evaluate

        codes = self.encode(X)
        held, held_labels = self._labeled_memory("score")
        labels = _positions(y, self.classes_, held_labels)
        check_same_rows(labels, "y", codes, "X")
        known = rows_with_label(labels, "rows of X")
        return evaluate(codes[known], labels[known], held, held_labels).map

    @property
    def backbone_(self) -> Any:
        """The backbone that turns images, or the encoder that turns texts, into the embeddings that the model takes.

        Raises:
            NoBackboneError: the model knows none, or it cannot be loaded, or it is not the one of the training.
        """
        self._check_fitted()
        if self._backbone is None:
            from lbhash.models.backbone_files import load_backbone

            try:
                self._backbone = load_backbone(self.model_, self._folder, device=self.device)
            except ValueError as error:
                raise NoBackboneError(str(error)) from None
        return self._backbone

    def save_pretrained(self, directory: str | Path) -> None:
        """Write the model folder: safetensors, JSON and a model card; the training rows' codes stay out.

        A backbone that was fine-tuned goes with it, in the folder ``backbone``, which is one of ``transformers`` like
        any other. A folder with files of their names that belong to no model of lbhash is refused (``ValueError``).
        """
        from lbhash.models.backbone_files import drop_backbone, save_backbone
        from lbhash.models.folder import check_replaces_ours

        self._check_fitted()
        check_folder(directory, "directory")
        check_replaces_ours(directory, "directory")
        self.model_.metadata["classes"] = self.classes_.tolist()
        if self.model_.has_tuned_backbone:
            save_backbone(self.backbone_, directory)
        else:
            drop_backbone(directory)
        self.model_.save(directory)
        (Path(directory) / "metrics.json").unlink(missing_ok=True)  # of the model that a training had left there

    def push_to_hub(self, repo_id: str, *, private: bool | None = None, token: str | None = None) -> str:
        """Upload the model folder, with its backbone where it has one, to a repository of the Hub; return its address.

        Args:
            repo_id: ``user/name``; made where there is none.
            private: whether a new repository is.
            token: of the Hub. If None, the one that the machine is logged in with.
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
        of one's own the model stores ``module:Class``, which ``fit`` imports again, and if the class cannot be
        imported only its name, which ``fit`` does not take.
        """
        model = load_encoder(directory, hub=True)
        known = {one.name: model.metadata[one.name] for one in arguments(stored=True) if one.name in model.metadata}
        if isinstance(known.get("augment"), dict):
            from lbhash.training.images import Augmentation

            known["augment"] = Augmentation(**{**known["augment"], "crop": tuple(known["augment"]["crop"])})
        layout = model.layout
        if model.metadata.get("coder"):  # which has no network, so that these are no settings of it
            known = {name: value for name, value in known.items() if name not in ("head", "pull")}
        else:
            known |= {"hidden": layout.hidden, "dropout": layout.dropout}
        hasher = cls(bits=layout.bits, **known)
        hasher.model_, hasher._folder, hasher._backbone = model, str(directory), None
        hasher.classes_ = class_array(model.metadata.get("classes", []))
        hasher.method_, hasher.n_features_in_ = hasher.method, model.dim
        return hasher

    def _labeled_memory(self, what: str) -> tuple[PackedCodes, npt.NDArray]:
        """Return codes and labels of the training rows that have a label."""
        if not hasattr(self, "train_codes_"):
            raise ValueError(f"{what} needs the training rows' codes, which a loaded model does not have; use evaluate")
        if self.train_labels_ is None:
            raise ValueError(f"{what} needs labels of the training rows, and the hasher was fitted without any")
        known = has_label(self.train_labels_)
        return self.train_codes_[known], self.train_labels_[known]

    def _check_fitted(self) -> None:
        """Raise scikit-learn's ``NotFittedError``, where it is there, of a hasher that was not fitted."""
        if not hasattr(self, "model_"):
            told = "this Hasher is not fitted yet; call fit, or load a model with from_pretrained"
            if "sklearn" not in sys.modules:
                raise ValueError(told)
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(told)

    # What scikit-learn asks of an estimator.

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by their names."""
        return {name: getattr(self, name) for name in sorted(one.name for one in arguments())}

    def set_params(self, **params: Any) -> Hasher:
        """Change settings; ``ValueError`` if there is none of a name."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ValueError(_no_setting(name))
            setattr(self, name, value)
        return self

    def fit_transform(self, X: npt.ArrayLike, y: npt.ArrayLike | None = None) -> Any:
        """Fit, and return ``transform`` of the same rows."""
        return self.fit(X, y).transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray:
        """Return the names of the columns that ``transform`` returns: ``hasher0``, ``hasher1`` …"""
        self._check_fitted()
        return np.array([f"hasher{bit}" for bit in range(self.model_.bits)], dtype=object)

    def set_output(self, *, transform: str | None = None) -> Hasher:
        """Let ``transform`` return an array ("default"), or a table of "pandas" or "polars"."""
        from sklearn.base import TransformerMixin

        check_choice(transform, "transform", [None, "default", "pandas", "polars"])
        return TransformerMixin.set_output(self, transform=transform)

    def __repr__(self) -> str:
        said = (f"{one.name}={getattr(self, one.name)!r}" for one in arguments() if self._is_given(one))
        return f"Hasher({', '.join(said)})"

    def _is_given(self, one: Any) -> bool:
        value = getattr(self, one.name)
        return value is not one.default and repr(value) != repr(one.default)

    def _repr_html_(self) -> str | None:
        """Return scikit-learn's table of the settings, in a notebook that has loaded it."""
        if "sklearn" not in sys.modules:
            return None
        from sklearn.utils import estimator_html_repr

        return estimator_html_repr(self)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False, multi_output=True),
            transformer_tags=TransformerTags(preserves_dtype=[]),  # codes are int8 whatever comes in
        )


if Hasher.__doc__:  # Python leaves docstrings out where it is asked to
    Hasher.__doc__ = Hasher.__doc__.replace(" " * 8 + "ARGUMENTS", described())


def _warn(split: Split, codes: PackedCodes) -> None:
    """Say on standard error what is odd about training rows and their codes: rows of zeros, one code for all."""
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


def _matrix(X: Any) -> Any:
    """Return embeddings as an array, or a table as it is; ``ValueError`` if they are not ``[n, dim]`` or are masked."""
    if X is None or isinstance(X, (str, bytes, dict, set)) or np.isscalar(X):
        raise ValueError(f"X is {X!r}; it must be embeddings [n, dim], or a list of images or texts")
    if hasattr(X, "toarray"):
        raise TypeError("X is sparse; it must be dense: X.toarray()")
    X = as_matrix(X, "X")
    check_unmasked(X, "X")
    X = np.asarray(X) if isinstance(X, (list, tuple)) else X
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":
        raise ValueError(f"Complex data not supported: X holds {X.dtype}, and must hold real numbers")
    if getattr(X, "ndim", 2) == 1:  # scikit-learn would print all of it
        what = f"X has the shape {X.shape}, and must have rows, [n, dim]"
        raise ValueError(f"{what}. Reshape your data: of one row, X.reshape(1, -1)")
    for axis, what in enumerate(("sample", "feature")):  # the words are those that scikit-learn's checks look for
        if getattr(X, "shape", (1, 1))[axis] == 0:
            shape = tuple(map(int, X.shape))
            raise ValueError(f"X is empty: 0 {what}(s) (shape={shape}) while a minimum of 1 is required, [n, dim]")
    return _numbers(X) if getattr(getattr(X, "dtype", None), "kind", "") == "O" else X


def _numbers(X: npt.NDArray) -> npt.NDArray[np.float64]:
    """Return the numbers of an array of objects; ``TypeError`` names the first row with something else."""
    try:
        return X.astype(np.float64)
    except (TypeError, ValueError):
        for (row, *_), item in np.ndenumerate(X):
            try:
                float(item)
            except (TypeError, ValueError):
                said = f"X has {item!r} in row {row}; each value of this argument must be a number"
                raise TypeError(f"{said}, or a string of a number") from None
        raise


def _no_setting(name: str) -> str:
    hint = did_you_mean(name, [one.name for one in arguments()])
    return f"{name!r} is no setting of a Hasher{hint or '; help(Hasher) lists them'}"


def load_hasher(model: str | Path) -> Hasher:
    """Load the hasher of a folder that ``train_model`` wrote."""
    return Hasher.from_pretrained(check_model_folder(model))


def _check_images(images: Any) -> list[Any]:
    """Return images as a list; ``TypeError`` unless they are PIL images, or paths or bytes of image files."""
    what = "a table of images, or a list of PIL images, or of paths or bytes of image files"
    found = _listed(images)
    if isinstance(found, (str, bytes)) or not isinstance(found, Sequence):
        raise TypeError(f"images is {shown(images)}; it must be {what}")
    for row, image in enumerate(found):
        if _items([image]) is None:
            raise TypeError(f"images has {shown(image)} in row {row}; it must be {what}")
    return list(found)


def _listed(X: Any) -> Any:
    """Return a column of texts, paths or other objects as a list; what holds numbers, or several columns, as it is."""
    if getattr(getattr(X, "dtype", None), "kind", "O") not in "OUT" or len(getattr(X, "shape", ())) > 1:
        return X
    convert = next((name for name in ("tolist", "to_list", "to_pylist") if hasattr(X, name)), None)
    return X if convert is None else getattr(X, convert)()


def _items(X: Any, *, columns: bool = False) -> Iterator[Any] | None:
    """Return the images or texts that ``X`` holds, or None if it holds embeddings; an iterator holds no embeddings.

    They may be in ``columns``, arrays among them, if the model takes such.
    """
    if isinstance(X, Iterator):
        return X
    X = _listed(X) if columns else X
    if not isinstance(X, (list, tuple)) or not X:
        return None
    pil = sys.modules.get("PIL.Image")  # without it there is no PIL image
    kinds = (str, os.PathLike, bytes, bytearray, memoryview, *((pil.Image,) if pil is not None else ()))
    return iter(X) if isinstance(X[0], kinds) else None


def _positions(y: Any, classes: npt.NDArray, held: npt.NDArray) -> npt.NDArray:
    """Return labels as those of the training rows, ``held``, are: positions in ``classes``, or a column for each."""
    labels = read_labels(y, "y")
    if labels.numbers.ndim != held.ndim:
        kinds = {1: "one label a row", 2: "several labels a row"}
        raise ValueError(f"y has {kinds[labels.numbers.ndim]}, and the training rows have {kinds[held.ndim]}")
    known = classes.tolist()
    if held.ndim == 2 and isinstance(labels.classes, range):  # the columns of a matrix
        if len(labels.classes) != len(known):
            raise ValueError(f"y has {len(labels.classes)} columns; it must have {len(known)}, as in the training")
        return labels.numbers
    if unknown := set(labels.classes) - set(known):
        raise ValueError(f"y holds the label {min(unknown)!r}, which was not in the training rows")
    return labels.ordered(known).numbers
