"""compare: its figures against plain loops, what it recommends, and its files."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from markupsafe import escape
from sklearn.datasets import make_blobs
from typer.testing import CliRunner

import lbhash
from lbhash.cli.app import app
from lbhash.comparison import study
from lbhash.comparison.recipes import recipe
from lbhash.comparison.result import Comparison, Line
from lbhash.data import Dataset
from lbhash.data.split import EmbeddingSplit
from lbhash.trials import ways

pytestmark = pytest.mark.end_to_end

NAMES = {"embeddings", "signs", "csq", "csq, joined", "csq, unseen 0.5", "itq", "wccn-itq", "sne"}
NAMES |= {f"a classifier's answer, {count}" for count in ("1 class", "2 classes", "3 classes")}
NAMES |= {"FAISS OPQ", "FAISS SQ8", "FAISS SQ4", "FAISS IVF,SQ8", "PCA, signs", "sentence-transformers' bits"}
NAMES |= {"FAISS RaBitQ", "FAISS RaBitQ, 2 bits", "FAISS RaBitQ, 4 bits", "usearch int8"}
NAMES |= {f"{kind} {share} numbers, int8" for kind in ("PCA,", "first") for share in (8, 16)}


@pytest.fixture(scope="module")
def rows():
    x, y = make_blobs(1200, 32, centers=12, cluster_std=6.0, random_state=0)
    return x.astype(np.float32), y


@pytest.fixture(autouse=True, scope="module")
def two_splits():
    """Two splits have all that three have: ways that are far behind in the first are not measured in the second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "SPLITS", 2)
        yield


@pytest.fixture(scope="module")
def found(rows, tmp_path_factory):
    out = tmp_path_factory.mktemp("comparison")
    return lbhash.compare(*rows, bits=[8], out=out, epochs=1), out


def test_every_way_is_measured_alone_and_after_each_second_stage(found):
    comparison, _ = found
    assert comparison.questions == ["known", "later", "mixed", "nearest"]
    assert {line.name for line in comparison.lines} == NAMES
    for line in comparison.lines:
        assert all(0 <= line.value(question) <= 1 for question in comparison.questions if question in line.shown), line
    stages = {("", 0), *((kind, count) for kind in ("int8", "embeddings") for count in (100, 200))}
    for name in NAMES - {"embeddings"}:
        assert {(line.vectors, line.rerank) for line in comparison.lines if line.name == name} == stages
    sizes = {line.title: (line.memory, line.disk) for line in comparison.lines}
    assert sizes["embeddings"] == (128, 0)
    assert sizes["signs"] == (4, 0)
    assert sizes["itq, 8 bits"] == sizes["FAISS OPQ, 8 bits"] == (1, 0)
    assert sizes["itq, 8 bits + 100 by embeddings"] == (1, 64)
    assert sizes["FAISS OPQ, 8 bits + 100 by int8"] == (1, 32)
    assert sizes["a classifier's answer, 3 classes"] == (3, 0)  # 3 * (4 + 4) bits
    sizes = comparison.about["rows"]
    assert (comparison.count, sizes["train"], sizes["known"]) == (1200, 972, 108)
    assert (sizes["nearest"], sizes["third"], comparison.about["queries"]) == (1080, 360, 120)
    assert sizes["mixed"] == 54 + round(54 / 4)


def test_the_figures_of_the_embeddings_are_those_of_a_plain_loop(found, rows):
    comparison, _ = found
    (line,) = (one for one in comparison.lines if one.name == "embeddings")
    dataset = study.EmbeddingTable(*rows, "X").dataset()
    values = []
    for number in range(study.SPLITS):
        _, (known, *_) = study._split("X", study._rows(dataset), number)["all"]
        base, query = (part.take(slice(None)) for part in (known.base, known.query))
        base, query = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (base, query))
        order = np.random.default_rng([0, number]).permutation(len(query))
        for row in order[len(order) // 2 :]:
            hits = known.base.labels[np.argsort(-(base @ query[row]))] == known.query.labels[row]
            values.append(np.mean(np.cumsum(hits)[hits] / (np.flatnonzero(hits) + 1)))
    assert line.value("known") == pytest.approx(np.mean(values), abs=1e-4)
    assert line.value("nearest") == 1


def test_splits_share_no_query_and_no_class_that_comes_later(rows):
    dataset = study.EmbeddingTable(*rows, "X").dataset()
    parts = study._split("X", study._rows(dataset), 0)
    train, (known, nearest, third) = parts["all"]
    half, (later, mixed) = parts["half"]

    def lines(part):
        return {tuple(row) for row in part.take(slice(None)).tolist()}

    asked = lines(known.query)
    assert not asked & (lines(train) | lines(known.base) | lines(nearest.base) | lines(half))
    assert lines(nearest.base) == lines(train) | lines(known.base)
    assert lines(third.base) < lines(nearest.base)
    assert not lines(later.base) & lines(half)
    for part in (mixed.base, mixed.query):
        of_later = np.isin(part.labels, np.unique(later.query.labels)).mean()
        assert of_later == pytest.approx(0.2, abs=0.01)


ABOUT = {"rows": {"nearest": 900, "third": 300}, "classes": 2}


def line(name, memory, chosen, shown, disk=0, question="known"):
    """A way whose figure is on the mean ``chosen`` of the queries that choose, with a spread, and ``shown``."""
    noise = np.random.default_rng(0).normal(0, 0.01, (3, 50))
    noise -= noise.mean()
    given, other = ({question: np.clip(value + noise, 0, 1)} for value in (chosen, shown))
    again = {"vectors": "int8", "rerank": 100} if disk else {}
    return Line(name, None, memory, False, name, 0, 0, **again, disk=disk, search=0, chosen=given, shown=other)


def test_the_lightest_of_the_good_ones_is_recommended_by_other_queries():
    lines = [line("embeddings", 1000, 0.9, 0.9), line("small", 1, 0.80, 0.99), line("best", 64, 0.905, 0.1)]
    lines += [line("light", 8, 0.896, 0.7), line("disk", 1, 0.896, 0.7, disk=600)]
    comparison = Comparison(tuple(lines), ABOUT, 1000)
    verdict = comparison.verdicts["known"]
    assert (verdict.pick.name, verdict.best.name) == ("light", "best")
    assert [one.name for one in verdict.alike] == ["best", "disk"]
    (said,) = comparison.sentences()
    assert said.startswith("For the classes you have take light (light): 8 bytes a row, mAP 0.700 ± 0.0")
    assert "the embeddings have 1,000 bytes and 0.9" in said


def test_what_queries_cannot_tell_apart_is_as_good():
    rng = np.random.default_rng(1)
    far, unsure = line("far", 1, 0.85, 0.8), line("unsure", 2, 0.85, 0.8)
    noisy = {"known": np.where(rng.random((3, 50)) < 0.85, 1.0, 0.0)}
    unsure = replace(unsure, chosen=noisy)
    best = line("best", 8, 0.9, 0.9)
    comparison = Comparison((line("embeddings", 100, 0.5, 0.5), far, unsure, best), ABOUT, 1000)
    assert comparison.verdicts["known"].pick.name == "unsure"  # far is as much below, and surely


def test_a_way_that_was_far_behind_in_the_first_split_is_not_taken():
    early = replace(line("early", 1, 0.99, 0.9), chosen={"known": np.full((1, 50), 0.99)})
    comparison = Comparison((line("embeddings", 100, 0.5, 0.5), early, line("whole", 8, 0.9, 0.9)), ABOUT, 1000)
    assert comparison.verdicts["known"].pick.name == "whole"
    early = replace(early, shown=early.chosen)
    lines = line("embeddings", 100, 0.5, 0.5), early
    assert [one["moved"] for one in Comparison(lines, ABOUT, 1000).records()] == ["known", ""]


def test_figures_of_the_first_split_alone_are_told_beside_those_of_all():
    exact = np.array([[0.2, 0.4], [0.5, 0.7], [0.8, 1.0]])
    assert study._of_all(exact, exact) is exact
    np.testing.assert_allclose(study._of_all(np.array([[0.1, 0.9]]), exact), [[0.4, 1.0]])  # 0.3 more, but at most 1


def test_recall_is_told_for_at_most_ten_times_the_rows():
    of_all, of_third = (line("few", 1, value, value, question="nearest") for value in (0.9, 0.95))
    few = replace(of_all, chosen=of_all.chosen | {"third": of_third.chosen["nearest"]})
    few = replace(few, shown=few.shown | {"third": of_third.shown["nearest"]}, vectors="int8", rerank=100, disk=8)
    many = replace(line("many", 9, 0.9, 0.9, question="nearest"))
    many = replace(many, chosen=many.chosen | {"third": many.chosen["nearest"]})
    lines = line("embeddings", 100, 1, 1, question="nearest"), few, many
    now, later, far = (Comparison(lines, ABOUT, count) for count in (1000, 8100, 10**7))
    assert [one.verdicts["nearest"].pick.name for one in (now, later, far)] == ["few", "many", "many"]
    assert "Among a third of the 900 rows it finds 0.950; 100 candidates are 11 % of the rows." in str(now)
    value = later._at_count(few.shown, "nearest").mean()
    assert value == pytest.approx(0.9 - 0.05 * np.log(9) / np.log(3), abs=1e-3)
    told = far._at_scale(few)
    assert "so among 9,000 about 0.80; so few rows cannot tell what 100 candidates find of 10,000,000" in told
    assert now.memory() == ["embeddings: 100 kB in memory", "few + 100 by int8: 1 kB in memory, 8 kB on disk"]


def test_recall_that_rises_is_not_told_to_rise_on():
    of_all, of_third = (line("few", 1, value, value, question="nearest") for value in (0.85, 0.7))
    few = replace(of_all, chosen=of_all.chosen | {"third": of_third.chosen["nearest"]})
    many = line("many", 9, 0.95, 0.95, question="nearest")
    many = replace(many, chosen=many.chosen | {"third": many.chosen["nearest"]})
    lines = line("embeddings", 100, 1, 1, question="nearest"), few, many
    assert [Comparison(lines, ABOUT, count).verdicts["nearest"].pick.name for count in (1000, 10**7)] == ["many"] * 2


def test_the_lines_read_the_data_as_the_comparison_did():
    coded = replace(line("csq", 2, 0.9, 0.9), take="lbhash train DATA --bits 16")
    lines = line("embeddings", 100, 0.5, 0.5), coded
    read = dict.fromkeys(("train", "index build"), "--label-column group --damaged skip")
    comparison = Comparison(lines, ABOUT, 1000, read)
    build = "lbhash index build DATA --label-column group --damaged skip --model model --split all --out index\n"
    assert build in comparison.recipes()["csq"]
    assert "take csq (lbhash train DATA --label-column group --damaged skip --bits 16): 2 bytes" in str(comparison)


def test_the_files_and_the_tables(found):
    comparison, out = found
    assert {file.name for file in out.iterdir()} == {
        "runs", "comparison.csv", "comparison.html", "comparison.png",
    }  # fmt: skip
    with (out / "comparison.csv").open(newline="") as text:
        lines = list(csv.DictReader(text))
    assert len(lines) == len(comparison.lines) == len(comparison.to_pandas())
    assert {"known", "later", "mixed", "nearest", "third", "vectors"} <= set(lines[0])
    page = (out / "comparison.html").read_text()
    assert all(f"<li>{escape(sentence)}</li>" in page for sentence in comparison.sentences())
    assert all(escape(lines) in page for lines in comparison.recipes().values())
    assert str(comparison).splitlines() == comparison.sentences()
    assert "<table" in comparison._repr_html_()


def test_the_picture_of_some_questions_or_all(found):
    comparison, _ = found
    assert [len(comparison.figure(*asked).axes) for asked in ((), ("known",), ("known", "nearest"))] == [4, 1, 2]
    with pytest.raises(ValueError, match=r"^questions is 'soon'; it must be one of known, later, mixed, nearest"):
        comparison.figure("soon")


def test_a_comparison_goes_on_where_it_stopped(found, rows, monkeypatch):
    before, out = found
    kept = (out / "runs" / "itq-8-all-0.json").read_bytes()
    (out / "runs" / "itq-8-all-0.json").unlink()
    asked = []
    fit = ways.hashed

    def recorded(train, hasher, **more):
        asked.append(hasher.method)
        return fit(train, hasher, **more)

    monkeypatch.setattr(ways, "hashed", recorded)
    again = lbhash.compare(*rows, bits=[8], out=out, epochs=1)
    assert asked == ["itq"]
    untimed = ("fit_seconds", "encode_seconds", "search_ms")
    made, first = (one.to_pandas().drop(columns=list(untimed)) for one in (again, before))
    pd.testing.assert_frame_equal(made, first)
    said = "which holds a comparison with epochs 1, and this one has 2; name another folder"
    with pytest.raises(ValueError, match=said):
        lbhash.compare(*rows, bits=[8], out=out, epochs=2)
    (out / "runs" / "itq-8-all-0.json").write_bytes(kept)


def test_rows_that_are_named_as_queries_are_the_queries():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 3)), np.arange(300) % 3
    base, query = EmbeddingSplit(x, np.arange(250), y[:250]), EmbeddingSplit(x, np.arange(250, 300), y[250:])
    train = base.where(np.arange(250) < 150)
    rows = study._rows(Dataset("x", "flags", train, base, query))
    fitted, (known, nearest, _) = study._split("x", rows, 0)["all"]
    parts = {"train": fitted, "new": known.base, "stored": nearest.base, "query": known.query}
    wanted = {"train": range(150), "new": range(150, 250), "stored": range(250), "query": range(250, 300)}
    for name, part in parts.items():
        np.testing.assert_array_equal(part.take(slice(None)), x[list(wanted[name])].astype(np.float32), name)
    rows = study._rows(Dataset("x", "official", base, base, query))  # a published test set
    fitted, (known, nearest, _) = study._split("x", rows, 0)["all"]
    np.testing.assert_array_equal(known.query.take(slice(None)), x[250:].astype(np.float32))
    for part in (fitted, known.base, nearest.base):
        assert np.isin(part.take(slice(None)), x[:250].astype(np.float32)).all()
    unlabeled = base.with_rows(base.rows, None)
    rows = study._rows(Dataset("x", "flags", unlabeled, unlabeled, query.with_rows(query.rows, None)))
    fitted, (nearest, _) = study._split("x", rows, 0)["all"]  # all of its base trains: a tenth is held out
    assert (len(fitted), len(nearest.base), len(nearest.query)) == (225, 250, 50)
    few = study._rows(Dataset("x", "flags", train.where(np.arange(150) < 30), train, query))
    with pytest.raises(ValueError, match=r"^x has 30 rows to store; a comparison needs more than 100"):
        study._split("x", few._replace(new=None), 0)


@pytest.mark.slow
def test_rows_without_a_label_train_what_the_command_trains(rows):
    x, y = rows
    partly = y.astype(float)
    partly[::3] = np.nan
    comparison = lbhash.compare(x, partly, bits=[8], epochs=1)
    assert comparison.about["unlabeled"] > 300
    assert {"csq", "csq, joined"} <= {one.name for one in comparison.lines}


@pytest.mark.slow
def test_rows_without_labels_have_one_question(rows, tmp_path):
    comparison = lbhash.compare(rows[0], bits=[8], out=tmp_path)
    assert "later" not in (tmp_path / "comparison.html").read_text()
    assert comparison.questions == ["nearest"]
    learned = {one for one in NAMES if one.startswith(("csq", "wccn", "a classifier"))}
    assert {one.name for one in comparison.lines} == NAMES - learned


def test_what_metadata_take_is_told_from_real_rows(tmp_path, rows, monkeypatch):
    x, y = rows
    table = pa.table({"embedding": list(x[:300]), "label": y[:300], "title": ["ab", "abcdef"] * 150, "n": range(300)})
    pq.write_table(table, tmp_path / "x.parquet")
    asked = []
    about = {"splits": 3, "queries": 9, "rows": ABOUT["rows"] | {"train": 5}}
    made = Comparison((line("embeddings", 100, 0.5, 0.5), line("small", 1, 0.5, 0.5)), about, 10**6)
    monkeypatch.setattr(study, "compare_dataset", lambda *given, **more: asked.append(more) or made)
    done = CliRunner().invoke(app, ["compare", str(tmp_path / "x.parquet"), "--metadata", "title,n", "--count", "1e6"])
    assert done.exit_code == 0, done.exception
    assert asked[0]["count"] == 10**6
    # 4 bytes of an offset and 4 of the mean text, 8 of the number
    assert "title, n: 16 bytes a row, 16.1 MB in memory" in done.stdout
    wrong = CliRunner().invoke(app, ["compare", str(tmp_path / "x.parquet"), "--metadata", "titel"])
    assert "metadata has 'titel'; it must name columns of the data" in str(wrong.exception)


def test_the_command(tmp_path, rows, monkeypatch):
    monkeypatch.setattr("lbhash.utils.system.usable_cores", lambda: 1)
    monkeypatch.setattr(study, "SPLITS", 1)
    file = tmp_path / "x.npz"
    np.savez(file, embeddings=rows[0][:600], labels=rows[1][:600])
    given = ["compare", str(file), "--bits", "8", "--epochs", "1", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0
    assert "For the classes you have take" in done.stdout
    made = json.loads(CliRunner().invoke(app, [*given, "--json"]).stdout)
    assert len(made["recommended"]) == len(made["verdicts"]) == 4
    assert made["count"] == 600
    assert {"name", "memory", "known", "later", "nearest", "take"} <= set(made["lines"][0])
    assert set(made["recipes"]) == {one["take"] for one in made["verdicts"].values()}
    far = CliRunner().invoke(app, [*given, "--count", "10e6"])
    assert "10,000,000 rows, without ids and metadata: embeddings: 1.28 GB in memory" in " ".join(far.stdout.split())
    wrong = CliRunner().invoke(app, [*given, "--count", "0.5"])
    assert str(wrong.exception).startswith("--count is 0.5; it must be a whole number of rows from 1 on")
    for word in ("nan", "inf"):
        wrong = CliRunner().invoke(app, [*given, "--count", word])
        assert str(wrong.exception).startswith(f"--count is {word}; it must be a whole number of rows from 1 on")
    wrong = CliRunner().invoke(app, [*given[:2], "--bits", "8;16"])
    assert str(wrong.exception).startswith("--bits is '8;16'; it must be integers with commas between them")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": [0, 1]}, "^y has 2 labels and X 1200 rows; give a label for each row"),
        (
            {"y": np.ones(1200, int)},
            "^every training row of X has the label 1; there is nothing to learn",
        ),
        ({"bits": []}, "^bits is empty; give at least one length"),
        ({"bits": [0]}, "^bits is 0; it must be"),
        ({"epochs": 0}, "^epochs is 0; it must be at least 1"),
    ],
)
def test_what_is_refused(rows, given, message):
    with pytest.raises(ValueError, match=message):
        lbhash.compare(rows[0], **given)


@pytest.mark.slow
def test_the_lines_of_each_way_build_and_search_it(found, rows, tmp_path, monkeypatch):
    comparison, _ = found
    x, y = rows
    base, queries, labels = x[:1100], x[1100:], y[:1100]
    monkeypatch.chdir(tmp_path)
    for name, values in (("rows", base), ("queries", queries), ("labels", labels)):
        np.save(f"{name}.npy", values)
    unit = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in (queries, base)]
    nearest = np.argsort(-unit[0] @ unit[1].T, axis=1)[:, :10]
    ran = set()
    for one in comparison.lines:
        lines = recipe(one)
        if lines.startswith("lbhash ") or (one.rerank == 200 and one.vectors == "embeddings"):
            continue
        given = {}
        exec(lines, given)  # as a user would paste it
        ran.add(one.name)
        again = given["found"][:, :10]
        assert again.shape == (100, 10), one.title
        if not one.labels:
            hits = [len(set(some) & set(best)) / 10 for some, best in zip(again, nearest, strict=True)]
            assert np.mean(hits) == pytest.approx(one.value("nearest"), abs=0.12), one.title
        else:
            assert np.mean(labels[again] == y[1100:, None]) > 0.5
    assert ran == {name for name in NAMES if not name.startswith(("csq", "itq", "wccn", "sne"))}


def test_the_commands_of_a_way_build_and_search_it(found, rows, tmp_path, monkeypatch):
    comparison, _ = found
    x, y = rows
    monkeypatch.chdir(tmp_path)
    np.savez("DATA.npz", embeddings=x[:1100], labels=y[:1100])
    np.savez("QUERIES.npz", embeddings=x[1100:])
    for title in ("csq, joined, 8 bits", "itq, 8 bits + 100 by int8"):
        (one,) = (line for line in comparison.lines if line.title == title)
        for command in recipe(one).replace("DATA", "DATA.npz").replace("QUERIES", "QUERIES.npz").splitlines():
            more = ["--overwrite"] if " search " not in command else []
            more += ["--epochs", "1"] if command.endswith("--bits 8 --out model") else []
            done = CliRunner().invoke(app, [*command.split()[1:], *more])
            assert done.exit_code == 0, (command, done.output, done.exception)
