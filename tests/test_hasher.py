from __future__ import annotations

import functools
import pickle

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from lbhash import Hasher, evaluate
from lbhash.codes import pack, unpack
from lbhash.data import EmbeddingSplit
from lbhash.losses import CSQ, METHODS, Objective
from lbhash.models.surrogate import Surrogate
from lbhash.utils.labels import UNLABELED

SMALL = {"bits": 12, "hidden": 16, "epochs": 2, "batch_size": 32, "dropout": 0.1, "lr": 0.01}


@parametrize_with_checks([Hasher(bits=8, hidden=8, epochs=1)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


# -------------------------------------------------------------------------------------------------------- learning


@pytest.mark.parametrize("guided", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_and_is_loaded_as_it_was_saved(blobs, tmp_path, method, guided):
    hasher = Hasher(method=method, guided=guided, **{**SMALL, "epochs": 16})
    assert hasher.fit(blobs.x, blobs.y) is hasher
    codes = hasher.encode(blobs.query_x)
    assert (codes.dtype, codes.shape) == (np.uint8, (40, 2))
    assert not (codes[:, 1] & 0xF0).any()
    expected = evaluate(codes, blobs.query_y, hasher.train_codes_, blobs.y).map
    assert hasher.score(blobs.query_x, blobs.query_y) == expected
    weak = method == "mihash" and not guided  # it may put two of the four classes onto one code
    assert expected > (0.4 if weak else 0.6)  # of random codes: 0.25
    np.testing.assert_array_equal(hasher.train_codes_, hasher.encode(blobs.x))
    np.testing.assert_array_equal(hasher.transform(blobs.query_x), unpack(codes, 12))
    assert (hasher.predict(blobs.query_x, k=20) == blobs.query_y).mean() > (0.4 if weak else 0.7)
    assert hasher.centers_.shape == (4, 12)
    assert hasher.name == (f"{method}_d" if guided else method)
    hasher.save_pretrained(tmp_path)
    loaded = Hasher.from_pretrained(tmp_path)
    np.testing.assert_array_equal(loaded.encode(blobs.query_x), codes)
    found, saved = loaded.model_.weights, hasher.model_.weights
    assert found.keys() == saved.keys()
    assert ("classifier.weight" in found) == (method in ("dsdh", "greedyhash", "jmlh"))
    assert all(np.array_equal(weight, saved[name]) for name, weight in found.items())
    pull = "surrogate" if guided else "none"
    assert (loaded.name, loaded.pull, loaded.classes_.tolist()) == (hasher.name, pull, [0, 1, 2, 3])


@pytest.mark.parametrize("method", ["dpsh", "qsmi"])
def test_pairs_of_many_classes_are_told_apart(method):
    """Most pairs are dissimilar, and what they do to the rows together must not swing, nor the bits be pulled to ±1."""
    x, y = load_digits(return_X_y=True)
    hasher = Hasher(64, method, guided=False, epochs=5, hidden=256, batch_size=32).fit(x[:600], y[:600])
    assert hasher.score(x[600:800], y[600:800]) > 0.5


@pytest.mark.parametrize("guided", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_takes_several_labels_a_row_and_none(blobs, method, guided):
    hot = blobs.hot.copy()
    hot[:40] = 0
    hasher = Hasher(method=method, guided=guided, **{**SMALL, "epochs": 1, "batch_size": 4}).fit(blobs.x[:80], hot[:80])
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
            {"guided": True},
            {"method": "dch"},
            {"guidance": {"mode": "replace"}},
            {"guidance": {"noise": 0.5}},
            {"options": {"lam": 0.3}},
            {"centers": "random"},
        )
    ]
    assert len(set(made)) == len(made)


def test_an_objective_of_ones_own(blobs):
    class ToCenters(Objective):
        def __init__(self, task):
            super().__init__()
            self.register_buffer("centers", task.centers)

        def forward(self, logits, labels, index):
            return (logits - self.centers[labels]).square().mean()

    hasher = Hasher(method=ToCenters, guided=False, **{**SMALL, "epochs": 16}).fit(blobs.x, blobs.y)
    assert hasher.name == "tocenters"
    assert hasher.score(blobs.query_x, blobs.query_y) > 0.8


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
    assert found.dtype.kind == "U"
    assert (found == names[blobs.query_y]).mean() > 0.6
    with pytest.raises(ValueError, match="y holds the label 'eel', which was not in the training rows"):
        hasher.score(blobs.query_x, ["eel"] * 40)


def test_class_names_in_any_order(blobs):
    names = np.array(["dog", "ant", "cat", "bee"])
    hasher = Hasher(**SMALL).fit(blobs.x, blobs.y)
    by_number = hasher.score(blobs.query_x, blobs.query_y)
    hasher.classes_ = names  # as tune leaves those of a data set
    assert hasher.score(blobs.query_x, names[blobs.query_y]) == by_number


def test_labels_that_do_not_count_from_zero(blobs):
    far = Hasher(**SMALL).fit(blobs.x, blobs.y * 5 - 3)
    near = Hasher(**SMALL).fit(blobs.x, blobs.y)
    np.testing.assert_array_equal(far.train_codes_, near.train_codes_)
    np.testing.assert_array_equal(far.predict(blobs.query_x), near.predict(blobs.query_x) * 5 - 3)
    assert far.score(blobs.query_x, blobs.query_y * 5 - 3) == near.score(blobs.query_x, blobs.query_y)


def test_a_column_of_labels(blobs):
    hasher = Hasher(**SMALL).fit(blobs.x, blobs.y[:, None])
    assert hasher.score(blobs.query_x, blobs.query_y[:, None]) == hasher.score(blobs.query_x, blobs.query_y)


def test_a_column_of_0_and_1(blobs):
    two = (blobs.y > 1).astype(int)
    hasher = Hasher(**SMALL).fit(blobs.x, two)
    column = Hasher(**SMALL).fit(blobs.x, two[:, None])
    np.testing.assert_array_equal(column.train_codes_, hasher.train_codes_)
    queries = (blobs.query_y > 1).astype(int)
    assert hasher.score(blobs.query_x, queries[:, None]) == hasher.score(blobs.query_x, queries)
    names = np.array(["no", "yes"])
    assert Hasher(**SMALL).fit(blobs.x, names[two][:, None]).classes_.tolist() == ["no", "yes"]


def test_sparse_multi_hot_labels(blobs):
    dense = Hasher(**SMALL).fit(blobs.x, blobs.hot)
    for form in (scipy.sparse.csr_matrix, scipy.sparse.csc_array):
        sparse = Hasher(**SMALL).fit(blobs.x, form(blobs.hot))
        np.testing.assert_array_equal(sparse.train_codes_, dense.train_codes_)
        assert sparse.score(blobs.query_x, form(blobs.query_hot)) == dense.score(blobs.query_x, blobs.query_hot)


def test_the_classifier_of_dsdh_is_that_of_the_final_codes(blobs):
    hasher = Hasher(method="dsdh", guided=False, **{**SMALL, "epochs": 1}).fit(blobs.x, blobs.y)
    signs = unpack(hasher.train_codes_, 12).astype(np.float32)
    scores = signs @ hasher.model_.classifier.T
    assert scores.shape == (160, 4)
    assert (scores.argmax(axis=1) == blobs.y).mean() > 0.5  # of the codes drawn before the first epoch: 0.25


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
        (part(blobs.y), 3, r"labels of split is 3 in row \d+; with classes 3 it must be below 3"),
        (part(blobs.hot), 5, "labels of split has 4 columns; with classes 5 it must have 5"),
        (part(blobs.y[:7]), 4, "split has 160 rows and 7 labels"),
        (part(blobs.y[:0], 0), 4, "split has no row; training needs at least one"),
        (part(blobs.y), 0, "classes is 0; it must be at least 1"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            Hasher(**SMALL).fit_split(given, classes)


def test_codes_of_no_row(blobs):
    hasher = Hasher(**SMALL).fit(blobs.x, blobs.y)
    codes = hasher.encode_split(EmbeddingSplit(blobs.x, np.arange(0), None))
    assert (codes.dtype, codes.shape) == (np.uint8, (0, 2))


# --------------------------------------------------------------------------------------------------- scikit-learn


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


def test_fitting_again_forgets(blobs):
    hasher = Hasher(**SMALL).fit(blobs.x[:, :5], blobs.hot)
    hasher.fit(blobs.x, blobs.y)
    assert hasher.n_features_in_ == 12
    np.testing.assert_array_equal(hasher.train_codes_, Hasher(**SMALL).fit(blobs.x, blobs.y).train_codes_)


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


def test_what_json_holds_of_options_and_guidance(blobs, tmp_path):
    given = {"options": {"lam": np.float32(0.5)}, "guidance": {"weight": np.float64(0.25), "mode": np.str_("add")}}
    hasher = Hasher(**{**SMALL, "epochs": 1, "lr": np.float32(0.5)}, **given, centers=np.str_("best"))
    hasher.fit(blobs.x, blobs.y).save_pretrained(tmp_path)
    loaded = Hasher.from_pretrained(tmp_path)
    assert loaded.options == {"lam": 0.5}
    assert loaded.guidance == {"weight": 0.25, "mode": "add"}
    assert (loaded.lr, loaded.method, loaded.seed, loaded.centers) == (0.5, "csq", 0, "best")
    assert hasher.options is given["options"]
    loaded.batch_size = hasher.batch_size
    np.testing.assert_array_equal(loaded.fit(blobs.x, blobs.y).train_codes_, hasher.train_codes_)


def test_a_surrogate_of_ones_own(blobs, tmp_path):
    own = Surrogate(12, block_bits=4, hidden=8)
    start = {name: tensor.clone() for name, tensor in own.state_dict().items()}
    hasher = Hasher(**SMALL, guidance={"surrogate": own, "weight": 0.5}).fit(blobs.x, blobs.y)
    assert own.training
    assert all(torch.equal(tensor, start[name]) for name, tensor in own.state_dict().items())
    again = Hasher(**SMALL, guidance={"surrogate": own, "weight": 0.5}).fit(blobs.x, blobs.y)
    np.testing.assert_array_equal(again.train_codes_, hasher.train_codes_)
    hasher.save_pretrained(tmp_path)
    loaded = Hasher.from_pretrained(tmp_path)
    name = "Surrogate(bits=12, block_bits=4, hidden=8, dropout=0.5)"
    assert loaded.guidance == {"surrogate": name, "weight": 0.5}
    with pytest.raises(TypeError, match=r"^surrogate is 'Surrogate\(.*'; it must be a Surrogate, or None"):
        loaded.fit(blobs.x, blobs.y)


def test_a_method_of_ones_own_is_loaded_under_its_name(blobs, tmp_path):
    class Mine(CSQ):
        pass

    for method, name in ((Mine, "mine"), (functools.partial(CSQ, lam=0.5), "csq")):
        hasher = Hasher(**SMALL, method=method).fit(blobs.x, blobs.y)
        assert hasher.name == name
        hasher.save_pretrained(tmp_path / name)
        loaded = Hasher.from_pretrained(tmp_path / name)
        assert (loaded.method, loaded.name) == (name, name)
        np.testing.assert_array_equal(loaded.encode(blobs.query_x), hasher.encode(blobs.query_x))
    with pytest.raises(ValueError, match=f"^method is 'mine'; it must be one of {', '.join(METHODS)}"):
        Hasher.from_pretrained(tmp_path / "mine").fit(blobs.x, blobs.y)


# ------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"bits": 0}, ValueError, r"^bits is 0; it must be from 1 to 1024"),
        ({"bits": 5000}, ValueError, r"^bits is 5000; it must be from 1 to 1024"),
        ({"bits": 1.5}, TypeError, r"^bits is 1.5; it must be an integer from 1 to 1024"),
        ({"bits": "16"}, TypeError, r"^bits is '16'; it must be an integer"),
        ({"bits": 1}, ValueError, r"^classes is 4; with 1 bit it must be from 1 to 2\^1"),
        ({"method": "csqq"}, ValueError, rf"^method is 'csqq'; it must be one of {', '.join(METHODS)}"),
        ({"centers": "far"}, ValueError, r"^centers is 'far'; it must be one of best, best-ratio"),
        ({"centers": None}, ValueError, r"^centers is None; it must be one of best, best-ratio"),
        ({"epochs": 0}, ValueError, r"^epochs is 0; it must be at least 1"),
        ({"epochs": 1.5}, TypeError, r"^epochs is 1.5; it must be an integer"),
        ({"batch_size": 1}, ValueError, r"^batch_size is 1; it must be at least 2"),
        ({"hidden": -1}, ValueError, r"^hidden is -1; it must be at least 0"),
        ({"hidden": 2.5}, TypeError, r"^hidden is 2.5; it must be an integer"),
        ({"seed": -1}, ValueError, r"^seed is -1; it must be at least 0"),
        ({"seed": 2**70}, ValueError, r"^seed is \d*; it must be at least 0 and below 2\^63"),
        ({"seed": None}, TypeError, r"^seed is None; it must be an integer"),
        ({"lr": 0}, ValueError, r"^lr is 0; it must be above 0"),
        ({"lr": "a"}, TypeError, r"^lr is 'a'; it must be a number"),
        ({"lr": np.nan}, ValueError, r"^lr is nan; it must be above 0"),
        ({"lr": np.inf}, ValueError, r"^lr is inf; it must be above 0 and finite"),
        ({"dropout": 1}, ValueError, r"^dropout is 1; it must be at least 0 and below 1"),
        ({"dropout": "a"}, TypeError, r"^dropout is 'a'; it must be a number"),
        ({"threads": "2"}, TypeError, r"^threads is '2'; it must be an integer"),
        ({"method": 5}, ValueError, r"^method is 5; it must be one of"),
        ({"options": {"lam": np.zeros(3)}}, TypeError, r"^options\['lam'\] is of type ndarray; it must be a finite nu"),
        ({"options": {"lam": np.nan}}, ValueError, r"^options\['lam'\] is nan; it must be a finite number"),
        ({"options": 3}, TypeError, r"^options is 3; it must be a dict"),
        ({"options": {"foo": 1}}, TypeError, r"^options has 'foo', which method csq does not take; it may have lam"),
        (
            {"guidance": {"foo": 1}},
            TypeError,
            r"^guidance has 'foo', which pull 'surrogate' does not take; it may have mo",
        ),
        ({"threads": 0}, ValueError, r"^threads is 0; it must be at least 1"),
        ({"guidance": {"mode": "both"}}, ValueError, r"^mode is 'both'; it must be one of add, replace"),
        ({"options": {"power": 3}}, TypeError, r"power"),
    ],
)
def test_bad_parameters(blobs, settings, error, message):
    with pytest.raises(error, match=message) as raised:
        Hasher(**{**SMALL, **settings}).fit(blobs.x, blobs.y)
    assert "\n" not in str(raised.value)


def test_a_setting_that_is_none_is_named_with_the_nearest():
    for call in (lambda: Hasher(n_bits=3), lambda: Hasher().set_params(n_bits=3)):
        with pytest.raises((TypeError, ValueError), match=r"^'n_bits' is no setting of a Hasher; did you mean bits\?$"):
            call()


@pytest.mark.parametrize(
    ("y", "said"),
    [
        ([0, 0, 0, 0], r"^y has one class, 0; there is nothing to learn"),
        (["a", "a", "a", "a"], r"^y has one class, 'a'; there is nothing to learn"),
        (
            np.array(["a", 1, "a", 1], object),
            r"^y holds labels of several kinds \(int, str\); give all as text",
        ),
    ],
)
def test_bad_labels_are_told_in_plain_words(y, said):
    with pytest.raises((TypeError, ValueError), match=said):
        Hasher(**SMALL).fit(np.eye(4), y)


@pytest.mark.parametrize("rows", [None, "abc", 5, {"a": 1}, np.eye(12) * 1j, [["a"] * 12], np.zeros((3, 0)), []])
def test_what_is_no_embedding_is_refused_in_one_line(blobs, rows):
    fitted = Hasher(**SMALL).fit(blobs.x, blobs.y)
    for call in (fitted.encode, Hasher(**SMALL).fit):
        with pytest.raises((TypeError, ValueError)) as raised:
            call(rows)
        assert "\n" not in str(raised.value)


def test_bad_rows(blobs):
    hasher = Hasher(**SMALL).fit(blobs.x, blobs.y)
    with pytest.raises(ValueError, match="X has 5 features, but Hasher is expecting 12 features"):
        hasher.encode(blobs.x[:, :5])
    holed = blobs.x.copy()
    holed[3, 1] = np.nan
    for call in (lambda: hasher.encode(holed), lambda: Hasher(**SMALL).fit(holed, blobs.y)):
        with pytest.raises(ValueError, match="NaN"):
            call()
    with pytest.raises(TypeError, match=r"^k is '5'; it must be an integer"):
        hasher.predict(blobs.x, k="5")
    with pytest.raises(ValueError, match=r"^y has 159 labels and X has 160 rows; give one for each row$"):
        Hasher(**SMALL).fit(blobs.x, blobs.y[:-1])
    with pytest.raises(ValueError, match="y is 3 in row 0"):
        Hasher(**SMALL).fit(blobs.x, np.full((160, 2), 3))
    for targets in (blobs.y + 0.25, np.stack([blobs.y + 0.25] * 2, axis=1)):
        with pytest.raises(ValueError, match=r"^y is \d.25 in row 0; "):
            Hasher(**SMALL).fit(blobs.x, targets)
    huge = blobs.x.astype(np.float64)
    huge[7, 2] = 1e39
    for call in (lambda: hasher.encode(huge), lambda: Hasher(**SMALL).fit(huge, blobs.y)):
        with pytest.raises(ValueError, match=r"^X is beyond the range of float32 in row 7"):
            call()


def test_a_batch_of_codes_is_the_codes_of_its_rows(blobs):
    hasher = Hasher(**SMALL).fit(blobs.x, blobs.y)
    outputs = hasher.model_.outputs(blobs.query_x)
    assert np.abs(outputs).min() > 1e-5  # none so near 0 that rounding could turn it
    np.testing.assert_array_equal(hasher.encode(blobs.query_x), pack(outputs))
    rows = [hasher.encode(row[None])[0] for row in blobs.query_x]
    np.testing.assert_array_equal(hasher.encode(blobs.query_x), rows)


class Rows(Objective):
    def __init__(self, task):
        super().__init__()

    def forward(self, logits, labels, index):
        return logits.square().mean(dim=1)


class Number(Rows):
    def forward(self, logits, labels, index):
        return 0.5


class Detached(Rows):
    def forward(self, logits, labels, index):
        return logits.detach().square().mean()


class NoObjective(torch.nn.Module):
    def __init__(self, task):
        super().__init__()


@pytest.mark.parametrize("guided", [True, False])
@pytest.mark.parametrize("unlabeled", [0, 20])
@pytest.mark.parametrize(
    ("method", "error", "message"),
    [
        (Rows, TypeError, r"method Rows returned a tensor of shape \[\d+\]; its loss must be a scalar tensor"),
        (Number, TypeError, "method Number returned 0.5; its loss must be a scalar tensor"),
        (Detached, ValueError, "method Detached returned a loss without a gradient"),
        (NoObjective, TypeError, "method is NoObjective, which is no subclass of lbhash.losses.Objective"),
    ],
)
def test_methods_of_ones_own_that_are_none(blobs, method, error, message, unlabeled, guided):
    labels = np.where(np.arange(len(blobs.y)) < unlabeled, UNLABELED, blobs.y)
    split = EmbeddingSplit(blobs.x, np.arange(len(blobs.y)), labels)
    with pytest.raises(error, match=message):
        Hasher(bits=8, method=method, guided=guided, hidden=0, epochs=1).fit_split(split, 4)


def test_a_name_that_is_no_folder_is_not_looked_up():
    with pytest.raises(ValueError, match="model is 'nope', and there is no such folder"):
        Hasher.from_pretrained("nope")


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_label_that_is_missing_in_a_column_of_a_table(blobs, missing):
    labels = blobs.y.astype(object)
    labels[2] = missing
    column, vector = (Hasher(**SMALL).fit(blobs.x, given) for given in (labels[:, None], labels))
    np.testing.assert_array_equal(column.train_labels_, vector.train_labels_)
    assert column.train_labels_[2] == UNLABELED
