"""Files of an earlier release, and what it made of them: today's code must read them, and come to the same.

They are in ``compat/``, a folder a commit, made by ``compat/make.py``. Nothing here looks into lbhash: the tests go by
the front door, the index and the command line, so that modules may move.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, StringIO
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from lbhash import Hasher, bound, evaluate
from lbhash.cli import main
from lbhash.data import load_table
from lbhash.index import open_index, rerank
from lbhash.models.hash_model import load_model

FILES = Path(__file__).parent / "compat" / "e50cb6d"
CODES = np.load(BytesIO(gzip.decompress((FILES / "expected.npz.gz").read_bytes())))
"""Codes that the commit made, and what its indexes found."""
SAID = json.loads(gzip.decompress((FILES / "expected.json.gz").read_bytes()))
"""What its commands said, and with which options they were run."""
TIME = 1_700_000_000
"""When its data files were last changed: embeddings and folders of codes know their data by that."""

SAME = 0.995
"""The share of equal bits after a training: another processor may round otherwise, and turn an output near 0."""

MILVUS = all(importlib.util.find_spec(name) for name in ("pymilvus", "milvus_lite", "pkg_resources"))


@pytest.fixture(autouse=True)
def old(tmp_path, monkeypatch):
    """The commit's files, a copy for each test, as the working directory."""
    for file in FILES.rglob("*.*"):
        copy = tmp_path / "old" / file.relative_to(FILES)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".gz":
            copy.with_suffix("").write_bytes(gzip.decompress(file.read_bytes()))
        elif file.is_file():
            copy.write_bytes(file.read_bytes())
    for name in ("data.parquet", "images.parquet"):
        os.utime(tmp_path / "old" / name, (TIME, TIME))
    monkeypatch.chdir(tmp_path / "old")


@pytest.fixture
def data():
    """The embeddings, ``float32 [120, 12]``, and their labels."""
    table = pq.read_table("data.parquet")
    return np.array(table["embedding"].to_pylist(), np.float32), table["label"].to_numpy()


def run(*arguments):
    """What a command says as JSON."""
    said, warned = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(warned):
        patch.setattr(sys, "argv", ["lbhash", *map(str, arguments), "--json"])
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code, warned.getvalue()
    return json.loads(said.getvalue())


def encoded(model, data="data.parquet"):
    run("encode", "--model", model, "--data", data, "--out", "encoded.npz")
    return np.load("encoded.npz")["codes"]


def same_bits(codes, expected, bits):
    """The share of bits that are equal."""
    return 1 - np.unpackbits(codes ^ expected).sum() / (len(expected) * bits)


def assert_says(found, expected):
    """All that the commit said is said again; numbers may differ in their last digits, and there may be more."""
    if isinstance(expected, dict):
        for name, value in expected.items():
            assert_says(found[name], value)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_says(one, other)
    else:
        assert found == (pytest.approx(expected, rel=1e-9) if isinstance(expected, float) else expected)


def mended(report):
    """A report without what was wrong: the 99.9 % were of D_intra alone, where the paper has them of both distances."""
    return report | {"bound_99.9": {"intra": report["bound_99.9"]["intra"]}}


def times(folder):
    """Files and when they were last changed."""
    return {file: file.stat().st_mtime_ns for file in Path(folder).rglob("*")}


# ------------------------------------------------------------------------------------------------------------- models


@pytest.mark.parametrize("name", SAID["models"])
def test_a_model_gives_the_same_codes(data, name):
    hasher, expected = Hasher.from_pretrained(f"models/{name}"), SAID["models"][name]
    np.testing.assert_array_equal(hasher.encode(data[0]), CODES[f"codes {name}"])
    assert (hasher.name, hasher.classes_.tolist()) == (expected["name"], expected["classes"])
    assert_says(hasher.get_params(), expected["settings"])


@pytest.mark.parametrize("name", [*SAID["models"], "frozen"])
def test_a_model_is_saved_as_it_was(name):
    Hasher.from_pretrained(f"models/{name}").save_pretrained("again")
    held, again = (load_file(f"{folder}/model.safetensors") for folder in (f"models/{name}", "again"))
    assert held.keys() == again.keys()
    for key in held:
        np.testing.assert_array_equal(held[key], again[key])
    held, again = (json.loads(Path(folder, "config.json").read_text()) for folder in (f"models/{name}", "again"))
    about = {key.replace(" ", "_"): value for key, value in held.pop("about").items()}  # the former name, and its keys
    assert_says(again, held | {"metadata": about | {"lbhash": again["metadata"]["lbhash"]}})


@pytest.mark.parametrize("name", ["images", "frozen"])
def test_a_model_of_images_gives_the_same_codes(name, monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.setenv("LBHASH_CACHE", "cache")
    before = times("cache")
    np.testing.assert_array_equal(encoded(f"models/{name}", "images.parquet"), CODES[f"codes {name}"])
    assert times("cache") == before  # the embeddings of the frozen backbone are found, and not made again


# ----------------------------------------------------------------------------------------------------------- training


@pytest.mark.parametrize("method", SAID["unfinished"])
def test_an_unfinished_training_is_resumed(method):
    expected, folder = SAID["unfinished"][method], Path("unfinished", method)
    log, (first, *rest) = folder / "logs" / "metrics.csv", list(csv.DictReader(expected["log"].splitlines()))
    log.write_text(log.read_text().replace(first["loss"], "7.5"))  # where the first epochs are not run again, it stays
    run("train", "--data", "data.parquet", *expected["options"], "--recipe", "paper", "--out", folder, "--resume")
    with log.open(newline="") as lines:
        found = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(lines)]
    assert [row["loss"] for row in found] == pytest.approx([7.5, *(float(row["loss"]) for row in rest)], rel=1e-3)
    bits = int(expected["options"][expected["options"].index("--bits") + 1])
    assert same_bits(encoded(folder), CODES[f"codes whole {method}"], bits) >= SAME


@pytest.mark.parametrize(("method", "guided"), [("csq", True), ("hashnet", False), ("greedyhash", True)])
def test_a_training_comes_to_the_same_codes(data, method, guided):
    settings = {
        "bits": 16,
        "epochs": 3,
        "seed": 5,
        "hidden": 16,
        "batch_size": 16,
        "lr": 0.01,
        "recipe": "paper",
        "device": "cpu",
    }
    codes = Hasher(method=method, guided=guided, **settings).fit(*data).encode(data[0])
    assert same_bits(codes, CODES[f"codes anew {method}"], 16) >= SAME


def test_seeds_that_are_trained_together_come_to_the_same_codes():
    given = ["--data", "toy=data.parquet", *SAID["reproduced"]["options"]]
    run("reproduce", "tsne", *given, "--runs", "again", "--out", "out")  # by Hasher.fit_seeds, as all that it trains
    kept = sorted(file.name for file in Path("runs").glob("*.npz"))
    assert sorted(file.name for file in Path("again").glob("*.npz")) == kept
    assert len(kept) == 2
    for name in kept:
        for split, codes in np.load(f"runs/{name}").items():
            assert same_bits(np.load(f"again/{name}")[split], codes, 16) >= SAME


def test_finished_runs_are_not_run_again():
    before = times("runs")
    given = ["--data", "toy=data.parquet", *SAID["reproduced"]["options"]]
    found = run("reproduce", "curves", *given, "--runs", "runs", "--out", "out")
    assert_says(found["tables"], SAID["reproduced"]["tables"])
    assert times("runs") == before


def test_a_search_of_settings_is_resumed():
    expected = SAID["tuned"]
    space = {"lr": {"low": 1e-4, "high": 1e-2, "log": True}, "dropout": {"low": 0.0, "high": 0.8}}
    space |= {"hidden": {"choices": [0, 256, 512, 1024]}, "guidance.weight": {"low": 0.03, "high": 3.0, "log": True}}
    space |= {"options.lam": {"low": 1e-5, "high": 1e-1, "log": True}}
    Path("space.json").write_text(json.dumps(space))
    given = [*expected["options"], "--recipe", "paper", "--space", "space.json"]  # the defaults of then
    found = run("tune", "--data", "data.parquet", *given, "--trials", 3, "--resume", "--out", "study")
    assert_says(found["trials"][:2], expected["held"])
    assert_says(found["trials"][2]["params"], expected["further"][0]["params"])


# -------------------------------------------------------------------------------------------------------------- codes


@pytest.mark.parametrize(
    ("file", "rows"),
    [
        ("query.npz", "rows query"),
        ("query.npy", "rows query"),
        ("query.parquet", "rows query"),
        ("query-hot.npz", "rows query-hot"),
        ("query-hot.parquet", "rows query-hot"),
        ("base.parquet", "rows base"),
        ("base-hot.parquet", "rows base-hot"),
        ("shards", "rows base"),
        ("exported.parquet", "ids flat"),
        ("short.npz", "rows query"),
        ("short.parquet", "rows query"),
    ],
)
def test_a_file_of_codes_is_read(data, file, rows):
    run("index", "build", "--codes", f"codes/{file}", "--out", "new")
    index, rows = open_index("new"), CODES[rows]
    names, model = index.ids(), "hashnet" if "short" in file else "csq_d"
    held = index.attributes_of(names)
    np.testing.assert_array_equal(index.codes_of(names), CODES[f"codes {model}"][rows])
    assert index.bits == SAID["models"][model]["settings"]["bits"]
    if file == "query.npy":  # which says no more
        assert names.tolist() == list(range(len(rows)))
        return
    assert index.model == json.loads(Path("models", model, "config.json").read_text())["about"]["fingerprint"]
    assert names.tolist() == held["row"].to_pylist() == rows.tolist()
    labels = data[1][rows].tolist()
    if "hot" in file:
        every_third = [[1, label] if row % 3 == 0 else [label] for row, label in zip(rows, labels, strict=True)]
        assert held["labels"].to_pylist() == every_third
    else:
        assert held["label"].to_pylist() == labels
    if file in ("query.parquet", "base.parquet", "shards", "exported.parquet"):
        assert held["name"].to_pylist() == [f"row {row}" for row in rows]


@pytest.mark.parametrize(
    ("queries", "base", "report", "more"),
    [
        ("query.npz", "base.parquet", "report", ["--probe"]),
        ("query.parquet", "shards", "report", ["--probe"]),
        ("query.npy", "base.parquet", "report", ["--probe", "--query-labels", "codes/query-labels.npy"]),
        ("query-hot.npz", "base-hot.parquet", "report-hot", ["--normalize", "all"]),
        ("query-hot.parquet", "base-hot.parquet", "report-hot", ["--normalize", "all"]),
    ],
)
def test_codes_are_as_good_as_they_were(queries, base, report, more):
    files = ["--queries", f"codes/{queries}", "--base", f"codes/{base}"]
    assert_says(run("evaluate", *files, "--at", 20, "--rank", 5, "-k", 9, *more), mended(SAID[report]))


def test_codes_in_memory_are_as_good_as_they_were():
    codes = [CODES["codes csq_d"][CODES[f"rows {split}"]] for split in ("query", "base")]
    labels = [CODES[f"labels {split}"] for split in ("query", "base")]
    report = evaluate(codes[0], labels[0], codes[1], labels[1], 20, ranks=(5,), k=9, probe=True)
    assert_says(report.as_dict(), mended(SAID["report"]))
    assert bound(codes[1], labels[1]).ratio == SAID["report"]["bound"]["ratio"]


@pytest.mark.parametrize("missing", [(), ("part-00001-of-00003.parquet",)])
def test_a_folder_of_codes_is_gone_on_with(missing):
    folder = Path("codes", "shards")
    for name in missing:
        (folder / name).unlink()
    before = times(folder)
    source = ["--model", "models/csq_d", "--data", "data.parquet", "--split", "base", "--carry", "name"]
    assert run("encode", *source, "--out", folder)["found"] == 3 - len(missing)
    shards = {file: time for file, time in times(folder).items() if file in before and file.suffix == ".parquet"}
    assert shards == {file: time for file, time in before.items() if file in shards}
    table = ds.dataset(sorted(folder.glob("*.parquet"))).to_table()
    assert table["row"].to_pylist() == CODES["rows base"].tolist()
    assert b"".join(table["code"].to_pylist()) == CODES["codes csq_d"][CODES["rows base"]].tobytes()


# -------------------------------------------------------------------------------------------------------------- index


@pytest.fixture(
    params=[
        *(kind for kind in SAID["indexes"] if kind != "milvus"),
        pytest.param("milvus", marks=pytest.mark.skipif(not MILVUS, reason="needs pymilvus and Milvus Lite")),
    ]
)
def kind(request):
    """The kind of an index; of Milvus the process that has the file open is ended."""
    yield request.param
    if request.param == "milvus":
        from milvus_lite.server_manager import server_manager_instance

        server_manager_instance.release_server("indexes/milvus.db")


def path_of(kind):
    return "milvus+indexes/milvus.db" if kind == "milvus" else f"indexes/{kind}"


def assert_finds(index, name):
    found = index.search(CODES["codes csq_d"][::8], 10)
    np.testing.assert_array_equal(index.ids(), CODES[f"ids {name}"])
    np.testing.assert_array_equal(found, CODES[f"found {name}"])


def test_an_index_finds_the_same(kind):
    index, queries = open_index(path_of(kind)), CODES["codes csq_d"][::8]
    assert_finds(index, kind)
    np.testing.assert_array_equal(index.search(queries, 10, where={"label": [3, 7]}), CODES[f"filtered {kind}"])
    near = index.range_search(queries, 3)
    asked = np.repeat(np.arange(len(queries)), np.diff(near.limits))
    np.testing.assert_array_equal([asked, near.distances, near.ids], CODES[f"near {kind}"])


def test_an_index_holds_the_same(kind, data):
    assert_says(run("index", "info", "--index", path_of(kind)), SAID["indexes"][kind])
    assert run("index", "verify", "--index", path_of(kind))["intact"]
    index = open_index(path_of(kind))
    names = index.ids()
    codes, held = CODES["codes csq_d"][names], index.attributes_of(names)
    np.testing.assert_array_equal(index.codes_of(names), codes)
    assert held["row"].to_pylist() == names.tolist()
    assert held["label"].to_pylist() == data[1][names].tolist()
    if kind == "flat":
        assert held["name"].to_pylist() == [f"row {row}" for row in names]
        outputs = index.vectors_of(names)
        np.testing.assert_array_equal(np.packbits(outputs >= 0, axis=1, bitorder="little"), codes)
    if kind == "ivf":
        np.testing.assert_array_equal(index.vectors_of(names), data[0][names].astype(np.float16))


def test_an_index_is_changed(kind):
    path, names = path_of(kind), CODES[f"ids {kind}"]
    run("index", "remove", "--index", path, *(word for name in names[[0, 30, 31]] for word in ("--id", name)))
    source = ["--model", "models/csq_d", "--data", "data.parquet", "--split", "query", "--ids", "next"]
    run("index", "add", "--index", path, *source, *(["--carry", "name"] if kind == "flat" else []))
    assert_finds(open_index(path), f"{kind} changed")
    if kind != "milvus":  # which compacts itself
        run("index", "compact", "--index", path)
    assert run("index", "verify", "--index", path)["codes"] == len(CODES[f"ids {kind} changed"])


@pytest.mark.parametrize("by", SAID["reranked"])
def test_candidates_are_ranked_as_they_were(by):
    query = ["--index", "indexes/flat", "--model", "models/csq_d", "--data", "data.parquet", "--row", 3, "--row", 77]
    if by == "outputs":  # which the command blends with the distance
        index, model = open_index("indexes/flat"), load_model("models/csq_d")
        rows = load_table("data.parquet").embeddings[[3, 77]]
        best = rerank(index, index.search(model.encode(rows), 30), model.outputs(rows), 5, by, weight=0)
        for ids, scores, expected in zip(best.ids, best.scores, SAID["reranked"][by], strict=True):
            assert ids.tolist() == [name for name, _ in expected]
            assert scores.tolist() == pytest.approx([score for _, score in expected], rel=1e-3)
        return
    found = run("search", *query, "-k", 5, "--candidates", 30, "--rerank", by)["queries"]
    for one, expected in zip(found, SAID["reranked"][by], strict=True):
        assert [hit["id"] for hit in one["neighbors"]] == [name for name, _ in expected]
        assert [hit["score"] for hit in one["neighbors"]] == pytest.approx([score for _, score in expected], rel=1e-3)
