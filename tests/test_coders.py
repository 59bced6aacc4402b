"""The methods without a network: each from its equation, and all of them through the estimator and the commands."""

from __future__ import annotations

import json
import math
import statistics

import numpy as np
import pytest
import scipy.stats
import torch
from sklearn.datasets import load_digits

from lbhash import Hasher
from lbhash.codes import unpack
from lbhash.data.split import EmbeddingSplit
from lbhash.evaluation.neighbors import evaluate_neighbors
from lbhash.evaluation.report import evaluate
from lbhash.hasher import fit_split, name_of
from lbhash.models.hash_model import HashModel
from lbhash.training.coders import CODERS, coder_of
from lbhash.training.coders.base import random_rotation, signs
from lbhash.training.coders.cibhash import contrast, divergence
from lbhash.training.coders.itq import quantizing_rotation
from lbhash.training.coders.regression import PENALTIES, Regression
from lbhash.training.settings import grouped

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


def test_signs_are_those_of_the_numbers_around_their_medians(data):
    x = np.abs(data[0] - 5) * (data[0] > 5)  # more than half of a column may be 0
    codes = CODERS["signs"](7).fit(rows_of(x)).outputs(x) >= 0
    for column, bits in zip(x.T, codes.T, strict=True):
        assert bits.tolist() == [value > statistics.median(column.tolist()) for value in column]
    assert (x == 0).mean(axis=0).max() > 0.5


def test_fewer_signs_than_numbers_are_of_the_first_principal_components(data):
    x, _ = data
    _, _, axes = np.linalg.svd(x - x.mean(axis=0, dtype=float), full_matrices=False)
    codes = CODERS["signs"](3).fit(rows_of(x)).outputs(x) >= 0
    for axis, bits in zip(axes, codes.T, strict=False):
        v = (x - x.mean(axis=0, dtype=float)) @ axis
        agreement = bits == (v > np.median(v))
        assert agreement.all() or not agreement.any()  # an axis has no direction
    with pytest.raises(ValueError, match=r"^bits is 8, and method 'signs' has a bit for each of the embedding's 7 num"):
        Hasher(bits=8, method="signs").fit(x)
    with pytest.raises(ValueError, match=r"^the rows are all equal"):
        Hasher(bits=7, method="signs").fit(np.ones((5, 7)))


def test_lsh_has_random_hyperplanes_that_are_orthogonal_in_groups(data):
    x, _ = data
    found = CODERS["lsh"](17, seed=3).fit(rows_of(x))
    np.testing.assert_allclose(found.mean, x.mean(axis=0, dtype=float))
    for group in (found.weight[:7], found.weight[7:14], found.weight[14:]):
        np.testing.assert_allclose(group @ group.T, np.eye(len(group)), atol=1e-12)
    assert abs(found.weight[0] @ found.weight[7]) > 1e-6  # another rotation, not the first one again
    assert not found.bias.any()


@pytest.mark.parametrize("bits", [3, 7, 12])
def test_itq_turns_the_principal_axes(data, bits):
    x, _ = data
    found = CODERS["itq"](bits, seed=0).fit(rows_of(x))
    _, _, axes = np.linalg.svd(x - x.mean(axis=0, dtype=float), full_matrices=False)
    projector = axes[:bits].T @ axes[:bits]  # onto the space of the axes
    np.testing.assert_allclose(found.weight.T @ found.weight, projector, atol=1e-3)
    assert found.weight.shape == (bits, 7)


def test_directions_without_variance_are_left_out(data):
    x, _ = data
    flat = np.concatenate([x[:, :2], np.ones((90, 3), np.float32)], axis=1)
    found = CODERS["itq"](4, seed=0).fit(rows_of(flat))
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


def halves(rows):
    return zip(rows[: len(rows) // 2], rows[len(rows) // 2 :], strict=True)


def cosine(a, b):
    return sum(p * q for p, q in zip(a, b, strict=True)) / math.hypot(*a) / math.hypot(*b)


def batch(rows, bits=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, bits, generator=generator, dtype=torch.float64)


def test_sdc_calibrates_the_cosines_of_a_batch():
    coder, x = CODERS["sdc"](5), batch(10, 4, seed=1)
    logits = batch(10)
    coder.norm = torch.nn.Identity()
    order = sorted(range(5), key=[cosine(*pair) for pair in halves(x.tolist())].__getitem__)
    found = [cosine(*pair) for pair in halves(logits.tolist())]
    wanted = [2 * scipy.stats.beta.ppf((2 * r + 1) / 10, 5, 5) - 1 for r in range(5)]
    calibration = sum(abs(found[pair] - t) for pair, t in zip(order, wanted, strict=True)) / 5
    quantization = sum(1 - cosine(row, [math.copysign(1, u) for u in row]) for row in logits.tolist()) / 10
    assert coder.loss(lambda rows: logits, x).item() == pytest.approx(calibration + quantization, rel=1e-5)
    assert torch.autograd.gradcheck(lambda u: coder.loss(lambda rows: u, x), logits.requires_grad_())


def test_the_normalization_of_sdc_becomes_part_of_the_last_layer(data):
    x = torch.from_numpy(data[0])
    coder, model = CODERS["sdc"](4), HashModel(7, 4, 8, dropout=0.0).eval()
    coder.begin(model, rows_of(data[0]))
    before = model(x).detach()
    with torch.no_grad():
        coder.norm.weight.copy_(torch.tensor([1.0, 2.0, 0.5, -1.0]))
        coder.norm.bias.copy_(torch.tensor([0.0, 1.0, -1.0, 0.5]))
        coder.finish(model, x)
    torch.testing.assert_close(model(x), coder.norm(before), rtol=1e-3, atol=1e-4)  # in training, by the rows' own


def slow_neighbor_loss(x, a, b, sharpness):
    """How far the neighbors by a and b are from those by cosine, a pair at a time."""
    n, cosines = len(x), [[cosine(p, q) for q in x] for p in x]
    tau = 0.2 * np.std([cosines[i][j] for i in range(n) for j in range(n) if i != j], ddof=1)
    total = 0.0
    for i in range(n):
        others = [j for j in range(n) if j != i]
        p = np.exp([cosines[i][j] / tau for j in others])
        q = np.exp([math.exp(sharpness) * float(a[i] @ b[j]) / len(b[i]) for j in others])
        total -= (p / p.sum() * np.log(q / q.sum())).sum() / n
    return total


def test_sne_wants_the_neighbors_of_the_embeddings(data):
    x, coder = data[0], CODERS["sne"](5, seed=1)
    model = HashModel(7, 5, 0, dropout=0.0)
    coder.begin(model, rows_of(x))
    itq = CODERS["itq"](5, int(np.random.default_rng(1).integers(2**63))).fit(rows_of(x)).outputs(x)
    logits = model.encoder().outputs(x)
    np.testing.assert_allclose(logits / logits[0, 0], itq / itq[0, 0], rtol=1e-3, atol=1e-3)  # it starts there
    assert np.abs(logits).mean() == pytest.approx(1, rel=1e-3)
    assert np.square(model.head.weight.detach().numpy()).mean() == pytest.approx(1, rel=1e-3)
    total = slow_neighbor_loss(x[:6].tolist(), logits[:6], signs(logits[:6]), math.log(15))
    assert coder.loss(model, torch.from_numpy(x[:6])).item() == pytest.approx(total, rel=1e-3)


def test_batches_of_sne_are_in_turn_random_and_rows_with_their_nearest():
    x = np.random.default_rng(0).standard_normal((200, 3)).astype(np.float32)
    nearest = [set(np.argsort([-cosine(row.tolist(), other.tolist()) for other in x])[:16]) for row in x]
    random, *others = CODERS["sne"](5).picks(torch.from_numpy(x), 48, 4)
    assert len(set(random.tolist())) == 48
    for rows in others[::2]:
        batch = set(rows.tolist())
        whole = [near for near in nearest if near <= batch]  # of which it is made
        assert 16 <= len(batch) == len(rows) <= 48
        assert set().union(*whole) == batch


def test_the_gradient_of_sne_is_that_of_its_outputs_and_of_its_codes_through_a_tanh():
    coder, logits, x = CODERS["sne"](5), batch(6).requires_grad_(), batch(6, 4, seed=1)
    coder.sharpness = torch.tensor(math.log(9), dtype=torch.float64, requires_grad=True)
    coder.loss(lambda rows: logits, x).backward()
    values, step = logits.detach().numpy(), 1e-6
    b = signs(values).astype(float)

    def slope(moved):
        ends = [slow_neighbor_loss(x.tolist(), *moved(sign * step)) for sign in (1, -1)]
        return (ends[0] - ends[1]) / (2 * step)

    for row, bit in np.ndindex(b.shape):
        one = np.zeros_like(b)
        one[row, bit] = 1
        wanted = slope(lambda by, one=one: (values + by * one, b, math.log(9)))
        wanted += slope(lambda by, one=one: (values, b + by * one, math.log(9))) / math.cosh(values[row, bit]) ** 2
        assert logits.grad[row, bit].item() == pytest.approx(wanted, rel=1e-5, abs=1e-8)
    assert coder.sharpness.grad.item() == pytest.approx(slope(lambda by: (values, b, math.log(9) + by)), rel=1e-5)
    assert logits.grad.abs().min() > 1e-6


def test_sne_keeps_more_neighbors_than_itq():
    x = load_digits().data[:800].astype(np.float32)
    query, base = x[:200], x[200:]
    found = []
    for name in ("itq", "sne"):
        hasher = Hasher(bits=32, method=name).fit(base)
        asked = hasher.encode(query), query, hasher.train_codes_, base
        found.append(evaluate_neighbors(*asked, [10], query_outputs=hasher.outputs(query)).recall[0])
    assert found[1] > found[0] + 0.01


def test_cibhash_finds_the_other_view():
    z = batch(6)
    total = 0.0
    for i in range(6):
        of_others = {j: math.exp(cosine(z[i].tolist(), z[j].tolist()) / 0.3) for j in range(6) if j != i}
        total -= math.log(of_others[(i + 3) % 6] / sum(of_others.values())) / 6
    assert contrast(z).item() == pytest.approx(total, rel=1e-6)
    assert torch.autograd.gradcheck(contrast, z.requires_grad_())


def test_cibhash_makes_the_views_alike():
    logits = batch(6).requires_grad_()

    def slow(of_first, of_second):
        total = 0.0
        for i in range(6):
            for a, b in zip(of_first[i], of_second[(i + 3) % 6], strict=True):
                p, q = 1 / (1 + math.exp(-a)), 1 / (1 + math.exp(-b))
                total += (p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))) / 6
        return total

    fixed = logits.tolist()
    loss = divergence(logits)
    assert loss.item() == pytest.approx(slow(fixed, fixed), rel=1e-6)
    loss.backward()
    moved = logits.tolist()
    moved[2][1] += 1e-5  # as the first argument only
    assert logits.grad[2, 1].item() == pytest.approx((slow(moved, fixed) - slow(fixed, fixed)) / 1e-5, rel=1e-3)


@pytest.mark.parametrize("name", ["sne", "sdc", "cibhash"])
def test_what_learns_by_batches_refuses_rows_that_tell_nothing(name):
    with pytest.raises(ValueError, match=r"^the rows are all equal; there is nothing to tell them apart by"):
        CODERS[name](4).fit(rows_of(np.ones((5, 3), np.float32)))
    with pytest.raises(ValueError, match=r"^the rows have embeddings that are NaN or infinite"):
        CODERS[name](4).fit(rows_of(np.full((5, 3), np.nan, np.float32)))
    CODERS[name](4).fit(rows_of(np.eye(3, dtype=np.float32)))  # an odd number of rows


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
    found = CODERS["ridge"](10, 0, 3, centers).fit(rows_of(x, hot if multi_label else y))
    penalty = Regression(rows_of(x)).best_penalty(targets)
    wanted = least_squares(standardized(x), targets, penalty)(standardized(x))
    np.testing.assert_allclose(found.outputs(x), wanted, atol=1e-4)


@pytest.mark.parametrize("name", LABELED)
def test_coders_with_labels_find_classes(data, name):
    x, y = data
    train, query = np.arange(90) % 3 > 0, np.arange(90) % 3 == 0
    of = {method: Hasher(bits=16, method=method).fit(x[train], y[train]) for method in (name, "lsh")}
    found = {
        m: evaluate(h.encode(x[query]), y[query], h.encode(x[train]), y[train], query_outputs=h.outputs(x[query])).map
        for m, h in of.items()
    }
    assert found[name] > max(0.8, found["lsh"])
    assert of[name].score(x[query], y[query]) == pytest.approx(found[name])
    assert (of[name].predict(x[query], k=9) == y[query]).mean() > 0.85


# ------------------------------------------------------------------------------------------------- the estimator


@pytest.mark.parametrize("name", CODERS)
def test_a_coder_is_a_hasher_like_any_other(data, name, tmp_path):
    x, y = data
    bits = 7 if name == "signs" else 10  # as many as there are numbers
    hasher = Hasher(bits=bits, method=name, seed=4).fit(x, y)
    assert (name_of(hasher), hasher.method_, hasher.trained_) == (name, name, None)
    assert (hasher.model_.layout.hidden > 0) == CODERS[name].network
    assert (hasher.centers_ is None) != ("centers" in CODERS[name].settings)
    split = rows_of(x, y)
    centers = hasher.centers_
    fitted = coder_of(name)(bits, 4, 3, centers).fit(split)
    outputs = fitted.outputs(x) if hasattr(fitted, "outputs") else fitted(torch.from_numpy(x)).detach().numpy()
    assert (unpack(hasher.encode(x), bits) == signs(outputs)).mean() > 0.99  # the model rounds to float32
    hasher.save_pretrained(tmp_path)
    loaded = Hasher.from_pretrained(tmp_path)
    np.testing.assert_array_equal(loaded.encode(x), hasher.encode(x))
    assert name_of(loaded) == name
    np.testing.assert_array_equal(loaded.fit(x, y).encode(x), hasher.encode(x))  # with the settings that it stores
    again, other = (fit_split(Hasher(bits=bits, method=name, seed=seed), split, 3) for seed in (4, 5))
    np.testing.assert_array_equal(again.encode(x), hasher.encode(x))
    if name not in ("signs", "ridge", "logistic"):  # where nothing is random but the centers
        assert (other.encode(x) != hasher.encode(x)).any()


def test_without_labels_the_best_of_four_on_held_out_rows_is_kept():
    x = load_digits().data[:300].astype(np.float32)
    hasher = Hasher(bits=16, seed=3).fit(x)
    order = np.random.default_rng(3).permutation(300)
    query, base = x[np.sort(order[:30])], x[np.sort(order[30:])]
    assert {one.method for one in hasher.choice_} == {"signs", "lsh", "itq", "sne"}
    for method, recall, reranked in hasher.choice_:
        tried = Hasher(bits=16, seed=3, method=method).fit(base)
        codes, outputs = (tried.encode(query), tried.encode(base)), tried.outputs(query)
        wanted = evaluate_neighbors(codes[0], query, codes[1], base, [10], query_outputs=outputs).recall[0]
        assert recall == pytest.approx(wanted)
        assert reranked == pytest.approx(slow_recall_of_candidates(outputs, unpack(codes[1], 16), query, base))
    recalls = [one.recall for one in hasher.choice_]
    near = [one.reranked for one in hasher.choice_ if one.recall >= max(recalls) - 0.01]
    assert hasher.choice_[0].reranked == max(near)
    assert recalls[0] >= max(recalls) - 0.01
    assert recalls[0] > recalls[-1]
    assert hasher.method_ == hasher.choice_[0].method
    assert hasher.choice_[0].reranked > recalls[0]
    np.testing.assert_array_equal(hasher.encode(x), Hasher(bits=16, seed=3, method=hasher.method_).fit(x).encode(x))
    assert {one.method for one in Hasher(bits=70).fit(x).choice_} == {"lsh", "itq", "sne"}  # signs have 64 bits at most
    for named in (Hasher(bits=8, method="lsh").fit(x), Hasher(bits=8, epochs=1).fit(x, np.arange(300) % 2)):
        assert not named.choice_
    with pytest.raises(ValueError, match=r"^epochs is 5 and there are no labels, and methods that need none have"):
        Hasher(epochs=5).fit(x)


def slow_recall_of_candidates(outputs, base_codes, query, base, candidates=100):
    """The share of the 10 nearest by cosine among the codes nearest to outputs, in expectation over ties."""
    shares = []
    for asked, row in zip(outputs.astype(float), query, strict=True):
        cosines = [cosine(row.tolist(), other.tolist()) for other in base]
        distances = ((base_codes > 0) != (asked >= 0)) @ np.abs(asked)
        last = np.sort(distances)[candidates - 1]
        places = (candidates - (distances < last).sum()) / (distances == last).sum()
        nearest = distances[np.argsort(cosines)[::-1][:10]]
        shares.append(((nearest < last).sum() + places * (nearest == last).sum()) / 10)
    return np.mean(shares)


def test_few_rows_without_labels_have_one_default(data):
    x, _ = data
    hasher = Hasher(bits=5).fit(x)
    assert (hasher.method, hasher.method_, name_of(hasher)) == (None, "sne", "sne")
    np.testing.assert_array_equal(hasher.encode(x), Hasher(bits=5, method="sne").fit(x).encode(x))
    assert len(hasher.classes_) == 0
    for what in (lambda: hasher.predict(x), lambda: hasher.score(x, np.zeros(90))):
        with pytest.raises(ValueError, match=r"needs labels of the training rows, and the hasher was"):
            what()


@pytest.mark.parametrize("name", FREE)
def test_a_coder_without_labels_never_looks_at_them(data, name):
    x, y = data
    fits = [Hasher(bits=7, method=name).fit(x, labels).encode(x) for labels in (None, y)]
    np.testing.assert_array_equal(*fits)


@pytest.mark.parametrize("name", ["csq", "ridge"])
def test_a_method_with_labels_says_that_there_are_none(data, name, tmp_path):
    said = rf"^method is '{name}', which learns from labels, and there are none; .* \({', '.join(FREE)}\)$"
    with pytest.raises(ValueError, match=said):
        Hasher(method=name).fit(data[0])
    np.save(tmp_path / "x.npy", data[0])
    with pytest.raises(ValueError, match=said.replace("^", "^--")):
        run_command("train", tmp_path / "x.npy", "--out", tmp_path / "m", "--method", name)
    assert not (tmp_path / "m").exists()


def test_a_default_is_stored_by_its_name(data, tmp_path):
    x, y = data
    for settings, labels, name in (({}, None, "sne"), ({"hidden": 8, "epochs": 1}, y, "csq")):
        Hasher(**grouped(bits=8, **settings)).fit(x, labels).save_pretrained(tmp_path / name)
        assert Hasher.from_pretrained(tmp_path / name).method == name


def test_settings_of_a_network_are_refused(data):
    x, y = data
    network = {"epochs": 5, "lr": 0.01, "hidden": 0, "guidance": {"weight": 1.0}, "centers": "best", "pull": "bits"}
    for name, value in network.items():
        said = f"^{name} is .* and the method is 'itq', which has its own settings; leave {name} out"
        with pytest.raises(ValueError, match=said):
            Hasher(**grouped(method="itq", **{name: value})).fit(x, y)
    with pytest.raises(
        ValueError, match=r"^method is 'mine'; it must be one of hashnet, .*, or of the coders: signs, .*logistic"
    ):
        Hasher(method="mine").fit(x)
    Hasher(method="ridge", centers="best", bits=8).fit(x, y)


# -------------------------------------------------------------------------------------------------- the commands


def test_from_a_file_without_labels_to_an_evaluation(data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", data[0])

    def run(*words):
        run_command(*words)
        return capsys.readouterr().out

    said = run("train", "x.npy", "--out", "m", "--bits", 12)
    assert "x.npy has no labels" in said
    assert "sne" in said
    assert "to find 95 % of the 10 nearest among these 81 rows, re-rank" in said
    metrics = json.loads((tmp_path / "m" / "metrics.json").read_text())
    assert (metrics["method"], metrics["queries"], metrics["base"]) == ("sne", 9, 81)
    assert (metrics["epochs"], metrics["training"], metrics["neighbors"]) == (None, None, [10, 81])
    for split in ("query", "base"):
        run("encode", "--model", "m", "x.npy", "--split", split, "--out", f"{split}.parquet")
    files = ("--queries", "query.parquet", "--base", "base.parquet")
    found = json.loads(run("evaluate", *files, "--neighbors", "x.npy", "--json"))
    assert found == metrics["by_bits"]
    assert "recall@k" in run("evaluate", *files, "--neighbors", "x.npy", "--rank", 3)
    shown = run("evaluate", *files, "--neighbors", "x.npy", "--rerank", "20,81", "--json")
    assert json.loads(shown)["neighbor_reranked"][0][1] == 1  # all of the base
    assert "with 20 re-ranked" in run("evaluate", *files, "--neighbors", "x.npy", "--rerank", "20")
    with pytest.raises(
        ValueError, match=r"^--neighbors is 'x.npy', and --probe is given; neighbors are found without labels"
    ):
        run("evaluate", *files, "--neighbors", "x.npy", "--probe")
    for names in (["--neighbors", "x.npy"], ["--neighbors", "x.npy", "--neighbors", "./x.npy"]):
        with pytest.raises(ValueError, match=r"is in queries and in base \(9 rows are\), and would find itself"):
            run("evaluate", files[0], files[1], "--base", "query.parquet", *names)
    np.save("short.npy", data[0][:50])
    with pytest.raises(ValueError, match=r"^--queries has a code of row \d+, and short.npy has 50 rows"):
        run("evaluate", *files, "--neighbors", "short.npy", "--neighbors", "x.npy")


def test_methods_say_who_needs_labels():
    from lbhash.cli.tables import method_rows

    rows = {row["name"]: row for row in method_rows()}
    assert [name for name, row in rows.items() if not row["labels"]] == FREE
    assert rows["csq"]["surrogate"] == "csq_d"
    assert (rows["ridge"]["surrogate"], rows["ridge"]["network"]) == (None, False)
    assert all(row["summary"] and row["source"] for row in rows.values())
