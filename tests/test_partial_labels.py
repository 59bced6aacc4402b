"""Rows without a label among rows that have one: reading, splitting, training, encoding, evaluating."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow as pa
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from lbhash import Hasher
from lbhash.codes.io import CodeTable, read_codes, write_codes
from lbhash.data import load_dataset, load_table
from lbhash.data.holdout import hold_out
from lbhash.data.split import EmbeddingSplit
from lbhash.hasher import fit_split
from lbhash.losses import Objective
from lbhash.training.class_posterior import GUESSING
from lbhash.training.coders.sne import neighbor_loss
from lbhash.training.partial import WEIGHT, WithNeighbors, with_guesses
from lbhash.training.settings import grouped
from lbhash.tuning.tuner import search
from lbhash.utils.labels import UNLABELED, Labels, has_label, read_labels
from training_tools import Stop

SMALL = {"bits": 8, "epochs": 2, "hidden": 0, "centers": "best"}

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def some(blobs):
    """The labels of the training rows, every third row with one."""
    return np.where(np.arange(len(blobs.y)) % 3 == 0, blobs.y, UNLABELED)


@pytest.fixture
def file(blobs, some, write_parquet, tmp_path):
    """A file of these rows, and of the queries with all labels but one."""
    labels = [None if one == UNLABELED else f"class {one}" for one in some]
    asked = [f"class {one}" for one in blobs.query_y]
    asked[0] = None
    flags = np.arange(200) < 160
    columns = {"in_train": flags, "in_base": flags, "in_query": ~flags}
    rows = np.concatenate([blobs.x, blobs.query_x])
    return write_parquet(tmp_path / "some.parquet", rows, label=labels + asked, **columns)


# ---------------------------------------------------------------------------------------------------------- reading


def test_minus_one_is_a_class_and_no_missing_label(capsys):
    for labels in ([1, -1], [-2, -1, 0], [0, -1, None]):
        found = read_labels(labels, "y")
        assert [found.classes[at] for at in found.numbers[found.known]] == [one for one in labels if one is not None]
        said = "y has -1, which is a class like any other; a row without a label is None, NaN or empty\n"
        assert capsys.readouterr().err == (said if labels[0] == 0 else "")


def test_labels_in_another_order_stay_missing():
    found = Labels(np.array([1, UNLABELED, 0]), ["b", "d"]).ordered(["a", "b", "d"])
    np.testing.assert_array_equal(found.numbers, [2, UNLABELED, 1])
    np.testing.assert_array_equal(Labels(np.array([UNLABELED]), []).ordered(["a"]).numbers, [UNLABELED])


def test_files_of_every_kind(tmp_path):
    x = np.arange(8.0).reshape(4, 2)
    (tmp_path / "a.csv").write_text("emb_0,emb_1,label\n0,1,cat\n2,3,\n4,5,dog\n6,7,\n")
    (tmp_path / "b.csv").write_text("emb_0,emb_1,label\n0,1,4\n2,3,\n4,5,7\n6,7,\n")
    lines = [
        {"embedding": row.tolist(), "label": label} for row, label in zip(x, ["cat", None, "dog", None], strict=True)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    np.savez(tmp_path / "a.npz", embeddings=x, labels=[0, np.nan, 1, np.nan])
    np.save(tmp_path / "a.npy", x)
    np.save(tmp_path / "a_labels.npy", np.array(["cat", "", "dog", ""]))
    names = ("cat", "dog")
    for name, classes in {"a.csv": names, "b.csv": (4, 7), "a.jsonl": names, "a.npz": (0, 1), "a.npy": names}.items():
        table = load_table(tmp_path / name)
        np.testing.assert_array_equal(table.labels, [0, UNLABELED, 1, UNLABELED], err_msg=name)
        assert table.class_names == classes


def test_a_protocol_asks_no_row_without_a_label(blobs, some, write_parquet, tmp_path):
    labels = pa.array(some, mask=some == UNLABELED)
    file = write_parquet(tmp_path / "some.parquet", blobs.x, label=labels)
    data = load_dataset(file)
    assert has_label(data.query.labels).all()
    assert has_label(data.base.labels).all()
    missing = data.train.rows[~has_label(data.train.labels)]
    np.testing.assert_array_equal(missing, np.flatnonzero(some == UNLABELED))
    assert data.classes == 4
    compact, classes = data.train.compact()
    np.testing.assert_array_equal(compact.labels, data.train.labels)
    np.testing.assert_array_equal(classes, range(4))
    with pytest.raises(
        ValueError, match=r"protocol is 'unseen', and 106 rows of some\.parquet have no label; leave them"
    ):
        load_dataset(file, protocol="unseen")


def test_rows_without_a_label_never_validate(blobs, some):
    split = EmbeddingSplit(blobs.x, np.arange(160), some)
    kept, held_out = hold_out(split, 0.25)
    assert has_label(held_out.labels).all()
    alone, others = hold_out(split.labeled(), 0.25)
    np.testing.assert_array_equal(held_out.rows, others.rows)
    np.testing.assert_array_equal(kept.labeled().rows, alone.rows)


def test_a_split_without_any_label_among_others(blobs, write_parquet, tmp_path):
    flags = np.arange(160) < 100
    columns = {"in_train": flags, "in_base": flags, "in_query": ~flags}
    labels = [None if asked else int(label) for label, asked in zip(blobs.y, ~flags, strict=True)]
    file = write_parquet(tmp_path / "some.parquet", blobs.x, label=labels, **columns)
    with pytest.raises(
        ValueError, match=r"^no row of the query split of some.parquet has a label; give some, or none to"
    ):
        load_dataset(file)


# --------------------------------------------------------------------------------------------------------- training


def test_guesses_are_those_of_a_logistic_regression(blobs, some):
    split = EmbeddingSplit(blobs.x, np.arange(160), some)
    found = with_guesses(split, 4)
    known = has_label(some)
    np.testing.assert_array_equal(found.labels[known], some[known])
    np.testing.assert_array_equal(found.rows, split.rows)
    np.testing.assert_array_equal(split.labels, some)
    z = blobs.x - blobs.x[known].mean(axis=0)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    z = (z - z[known].mean(axis=0)) / np.sqrt(np.square(z[known] - z[known].mean(axis=0)).sum(axis=1).mean())
    oracle = LogisticRegression(C=GUESSING, max_iter=1000).fit(z[known], some[known]).predict(z)
    assert (found.labels == oracle)[~known].mean() > 0.98
    assert (found.labels == blobs.y)[~known].mean() > 0.8


class Host(Objective):
    def forward(self, logits, labels, index):
        return (logits.sum(dim=1) * labels * (index + 1)).mean()


def test_the_loss_adds_that_of_the_neighbors(blobs):
    split = EmbeddingSplit(blobs.x, np.arange(160)[::-1].copy(), blobs.y[::-1].copy())
    loss = WithNeighbors(Host(), split)
    index = torch.from_numpy(np.random.default_rng(0).permutation(160)[:20])
    labels = torch.from_numpy(split.labels)[index]
    logits = torch.randn(20, 8, generator=torch.Generator().manual_seed(0))
    x = torch.from_numpy(blobs.x[::-1][index.numpy()].copy())
    bits = torch.where(logits >= 0, 1.0, -1.0)
    wanted = Host()(logits, labels, index) + WEIGHT * neighbor_loss(bits, bits, x, torch.tensor(math.log(15)))
    torch.testing.assert_close(loss(logits, labels, index), wanted)


@pytest.mark.parametrize("method", ["csq", "dsdh"])
def test_fit_takes_missing_labels_of_every_kind(blobs, some, method):
    numbers = np.where(some == UNLABELED, np.nan, some)
    fitted = Hasher(**grouped(**SMALL, method=method)).fit(blobs.x, numbers)
    np.testing.assert_array_equal(fitted.classes_, range(4))
    np.testing.assert_array_equal(fitted.train_labels_, some)
    assert len(fitted.train_codes_) == 160
    assert set(fitted.predict(blobs.query_x, k=3)) <= set(range(4))
    assert 0 < fitted.score(blobs.query_x, blobs.query_y) <= 1


@pytest.mark.parametrize("head", [None, "joined"])
def test_the_joined_head_works_beside_missing_labels(blobs, some, head):
    split = EmbeddingSplit(blobs.x, np.arange(160), some)
    model = fit_split(Hasher(**grouped(**SMALL, head=head)), split, 4).model_
    alone = fit_split(Hasher(**grouped(**SMALL, head=head)), split.labeled(), 4).model_
    assert model.metadata["posterior"] == alone.metadata["posterior"]  # it learns from rows with labels alone


def test_where_most_rows_have_a_label_the_others_are_left_out(blobs):
    labels = np.where(np.arange(160) % 4 == 0, UNLABELED, blobs.y)
    split = EmbeddingSplit(blobs.x, np.arange(160), labels)
    found, alone = (fit_split(Hasher(**grouped(**SMALL, seed=1)), rows, 4) for rows in (split, split.labeled()))
    np.testing.assert_array_equal(found.outputs(blobs.query_x), alone.outputs(blobs.query_x))
    assert len(found.train_codes_) == 160
    np.testing.assert_array_equal(found.train_labels_, labels)


def test_a_stopped_run_resumes_bit_for_bit(blobs, some, tmp_path):
    split = EmbeddingSplit(blobs.x, np.arange(160), some)
    settings = {**SMALL, "monitor": "ratio", "batch_size": 16}
    whole = fit_split(Hasher(**grouped(**settings)), split, 4)
    with pytest.raises(KeyError):
        fit_split(Hasher(**grouped(**settings)), split, 4, directory=tmp_path, watchers=[Stop(1)])
    again = fit_split(Hasher(**grouped(**settings)), split, 4, directory=tmp_path, resume=True)
    np.testing.assert_array_equal(again.train_codes_, whole.train_codes_)
    assert again.model_.fingerprint() == whole.model_.fingerprint()


def test_what_is_refused(blobs, some):
    split = EmbeddingSplit(blobs.x, np.arange(160), some)
    none = np.full(160, None)
    said = "106 of 160 rows have no label"
    for fit, line in {
        (lambda: Hasher(bits=8).fit(blobs.x, none)): "y is missing in every row; leave y out to learn without labels",
        (
            lambda: fit_split(Hasher(bits=8), split.where(~has_label(some)), 4)
        ): "106 of 106 rows have no label; leave the",
        (lambda: fit_split(Hasher(bits=8, method="ridge"), split, 4)): f"{said}, and this training needs one for each",
        (lambda: search(Hasher(**grouped(**SMALL)), split, 4)): f"{said}, which a search needs; leave them out",
    }.items():
        with pytest.raises(ValueError, match=f"^{line}"):
            fit()


def test_labels_that_none_needs_may_be_missing(blobs, some):
    split = EmbeddingSplit(blobs.x, np.arange(160), some)
    found = fit_split(Hasher(bits=8, method="itq"), split, 4)
    np.testing.assert_array_equal(found.train_codes_, Hasher(bits=8, method="itq").fit(blobs.x).train_codes_)


# ----------------------------------------------------------------------------------------------- codes and commands


@pytest.mark.parametrize("suffix", [".parquet", ".npz"])
@pytest.mark.parametrize("labels", [[2, UNLABELED, 0], [UNLABELED] * 3])
def test_codes_keep_rows_without_a_label(tmp_path, suffix, labels):
    table = CodeTable(np.arange(3, dtype=np.uint8)[:, None], 8, np.arange(3), np.array(labels))
    write_codes(tmp_path / f"codes{suffix}", table)
    found = read_codes(tmp_path / f"codes{suffix}")
    values = [None if one == UNLABELED else found.class_names[one] for one in found.labels]
    assert values == [None if one == UNLABELED else one for one in labels]


def test_a_method_without_labels_guesses_none(succeed, file, tmp_path):
    _, errors = succeed("train", file, "--out", tmp_path / "model", "--bits", 8, "--method", "itq")
    assert "guessed" not in errors
    assert "1 of 40 query rows have no label: they are not evaluated" in errors


def test_train_says_what_it_does_with_missing_labels(succeed, blobs, write_parquet, tmp_path):
    labels = pa.array(blobs.y, mask=np.arange(160) % 4 == 0)
    file = write_parquet(tmp_path / "most.parquet", blobs.x, label=labels)
    _, errors = succeed("train", file, "--out", tmp_path / "model", "--bits", 8, "--epochs", 1, "--hidden", 0)
    assert "train rows have no label: they are left out of the training" in errors


def test_train_encode_evaluate_and_index(succeed, json_of, file, tmp_path):
    model, base, query, index = (tmp_path / name for name in ("model", "base.parquet", "query.parquet", "index"))
    given = ("--bits", 8, "--epochs", 1, "--hidden", 0, "--json")
    printed, errors = succeed("train", file, "--out", model, *given)
    told = json.loads(printed)
    assert "106 of 160 train rows have no label: they are trained on with guessed" in errors
    assert "106 of 160 base rows have no label: they are not evaluated" in errors
    assert "1 of 40 query rows have no label: they are not evaluated" in errors
    assert json.loads((model / "config.json").read_text())["metadata"]["classes"] == [
        f"class {one}" for one in range(4)
    ]
    for split, out in (("base", base), ("query", query)):
        succeed("encode", "--model", model, file, "--split", split, "--out", out)
    printed, errors = succeed("evaluate", "--queries", query, "--base", base, "--json")
    assert json.loads(printed)["map"] == pytest.approx(told["by_bits"]["map"])
    assert "106 of 160 codes of base have no label and are left out" in errors
    assert "1 of 40 codes of queries have no label and are left out" in errors
    succeed("index", "build", "--model", model, file, "--split", "base", "--out", index)
    (found,) = json_of("search", "--model", model, index, "--data", file, "--row", 0, "-k", 160)["queries"]
    labels = [neighbor["label"] for neighbor in found["neighbors"]]
    assert (len(labels), labels.count(None)) == (160, 106)


def test_codes_without_any_label_are_not_evaluated(refuse, tmp_path):
    for name, labels in (("base", [UNLABELED] * 3), ("query", [0, 1, 0])):
        write_codes(
            tmp_path / f"{name}.npz",
            CodeTable(np.arange(3, dtype=np.uint8)[:, None], 8, np.arange(3), np.array(labels)),
        )
    errors = refuse("evaluate", "--queries", tmp_path / "query.npz", "--base", tmp_path / "base.npz")
    assert "3 of 3 codes of base have no label; an evaluation needs some" in errors
