"""The curve of what labels buy: which rows keep their label, and a table that goes on."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from benchmarks.experiments import few_labels

from lbhash.data import hold_out, load_dataset
from lbhash.evaluation.held_out import leave_one_out_map
from lbhash.hasher import Hasher

pytestmark = pytest.mark.usefixtures("one_thread")


def cell(method, share, seed=0):
    return dict(zip(few_labels.KEY, ("digits", method, share, seed, 8, 1), strict=True))


def test_a_share_of_every_class_keeps_its_labels(monkeypatch):
    seen = []

    def never_fitted(rows, settings, classes):
        seen.append(rows.labels)
        raise ValueError("no")

    monkeypatch.setitem(few_labels.METHODS, "csq_d, labeled rows", never_fitted)
    fitted = hold_out(load_dataset("digits").train, 0.2, 0)[0]
    counts = np.bincount(fitted.labels)
    for share in (0.001, 0.1, 1.0):
        line = few_labels.run("digits", cell("csq_d, labeled rows", share))
        kept = seen[-1] != few_labels.UNLABELED
        np.testing.assert_array_equal(seen[-1][kept], fitted.labels[kept])
        assert np.bincount(seen[-1][kept]).tolist() == [max(1, round(share * count)) for count in counts]
        assert (line["labels"], line["map"], line["why"]) == (kept.sum(), "", "no")


def test_a_cell_is_the_map_of_the_rows_held_out():
    train = load_dataset("digits").train
    fitted, held_out = hold_out(train, 0.2, 0)
    codes = Hasher(8, "ridge", seed=0).fit_split(fitted, 10).encode_split(held_out)
    expected = leave_one_out_map(codes, held_out.labels, 8)
    assert few_labels.run("digits", cell("ridge, labeled rows", 1.0))["map"] == pytest.approx(expected, abs=1e-5)


def test_a_table_goes_on(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("<!-- few-labels: begin -->\n<!-- few-labels: end -->\n")
    words = ["few_labels", "--data", "digits=digits", "--bits", "8", "--epochs", "1", "--shares", "0.1", "1"]
    monkeypatch.setattr("sys.argv", [*words, "--page", str(page)])
    few_labels.main()
    with (tmp_path / "few-labels.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    everywhere = [(line["method"], float(line["share"])) for line in lines]
    few = [(method, 0.1) for method in few_labels.METHODS]
    whole = [(method, 1.0) for method in ("csq_d, labeled rows", "ridge, labeled rows", "logistic, labeled rows")]
    assert everywhere == few + whole
    assert all(0 < float(line["map"]) < 1 for line in lines)
    best = max(float(line["map"]) for line in lines if float(line["share"]) == 1.0)
    assert f"**{best:.3f}**" in page.read_text()
    assert (tmp_path / "few-labels.png").stat().st_size > 10_000

    def never(*given):
        raise AssertionError("a cell was run again")

    monkeypatch.setattr(few_labels, "run", never)
    few_labels.main()
