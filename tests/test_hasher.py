from __future__ import annotations

import pickle
import re
import typing
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from lbhash import Hasher, TrainingArguments, evaluate
from lbhash.codes import pack, unpack
from lbhash.data.split import EmbeddingSplit
from lbhash.hasher import encode_split, fit_split, name_of
from lbhash.losses import Objective
from lbhash.losses.csq import CSQ
from lbhash.losses.registry import METHODS
from lbhash.training.settings import grouped, side_by_side
from lbhash.utils.labels import UNLABELED

SMALL = {"bits": 12, "head": "bits", "hidden": 16, "epochs": 2, "batch_size": 32, "dropout": 0.1, "lr": 0.01}


NOT_PASSED = {
    "check_classifier_multioutput": "predict gives one label a row; codes of several are for score and search"
}


@parametrize_with_checks(
    [Hasher(bits=8, epochs=1, training=TrainingArguments(hidden=8))], expected_failed_checks=lambda _: NOT_PASSED
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


# -------------------------------------------------------------------------------------------------------- learning


@pytest.mark.parametrize("pull", ["surrogate", "none"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_and_is_loaded_as_it_was_saved(blobs, tmp_path, method, pull):
    hasher = Hasher(**grouped(method=method, pull=pull, **{**SMALL, "epochs": 16}))
    assert hasher.fit(blobs.x, blobs.y) is hasher
    codes = hasher.encode(blobs.query_x)
    assert (codes.dtype, codes.shape) == (np.uint8, (40, 2))
    assert not (codes[:, 1] & 0x0F).any()
    asked = hasher.outputs(blobs.query_x)
    found = evaluate(codes, blobs.query_y, hasher.train_codes_, blobs.y, query_outputs=asked)
    assert hasher.score(blobs.query_x, blobs.query_y) == pytest.approx(found.map)
    expected = found.map
    weak = method == "mihash" and pull == "none"  # it may put two of the four classes onto one code
    assert expected > (0.4 if weak else 0.6)  # of random codes: 0.25
    np.testing.assert_array_equal(hasher.train_codes_, hasher.encode(blobs.x))
    np.testing.assert_array_equal(hasher.transform(blobs.query_x), unpack(codes, 12))
    assert (hasher.predict(blobs.query_x, k=20) == blobs.query_y).mean() > (0.4 if weak else 0.7)
    assert hasher.centers_.shape == (4, 12)
    assert name_of(hasher) == (f"{method}_d" if pull == "surrogate" else method)
    hasher.save_pretrained(tmp_path)
    loaded = Hasher.from_pretrained(tmp_path)
    np.testing.assert_array_equal(loaded.encode(blobs.query_x), codes)
    found, saved = loaded.model_.weights, hasher.model_.weights
    assert found.keys() == saved.keys()
    assert ("classifier.weight" in found) == (method in ("dsdh", "greedyhash", "jmlh"))
    assert all(np.array_equal(weight, saved[name]) for name, weight in found.items())
    assert (name_of(loaded), loaded.pull, loaded.classes_.tolist()) == (name_of(hasher), pull, [0, 1, 2, 3])


@pytest.mark.parametrize("method", ["dpsh", "qsmi"])
def test_pairs_of_many_classes_are_told_apart(method):
    """Most pairs are dissimilar, and what they do to the rows together must not swing, nor the bits be pulled to ±1."""
    x, y = load_digits(return_X_y=True)
    hasher = Hasher(
        64, method=method, pull="none", epochs=5, training=TrainingArguments(hidden=256, batch_size=32)
    ).fit(x[:600], y[:600])
    assert hasher.score(x[600:800], y[600:800]) > 0.5


@pytest.mark.parametrize("pull", ["surrogate", "none"])
@pytest.mark.parametrize("method", ["csq", "dsdh", "hyp2", "talr"])  # the losses of all are tested by themselves
def test_every_kind_of_method_takes_several_labels_a_row_and_none(blobs, method, pull):
    hot = blobs.hot.copy()
    hot[:40] = 0
    hasher = Hasher(**grouped(method=method, pull=pull, **{**SMALL, "epochs": 1, "batch_size": 4})).fit(
        blobs.x[:80], hot[:80]
    )
    assert hasher.classes_.tolist() == [0, 1, 2, 3]
    assert np.isfinite(hasher.model_.outputs(blobs.query_x)).all()
    assert 0 < hasher.score(blobs.query_x, blobs.query_hot) <= 1
    with pytest.raises(ValueError, match="predict gives one label a row"):
        hasher.predict(blobs.query_x)


def test_the_guidance_and_the_method_count(blobs):
    made = [
        Hasher(**grouped(**SMALL, **more)).fit(blobs.x, blobs.y).model_.fingerprint()
        for more in (
            {},
            {"pull": "surrogate"},
            {"method": "dch"},
            {"guidance": {"mode": "replace"}},
            {"guidance": {"noise": 0.5}},
            {"options": {"lam": 0.3}},
            {"centers": "random"},
        )
    ]
    assert len(set(made)) == len(made)


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64, np.int64])
def test_number_types(blobs, dtype):
    x = (blobs.x * 10 + 100).clip(0, 250).astype(np.uint8).astype(dtype)
    hasher = Hasher(**grouped(**SMALL)).fit(x, blobs.y)
    np.testing.assert_array_equal(hasher.encode(x), hasher.train_codes_)
    reference = Hasher(**grouped(**SMALL)).fit(x.astype(np.float32), blobs.y)
    np.testing.assert_array_equal(hasher.train_codes_, reference.train_codes_)


def test_string_labels(blobs):
    names = np.array(["cat", "ant", "dog", "bee"])
    hasher = Hasher(**grouped(**SMALL)).fit(blobs.x, names[blobs.y])
    assert hasher.classes_.tolist() == ["ant", "bee", "cat", "dog"]
    found = hasher.predict(blobs.query_x, k=20)
    assert found.dtype == object  # a text is as long as it is, and makes no other longer
    assert (found == names[blobs.query_y]).mean() > 0.6
    with pytest.raises(ValueError, match="y holds the label 'eel', which was not in the training rows"):
        hasher.score(blobs.query_x, ["eel"] * 40)


def test_class_names_in_any_order(blobs):
    names = np.array(["dog", "ant", "cat", "bee"])
    hasher = Hasher(**grouped(**SMALL)).fit(blobs.x, blobs.y)
    by_number = hasher.score(blobs.query_x, blobs.query_y)
    hasher.classes_ = names  # as tune leaves those of a data set
    assert hasher.score(blobs.query_x, names[blobs.query_y]) == by_number


def test_sparse_multi_hot_labels(blobs):
    dense = Hasher(**grouped(**SMALL)).fit(blobs.x, blobs.hot)
    for form in (scipy.sparse.csr_matrix, scipy.sparse.csc_array):
        sparse = Hasher(**grouped(**SMALL)).fit(blobs.x, form(blobs.hot))
        np.testing.assert_array_equal(sparse.train_codes_, dense.train_codes_)
        assert sparse.score(blobs.query_x, form(blobs.query_hot)) == dense.score(blobs.query_x, blobs.query_hot)


# ------------------------------------------------------------------------------------------------------- parts


def test_parts_that_cannot_be_learned_from(blobs):
    def part(labels, n=160):
        return EmbeddingSplit(blobs.x, np.arange(n), labels)

    for given, classes, message in (
        (
            part(None),
            4,
            "epochs is 2 and there are no labels, and methods that need none have their own settings",
        ),
        (part(blobs.y), 3, r"labels of split is 3 in row \d+; with classes 3 it must be from 0 to 2"),
        (
            part(blobs.hot),
            5,
            r"labels of split holds uint8 \[160, 4\]; it must be class numbers \[n\], or a matrix \[n, 5\] of 0 and 1",
        ),
        (part(blobs.y[:7]), 4, "labels of split has 7 rows and split has 160"),
        (part(blobs.y[:0], 0), 4, "split is empty; it must have at least one row"),
        (part(blobs.y), 0, "classes is 0; it must be at least 1"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            fit_split(Hasher(**grouped(**SMALL)), given, classes)


# --------------------------------------------------------------------------------------------------- scikit-learn


def test_codes_of_no_row(blobs):
    hasher = Hasher(**grouped(**SMALL)).fit(blobs.x, blobs.y)
    codes = encode_split(hasher, EmbeddingSplit(blobs.x, np.arange(0), None))
    assert (codes.dtype, codes.shape) == (np.uint8, (0, 2))


def test_pipeline(blobs):
    pipeline = make_pipeline(StandardScaler(), Hasher(**grouped(**{**SMALL, "epochs": 16})), KNeighborsClassifier(5))
    pipeline.fit(blobs.x.astype(np.float64), blobs.y)
    assert pipeline.score(blobs.query_x.astype(np.float64), blobs.query_y) > 0.7
    ends_in_codes = make_pipeline(StandardScaler(), Hasher(**grouped(**SMALL))).fit(blobs.x, blobs.y)
    assert 0.25 < ends_in_codes.score(blobs.query_x, blobs.query_y) <= 1


def test_grid_search(blobs, tmp_path):
    grid = {"bits": np.array([2, 12]), "method": ["csq", "dsdh"], "seed": np.arange(1)}
    search = GridSearchCV(Hasher(**grouped(**{**SMALL, "epochs": 4})), grid, cv=2, error_score="raise").fit(
        blobs.x, blobs.y
    )
    scores = search.cv_results_["mean_test_score"]
    assert len(set(scores)) > 2
    assert search.best_score_ == scores.max() > 0.35  # of random codes: 0.25
    assert search.best_params_ == search.cv_results_["params"][int(scores.argmax())]
    assert search.best_estimator_.transform(blobs.query_x).shape == (40, search.best_params_["bits"])
    search.best_estimator_.save_pretrained(tmp_path)
    assert Hasher.from_pretrained(tmp_path).seed == 0


def test_clone_and_pickle(blobs):
    hasher = Hasher(**grouped(method="dch", options={"gamma": 3.0}, **SMALL)).fit(blobs.x, blobs.y)
    copy = clone(hasher)
    assert copy.get_params() == hasher.get_params()
    with pytest.raises(NotFittedError):
        copy.encode(blobs.query_x)
    np.testing.assert_array_equal(copy.fit(blobs.x, blobs.y).train_codes_, hasher.train_codes_)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(hasher)).encode(blobs.x), hasher.train_codes_)


@pytest.mark.parametrize("labels", [True, False])
def test_grid_search_with_and_without_labels(blobs, labels):
    given = (blobs.x, blobs.y) if labels else (blobs.x,)
    hasher = Hasher() if labels else Hasher(method="itq")
    grid = {"bits": [2, 8]}
    if labels:
        hasher = Hasher(epochs=2, head="bits", training=TrainingArguments(hidden=0))
        grid = grid | {"training__lr": [1e-6, 0.01]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search = GridSearchCV(hasher, grid, cv=2, error_score="raise").fit(*given)
    assert search.best_params_["bits"] == 8
    assert search.best_score_ == max(search.cv_results_["mean_test_score"]) > min(search.cv_results_["mean_test_score"])
    if labels:
        assert search.best_params_["training__lr"] == search.best_estimator_.training.lr == 0.01


def test_folds_are_stratified(blobs):
    seen = []

    class Watched(Hasher):
        def fit(self, X, y=None):
            seen.append(np.bincount(y).tolist())
            return super().fit(X, y)

    order = np.argsort(blobs.y, kind="stable")
    scores = cross_val_score(Watched(8, method="ridge"), blobs.x[order], blobs.y[order], cv=4, error_score="raise")
    assert seen == [[30] * 4] * 4
    assert scores.min() > 0.5


def test_a_grid_over_methods(blobs):
    grid = {"method": ["csq", "itq", "lsh"], "bits": [8]}
    search = GridSearchCV(Hasher(), grid, cv=2, error_score="raise").fit(blobs.x, blobs.y)
    assert len(search.cv_results_["params"]) == 3
    with pytest.raises(ValueError, match=r"^epochs is 2 and the method is 'itq', which has its own settings"):
        GridSearchCV(Hasher(epochs=2), grid, cv=2, error_score="raise").fit(blobs.x, blobs.y)


def test_tables_in_and_out(blobs):
    hasher = Hasher(8, method="ridge").fit(blobs.x, blobs.y)
    codes, queries = hasher.encode(blobs.query_x), blobs.query_x.tolist()
    for frame in (pd.DataFrame, pl.DataFrame, pa.table):
        table = frame({"embedding": blobs.x.tolist(), "label": blobs.y.tolist(), "price": [1.0] * len(blobs.y)})
        asked = frame({"embedding": queries, "label": blobs.query_y.tolist()})
        fitted = Hasher(8, method="ridge").fit(table)
        np.testing.assert_array_equal(fitted.train_codes_, hasher.train_codes_)
        np.testing.assert_array_equal(fitted.encode(asked), codes)
        np.testing.assert_array_equal(fitted.predict(asked), hasher.predict(blobs.query_x))
        np.testing.assert_array_equal(fitted.kneighbors(asked, 3)[1], hasher.kneighbors(blobs.query_x, 3)[1])
        assert fitted.score(asked) == hasher.score(blobs.query_x, blobs.query_y)
        swapped = Hasher(8, method="ridge").fit(table, blobs.y[::-1])  # what is given counts
        assert (swapped.train_labels_ == blobs.y[::-1]).all()
    for name, frame in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        found = clone(hasher).set_output(transform=name).fit(blobs.x, blobs.y).transform(blobs.query_x)
        assert isinstance(found, frame)
        assert list(found.columns) == [f"hasher{bit}" for bit in range(8)]
        np.testing.assert_array_equal(np.asarray(found), unpack(codes, 8))


# ----------------------------------------------------------------------------------------------- outputs, neighbors


@pytest.mark.parametrize(
    "settings", [{"method": "itq"}, {"method": "csq", "epochs": 2}, {"head": "joined", "epochs": 2}]
)
def test_outputs_and_the_nearest_training_rows(blobs, settings):
    hasher = Hasher(**grouped(bits=11, **settings)).fit(blobs.x, blobs.y)
    outputs = hasher.outputs(blobs.query_x)
    assert (outputs.dtype, outputs.shape) == (np.float32, (40, 11))
    np.testing.assert_array_equal(pack(outputs), hasher.encode(blobs.query_x))
    if settings["method" if "method" in settings else "head"] == "csq":
        assert np.abs(outputs).max() < 1
    distances, rows = hasher.kneighbors(blobs.query_x, 7)
    assert (distances.dtype, distances.shape, rows.dtype) == (np.float32, (40, 7), np.int64)
    signs = unpack(hasher.train_codes_, 11)
    for query in range(40):
        wrong = np.where(signs != np.where(outputs[query] >= 0, 1, -1), np.abs(outputs[query]), 0).sum(axis=1)
        np.testing.assert_allclose(distances[query], np.sort(wrong)[:7], atol=1e-5)
        np.testing.assert_allclose(wrong[rows[query]], distances[query], atol=1e-5)
    own = hasher.kneighbors(blobs.x, 1)
    np.testing.assert_array_equal(hasher.train_codes_[own[1][:, 0]], hasher.train_codes_)
    assert (own[0] >= 0).all()
    assert own[0].max() < 1e-5
    with pytest.raises(ValueError, match=r"^k is 161; it must be from 1 to the training rows \(160\)"):
        hasher.kneighbors(blobs.query_x, 161)


def test_few_rows_vote_if_nobody_says():
    x, y = load_digits(return_X_y=True)
    few = np.concatenate([np.flatnonzero(y == one)[:15] for one in range(10)])
    rest = np.setdiff1d(np.arange(len(y)), few)[:400]
    hasher = Hasher(16, method="itq").fit(x[few], y[few])
    np.testing.assert_array_equal(hasher.predict(x[rest]), hasher.predict(x[rest], k=5))
    assert (hasher.predict(x[rest]) == y[rest]).mean() > (hasher.predict(x[rest], k=100) == y[rest]).mean() + 0.1
    fewer = np.delete(few, np.arange(12))  # three rows of the first class are left
    hasher.fit(x[fewer], y[fewer])
    np.testing.assert_array_equal(hasher.predict(x[rest]), hasher.predict(x[rest], k=3))


def test_score_without_labels_is_the_recall_of_neighbors(blobs):
    x = np.vstack([blobs.query_x, blobs.query_x[:3]])  # some rows are there twice
    hasher = Hasher(8, method="itq").fit(blobs.x)
    codes, outputs = unpack(hasher.encode(x), 8), hasher.outputs(x)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    recalls = []
    for row in range(len(x)):
        others = np.delete(np.arange(len(x)), row)
        nearest = others[np.argsort(-(unit[others] @ unit[row]), kind="stable")[:10]]
        distances = (codes[others] != codes[row]) @ np.abs(outputs[row]).astype(float)
        last = np.sort(distances)[9]
        share = (10 - (distances < last).sum()) / (distances == last).sum()
        wanted = (codes[nearest] != codes[row]) @ np.abs(outputs[row]).astype(float)
        recalls.append(((wanted < last).sum() + share * (wanted == last).sum()) / 10)
    assert hasher.score(x) == pytest.approx(np.mean(recalls), abs=1e-6)
    assert 0 < hasher.score(x[:4]) <= 1
    with pytest.raises(ValueError, match=r"^X is empty; it must have at least one row besides the first"):
        hasher.score(x[:1])


# ------------------------------------------------------------------------------------------- what one types, and sees


def test_one_row_is_refused_with_the_right_shape(blobs):
    hasher = Hasher(8, method="itq").fit(blobs.x)
    for call in (hasher.encode, hasher.outputs, hasher.transform, hasher.kneighbors, hasher.score):
        with pytest.raises(ValueError, match=r"X\.reshape\(1, -1\)$"):
            call(blobs.x[0])
    assert hasher.encode(blobs.x[:1]).shape == (1, 1)


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("save", "save_pretrained"),
        ("load", "from_pretrained"),
        ("fit_images", "fit"),
        ("decision_function", "outputs"),
        ("lr", "training=TrainingArguments(lr=…)"),
        ("random_state", "seed"),
    ],
)
def test_a_guessed_attribute_names_the_right_one(name, right):
    for owner in (Hasher, Hasher()):
        assert not hasattr(owner, name)
        with pytest.raises(
            AttributeError, match=rf"^'{name}' is no attribute of Hasher; did you mean {re.escape(right)}\?$"
        ):
            getattr(owner, name)


@pytest.mark.parametrize(
    ("method", "name", "right"),
    [
        ("kneighbors", "n_neighbors", "k"),
        ("kneighbors", "return_distance", "kneighbors(X, k)[1]"),
        ("predict", "n_neighbors", "k"),
        ("encode", "batch_size", "encode(X)"),
        ("encode", "show_progress_bar", "Hasher(progress=True)"),
    ],
)
def test_a_guessed_argument_names_the_right_one(blobs, method, name, right):
    hasher = Hasher(8, method="itq").fit(blobs.x, blobs.y)
    with pytest.raises(TypeError) as raised:
        getattr(hasher, method)(blobs.x, **{name: 3})
    assert str(raised.value) == f"'{name}' is no argument of {method}; did you mean {right}?"


def test_hints_can_be_read():
    for name in vars(Hasher):
        if callable(getattr(Hasher, name)):
            assert typing.get_type_hints(getattr(Hasher, name)) is not None
    assert typing.get_type_hints(Hasher.__init__)["training"] == TrainingArguments | None
    assert typing.get_type_hints(TrainingArguments)["lr"] == float | None
    assert typing.get_type_hints(evaluate)["top_k"] == int | None


def test_repr_fits_in_five_lines():
    assert repr(Hasher()) == "Hasher()"
    text = repr(Hasher(16, method="dch", options={str(one): one for one in range(200)}))
    assert text.startswith("Hasher(bits=16, method='dch', options={'0': 0")
    assert len(text.splitlines()) == 5
    assert max(map(len, text.splitlines())) <= 100
    assert repr(Hasher(training=TrainingArguments(lr=0.1))) == "Hasher(training=TrainingArguments(lr=0.1))"


# ------------------------------------------------------------------------------------------------- saved and loaded


def test_saving_keeps_codes_and_parameters(blobs, tmp_path):
    settings = {**SMALL, "method": "dsdh", "pull": "none", "seed": 9, "centers": "random", "options": {"mu": 2.0}}
    settings["recipe"] = "paper"
    hasher = Hasher(**grouped(**settings)).fit(blobs.x, blobs.y)
    hasher.save_pretrained(tmp_path / "model")
    loaded = Hasher.from_pretrained(tmp_path / "model")
    of_recipe = {"schedule": "step", "head": "bits"}
    assert vars(side_by_side(loaded)) == vars(side_by_side(hasher)) | of_recipe
    np.testing.assert_array_equal(loaded.encode(blobs.query_x), hasher.encode(blobs.query_x))
    assert loaded.classes_.tolist() == [0, 1, 2, 3]
    assert (loaded.n_features_in_, loaded.method_) == (12, "dsdh")
    np.testing.assert_array_equal(clone(loaded).fit(blobs.x, blobs.y).train_codes_, hasher.train_codes_)
    why = "needs the training rows, which a loaded model does not have; fit it here, or put codes into an Index"
    for what in ("predict", "kneighbors", "centers_", "trained_", "choice_", "train_codes_"):
        assert hasattr(hasher, what)
        assert not hasattr(loaded, what)
        with pytest.raises(AttributeError, match=f"^{what} {why}"):
            getattr(loaded, what)
    with pytest.raises(ValueError, match=f"^score with labels {why}"):
        loaded.score(blobs.query_x, blobs.query_y)
    assert loaded.score(blobs.query_x) == hasher.score(blobs.query_x)
    assert hasattr(clone(loaded).fit(blobs.x, blobs.y), "predict")
    loaded.save_pretrained(tmp_path / "again")
    np.testing.assert_array_equal(
        Hasher.from_pretrained(tmp_path / "again").encode(blobs.query_x), hasher.encode(blobs.query_x)
    )


def test_a_method_of_ones_own_is_loaded_under_its_name(blobs, tmp_path):
    class Mine(CSQ):
        pass

    hasher = Hasher(**grouped(**SMALL, method=Mine)).fit(blobs.x, blobs.y)
    hasher.save_pretrained(tmp_path)
    loaded = Hasher.from_pretrained(tmp_path)
    assert (name_of(hasher), loaded.method, name_of(loaded)) == ("mine", "mine", "mine")
    np.testing.assert_array_equal(loaded.encode(blobs.query_x), hasher.encode(blobs.query_x))
    with pytest.raises(ValueError, match=f"^method is 'mine'; it must be one of {', '.join(METHODS)}"):
        loaded.fit(blobs.x, blobs.y)


# ------------------------------------------------------------------------------------------------------ bad input


def test_bad_rows(blobs):
    hasher = Hasher(**grouped(**SMALL)).fit(blobs.x, blobs.y)
    with pytest.raises(ValueError, match="X has 5 features, but Hasher is expecting 12 features"):
        hasher.encode(blobs.x[:, :5])
    huge = blobs.x.astype(np.float64)
    huge[7, 2] = 1e39
    for call in (lambda: hasher.encode(huge), lambda: Hasher(**grouped(**SMALL)).fit(huge, blobs.y)):
        with pytest.raises(ValueError, match=r"^X is beyond the range of float32 in row 7"):
            call()


class Rows(Objective):
    def __init__(self, task):
        super().__init__()

    def forward(self, logits, labels, index):
        return logits.square().mean(dim=1)


class Detached(Rows):
    def forward(self, logits, labels, index):
        return logits.detach().square().mean()


@pytest.mark.parametrize("pull", ["surrogate", "none"])
@pytest.mark.parametrize("unlabeled", [0, 20])
@pytest.mark.parametrize(
    ("method", "error", "message"),
    [
        (Rows, TypeError, r"method Rows returned a tensor of shape \[\d+\]; its loss must be a scalar tensor"),
        (Detached, ValueError, "method Detached returned a loss without a gradient"),
    ],
)
def test_methods_of_ones_own_that_are_none(blobs, method, error, message, unlabeled, pull):
    labels = np.where(np.arange(len(blobs.y)) < unlabeled, UNLABELED, blobs.y)
    split = EmbeddingSplit(blobs.x, np.arange(len(blobs.y)), labels)
    with pytest.raises(error, match=message):
        fit_split(Hasher(bits=8, method=method, pull=pull, epochs=1, training=TrainingArguments(hidden=0)), split, 4)


def test_trainings_in_threads_do_not_share_random_numbers():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(120, 12)).astype(np.float32), np.arange(120) % 4
    options = {"bits": 16, "epochs": 2, "training": TrainingArguments(hidden=32)}
    alone = [Hasher(**options, seed=seed).fit(x, y).train_codes_ for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = pool.map(lambda seed: Hasher(**options, seed=seed).fit(x, y).train_codes_, range(4))
    for here, there in zip(alone, together, strict=True):
        np.testing.assert_array_equal(here, there)
