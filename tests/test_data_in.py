"""Data as people have it: what the commands take of it, and what they say that they took."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lbhash import Hasher
from lbhash.index import open_index

ROWS, DIM, CLASSES = 60, 6, 3


@pytest.fixture(scope="module")
def vectors():
    """Embeddings of three classes, ``float32 [60, 6]``, and their class numbers."""
    rng = np.random.default_rng(0)
    labels = np.arange(ROWS) % CLASSES
    return (rng.normal(size=(ROWS, DIM)) + 4 * labels[:, None]).astype(np.float32), labels


@pytest.fixture(scope="module")
def model(vectors, tmp_path_factory):
    """A folder with a model that was trained on a file without flags (``holdout``)."""
    folder = tmp_path_factory.mktemp("model")
    hasher = Hasher(bits=8, epochs=1, hidden=8, progress=False).fit(*vectors)
    hasher.model_.metadata |= {"protocol": "holdout", "split_seed": 0}
    hasher.save_pretrained(folder)
    return folder


def columns_of(embeddings, **others):
    return pa.table({"embedding": list(embeddings), **others})


def succeeded(result):
    status, out, errors = result
    assert status == 0, errors
    return out, errors


def refused(result):
    status, out, errors = result
    assert (status, out) == (2, ""), (out, errors)
    assert errors.startswith("lbhash: error: "), errors
    assert errors.count("\n") == 1, errors
    return errors


def test_an_index_takes_all_rows_of_a_file_without_flags(vectors, model, command, tmp_path):
    pq.write_table(columns_of(vectors[0], label=vectors[1]), tmp_path / "rows.parquet")
    given = ["--model", str(model), "--data", str(tmp_path / "rows.parquet")]
    _, said = succeeded(command("index", "build", *given, "--out", str(tmp_path / "index")))
    assert len(open_index(tmp_path / "index")) == ROWS
    assert "left out" not in said
    succeeded(command("index", "build", *given, "--split", "base", "--out", str(tmp_path / "base")))
    assert len(open_index(tmp_path / "base")) < ROWS


def test_an_index_of_a_file_with_flags_says_what_it_leaves_out(vectors, model, command, tmp_path):
    query = np.arange(ROWS) < 15
    flags = {"in_train": ~query, "in_base": ~query, "in_query": query}
    pq.write_table(columns_of(vectors[0], **flags), tmp_path / "rows.parquet")  # and no labels
    given = ["--model", str(model), "--data", str(tmp_path / "rows.parquet"), "--json"]
    out, said = succeeded(command("index", "build", *given, "--out", str(tmp_path / "index")))
    assert json.loads(out)["codes"] == 45
    assert "the 45 base rows of the data are taken, and 15 are left out; --split all takes all 60" in said
    added = [*given, "--split", "query", "--index", str(tmp_path / "index")]
    out, said = succeeded(command("index", "add", *added))
    assert json.loads(out)["codes"] == 60
    assert "left out" not in said


def test_rows_without_labels_are_encoded_indexed_and_searched(vectors, model, command, tmp_path):
    np.save(tmp_path / "rows.npy", vectors[0])
    given = ["--model", str(model), "--data", str(tmp_path / "rows.npy")]
    succeeded(command("encode", *given, "--out", str(tmp_path / "codes.parquet")))
    succeeded(command("index", "build", *given, "--out", str(tmp_path / "index")))
    succeeded(command("index", "add", *given, "--ids", "next", "--index", str(tmp_path / "index")))
    assert len(open_index(tmp_path / "index")) == 2 * ROWS
    out, _ = succeeded(command("search", *given, "--index", str(tmp_path / "index"), "--row", "5", "--json"))
    nearest = json.loads(out)["queries"][0]["neighbors"][0]
    assert (nearest["distance"], nearest["label"]) == (0, None)


def test_files_of_splits_need_no_labels_to_be_encoded(vectors, model, command, tmp_path):
    for name in ("train", "base", "query"):
        np.save(tmp_path / f"{name}.npy", vectors[0])
    given = ["--model", str(model), "--data", str(tmp_path), "--split", "query"]
    succeeded(command("encode", *given, "--out", str(tmp_path / "codes.parquet")))
