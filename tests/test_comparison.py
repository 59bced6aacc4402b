"""compare: its figures against plain loops, what it recommends, and its files."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from typer.testing import CliRunner

import lbhash
from lbhash.cli.app import app
from lbhash.comparison import study
from lbhash.comparison.result import Comparison, Line
from lbhash.data import Dataset
from lbhash.data.split import EmbeddingSplit
from lbhash.trials import ways
from lbhash.trials.questions import Question

NAMES = ["embeddings", "signs", "FAISS RaBitQ", "FAISS IVF,SQ8", "csq", "csq, joined", "csq, unseen 0.5", "itq", "sne"]
NAMES += ["FAISS OPQ", "logistic", "class number"]


@pytest.fixture(scope="module")
def rows():
    x, y = make_blobs(1200, 32, centers=12, cluster_std=6.0, random_state=0)
    return x.astype(np.float32), y


@pytest.fixture(scope="module")
def found(rows, tmp_path_factory):
    out = tmp_path_factory.mktemp("comparison")
    return lbhash.compare(*rows, bits=[8], out=out, epochs=1), out


def test_every_way_answers_every_question(found):
    comparison, _ = found
    assert comparison.questions == ["known", "later", "nearest"]
    assert list(dict.fromkeys(line.name for line in comparison.lines)) == NAMES
    for line in comparison.lines:
        assert all(0 <= line.shown[question] <= 1 for question in comparison.questions), line
    sizes = {line.title: (line.memory, line.disk) for line in comparison.lines}
    assert sizes["embeddings"] == (128, 0)
    assert sizes["signs"] == (4, 0)
    assert sizes["itq, 8 bits"] == (1, 0)
    assert sizes["itq, 8 bits + embeddings"] == (1, 64)
    assert comparison.about["rows"] == {"train": 960, "base": 120, "query": 120}


def test_the_figures_of_the_embeddings_are_those_of_a_plain_loop(found, rows):
    comparison, _ = found
    data = study.EmbeddingTable(*rows, "X").dataset()
    base, query = (part.take(slice(None)) for part in (data.base, data.query))
    base, query = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (base, query))
    half = np.random.default_rng(0).permutation(120)[60:]
    values = []
    for row in half:
        order = np.argsort(-(base @ query[row]))
        hits = data.base.labels[order] == data.query.labels[row]
        values.append(np.mean(np.cumsum(hits)[hits] / (np.flatnonzero(hits) + 1)))
    (line,) = (one for one in comparison.lines if one.name == "embeddings")
    assert line.shown["known"] == pytest.approx(np.mean(values), abs=1e-4)
    assert line.shown["nearest"] == 1


def stored(way, base, query):
    """What a way that is fitted to the base stores of it."""
    base, query = (EmbeddingSplit(x, np.arange(len(x)), None) for x in (base, query))
    return [one for store in way(base) for one in store(Question("", base, query))]


def test_re_ranking_puts_the_candidates_in_the_order_of_the_embeddings():
    rng = np.random.default_rng(0)
    base, query = rng.normal(size=(40, 8)).astype(np.float32), rng.normal(size=(5, 8)).astype(np.float32)
    alone, again = stored(ways.signs, base, query)
    assert (alone.rerank, again.rerank) == (0, ways.CANDIDATES)
    cosines = query @ base.T / np.linalg.norm(query, axis=1)[:, None] / np.linalg.norm(base, axis=1)
    near = np.argsort(again.scores(slice(None)), axis=1)  # of 40 rows all are candidates
    assert np.take_along_axis(cosines, near, 1) == pytest.approx(-np.sort(-cosines, axis=1), abs=2e-3)


def test_signs_of_more_numbers_than_an_index_takes_bits_are_compared_too():
    rng = np.random.default_rng(0)
    base, query = rng.normal(size=(40, 1100)).astype(np.float32), rng.normal(size=(5, 1100)).astype(np.float32)
    (alone,) = stored(ways.signs, base, query)
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (query, base)]
    median = np.median(unit[1], axis=0)
    slow = [[np.abs(q - median)[(q > median) != (b > median)].sum() for b in unit[1]] for q in unit[0]]
    np.testing.assert_allclose(alone.scores(slice(None)), slow, rtol=1e-5)
    assert alone.memory == 138
    alone.search()


def test_embeddings_weigh_what_an_index_keeps_of_them():
    for kind, size, whole in (("uint8", 8, 8), ("float16", 16, 16), ("float32", 16, 32), ("float64", 16, 32)):
        x = np.random.default_rng(0).integers(0, 200, (60, 8)).astype(kind)
        assert [one.disk for one in stored(ways.signs, x, x) if one.rerank] == [size]
        assert [one.memory for one in stored(ways.embeddings, x, x)] == [whole]


def line(name, memory, figure, other, disk=0):
    return Line(name, None, memory, disk, 100 * bool(disk), False, name, 0, 0, 0, {"known": figure}, {"known": other})


def test_the_lightest_of_the_good_ones_is_recommended_by_other_queries():
    lines = [line("embeddings", 1000, 0.9, 0.9), line("small", 1, 0.80, 0.99), line("best", 64, 0.905, 0.1)]
    lines += [line("light", 8, 0.896, 0.7), line("disk", 1, 0.896, 0.7, disk=600)]
    comparison = Comparison(tuple(lines), {})
    assert comparison.pick("known").name == "light"
    assert comparison.sentences() == [
        "For the classes you have take light (light): 8 bytes a row, mAP 0.700; the embeddings have 1,000 bytes and "
        "0.900."
    ]
    assert [one.name for one in comparison.frontier()] == ["small", "embeddings"]


def test_the_files_and_the_tables(found):
    comparison, out = found
    assert {file.name for file in out.iterdir()} == {
        "runs", "comparison.csv", "comparison.html", "comparison.png",
    }  # fmt: skip
    with (out / "comparison.csv").open(newline="") as text:
        lines = list(csv.DictReader(text))
    assert len(lines) == len(comparison.lines) == len(comparison.to_pandas())
    page = (out / "comparison.html").read_text()
    assert all(f"<li>{sentence}</li>" in page for sentence in comparison.sentences())
    assert str(comparison).splitlines() == comparison.sentences()
    assert "<table" in comparison._repr_html_()


def test_the_picture_of_some_questions_or_all(found):
    comparison, _ = found
    assert [len(comparison.figure(*asked).axes) for asked in ((), ("known",), ("known", "nearest"))] == [3, 1, 2]
    with pytest.raises(ValueError, match=r"^questions is 'soon'; it must be one of known, later, nearest"):
        comparison.figure("soon")


def test_a_comparison_goes_on_where_it_stopped(found, rows, monkeypatch):
    before, out = found
    kept = (out / "runs" / "itq-8-known.json").read_bytes()
    (out / "runs" / "itq-8-known.json").unlink()
    asked = []
    fit = ways.hashed

    def recorded(train, hasher, **more):
        asked.append(hasher.method)
        return fit(train, hasher, **more)

    monkeypatch.setattr(ways, "hashed", recorded)
    again = lbhash.compare(*rows, bits=[8], out=out, epochs=1)
    assert asked == ["itq"]
    untimed = ("fit", "encode", "search")
    assert [replace(one, **dict.fromkeys(untimed, 0)) for one in again.lines] == [
        replace(one, **dict.fromkeys(untimed, 0)) for one in before.lines
    ]
    said = "which holds a comparison with epochs 1, and this one has 2; name another folder"
    with pytest.raises(ValueError, match=said):
        lbhash.compare(*rows, bits=[8], out=out, epochs=2)
    (out / "runs" / "itq-8-known.json").write_bytes(kept)


def test_a_base_that_is_trained_on_is_not_asked():
    x, y = np.arange(60.0)[:, None].repeat(3, 1), np.arange(60) % 3
    train, query = EmbeddingSplit(x, np.arange(50), y[:50]), EmbeddingSplit(x, np.arange(50, 60), y[50:])
    with pytest.raises(ValueError, match=r"^x has 6 rows to store; a comparison needs more than 10"):
        study._rows(Dataset("x", "flags", train, train, query), 0)
    train = EmbeddingSplit(x.repeat(3, 0), np.arange(150), y[:50].repeat(3))
    train, base, _ = study._rows(Dataset("x", "flags", train, train, query), 0)
    assert (len(train), len(base)) == (135, 15)


def test_rows_without_labels_have_one_question(rows):
    comparison = lbhash.compare(rows[0], bits=[8])
    assert comparison.questions == ["nearest"]
    assert {one.name for one in comparison.lines} == set(NAMES) - {one for one in NAMES if "csq" in one} - {
        "class number", "logistic",
    }  # fmt: skip


def test_the_command(tmp_path, rows):
    file = tmp_path / "x.npz"
    np.savez(file, embeddings=rows[0], labels=rows[1])
    given = ["compare", str(file), "--bits", "8", "--epochs", "1"]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0
    assert "For the classes you have take" in done.stdout
    made = json.loads(CliRunner().invoke(app, [*given, "--json"]).stdout)
    assert len(made["recommended"]) == 3
    assert {"name", "memory", "known", "later", "nearest", "take"} <= set(made["lines"][0])
    wrong = CliRunner().invoke(app, [*given[:-4], "--bits", "8;16"])
    assert str(wrong.exception).startswith("--bits is '8;16'; it must be integers with commas between them")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": [0, 1]}, "^y has 2 labels and X 1200 rows; give a label for each row"),
        (
            {"y": np.ones(1200, int)},
            "^every training row of X has the label 1; there is nothing to learn",
        ),
        ({"bits": []}, "^bits is empty; it must hold a length at least"),
        ({"bits": [0]}, "^bits is 0; it must be"),
        ({"epochs": 0}, "^epochs is 0; it must be at least 1"),
    ],
)
def test_what_is_refused(rows, given, message):
    with pytest.raises(ValueError, match=message):
        lbhash.compare(rows[0], **given)
