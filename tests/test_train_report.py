"""What ``lbhash train`` says of labeled data: on new rows, on rows that were trained on, and class by class."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lbhash import Hasher, evaluate
from lbhash.data import load_dataset
from lbhash.hasher import encode_split, outputs_split

SIZES = (1, 2, 3, 5, 12, 30, 40, 60)
NAMES = np.array([f"class {chr(97 + label)}" for label in range(len(SIZES))])


@pytest.fixture(scope="module")
def catalog(tmp_path_factory, write_parquet):
    """A file of eight classes of 1 to 60 rows, in any order, without splits."""
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(np.arange(len(SIZES)), SIZES))
    x = (2 * rng.normal(size=(len(SIZES), 16))[labels] + rng.normal(size=(len(labels), 16))).astype(np.float32)
    file = tmp_path_factory.mktemp("catalog") / "catalog.parquet"
    return write_parquet(file, x, label=NAMES[labels].tolist()), x, labels


def test_new_rows_come_first_and_no_class_is_too_small(catalog, succeed, tmp_path):
    file, x, labels = catalog
    out, _ = succeed("train", file, "--method", "ridge", "--bits", 16, "--out", tmp_path / "m")
    assert "8 classes: 121 training rows, 16 queries, 16 new rows" in out
    assert "2 classes of one or two rows only train" in out
    assert "2 classes of fewer than ten rows give one query and one new row each" in out
    lines = [line.split() for line in out.splitlines()]
    assert all(len(line) <= 80 for line in out.splitlines() if not line.startswith(("model", "next")))

    hasher, data = Hasher.from_pretrained(tmp_path / "m"), load_dataset(file)
    codes = {split: encode_split(hasher, data.split(split)) for split in ("train", "base", "query")}
    outputs = hasher.outputs(data.query.take(slice(None)))
    new, trained = (
        evaluate(codes["query"], data.query.labels, codes[split], data.split(split).labels, query_outputs=outputs)
        for split in ("base", "train")
    )
    metrics = json.loads((tmp_path / "m" / "metrics.json").read_text())
    assert not data.trained_base().any()
    for name, report in (("new_rows", new), ("trained_rows", trained)):
        wanted = ("map", "map_macro", "knn_accuracy", "by_bits", "base")
        assert {key: metrics[name][key] for key in wanted} == {key: report.as_dict()[key] for key in wanted}
    assert metrics["map"] == new.map
    first, second = (line for line in lines if "rows" in line and "–" in line[-1])
    assert (first[:2], first[2:]) == (["new", "rows"], shown_of(new))
    assert (second[:5], second[5:]) == (["rows", "that", "were", "trained", "on"], shown_of(trained))

    found = {one["class"]: one for one in metrics["classes"]}
    assert [found[name]["train"] + found[name]["new"] + found[name]["query"] for name in NAMES] == list(SIZES)
    assert [found[name]["map"] for name in NAMES[:2]] == [None, None]
    assert [found[name]["map"] for name in NAMES[2:]] == new.by_class.map.tolist()
    assert [found[name]["map_trained"] for name in NAMES[2:]] == trained.by_class.map.tolist()
    weakest = NAMES[2:][np.argsort(new.by_class.map, kind="stable")[:5]]
    place = next(i for i, line in enumerate(lines) if line[:2] == ["weakest", "classes"])
    assert [" ".join(line[:2]) for line in lines[place + 2 : place + 7]] == weakest.tolist()
    Hasher(16, method="ridge").fit(x, NAMES[labels])  # takes the same rows


def shown_of(report):
    bits = report.by_bits
    figures = (report.map, report.map_macro, report.knn_accuracy, bits.map)
    return [*(f"{value:.3f}" for value in figures), f"{bits.map_worst:.3f}–{bits.map_best:.3f}"]


def test_a_base_that_holds_training_rows_has_both_figures(succeed, tmp_path):
    out, _ = succeed("train", "digits", "--method", "ridge", "--bits", 16, "--out", tmp_path / "m")
    hasher, data = Hasher.from_pretrained(tmp_path / "m"), load_dataset("digits")
    query, base = encode_split(hasher, data.query), encode_split(hasher, data.base)
    outputs = outputs_split(hasher, data.query)
    new = ~np.isin(data.base.rows, data.train.rows)
    metrics = json.loads((tmp_path / "m" / "metrics.json").read_text())
    labels = np.asarray(data.base.labels)
    for name, rows in (("new_rows", new), ("trained_rows", ~new)):
        wanted = evaluate(query, data.query.labels, base[rows], labels[rows], query_outputs=outputs)
        assert (metrics[name]["map"], metrics[name]["base"]) == (pytest.approx(wanted.map), rows.sum())
    assert metrics["map"] == evaluate(query, data.query.labels, base, labels, query_outputs=outputs).map
    assert "the base, which holds both" in out


def test_no_figure_of_training_rows_that_no_query_asks_for(catalog, succeed, tmp_path):
    given = ("--method", "ridge", "--bits", 16, "--protocol", "unseen", "--out", tmp_path / "m")
    out, _ = succeed("train", catalog[0], *given)
    assert "rows that were trained on" not in out
    metrics = json.loads((tmp_path / "m" / "metrics.json").read_text())
    assert metrics["trained_rows"] is None
    assert metrics["new_rows"]["map"] == metrics["map"]
