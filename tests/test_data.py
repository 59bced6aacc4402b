from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from lbhash.data import Dataset, load_dataset, load_table
from lbhash.data.dataset import SPLITS
from lbhash.data.holdout import validation_dataset
from lbhash.data.protocols import PROTOCOLS, Protocol
from lbhash.data.split import EmbeddingSplit

rng = np.random.default_rng(5)
X = rng.integers(0, 200, (60, 6)).astype(np.float32)
Y = np.arange(60) % 3


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_flags_say_the_splits(folder, write_parquet):
    base, query = Y + np.arange(60) < 45, np.arange(60) > 45
    train = base & (np.arange(60) % 2 == 0)
    write_parquet("d.parquet", X.astype(np.uint8), label=Y, in_train=train, in_base=base, in_query=query)
    dataset = load_dataset("d.parquet")
    assert (dataset.protocol, dataset.classes, dataset.multi_label) == ("flags", 3, False)
    for split, flag in (("train", train), ("base", base), ("query", query)):
        part = dataset.split(split)
        np.testing.assert_array_equal(part.rows, np.flatnonzero(flag))
        np.testing.assert_array_equal(part.labels, Y[flag])
        np.testing.assert_array_equal(part.take(slice(None)), X[flag])
        assert part.embeddings is dataset.train.embeddings
    assert dataset.train.embeddings.dtype == np.uint8
    assert load_dataset("d.parquet", protocol="holdout").protocol == "holdout"
    with pytest.raises(ValueError, match="split is 'all'; it must be one of train, base, query"):
        dataset.split("all")


def write_splits(write_parquet):
    """Files of three splits, each of another form."""
    np.save("train.npy", X[:30])
    np.save("train_labels.npy", Y[:30])
    np.savez("base.npz", embeddings=X[:45], labels=Y[:45])
    write_parquet("query.parquet", X[45:], label=Y[45:])
    return "train.npy", {"base": "base.npz", "query": "query.parquet"}


def test_files_are_splits(folder, write_parquet):
    train, others = write_splits(write_parquet)
    for dataset, name in ((load_dataset(folder), folder.name), (load_dataset(train, **others), train)):
        assert (dataset.protocol, dataset.name) == ("files", name)
        assert [len(dataset.split(split)) for split in SPLITS] == [30, 45, 15]
        np.testing.assert_array_equal(dataset.query.take(slice(None)), X[45:])
        np.testing.assert_array_equal(dataset.train.labels, Y[:30])
    assert load_dataset(train).protocol == "holdout"
    np.save("other.npy", (Y[:30] + 1) % 3)
    np.testing.assert_array_equal(load_table(train, "other.npy").labels, (Y[:30] + 1) % 3)


def test_files_that_do_not_go_together(folder, write_parquet):
    train, others = write_splits(write_parquet)
    for data, files, message in (
        (folder, {"protocol": "holdout"}, r"protocol is 'holdout' and data is the folder '.*', whose files are"),
        (folder, {"labels": "y.npy"}, r"labels is 'y.npy' and data is the folder '.*', whose files have labels of"),
        (train, {"base": "base.npz"}, "base and query go together"),
        (train, {**others, "query": "no.parquet"}, r"query is 'no.parquet', and there is no such file"),
    ):
        with pytest.raises(ValueError, match=message):
            load_dataset(data, **files)
    for embeddings, columns, message in (
        (X[45:, :5], {"label": Y[45:]}, "the query split have 5 numbers and those of the train split 6"),
        (X[45:], {"labels": [[int(y)] for y in Y[45:]]}, "query has several labels a row, and train has one"),
    ):
        write_parquet("query.parquet", embeddings, **columns)
        with pytest.raises(ValueError, match=message):
            load_dataset(folder)
    (folder / "query.parquet").unlink()
    with pytest.raises(ValueError, match="which has no file query"):
        load_dataset(folder)
    np.save("train_labels.npy", Y)
    with pytest.raises(ValueError, match="30 embeddings and 60 labels"):
        load_table(train)


def test_class_names_of_several_files_are_numbered_alike(folder, write_parquet):
    for split, names in (("train", ["cat", "eel"]), ("base", ["cat", "dog"]), ("query", ["dog", "eel"])):
        write_parquet(f"{split}.parquet", X[:2], label=names)
    dataset = load_dataset(folder)
    assert dataset.class_names == ("cat", "dog", "eel")
    assert [dataset.split(split).labels.tolist() for split in SPLITS] == [[0, 2], [0, 1], [1, 2]]
    write_parquet("base.parquet", X[:2], label=[0, 1])
    with pytest.raises(
        ValueError,
        match=r"^train and base must be alike: the labels of train are text, such as 'cat', and those of base are num",
    ):
        load_dataset(folder)


def test_label_lists_of_several_files_get_as_many_columns(folder, write_parquet):
    column = pa.LargeListArray.from_arrays(pa.array(np.arange(0, X.size + 1, 6)), pa.array(X.ravel()))
    lists = [[int(y)] if row % 2 else [int(y), 3] for row, y in enumerate(Y)]
    pq.write_table(pa.table({"embedding": column, "labels": lists}), "train.parquet")
    write_parquet("base.parquet", X[:45], labels=[*lists[:44], [1, 4]])
    write_parquet("query.parquet", X[45:], labels=lists[45:])
    dataset = load_dataset(folder)
    assert {dataset.split(split).labels.shape[1] for split in SPLITS} == {dataset.classes} == {5}
    assert [np.flatnonzero(row).tolist() for row in dataset.train.labels] == lists
    assert np.flatnonzero(dataset.base.labels[44]).tolist() == [1, 4]
    np.testing.assert_array_equal(dataset.train.take(slice(None)), X)


@pytest.mark.parametrize(
    ("name", "per_class", "sizes", "disjoint"),
    [
        ("holdout", 50, (40, 5, 5), True),
        ("digits", 120, (80, 100, 20), False),
        ("characters", 80, (40, 72, 8), False),
        ("cifar10", 700, (500, 100, 100), True),
        ("cifar10-59k", 700, (500, 600, 100), False),
        ("cifar10-50k", 1100, (100, 100, 1000), False),
        ("nuswide21", 700, (500, 600, 100), False),
        ("imagenet100", 200, (100, 150, 50), False),
    ],
)
@pytest.mark.parametrize("multi", [False, True])
def test_protocols(name, per_class, sizes, disjoint, multi):
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(3), per_class))
    labels = np.eye(3, dtype=np.uint8)[y] if multi else y
    rows, again, other = (PROTOCOLS[name].split(labels, seed) for seed in (4, 4, 5))
    for split, size in zip(SPLITS, sizes, strict=True):
        assert len(rows[split]) == 3 * size
        assert multi or np.bincount(y[rows[split]]).tolist() == [size] * 3
        assert (np.diff(rows[split]) > 0).all()
        np.testing.assert_array_equal(rows[split], again[split])
    train, base, query = (rows[split] for split in SPLITS)
    assert not np.intersect1d(query, np.union1d(base, train)).size
    assert np.intersect1d(train, base).size == (0 if disjoint else len(train))
    assert len(np.unique(np.concatenate([train, base, query]))) == 3 * per_class
    assert not np.array_equal(query, other["query"])


@pytest.mark.parametrize("classes", [4, 7])
def test_classes_that_are_never_seen(classes):
    labels = np.random.default_rng(0).permutation(np.repeat(10 * np.arange(classes), 20))
    rows = PROTOCOLS["unseen"].split(labels, seed=4)
    train, base, query = (rows[split] for split in SPLITS)
    trained, asked = set(labels[train]), set(labels[query])
    assert (len(trained), len(asked)) == (-(-classes // 2), classes // 2)
    assert not trained & asked
    assert asked == set(labels[base])
    assert np.array_equal(np.sort(np.concatenate([train, base, query])), np.arange(20 * classes))
    assert len(query) == 2 * len(asked)
    assert np.array_equal(PROTOCOLS["unseen"].split(labels, seed=4)["query"], query)
    for few, message in ((np.eye(5), "have several labels a row"), (labels[labels < 30], "have 3 classes; the proto")):
        with pytest.raises(ValueError, match=message):
            PROTOCOLS["unseen"].split(few, 0)


def test_the_draw_of_single_labels_stays_what_it_was():
    labels = np.random.default_rng(1).integers(0, 4, 50)
    drawn = np.random.default_rng(9)
    expected = [drawn.permutation(np.flatnonzero(labels == c)) for c in range(4)]
    queries = np.sort(np.concatenate([order[: max(1, round(0.1 * len(order)))] for order in expected]))
    np.testing.assert_array_equal(PROTOCOLS["holdout"].split(labels, seed=9)["query"], queries)


@pytest.mark.parametrize("seed", range(3))
def test_every_label_gets_a_query(seed):
    made = np.random.default_rng(seed)
    hot = np.zeros((200, 12), np.uint8)
    hot[:, 0] = 1
    for label in range(1, 11):
        hot[made.choice(200, 2 + label // 4, replace=False), label] = 1
    hot[made.integers(200), 11] = 1
    rows = PROTOCOLS["holdout"].split(hot, seed)
    assert [len(rows[split]) for split in SPLITS] == [160, 20, 20]
    assert not np.intersect1d(rows["query"], rows["base"]).size
    for split in ("query", "base"):  # of each label that has three rows
        assert hot[rows[split]][:, hot.sum(axis=0) > 2].any(axis=0).all()
    rare = hot[:, hot.sum(axis=0) < 3].any(axis=1)
    assert set(np.flatnonzero(rare)) <= set(rows["train"])
    for split in SPLITS:
        np.testing.assert_array_equal(rows[split], PROTOCOLS["holdout"].split(hot, seed)[split])


def test_too_few_rows_for_a_protocol(folder, write_parquet):
    with pytest.raises(ValueError, match=r"class 1 has 6 rows; the protocol needs more than 6 \(2 queries, 4 to train"):
        Protocol(query=2, train=4).split(np.repeat([0, 1], [7, 6]), seed=0)
    with pytest.raises(ValueError, match="the data set has 9 rows; the protocol needs more than 12"):
        Protocol(query=2, train=4).split(np.ones((9, 2)), seed=0)
    hot = np.repeat(np.eye(30, dtype=np.uint8), 3, axis=0)  # more labels than queries
    assert hot[PROTOCOLS["holdout"].split(hot, 0)["query"]].sum(axis=0).tolist().count(1) == 9


@pytest.mark.parametrize(
    ("name", "rows", "dim", "classes", "sizes"),
    [("digits", 1797, 64, 10, (800, 1597, 200)), ("characters", 3200, 784, 40, (1600, 2880, 320))],
)
def test_data_sets_that_need_no_file(name, rows, dim, classes, sizes):
    dataset, other = load_dataset(name, seed=3), load_dataset(name, seed=4)
    assert (dataset.name, dataset.protocol, dataset.classes) == (name, name, classes)
    assert tuple(len(dataset.split(split)) for split in SPLITS) == sizes
    embeddings = dataset.train.embeddings
    assert (embeddings.shape, embeddings.dtype) == ((rows, dim), np.uint8)
    assert not np.array_equal(dataset.query.rows, other.query.rows)
    assert len(set(dataset.class_names)) in (0, classes)
    if name == "digits":
        data, target = load_digits(return_X_y=True)
        np.testing.assert_array_equal(dataset.query.take(slice(None)), data[dataset.query.rows])
        np.testing.assert_array_equal(dataset.query.labels, target[dataset.query.rows])


def test_standardization_of_data_far_from_zero():
    data = (1e6 + rng.normal(size=(9000, 3)) * [1, 8, 0]).astype(np.float32)
    mean, deviation = EmbeddingSplit(data, np.arange(9000), None).standardization()
    wide = data.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(deviation, wide.std(axis=0), rtol=1e-9)
    assert deviation[2] == 0


def test_classes_without_gaps():
    part = EmbeddingSplit(X, np.arange(4), np.array([100, 7, 7, 3]))
    compact, classes = part.compact()
    assert (compact.labels.tolist(), classes.tolist()) == ([2, 1, 1, 0], [3, 7, 100])
    assert compact.embeddings is X
    same = EmbeddingSplit(X, np.arange(60), Y).compact()[0]
    assert same.labels.dtype == Y.dtype
    np.testing.assert_array_equal(same.labels, Y)
    assert same.fingerprint() == EmbeddingSplit(X, np.arange(60), Y).fingerprint()
    hot = EmbeddingSplit(X, np.arange(3), np.array([[0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 0, 1]], np.uint8))
    compact, classes = hot.compact()
    assert (compact.labels.tolist(), classes.tolist()) == ([[1, 1], [0, 0], [0, 1]], [1, 3])
    with pytest.raises(ValueError, match="no row of the split has a label"):
        EmbeddingSplit(X, np.arange(3), np.zeros((3, 2), np.uint8)).compact()


def test_pickles_are_refused(folder):
    class Evil:
        def __reduce__(self):
            return (open, (str(folder / "ran"), "w"))

    np.save("d.npy", np.array([Evil()], object), allow_pickle=True)
    np.savez("y.npz", embeddings=X, labels=np.array([Evil()] * 60, object), allow_pickle=True)
    np.save("x.npy", X)
    for files, name in (
        (("d.npy",), "data"),
        (("y.npz",), "array 'labels' of data"),
        (("x.npy", "d.npy"), "labels is 'd.npy', which"),
    ):
        with pytest.raises((TypeError, ValueError), match=f"^{name} holds Python objects, which are never loaded; "):
            load_table(*files)
    assert not (folder / "ran").exists()


def test_files_without_embeddings_or_labels(folder, write_parquet):
    pq.write_table(pa.table({"price": [1.0], "label": [1]}), "d.parquet")
    np.savez("d.npz", things=X)
    with pytest.raises(ValueError, match=r"which has no column 'embedding' \(it has price, label\)"):
        load_table("d.parquet")
    with pytest.raises(ValueError, match=r"which has no array 'embedding' \(it has things\)"):
        load_table("d.npz")
    write_parquet("d.parquet", X)
    np.save("d.npy", X)
    for name in ("d.parquet", "d.npy"):  # a tenth of all rows is query, as of one class
        found = load_dataset(name)
        assert (found.protocol, found.classes, found.multi_label) == ("holdout", 0, False)
        assert [len(found.split(split)) for split in SPLITS] == [54, 54, 6]
        assert all(found.split(split).labels is None for split in SPLITS)
        assert not set(found.query.rows) & set(found.base.rows)
        with pytest.raises(ValueError, match=f"^protocol is 'cifar10', which samples by class, and {name} has no lab"):
            load_dataset(name, protocol="cifar10")
    flags = {f"in_{split}": np.arange(60) % 3 == at for at, split in enumerate(SPLITS)}
    write_parquet("d.parquet", X, **flags)
    assert load_dataset("d.parquet").query.rows.tolist() == list(range(2, 60, 3))
    write_parquet("d.parquet", X, split=["train", "test", "train"] * 20)
    found = load_dataset("d.parquet")
    assert (found.protocol, found.query.rows.tolist()) == ("official", list(range(1, 60, 3)))
    assert found.train.rows.tolist() == found.base.rows.tolist() == sorted({*range(60)} - {*range(1, 60, 3)})


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl", ".npz"])
def test_a_column_of_words_names_the_splits(folder, suffix, capsys):
    def written(words):
        file = f"d{suffix}"
        frame = pd.DataFrame({"embedding": X.tolist(), "label": Y, "split": words})
        if suffix == ".npz":
            np.savez(file, embedding=X, label=Y, split=np.array(words))
        elif suffix == ".parquet":
            frame.to_parquet(file)
        else:
            frame.to_csv(file, index=False) if suffix == ".csv" else frame.to_json(file, orient="records", lines=True)
        return load_dataset(file), capsys.readouterr().err

    tests = np.arange(60) % 4 == 1
    found, said = written(np.where(tests, "test", "Train"))
    assert (found.protocol, found.query.rows.tolist()) == ("official", np.flatnonzero(tests).tolist())
    assert found.train.rows.tolist() == np.flatnonzero(~tests).tolist()
    assert "split" not in said
    found, said = written(np.where(tests, "val", np.where(np.arange(60) < 20, "train", "test")))
    assert re.search("has the parts .* and val counts as train", said)
    assert found.query.rows.tolist() == np.flatnonzero(~tests & (np.arange(60) >= 20)).tolist()
    found, _ = written(np.array(["train", "gallery", "query"])[np.arange(60) % 3])
    assert [found.split(split).rows.tolist() for split in SPLITS] == [list(range(at, 60, 3)) for at in range(3)]
    for words, held in ((np.where(tests, "test", "a"), "a, test"), (np.where(tests, "test", ""), "test, nothing")):
        found, said = written(words)
        assert f"column 'split' of data holds {held}, not train and test rows alone: it is not used" in said
        assert found.protocol == "holdout"
    found, said = written(np.arange(60) % 3)  # numbers are no words
    assert (found.protocol, "split" in said) == ("holdout", False)


def test_a_class_may_be_without_a_query(folder, write_parquet):
    query = (np.arange(60) > 40) & (Y != 1)
    write_parquet("d.parquet", X, label=Y, in_train=~query, in_base=~query, in_query=query)
    dataset = load_dataset("d.parquet")
    assert set(dataset.train.labels) - set(dataset.query.labels) == {1}
    with pytest.raises(ValueError, match="the query split of d has no row"):
        Dataset("d", "", *(EmbeddingSplit(X, np.arange(n), Y[:n]) for n in (60, 60, 0)))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8), st.integers(0, 9))
def test_data_without_splits_have_queries_new_base_rows_and_training_rows(sizes, seed):
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    if max(sizes) < 3:
        with pytest.raises(ValueError, match="no class has 3 rows"):
            PROTOCOLS["holdout"].split(labels, seed)
        return
    rows = PROTOCOLS["holdout"].split(labels, seed)
    assert sorted(np.concatenate([rows[split] for split in SPLITS])) == list(range(len(labels)))  # none is in two
    for label, size in enumerate(sizes):
        share = 0 if size < 3 else max(1, round(size / 10))
        counts = [int((labels[rows[split]] == label).sum()) for split in SPLITS]
        assert counts == [size - 2 * share, share, share]


def test_base_rows_that_are_trained_on(folder):
    rows, parts = np.arange(60), (np.arange(30), np.arange(20, 50), np.arange(50, 60))
    one = Dataset("d", "", *(EmbeddingSplit(X, part, Y[part]) for part in parts))
    files = Dataset("d", "files", *(EmbeddingSplit(X[part], rows[: len(part)], Y[part]) for part in parts))
    assert one.trained_base().tolist() == files.trained_base().tolist() == [row < 30 for row in range(20, 50)]


def test_bad_flags(folder, write_parquet):
    half = np.arange(60) % 2 == 0
    flags = {"in_train": half, "in_base": half, "in_query": ~half}
    for changed, message in (
        ({"in_query": [None] * 60}, r"in_query of data is .*; it must be a boolean for each row"),
        ({"in_train": np.arange(60) < 2}, r"^row 1 of d.parquet is in query and in train \(1 rows are\); a query must"),
    ):
        write_parquet("d.parquet", X, label=Y, **{**flags, **changed})
        with pytest.raises(ValueError, match=message):
            load_dataset("d.parquet")
    write_parquet("d.parquet", X, label=Y, in_train=half, in_base=half)
    with pytest.raises(ValueError, match=r"d.parquet has no flag in_query; it must have one for train, base and query"):
        load_dataset("d.parquet")
    np.savez("d.npz", embeddings=X, labels=Y, in_train=half, in_base=half, in_query=half[:-1])
    with pytest.raises(ValueError, match=r"the arrays of data differ in their rows: .*'in_query' 59"):
        load_dataset("d.npz")


def test_a_split_of_embeddings_is_what_training_takes():
    split = EmbeddingSplit(X, np.arange(60)[::-1], Y[::-1])
    assert split.embedded() is split
    assert split.input_dim() == split.dim == 6
    np.testing.assert_array_equal(split.inputs(np.array([3, 0]), 7), X[[56, 59]])
    some = split.subsample(7, 3)
    assert (len(some), (np.diff(some.rows) < 0).all()) == (7, True)
    np.testing.assert_array_equal(some.rows, split.subsample(7, 3).rows)
    assert some.rows.tolist() != split.subsample(7, 4).rows.tolist()
    assert split.subsample(60) is split


@pytest.mark.parametrize("multi", [False, True])
def test_validation_is_cut_from_the_training_rows(multi):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(5), [10, 20, 40, 50, 60])
    labels = np.eye(5, dtype=np.uint8)[y] if multi else y
    train = EmbeddingSplit(rng.normal(size=(400, 3)), rng.permutation(400)[:180], labels)
    other = EmbeddingSplit(train.embeddings, np.setdiff1d(np.arange(400), train.rows), labels[np.arange(220) % 180])
    data = Dataset("some", "flags", train, other, other)
    cut = validation_dataset(data, seed=3)
    parts = [cut.train, cut.base, cut.query]
    rows = np.concatenate([part.rows for part in parts])
    np.testing.assert_array_equal(np.sort(rows), np.sort(train.rows))
    of_row = dict(zip(train.rows.tolist(), labels.tolist(), strict=True))
    for part, share in zip(parts, (0.6, 0.3, 0.1), strict=True):
        assert [of_row[row] for row in part.rows.tolist()] == part.labels.tolist()
        assert len(part) == round(180 * share)
        if not multi:
            np.testing.assert_array_equal(np.bincount(part.labels), (np.bincount(y) * share).round())
    assert set(validation_dataset(data, seed=4).query.rows.tolist()) != set(cut.query.rows.tolist())


@pytest.mark.parametrize(("own", "other", "count"), [(0, 50, 0), (40, 60, 40), (80, 40, 120)])
def test_the_validation_base_holds_training_rows_where_the_base_does(own, other, count):
    """As large a share of it, as far as there are any: 200 rows are cut into 120 to train, 60 in the base, 20."""
    table, labels = np.arange(900.0).reshape(300, 3), np.arange(200) % 4
    train = EmbeddingSplit(table, np.arange(200), labels)
    rows = np.r_[:own, 200 : 200 + other]
    base = EmbeddingSplit(table, rows, rows % 4)
    data = Dataset("some", "flags", train, base, EmbeddingSplit(table, np.arange(290, 300), np.arange(10) % 4))
    cut = validation_dataset(data, seed=1)
    assert np.isin(cut.train.rows, cut.base.rows).sum() == count
    assert len(cut.base) == len(set(cut.base.rows.tolist())) == 60 + count
    assert np.array_equal(cut.base.rows % 4, cut.base.labels)
    assert not np.isin(cut.query.rows, np.r_[cut.train.rows, cut.base.rows]).any()
    apart = replace(data, base=replace(base, embeddings=table.copy()))
    assert len(validation_dataset(apart, seed=1).base) == 60


FORMS = pytest.mark.parametrize("suffix", [".parquet", ".npz", ".npy"])


def write_as(folder, suffix, embeddings, labels, write_parquet):
    """Write a file of that form, with labels."""
    if suffix == ".parquet":
        write_parquet(folder / "d.parquet", embeddings, label=labels)
    elif suffix == ".npz":
        np.savez_compressed(folder / "d.npz", embeddings=embeddings, labels=labels)
    else:
        np.save(folder / "d.npy", embeddings)
        np.save(folder / "d_labels.npy", labels)
    return folder / f"d{suffix}"


@FORMS
def test_numbers_keep_their_type_and_become_float32_a_chunk_at_a_time(folder, write_parquet, suffix):
    for dtype in (np.uint8, np.float16, np.float64):
        table = load_table(write_as(folder, suffix, X.astype(dtype), Y, write_parquet))
        assert (table.embeddings.dtype, table.labels.dtype) == (dtype, np.int64)
        np.testing.assert_array_equal(table.embeddings, X)
        np.testing.assert_array_equal(table.labels, Y)
        chunks = list(table.split().chunks(size=16))
        assert [(len(chunk), chunk.dtype) for chunk in chunks] == [(rows, np.float32) for rows in (16, 16, 16, 12)]


@FORMS
def test_damaged_files(folder, write_parquet, suffix):
    file = write_as(folder, suffix, np.random.default_rng(0).normal(size=(5000, 8)), np.zeros(5000, int), write_parquet)
    whole = file.read_bytes()
    for content in (b"", whole[: len(whole) // 2], whole[:-1], b"embedding,label\n" + 50 * b"0.5,1\n"):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=r"^data is .*, which is damaged") as error:
            load_table(file)
        assert "\n" not in str(error.value)


@FORMS
@pytest.mark.parametrize(
    ("row", "value", "what"), [(8192, np.nan, "NaN or inf"), (0, -np.inf, "NaN"), (9, 1e39, "bey")]
)
def test_numbers_that_are_not_finite(folder, write_parquet, suffix, row, value, what):
    wide = np.zeros((10_000, 2))
    wide[row, 1] = value
    file = write_as(folder, suffix, wide, np.zeros(10_000, int), write_parquet)
    with pytest.raises(ValueError, match=rf"^embeddings of data is {what}.* in row {row}; every number must be finite"):
        load_table(file)


NUMBERS = pa.list_(pa.float32())


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([1, 2], TypeError, "column 'embedding' of data holds int64; it must hold lists of numbers"),
        ([[True]], TypeError, "column 'embedding' of data holds list<.*bool>; it must hold lists of numbers"),
        (pa.array([], NUMBERS), ValueError, "data is 'd.parquet', which has no row"),
        (pa.array([*[[1, 2]] * 9000, None], NUMBERS), ValueError, "embeddings of data is NaN or infinite in row 9000"),
        ([*[[1, 2]] * 9000, [3, None]], ValueError, "embeddings of data is NaN or infinite in row 9000"),
        ([*[[1.0]] * 9000, [1.0, 2]], ValueError, "'embedding' of data has 2 numbers in row 9000; all rows"),
    ],
)
def test_columns_that_are_no_embeddings(folder, rows, error, message):
    pq.write_table(pa.table({"embedding": rows}), "d.parquet")
    with pytest.raises(error, match=message):
        load_table("d.parquet")


def test_arrays_that_are_no_embeddings(folder):
    for array, message in (
        (X[0], r"embeddings of data has shape \(6,\); it must be \[n, dim\]"),
        (X.astype(complex), "embeddings of data holds complex128; it must hold numbers"),
    ):
        np.save("d.npy", array)
        with pytest.raises((TypeError, ValueError), match=message):
            load_table("d.npy")


@pytest.mark.parametrize(
    ("column", "labels", "message"),
    [
        ("label", ["", None, ""], "labels of data are missing in every row; name others, or none"),
        ("label", ["a", "b", "c"], "protocol is 'holdout', the default of such data: no class has 3 rows"),
        ("labels", [[0], None, [1]], "column 'labels' of data is missing in row 1"),
    ],
)
def test_bad_labels(folder, write_parquet, column, labels, message):
    write_parquet("d.parquet", X[:3], **{column: labels})
    with pytest.raises((ValueError, TypeError), match=f"^{re.escape(message)}"):
        load_dataset("d.parquet")


def test_files_that_are_not_there_or_of_no_form(folder):
    np.save("d.npy", X)
    (folder / "d.txt").write_text("1,2\n")
    for data, labels, message in (
        (folder, None, "data is .* which is a folder; it must be a file"),
        ("d.npy", "no.npy", "labels is 'no.npy', and there is no such file"),
        ("d.txt", None, "data is 'd.txt'; it must end in .parquet, .npz, .npy"),
        ("digits", "y.npy", "labels is 'y.npy' and data is 'digits', which has embeddings and labels of its own"),
    ):
        with pytest.raises(ValueError, match=message):
            load_table(data, labels)
