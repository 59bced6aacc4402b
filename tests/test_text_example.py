"""Text through the product's own commands: nothing in it assumes images."""

from __future__ import annotations

import importlib.util
import json
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "text.py"


@pytest.fixture(scope="module")
def text():
    """The example as a module, with three packages, each of which is read once."""
    found = importlib.util.spec_from_file_location("example_text", EXAMPLE)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PACKAGES", ("scipy.optimize", "scipy.signal", "sympy.geometry"))
        patch.setattr(module, "sentences", cache(module.sentences))
        yield module


@pytest.fixture(scope="module")
def table(text):
    return text.make_table(60, 16, 0)


def test_the_first_sentence(text):
    assert text.first_sentence("Return the `mean` of\n    :func:`~numpy.x` values here. And more.\n\nNext.") == (
        "Return the mean of numpy.x values here."
    )
    assert text.first_sentence("Solve a *linear* system, e.g. of two unknowns.") == "Solve a linear system, e.g."
    assert text.first_sentence("Find a root by the A* method of search.") == "Find a root by the A* method of search."
    assert text.first_sentence("Too short.") is None
    assert text.first_sentence("A heading without a full stop at all") is None
    assert text.first_sentence("word " * 41 + "end.") is None


def test_telltales(text):
    for telling in (
        "a NumPy array",
        "a SciPy routine",
        "the torch.nn module",
        "as PyTorch has it",
        "the Hub's",
        "pd.x",
    ):
        assert text.TELLTALE.search(telling), telling
    for plain in ("a torchbearer", "the hubs and authorities", "geometry", "a statistic"):
        assert not text.TELLTALE.search(plain), plain


def test_sentences_are_of_what_is_public_and_there_once(text):
    found = text.sentences("scipy.optimize")
    assert len(found) > 100
    names = {sentence.name: sentence.text for sentence in found}
    import scipy.optimize

    assert names["scipy.optimize._zeros_py.bisect"] in " ".join(scipy.optimize.bisect.__doc__.split())
    assert not any(part.startswith("test") for name in names for part in name.split("."))
    assert not any(name.rsplit(".", 1)[1].startswith("_") for name in names)
    texts = [sentence.text.lower() for sentence in found]
    assert len(set(texts)) == len(texts)


def test_the_table(text, table):
    labels, query = table["label"].to_numpy(), table["in_query"].to_numpy()
    np.testing.assert_array_equal(np.bincount(labels), [60] * 3)
    np.testing.assert_array_equal(np.bincount(labels[query]), [12] * 3)
    for column in ("in_train", "in_base"):
        np.testing.assert_array_equal(table[column].to_numpy(), ~query)
    assert [text.PACKAGES[label] for label in labels] == table["package"].to_pylist()
    assert len(set(map(str.lower, table["text"].to_pylist()))) == 180
    assert len(np.unique(labels[:20])) == 3  # in no order of classes
    facts = json.loads(table.schema.metadata[b"source"])
    assert facts["versions"].keys() == {"scipy", "sympy"}
    assert facts["seed"] == 0


def test_the_seed_decides(text, table):
    assert text.make_table(60, 16, 0).equals(table)
    assert text.make_table(60, 16, 1)["text"].to_pylist() != table["text"].to_pylist()


def test_queries_give_the_embedding_nothing(text, table):
    texts, query = table["text"].to_pylist(), table["in_query"].to_numpy()
    others = [f"zebra {row}" if asked else text for row, (text, asked) in enumerate(zip(texts, query, strict=True))]
    before, after = (text.embed(those, ~query, 16, 0) for those in (texts, others))
    np.testing.assert_array_equal(before[~query], after[~query])
    np.testing.assert_array_equal(after[query], 0)  # no word of theirs is known


def run(text, monkeypatch, capsys, *arguments):
    monkeypatch.setattr("sys.argv", ["text.py", *map(str, arguments)])
    text.main()
    return capsys.readouterr().out


def refused(text, monkeypatch, capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        run(text, monkeypatch, capsys, *arguments)
    assert ended.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_from_sentences_to_neighbors(text, tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    said = run(text, monkeypatch, capsys, "--out", "text.parquet", "--per-class", 60, "--dim", 32)
    assert said == "180 sentences of 3 packages, 36 of them queries, are in text.parquet\n"

    def lbhash(*arguments):
        status, out, errors = command(*arguments, "--json")
        assert status == 0, errors
        return json.loads(out)

    lbhash("train", "--data", "text.parquet", "--method", "csq", "--bits", 16, "--epochs", 30, "--out", "model")
    for split in ("base", "query"):
        lbhash("encode", "--model", "model", "--data", "text.parquet", "--split", split, "--out", f"{split}.parquet")
    report = lbhash("evaluate", "--queries", "query.parquet", "--base", "base.parquet")
    assert report["map"] > 0.6  # by chance 0.33
    source = (
        "--model",
        "model",
        "--data",
        "text.parquet",
        "--split",
        "base",
        "--columns",
        "text",
        "--columns",
        "package",
    )
    lbhash("index", "build", *source, "--store-vectors", "embeddings", "--out", "index")

    rows = pq.read_table("text.parquet")
    row = int(np.flatnonzero(rows["in_query"].to_numpy())[0])
    here = ("--model", "model", "--index", "index", "--data", "text.parquet", "--row", row)
    (answer,) = lbhash("search", *here, "-k", 5, "--rerank", "embeddings")["queries"]
    assert answer["label"] == rows["label"][row].as_py()
    for neighbor in answer["neighbors"]:
        for column in ("text", "package", "label"):
            assert neighbor["attributes"][column] == rows[column][neighbor["id"]].as_py()
    only = lbhash("search", *here, "-k", 5, "--where", "package=sympy.geometry")["queries"][0]["neighbors"]
    assert {neighbor["attributes"]["package"] for neighbor in only} == {"sympy.geometry"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: --out"),
        (["--out", "t.parquet", "--per-class", "9"], "per-class is 9; it must be at least 10"),
        (["--out", "t.parquet", "--per-class", "100000"], "per-class is 100000; scipy.optimize has "),
        (["--out", "t.parquet", "--per-class", "10", "--dim", "999"], "dim is 999; it must be from 1 to "),
    ],
)
def test_bad_arguments(text, arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert message in refused(text, monkeypatch, capsys, *arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_package_that_is_not_there(text):
    with pytest.raises(ValueError, match=r"the package scipy\.nowhere is not installed"):
        text.sentences("scipy.nowhere")
    with pytest.raises(ValueError, match="the package no_such_package is not installed"):
        text.sentences("no_such_package")
