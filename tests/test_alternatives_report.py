"""What ``lbhash train`` says of the other things that could be stored of a row, against slow computations."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from lbhash import Hasher, evaluate
from lbhash.cli.tables import print_alternatives
from lbhash.data import load_dataset
from lbhash.evaluation.neighbors import expected_recall
from lbhash.hasher import encode_split, fit_split
from lbhash.index import Index
from lbhash.pipeline import alternatives as module
from lbhash.pipeline.alternatives import CLASS, CODES, COSINE, SIGNS, alternatives


@pytest.fixture(scope="module")
def found():
    """A hasher of the digits, their new rows, and the alternatives to its codes."""
    data = load_dataset("digits")
    hasher = fit_split(Hasher(16, method="ridge", progress=False), data.train, 10)
    new = data.base.where(~data.trained_base())
    made = alternatives(data, hasher, new, 1e9)
    return data, hasher, new, made


def rows_of(made):
    return {one["name"]: one for one in made["rows"]}


def test_each_is_measured_on_the_same_rows(found):
    data, hasher, new, made = found
    rows, x, q = rows_of(made), new.take(slice(None)), data.query.take(slice(None))
    assert (made["queries"], made["base"], made["left_out"]) == (200, 797, [])
    sizes = {CODES: 2, COSINE: 64, SIGNS: 8, CLASS: 2, "ITQ, no labels": 2, "logistic onto centers": 2}
    assert list(rows) == list(sizes)
    assert {name: one["bytes"] for name, one in rows.items()} == sizes
    codes = [encode_split(hasher, part) for part in (data.query, new)]
    outputs = hasher.outputs(q)
    report = evaluate(codes[0], data.query.labels, codes[1], new.labels, query_outputs=outputs)
    assert rows[CODES]["map"] == pytest.approx(report.map)
    assert rows[CODES]["map_macro"] == pytest.approx(report.map_macro)
    cosines = (q / np.linalg.norm(q, axis=1, keepdims=True)) @ (x / np.linalg.norm(x, axis=1, keepdims=True)).T
    relevant = data.query.labels[:, None] == new.labels
    slow = [average_precision_score(wanted, scores) for wanted, scores in zip(relevant, cosines, strict=True)]
    assert rows[COSINE]["map"] == pytest.approx(np.mean(slow), abs=1e-4)
    assert rows[COSINE]["recall"] == rows[COSINE]["reranked"] == pytest.approx(1, abs=1e-3)
    assert rows[CLASS]["map"] > 0.8


def test_re_ranking_is_that_of_an_index(found):
    data, hasher, new, made = found
    index = Index(16, vectors="embeddings", learns_classes=True)
    base = encode_split(hasher, new)
    index.add(base, vectors=new.embeddings[new.rows])
    q, x = data.query.take(slice(None)), new.take(slice(None))
    cosines = (q / np.linalg.norm(q, axis=1, keepdims=True)) @ (x / np.linalg.norm(x, axis=1, keepdims=True)).T
    outputs = hasher.outputs(q)
    ids = index.search(outputs=outputs, k=100, embeddings=q, rerank="embeddings").ids
    nearest = np.argsort(-cosines, axis=1)[:, :10]
    recall = [len(set(order[:10]) & set(best)) / 10 for order, best in zip(ids, nearest, strict=True)]
    assert rows_of(made)[CODES]["reranked"] == pytest.approx(np.mean(recall), abs=0.01)


@given(st.lists(st.integers(0, 4), min_size=4, max_size=9), st.integers(0, 2**32 - 1))
def test_expected_recall_is_the_mean_over_orders(scores, seed):
    rng = np.random.default_rng(seed)
    values = np.array([scores])
    wanted = rng.permutation(len(scores))[None, :3]
    drawn = []
    for _ in range(400):
        order = np.lexsort((rng.random(len(scores)), values[0]))
        drawn.append(len(set(order[:3]) & set(wanted[0])) / 3)
    assert expected_recall(values, wanted)[0] == pytest.approx(np.mean(drawn), abs=0.12)


def test_what_there_is_no_time_for_is_left_out(found):
    data, hasher, new, _ = found
    made = alternatives(data, hasher, new, 0.0)
    assert [one["name"] for one in made["rows"]] in ([], [CODES])
    assert CLASS in made["left_out"]


@pytest.mark.parametrize(("new", "called"), [(None, "trained"), ({"map": 0.5}, "new")])
def test_trained_rows_are_not_called_new(new, called, capsys):
    rows = [
        {"name": name, "bytes": 2, "map": 0.5, "map_macro": 0.5, "recall": 0.5, "reranked": 1}
        for name in (CODES, COSINE)
    ]
    print_alternatives({"alternatives": {"rows": rows, "left_out": [], "queries": 1, "base": 1}, "new_rows": new})
    assert f"mAP of {called} rows 0.50 instead of 0.50" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("labels", [True, False])
def test_the_command_says_what_the_table_says(succeed, tmp_path, monkeypatch, labels):
    monkeypatch.setattr(module, "LEAST_SECONDS", 1e9)
    file = "digits"
    if not labels:
        file = tmp_path / "x.npy"
        np.save(file, load_dataset("digits").base.embeddings)
    train = ("train", file, "--method", "ridge" if labels else "lsh", "--bits", 16)
    out, _ = succeed(*train, "--out", tmp_path / "m")
    made = json.loads((tmp_path / "m" / "metrics.json").read_text())["alternatives"]
    rows = rows_of(made)
    said = " ".join(out.split())
    if labels:
        assert len(rows) == 6
        values = (f"{rows[name]['map']:.2f}" for name in (CODES, COSINE, CLASS))
        line = (
            "These codes: 2 bytes a row instead of 64, mAP of new rows {} instead of {}; "
            "a classifier's answer has {} in 2 bytes"
        )
        assert line.format(*values) in said
    else:
        assert (len(rows), rows[CODES]["map"], CLASS in rows) == (4, None, False)
        ours = rows[CODES]
        line = f"These codes: 2 bytes a row instead of 64, and {ours['recall']:.0%} of the ten nearest"
        assert f"{line}; {ours['reranked']:.0%} with 100 re-ranked" in said
    out, _ = succeed(*train, "--no-baselines", "--overwrite", "--out", tmp_path / "m")
    assert "what is stored" not in out
    assert "alternatives" not in json.loads((tmp_path / "m" / "metrics.json").read_text())
