"""Rows of embeddings that are NaN or infinite are named, and left out where that is asked for; odd ones are said."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

import app_answers
from app_answers import assert_refused, only, wait_for
from lbhash import Hasher
from lbhash.codes.io import read_codes
from lbhash.data import load_dataset, load_table
from lbhash.index import Index
from lbhash.service import Settings, create_app

DAMAGED = [3, 40, 41, 77, 100, 131, 159]
SKIP = ("--damaged", "skip")


@pytest.fixture(scope="module")
def damaged(tmp_path_factory, write_parquet, blobs):
    """A file of 160 rows, of which seven are damaged."""
    x = blobs.x.copy()
    x[DAMAGED, 5] = [np.nan, np.inf, -np.inf, np.nan, np.nan, np.inf, np.nan]
    return write_parquet(tmp_path_factory.mktemp("damaged") / "d.parquet", x, label=blobs.y)


def test_damaged_rows_are_counted_and_named(damaged, refuse, tmp_path, blobs):
    said = "is NaN or infinite in 7 rows (3, 40, 41, 77, 100, …)"
    errors = refuse("train", damaged, "--method", "ridge", "--out", tmp_path / "m")
    assert f"embeddings of data {said}; every number must be finite" in errors
    x = np.stack(pq.read_table(damaged)["embedding"].to_pylist())
    with pytest.raises(ValueError, match=r"^X is NaN or infinite in 7 rows \(3, 40, 41, 77, 100, …\).*: X\[isfinite"):
        Hasher(8, method="ridge").fit(x, blobs.y)
    with pytest.raises(ValueError, match="damaged is 'leave'; it must be one of refuse, skip"):
        load_table(damaged, damaged="leave")


def test_rows_without_a_vector_are_as_those_of_nan(succeed, tmp_path, blobs):
    rows = [None if row in DAMAGED else x.tolist() for row, x in enumerate(blobs.x)]
    dim, said = len(blobs.x[0]), "in 7 rows (3, 40, 41, 77, 100, …)"
    for kind in (pa.list_(pa.float32()), pa.list_(pa.float32(), dim)):
        table = pa.table({"embedding": pa.array(rows, kind), "label": blobs.y})
        pq.write_table(table, tmp_path / "n.parquet")
        _, errors = succeed(
            "train", tmp_path / "n.parquet", "--method", "ridge", *SKIP, "--out", tmp_path / "m", "--overwrite"
        )
        assert f"{said} of 160; they are left out" in errors
        for X in (rows, table["embedding"], table):
            with pytest.raises(ValueError, match=r"^X is NaN or infinite in 7 rows \(3, 40, 41, 77, 100, …\)"):
                Hasher(8, method="ridge").fit(X, blobs.y)


def test_damaged_rows_are_left_out_everywhere(damaged, succeed, refuse, tmp_path):
    given = (damaged, "--model", tmp_path / "m", *SKIP)
    out, errors = succeed("train", damaged, "--method", "ridge", "--bits", 8, *SKIP, "--out", tmp_path / "m")
    assert "in 7 rows (3, 40, 41, 77, 100, …) of 160; they are left out" in errors
    assert "--damaged skip" in out
    data = load_dataset(damaged, damaged="skip")
    rows = np.concatenate([data.split(split).rows for split in ("train", "base", "query")])
    whole = np.setdiff1d(np.arange(160), DAMAGED)
    assert sorted(rows) == whole.tolist()
    for split, wanted in (("all", whole), ("query", data.query.rows)):
        succeed("encode", *given, "--split", split, "--out", tmp_path / f"{split}.npz")
        assert read_codes(tmp_path / f"{split}.npz").rows.tolist() == wanted.tolist()
        succeed("encode", *given, "--split", split, "--out", tmp_path / split)  # read as needed
        assert read_codes(tmp_path / split).rows.tolist() == wanted.tolist()
    succeed("index", "build", *given, "--split", "all", "--out", tmp_path / "index")
    assert Index.open(tmp_path / "index", mode="a").ids().tolist() == whole.tolist()
    errors = refuse("encode", *given[:3], "--split", "all", "--out", tmp_path / "refused.npz")
    assert "(3, 40, 41, 77, 100, …)" in errors


@pytest.mark.end_to_end
def test_a_damaged_file_is_searched_and_served(damaged, refuse, succeed, tmp_path):
    train = ("train", damaged, "--method", "ridge", "--bits", 8, *SKIP, "--out", tmp_path / "m")
    for line in (
        train,
        ("index", "build", damaged, "--model", tmp_path / "m", *SKIP, "--split", "all", "--out", tmp_path / "index"),
    ):
        succeed(*line)
    search = ("search", tmp_path / "index", "--model", tmp_path / "m", "--data", damaged, "--json", "--row")
    for rows, found in (("all", np.setdiff1d(np.arange(160), DAMAGED).tolist()), ("2-5", [2, 4, 5]), ("0", [0])):
        out, errors = succeed(*search, rows)
        assert "in 7 rows (3, 40, 41, 77, 100, …) of 160; they are left out" in errors
        assert [query["row"] for query in json.loads(out)["queries"]] == found
    errors = refuse(*search, "1,3")
    assert errors.endswith("row is 3, whose embedding is not finite, and so has no code; ask for another row")

    with TestClient(create_app(Settings(tmp_path / "m", tmp_path / "index", str(damaged)))) as client:
        assert 0 <= only(app_answers.search(client, row=5, k=3))["query"]["doubt"] <= 1
        told = "row is 3, whose embedding is not finite, and so has no code"
        assert_refused(app_answers.search(client, row=3), 422, told)
        summary = wait_for(client, "/page/summary", lambda found: found["state"] != "computing")
        assert (summary["state"], summary["queries"]) == ("ready", len(load_dataset(damaged, damaged="skip").query))


def test_files_of_splits_may_have_damaged_rows(succeed, tmp_path, write_parquet, blobs):
    for name, rows, row in (("train", 120, 4), ("base", 160, 9), ("query", 30, 0)):
        x = blobs.x[:rows].copy()
        x[row] = np.nan
        column = pa.array([[int(label)] for label in blobs.y[:rows]])
        write_parquet(tmp_path / f"{name}.parquet", x, labels=column)
    succeed("train", tmp_path, "--method", "ridge", *SKIP, "--out", tmp_path / "m")
    split = json.loads((tmp_path / "m" / "metrics.json").read_text())["split"]
    assert (split["train"], split["query"]) == (119, 29)
    assert split["trained_base"] == 118  # the row that is damaged in either file is not in both


def test_nothing_is_left(refuse, tmp_path, write_parquet, blobs):
    file = write_parquet(tmp_path / "d.parquet", np.full_like(blobs.x, np.nan), label=blobs.y)
    errors = refuse("train", file, *SKIP, "--out", tmp_path / "m")
    assert "no row is left" in errors


def test_rows_of_zeros_and_equal_codes_are_said(capsys, blobs):
    x = blobs.x.copy()
    x[:11] = 0
    Hasher(8, method="ridge").fit(x, blobs.y)
    assert "11 of 160 training rows are all zero" in capsys.readouterr().err
    Hasher(8, method="ridge").fit(blobs.x, blobs.y)
    assert capsys.readouterr().err == ""
    Hasher(8, method="lsh").fit(np.ones_like(x))
    assert "all 160 codes of the training rows are equal, which finds nothing" in capsys.readouterr().err
