from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from lbhash import Hasher, evaluate
from lbhash.codes import unpack
from lbhash.data import EmbeddingSplit
from lbhash.losses import CSQ, METHODS, Objective
from lbhash.utils.labels import UNLABELED

SMALL = {"bits": 12, "hidden": 16, "epochs": 2, "batch_size": 32, "dropout": 0.1, "lr": 0.01}


@parametrize_with_checks([Hasher(bits=8, hidden=8, epochs=1)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


# -------------------------------------------------------------------------------------------------------- learning


@pytest.mark.parametrize("pull", ["surrogate", "none"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_and_is_loaded_as_it_was_saved(blobs, tmp_path, method, pull):
    hasher = Hasher(method=method, pull=pull, **{**SMALL, "epochs": 16})
    assert hasher.fit(blobs.x, blobs.y) is hasher
    codes = hasher.encode(blobs.query_x)
    assert (codes.dtype, codes.shape) == (np.uint8, (40, 2))
    assert not (codes[:, 1] & 0xF0).any()
    expected = evaluate(codes, blobs.query_y, hasher.train_codes_, blobs.y).map
    assert hasher.score(blobs.query_x, blobs.query_y) == expected
    weak = method == "mihash" and pull == "none"  # it may put two of the four classes onto one code
    assert expected > (0.4 if weak else 0.6)  # of random codes: 0.25
    np.testing.assert_array_equal(hasher.train_codes_, hasher.encode(blobs.x))
    np.testing.assert_array_equal(hasher.transform(blobs.query_x), unpack(codes, 12))
    assert (hasher.predict(blobs.query_x, k=20) == blobs.query_y).mean() > (0.4 if weak else 0.7)
    assert hasher.centers_.shape == (4, 12)
    assert hasher.name == (f"{method}_d" if pull == "surrogate" else method)
    hasher.save_pretrained(tmp_path)
    loaded = Hasher.from_pretrained(tmp_path)
    np.testing.assert_array_equal(loaded.encode(blobs.query_x), codes)
    found, saved = loaded.model_.weights, hasher.model_.weights
    assert found.keys() == saved.keys()
    assert ("classifier.weight" in found) == (method in ("dsdh", "greedyhash", "jmlh"))
    assert all(np.array_equal(weight, saved[name]) for name, weight in found.items())
    assert (loaded.name, loaded.pull, loaded.classes_.tolist()) == (hasher.name, pull, [0, 1, 2, 3])


@pytest.mark.parametrize("method", ["dpsh", "qsmi"])
def test_pairs_of_many_classes_are_told_apart(method):
    """Most pairs are dissimilar, and what they do to the rows together must not swing, nor the bits be pulled to ±1."""
    x, y = load_digits(return_X_y=True)
    hasher = Hasher(64, method, pull="none", epochs=5, hidden=256, batch_size=32).fit(x[:600], y[:600])
    assert hasher.score(x[600:800], y[600:800]) > 0.5


@pytest.mark.parametrize("pull", ["surrogate", "none"])
@pytest.mark.parametrize("method", ["csq", "dsdh", "hyp2", "talr"])  # the losses of all are tested by themselves
def test_every_kind_of_method_takes_several_labels_a_row_and_none(blobs, method, pull):
    hot = blobs.hot.copy()
    hot[:40] = 0
    hasher = Hasher(method=method, pull=pull, **{**SMALL, "epochs": 1, "batch_size": 4}).fit(blobs.x[:80], hot[:80])
    assert hasher.classes_.tolist() == [0, 1, 2, 3]
    assert np.isfinite(hasher.model_.outputs(blobs.query_x)).all()
    assert 0 < hasher.score(blobs.query_x, blobs.query_hot) <= 1
    with pytest.raises(ValueError, match="multi-label"):
        hasher.predict(blobs.query_x)


def test_the_guidance_and_the_method_count(blobs):
    made = [
        Hasher(**SMALL, **more).fit(blobs.x, blobs.y).model_.fingerprint()
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
    hasher = Hasher(**SMALL).fit(x, blobs.y)
    np.testing.assert_array_equal(hasher.encode(x), hasher.train_codes_)
    reference = Hasher(**SMALL).fit(x.astype(np.float32), blobs.y)
    np.testing.assert_array_equal(hasher.train_codes_, reference.train_codes_)


def test_string_labels(blobs):
    names = np.array(["cat", "ant", "dog", "bee"])
    hasher = Hasher(**SMALL).fit(blobs.x, names[blobs.y])
    assert hasher.classes_.tolist() == ["ant", "bee", "cat", "dog"]
    found = hasher.predict(blobs.query_x, k=20)
    assert found.dtype == object  # a text is as long as it is, and makes no other longer
    assert (found == names[blobs.query_y]).mean() > 0.6
    with pytest.raises(ValueError, match="y holds the label 'eel', which was not in the training rows"):
        hasher.score(blobs.query_x, ["eel"] * 40)


def test_class_names_in_any_order(blobs):
    names = np.array(["dog", "ant", "cat", "bee"])
    hasher = Hasher(**SMALL).fit(blobs.x, blobs.y)
    by_number = hasher.score(blobs.query_x, blobs.query_y)
    hasher.classes_ = names  # as tune leaves those of a data set
    assert hasher.score(blobs.query_x, names[blobs.query_y]) == by_number


def test_sparse_multi_hot_labels(blobs):
    dense = Hasher(**SMALL).fit(blobs.x, blobs.hot)
    for form in (scipy.sparse.csr_matrix, scipy.sparse.csc_array):
        sparse = Hasher(**SMALL).fit(blobs.x, form(blobs.hot))
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
            Hasher(**SMALL).fit_split(given, classes)


# --------------------------------------------------------------------------------------------------- scikit-learn


def test_codes_of_no_row(blobs):
    hasher = Hasher(**SMALL).fit(blobs.x, blobs.y)
    codes = hasher.encode_split(EmbeddingSplit(blobs.x, np.arange(0), None))
    assert (codes.dtype, codes.shape) == (np.uint8, (0, 2))


def test_pipeline(blobs):
    pipeline = make_pipeline(StandardScaler(), Hasher(**{**SMALL, "epochs": 16}), KNeighborsClassifier(5))
    pipeline.fit(blobs.x.astype(np.float64), blobs.y)
    assert pipeline.score(blobs.query_x.astype(np.float64), blobs.query_y) > 0.7
    ends_in_codes = make_pipeline(StandardScaler(), Hasher(**SMALL)).fit(blobs.x, blobs.y)
    assert 0.25 < ends_in_codes.score(blobs.query_x, blobs.query_y) <= 1


def test_grid_search(blobs, tmp_path):
    grid = {"bits": np.array([2, 12]), "method": ["csq", "dsdh"], "seed": np.arange(1)}
    search = GridSearchCV(Hasher(**{**SMALL, "epochs": 4}), grid, cv=2, error_score="raise").fit(blobs.x, blobs.y)
    scores = search.cv_results_["mean_test_score"]
    assert len(set(scores)) > 2
    assert search.best_score_ == scores.max() > 0.35  # of random codes: 0.25
    assert search.best_params_ == search.cv_results_["params"][int(scores.argmax())]
    assert search.best_estimator_.transform(blobs.query_x).shape == (40, search.best_params_["bits"])
    search.best_estimator_.save_pretrained(tmp_path)
    assert Hasher.from_pretrained(tmp_path).seed == 0


def test_clone_and_pickle(blobs):
    hasher = Hasher(method="dch", options={"gamma": 3.0}, **SMALL).fit(blobs.x, blobs.y)
    copy = clone(hasher)
    assert copy.get_params() == hasher.get_params()
    with pytest.raises(NotFittedError):
        copy.encode(blobs.query_x)
    np.testing.assert_array_equal(copy.fit(blobs.x, blobs.y).train_codes_, hasher.train_codes_)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(hasher)).encode(blobs.x), hasher.train_codes_)


# ------------------------------------------------------------------------------------------------- saved and loaded


def test_saving_keeps_codes_and_parameters(blobs, tmp_path):
    settings = {**SMALL, "method": "dsdh", "pull": "none", "seed": 9, "centers": "random", "options": {"mu": 2.0}}
    settings["recipe"] = "paper"
    hasher = Hasher(**settings).fit(blobs.x, blobs.y)
    hasher.save_pretrained(tmp_path / "model")
    loaded = Hasher.from_pretrained(tmp_path / "model")
    assert loaded.get_params() == hasher.get_params() | {"schedule": "step", "head": "bits"}  # the recipe's
    np.testing.assert_array_equal(loaded.encode(blobs.query_x), hasher.encode(blobs.query_x))
    assert loaded.classes_.tolist() == [0, 1, 2, 3]
    assert (loaded.n_features_in_, loaded.method_) == (12, "dsdh")
    np.testing.assert_array_equal(clone(loaded).fit(blobs.x, blobs.y).train_codes_, hasher.train_codes_)
    for what in ("predict", "score"):
        arguments = (blobs.query_x,) if what == "predict" else (blobs.query_x, blobs.query_y)
        with pytest.raises(ValueError, match=f"{what} needs the training rows' codes, which a loaded model does not"):
            getattr(loaded, what)(*arguments)
    loaded.save_pretrained(tmp_path / "again")
    np.testing.assert_array_equal(
        Hasher.from_pretrained(tmp_path / "again").encode(blobs.query_x), hasher.encode(blobs.query_x)
    )


def test_a_method_of_ones_own_is_loaded_under_its_name(blobs, tmp_path):
    class Mine(CSQ):
        pass

    hasher = Hasher(**SMALL, method=Mine).fit(blobs.x, blobs.y)
    hasher.save_pretrained(tmp_path)
    loaded = Hasher.from_pretrained(tmp_path)
    assert (hasher.name, loaded.method, loaded.name) == ("mine", "mine", "mine")
    np.testing.assert_array_equal(loaded.encode(blobs.query_x), hasher.encode(blobs.query_x))
    with pytest.raises(ValueError, match=f"^method is 'mine'; it must be one of {', '.join(METHODS)}"):
        loaded.fit(blobs.x, blobs.y)


# ------------------------------------------------------------------------------------------------------ bad input


def test_bad_rows(blobs):
    hasher = Hasher(**SMALL).fit(blobs.x, blobs.y)
    with pytest.raises(ValueError, match="X has 5 features, but Hasher is expecting 12 features"):
        hasher.encode(blobs.x[:, :5])
    huge = blobs.x.astype(np.float64)
    huge[7, 2] = 1e39
    for call in (lambda: hasher.encode(huge), lambda: Hasher(**SMALL).fit(huge, blobs.y)):
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
        Hasher(bits=8, method=method, pull=pull, hidden=0, epochs=1).fit_split(split, 4)
