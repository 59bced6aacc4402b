"""The methods without a network: each from its equation, and all of them through the estimator and the commands."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.linalg
import torch

from lbhash import Hasher
from lbhash.codes import unpack
from lbhash.data.split import EmbeddingSplit
from lbhash.evaluation.report import evaluate
from lbhash.training.coders import CODERS, coder_of
from lbhash.training.coders.base import random_rotation, signs
from lbhash.training.coders.regression import PENALTIES, Regression
from lbhash.training.coders.rotation import quantizing_rotation
from lbhash.training.coders.sdh import discrete_descent

FREE = [name for name, kind in CODERS.items() if not kind.needs_labels]
LABELED = [name for name, kind in CODERS.items() if kind.needs_labels]


@pytest.fixture
def data():
    """90 rows of 7 numbers, of different variance, far from 0, in 3 classes."""
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(3), 30)
    means = rng.standard_normal((3, 7)) * 2
    x = (means[y] + rng.standard_normal((90, 7))) * [3, 2, 1, 1, 0.5, 0.5, 0.2] + 5
    return x.astype(np.float32), y


def run_command(*words):
    from lbhash.cli.app import app

    app([str(word) for word in words], standalone_mode=False)


def rows_of(x, y=None):
    return EmbeddingSplit(x, np.arange(len(x)), y)


def standardized(x):
    return (x - x.mean(axis=0, dtype=float)) / x.std(axis=0, dtype=float)


# ------------------------------------------------------------------------------------------------- without labels


def test_lsh_has_random_hyperplanes_that_are_orthogonal_in_groups(data):
    x, _ = data
    found = CODERS["lsh"](17, seed=3).fit(rows_of(x))
    np.testing.assert_allclose(found.mean, x.mean(axis=0, dtype=float))
    for group in (found.weight[:7], found.weight[7:14], found.weight[14:]):
        np.testing.assert_allclose(group @ group.T, np.eye(len(group)), atol=1e-12)
    assert abs(found.weight[0] @ found.weight[7]) > 1e-6  # another rotation, not the first one again
    assert not found.bias.any()


def test_lsh_bits_differ_in_proportion_to_the_angle():
    a, b = np.eye(2)[0], np.array([np.cos(1.0), np.sin(1.0)])
    x = np.stack([a, b, -a, -b]).astype(np.float32)  # the mean is 0
    codes = CODERS["lsh"](4000, seed=0).fit(rows_of(x)).outputs(x) >= 0
    assert abs((codes[0] != codes[1]).mean() - 1 / np.pi) < 0.03


@pytest.mark.parametrize("name", ["pca", "itq"])
@pytest.mark.parametrize("bits", [3, 7, 12])
def test_pca_and_itq_turn_the_principal_axes(data, name, bits):
    x, _ = data
    found = CODERS[name](bits, seed=0).fit(rows_of(x))
    _, _, axes = np.linalg.svd(x - x.mean(axis=0, dtype=float), full_matrices=False)
    projector = axes[:bits].T @ axes[:bits]  # onto the space of the axes
    np.testing.assert_allclose(found.weight.T @ found.weight, projector, atol=1e-3)
    assert found.weight.shape == (bits, 7)


def test_directions_without_variance_are_left_out(data):
    x, _ = data
    flat = np.concatenate([x[:, :2], np.ones((90, 3), np.float32)], axis=1)
    found = CODERS["pca"](4, seed=0).fit(rows_of(flat))
    np.testing.assert_allclose(found.weight[:, 2:], 0, atol=1e-6)
    with pytest.raises(ValueError, match=r"^the rows are all equal; there is nothing to tell them apart by"):
        CODERS["itq"](4).fit(rows_of(np.ones((5, 3), np.float32)))
    with pytest.raises(ValueError, match=r"^the rows have embeddings that are NaN or infinite"):
        CODERS["itq"](4).fit(rows_of(np.full((5, 3), np.nan, np.float32)))


@pytest.mark.parametrize(("columns", "bits"), [(5, 5), (3, 8), (1, 1)])
def test_the_rotation_of_itq_is_that_of_rows_with_zeros_beside(columns, bits):
    v = np.random.default_rng(0).standard_normal((200, columns)) * np.linspace(2, 1, columns)
    found = quantizing_rotation(v, bits, np.random.default_rng(5), rounds=20)
    wide = np.zeros((200, bits))
    wide[:, :columns] = v
    r = random_rotation(bits, np.random.default_rng(5))
    losses = []
    for _ in range(20):
        b = np.where(wide @ r >= 0, 1, -1)
        losses.append(np.square(b - wide @ r).sum())
        p, _, q = np.linalg.svd(wide.T @ b)
        r = p @ q
    assert (np.diff(losses) <= 1e-9).all()
    assert columns == bits == 1 or losses[-1] < losses[0]
    np.testing.assert_allclose(found, r[:columns], atol=1e-4)
    np.testing.assert_allclose(found @ found.T, np.eye(columns), atol=1e-5)


# ---------------------------------------------------------------------------------------------------- with labels


def least_squares(x, targets, penalty):
    """Fit a ridge regression by the normal equations; return a function."""
    mean = targets.mean(axis=0)
    w = np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ (targets - mean))
    return lambda rows: rows @ w + mean


def test_the_penalty_has_the_least_error_for_rows_left_out(data):
    x, y = data
    x, y = x[::3], y[::3]
    noise = np.random.default_rng(0).standard_normal((30, 4))
    targets = signs(np.random.default_rng(2).standard_normal((3, 4)))[y] + 3 * noise
    z = standardized(x)
    errors = {}
    for penalty in (p * 7 for p in PENALTIES):
        total = 0.0
        for i in range(30):
            others = np.arange(30) != i
            # X stays as it was standardized, and the intercept is fitted anew.
            design = np.c_[np.ones(29), z[others]]
            ridge = np.diag([0.0] + [penalty] * 7)
            w = np.linalg.solve(design.T @ design + ridge, design.T @ targets[others])
            total += np.square(np.r_[1, z[i]] @ w - targets[i]).sum()
        errors[penalty] = total
    best = min(errors, key=errors.__getitem__)
    assert best not in (min(errors), max(errors))
    assert Regression(rows_of(x)).best_penalty(targets) == pytest.approx(best)


@pytest.mark.parametrize("multi_label", [False, True])
def test_ridge_regresses_onto_the_centers(data, multi_label):
    x, y = data
    centers = np.where(np.random.default_rng(0).random((3, 10)) < 0.5, -1, 1).astype(np.int8)
    hot = np.eye(3, dtype=np.uint8)[y]
    if multi_label:
        hot[::4, 0] = 1  # some rows have two labels
        hot[5] = 0  # and one has none
    targets = np.array([centers[row > 0].mean(axis=0) if row.any() else np.zeros(10) for row in hot])
    found = CODERS["ridge"](10).fit(rows_of(x, hot if multi_label else y), 3, centers)
    penalty = Regression(rows_of(x)).best_penalty(targets)
    wanted = least_squares(standardized(x), targets, penalty)(standardized(x))
    np.testing.assert_allclose(found.outputs(x), wanted, atol=1e-4)


@pytest.mark.parametrize("bits", [1, 6])
def test_cca_itq_turns_the_canonical_directions(data, bits):
    x, y = data
    z, hot = x - x.mean(axis=0, dtype=float), np.eye(3)[y] - 1 / 3
    scale = x.std(axis=0, dtype=float)
    penalty = Regression(rows_of(x)).best_penalty(np.eye(3)[y])
    # The generalized eigenvalue problem of canonical correlation, of standardized rows.
    cross = (z / scale).T @ hot
    values, vectors = scipy.linalg.eigh(
        cross @ np.linalg.pinv(hot.T @ hot) @ cross.T, (z / scale).T @ (z / scale) + penalty * np.eye(7)
    )
    wanted = (vectors[:, ::-1][:, : min(bits, 2)] * np.sqrt(values[::-1][: min(bits, 2)])) / scale[:, None]
    found = CODERS["cca-itq"](bits).fit(rows_of(x, y), 3)
    np.testing.assert_allclose(found.weight.T @ found.weight, wanted @ wanted.T, rtol=1e-3, atol=1e-6)


def test_sdh_sets_each_bit_to_its_best_value():
    rng = np.random.default_rng(0)
    b, w, q = signs(rng.standard_normal((20, 6))), rng.standard_normal((6, 3)), rng.standard_normal((20, 6))

    def objective(codes):
        return np.square(codes @ w).sum() - 2 * (codes * q).sum()

    wanted = b.copy()
    for _ in range(3):
        for bit in range(6):
            for row in range(20):
                values = []
                for sign in (1, -1):
                    wanted[row, bit] = sign
                    values.append(objective(wanted))
                wanted[row, bit] = 1 if values[0] <= values[1] else -1
    before = objective(b)
    discrete_descent(b, w, q, sweeps=3)
    np.testing.assert_array_equal(b, wanted)
    assert objective(b) < before


@pytest.mark.parametrize("name", LABELED)
def test_coders_with_labels_find_classes(data, name):
    x, y = data
    train, query = np.arange(90) % 3 > 0, np.arange(90) % 3 == 0
    of = {method: Hasher(bits=16, method=method).fit(x[train], y[train]) for method in (name, "lsh")}
    found = {m: evaluate(h.encode(x[query]), y[query], h.encode(x[train]), y[train]).map for m, h in of.items()}
    assert found[name] > max(0.85, found["lsh"])
    assert of[name].score(x[query], y[query]) == pytest.approx(found[name])
    assert (of[name].predict(x[query], k=9) == y[query]).mean() > 0.9


# ------------------------------------------------------------------------------------------------- the estimator


@pytest.mark.parametrize("name", CODERS)
def test_a_coder_is_a_hasher_like_any_other(data, name, tmp_path):
    x, y = data
    hasher = Hasher(bits=10, method=name, seed=4, guided=False).fit(x, y)
    assert (hasher.name, hasher.method_, hasher.trained_) == (name, name, None)
    assert hasher.model_.hidden == 0
    assert (hasher.centers_ is None) != CODERS[name].uses_centers
    split = rows_of(x, y)
    centers = hasher.centers_
    fitted = coder_of(name)(10, 4).fit(split, 3, centers)
    outputs = fitted.outputs(x) if hasattr(fitted, "outputs") else fitted(torch.from_numpy(x)).detach().numpy()
    assert (unpack(hasher.encode(x), 10) == signs(outputs)).mean() > 0.99  # the model rounds to float32
    hasher.save_pretrained(tmp_path)
    loaded = Hasher.from_pretrained(tmp_path)
    np.testing.assert_array_equal(loaded.encode(x), hasher.encode(x))
    assert loaded.name == name
    np.testing.assert_array_equal(loaded.fit(x, y).encode(x), hasher.encode(x))  # with the settings that it stores
    again, other = Hasher(bits=10).set_params(method=name).fit_seeds(split, 3, [4, 5])
    np.testing.assert_array_equal(again.encode(x), hasher.encode(x))
    if name not in ("ridge", "logistic"):  # where nothing is random but the centers
        assert (other.encode(x) != hasher.encode(x)).any()


def test_without_labels_the_default_is_one_that_needs_none(data):
    x, _ = data
    hasher = Hasher(bits=5).fit(x)
    assert (hasher.method, hasher.method_, hasher.name) == (None, "itq", "itq")
    np.testing.assert_array_equal(hasher.encode(x), Hasher(bits=5, method="itq").fit(x).encode(x))
    assert len(hasher.classes_) == 0
    for what in (lambda: hasher.predict(x), lambda: hasher.score(x, np.zeros(90))):
        with pytest.raises(ValueError, match=r"needs labels of the training rows, and the hasher was"):
            what()


@pytest.mark.parametrize("name", FREE)
def test_a_coder_without_labels_never_looks_at_them(data, name):
    x, y = data
    fits = [Hasher(bits=9, method=name).fit(x, labels).encode(x) for labels in (None, y)]
    np.testing.assert_array_equal(*fits)


@pytest.mark.parametrize("name", ["csq", "dsdh", *LABELED])
def test_a_method_with_labels_says_that_there_are_none(data, name, tmp_path):
    said = rf"^method is '{name}', which learns from labels, and there are none; .* \({', '.join(FREE)}\)$"
    with pytest.raises(ValueError, match=said):
        Hasher(method=name).fit(data[0])
    np.save(tmp_path / "x.npy", data[0])
    with pytest.raises(ValueError, match=said):
        run_command("train", "--data", tmp_path / "x.npy", "--out", tmp_path / "m", "--method", name)
    assert not (tmp_path / "m").exists()


def test_a_default_is_stored_by_its_name(data, tmp_path):
    x, y = data
    for settings, labels, name in (({}, None, "itq"), ({"hidden": 8, "epochs": 1}, y, "csq")):
        Hasher(bits=8, **settings).fit(x, labels).save_pretrained(tmp_path / name)
        assert Hasher.from_pretrained(tmp_path / name).method == name


def test_settings_of_a_network_are_refused(data):
    x, y = data
    for name, value in (("epochs", 5), ("lr", 0.01), ("hidden", 8), ("guidance", {"weight": 1.0}), ("centers", "best")):
        said = f"^{name} is .* and the method is 'itq', which trains no network; leave {name} out"
        with pytest.raises(ValueError, match=said):
            Hasher(method="itq", **{name: value}).fit(x, y)
    with pytest.raises(ValueError, match=r"^epochs is 5 and there are no labels, so that the method is 'itq', which"):
        Hasher(epochs=5).fit(x)
    with pytest.raises(
        ValueError, match=r"^method is 'mine'; it must be one of hashnet, .*, or of those without a net.*: lsh, .*sdh"
    ):
        Hasher(method="mine").fit(x)
    Hasher(method="ridge", centers="best", bits=8).fit(x, y)


# -------------------------------------------------------------------------------------------------- the commands


def test_from_a_file_without_labels_to_a_search(data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", data[0])

    def run(*words):
        run_command(*words)
        return capsys.readouterr().out

    said = run("train", "--data", "x.npy", "--out", "m", "--bits", 12)
    assert "x.npy has no labels" in said
    assert "itq" in said
    metrics = json.loads((tmp_path / "m" / "metrics.json").read_text())
    assert (metrics["method"], metrics["queries"], metrics["base"]) == ("itq", 9, 81)
    assert (metrics["epochs"], metrics["training"], metrics["neighbors"]) == (None, None, [10, 81])
    for split in ("query", "base"):
        run("encode", "--model", "m", "--data", "x.npy", "--split", split, "--out", f"{split}.parquet")
    files = ("--queries", "query.parquet", "--base", "base.parquet")
    found = json.loads(run("evaluate", *files, "--neighbors", "x.npy", "--json"))
    assert found == {name: metrics[name] for name in found}
    assert "recall@k" in run("evaluate", *files, "--neighbors", "x.npy", "--rank", 3)
    with pytest.raises(ValueError, match=r"or the embeddings that were encoded \(--neighbors\)"):
        run("evaluate", *files)
    with pytest.raises(ValueError, match=r"^probe is given with neighbors, which take no labels"):
        run("evaluate", *files, "--neighbors", "x.npy", "--probe")
    with pytest.raises(ValueError, match=r"is in queries and in base \(9 rows are\), and would find itself"):
        run("evaluate", files[0], files[1], "--base", "query.parquet", "--neighbors", "x.npy")
    np.save("short.npy", data[0][:50])
    with pytest.raises(ValueError, match=r"^queries has a code of row \d+, and short.npy has 50 rows"):
        run("evaluate", *files, "--neighbors", "short.npy", "--neighbors", "x.npy")
    run("index", "build", "--model", "m", "--data", "x.npy", "--split", "all", "--out", "ix")
    (answer,) = json.loads(run("search", "--index", "ix", "--model", "m", "--data", "x.npy", "--row", 5, "--json"))[
        "queries"
    ]
    assert {hit["id"]: hit["distance"] for hit in answer["neighbors"]}[5] == 0


def test_methods_say_who_needs_labels():
    from lbhash.cli.tables import method_rows

    rows = {row["name"]: row for row in method_rows()}
    assert [name for name, row in rows.items() if not row["labels"]] == FREE
    assert rows["csq"]["guided"] == "csq_d"
    assert (rows["ridge"]["guided"], rows["ridge"]["network"]) == (None, False)
    assert all(row["summary"] and row["source"] for row in rows.values())
