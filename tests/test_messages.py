"""The list of provoked errors: each is one line, which names the argument in words of this library."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
import typer

from lbhash import Hasher, compare, evaluate
from lbhash.centers import class_centers
from lbhash.cli.app import app
from lbhash.cli.rules import RULES
from lbhash.codes import as_packed, convert, pack
from lbhash.codes.io import CodeTable, read_codes, write_codes
from lbhash.data import load_dataset, load_table
from lbhash.evaluation import bound
from lbhash.evaluation.neighbors import evaluate_neighbors
from lbhash.evaluation.recognition import knn_predict
from lbhash.index import Index
from lbhash.index.factory import build_index
from lbhash.training.settings import arguments, grouped

pytestmark = pytest.mark.end_to_end

SMALL = {"bits": 8, "epochs": 1, "hidden": 0}
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 8)).astype(np.float32), np.arange(60) % 3
HOT = np.eye(3, dtype=np.uint8)[Y]
CODES = pack(X)

FOREIGN = re.compile(
    r"pydantic|sklearn|scikit|Input should|dtype\(|<class|<U\d|np\.|numpy\.dtypes|ufunc|has no column|__init__"
    r"|inhomog|not supported between|not iterable|object of type|expected str|could not convert|Found array|Errno"
    r"|HistGradient|Invalid value|unexpected keyword|Traceback",
    re.IGNORECASE,
)
"""Words of Python, NumPy, scikit-learn, Typer and Pydantic, which say nothing to whoever called lbhash."""


def check_line(line, *names):
    assert "\n" not in line
    assert not FOREIGN.search(line), line
    assert len(line) < 700, line
    for name in names:
        assert re.search(rf"(?<![\w]){re.escape(name)}", line), (name, line)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with a model, codes of queries and base, an index and a file of rows."""
    folder = tmp_path_factory.mktemp("messages")
    hasher = Hasher(method="itq", bits=8).fit(X, Y)
    hasher.save_pretrained(folder / "model")
    for name, rows in (("query", slice(0, 20)), ("base", slice(20, 60))):
        write_codes(folder / f"{name}.npz", CodeTable(hasher.encode(X[rows]), 8, np.arange(60)[rows], Y[rows]))
    build_index(read_codes(folder / "base.npz"), folder / "index")
    np.savez(folder / "rows.npz", embedding=X, label=Y)
    return folder


# --------------------------------------------------------------------------------------------------------- in Python

SETTINGS = {
    "bits": [0, "8", None, 2000, 1.5, True],
    "method": ["csqq", 5, []],
    "epochs": [0, "x", 1.5],
    "seed": [-1, "a", None, 2**70],
    "hidden": [-1, "a"],
    "recipe": ["tunned", 1],
    "dropout": [1, "a", -1],
    "head": ["joint", 1],
    "unseen": [2, "a"],
    "start": ["nope", 5],
    "centers": ["x", 5, None],
    "batch_size": [1, "a"],
    "lr": [0, "a", np.nan],
    "schedule": ["stp"],
    "precision": [64, "b"],
    "monitor": ["x"],
    "patience": [0],
    "validation": [1, "a"],
    "options": [5, {"alpa": 1}, {"x": object()}, {"lam": np.nan}],
    "guidance": [5, {"mod": 1}],
    "image_size": [0],
    "batch_norm": ["x"],
    "threads": [0, "a"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in SETTINGS.items() for value in values])
def test_settings(name, value):
    with pytest.raises((TypeError, ValueError)) as raised:
        Hasher(**grouped(**{**SMALL, name: value})).fit(X, Y)
    check_line(str(raised.value), name)


ROWS = {
    "nothing": None,
    "a text": "a",
    "one row": X[0],
    "three axes": X[None],
    "NaN": np.full((60, 8), np.nan),
    "no row": X[:0],
    "no column": X[:, :0],
    "texts": [["a"] * 8] * 60,
    "unequal rows": [[1.0], [1.0, 2.0]],
}


@pytest.mark.parametrize("rows", ROWS)
def test_embeddings(rows):
    fitted = Hasher(method="itq", bits=8).fit(X)
    for call in (Hasher(**grouped(**SMALL)).fit, fitted.encode):
        with pytest.raises((TypeError, ValueError)) as raised:
            call(ROWS[rows])
        check_line(str(raised.value), "X")


LABELS = {
    "too few": Y[:-1],
    "none": [],
    "all missing": [None] * 60,
    "measurements": Y + 0.5,
    "one class": Y * 0,
    "several kinds": [0, "a"] * 30,
    "ragged": [[0], 1] * 30,
    "a text": "abc",
    "no multi-hot": np.full((60, 2), 3),
}


@pytest.mark.parametrize("labels", LABELS)
def test_labels(labels):
    fitted = Hasher(method="itq", bits=8).fit(X, Y)
    with pytest.raises((TypeError, ValueError)) as raised:
        Hasher(**grouped(**SMALL)).fit(X, LABELS[labels])
    check_line(str(raised.value), "y")
    if labels not in ("one class", "all missing"):  # of which the first may be asked for
        with pytest.raises((TypeError, ValueError)) as raised:
            fitted.score(X, LABELS[labels])
        check_line(str(raised.value), "y")
        with pytest.raises((TypeError, ValueError)) as raised:
            evaluate(CODES, LABELS[labels], CODES, Y)
        check_line(str(raised.value), "query_labels")


EVALUATION = {
    "query_codes": [None, "a", CODES[0], CODES.astype(float), CODES[:0], [["a"]], 5, {}, [[1], [1, -1]], X],
    "base_codes": [None, CODES[:3], CODES.astype(int), np.tile(CODES, 2)],
    "top_k": [0, "a", 61, 1.5],
    "k": [0, "a", 61],
    "ranks": [[0], "ab", 5, [], [61], ["a"]],
    "radius": [-1, "a", 9],
    "ties": ["x", 5, None],
    "normalize": ["x", None],
    "empty": ["x"],
    "bits": [0, "a", 1.5],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, some in EVALUATION.items() for value in some])
def test_evaluations(name, value):
    given = {"query_codes": CODES, "query_labels": Y, "base_codes": CODES, "base_labels": Y}
    with pytest.raises((TypeError, ValueError)) as raised:
        evaluate(**{**given, name: value})
    check_line(str(raised.value), name)


def table():
    return CodeTable(CODES, 8, np.arange(60), Y)


CALLS = {
    "'n_bits'": lambda index: Hasher(n_bits=3),
    "name": lambda index: Hasher(*(8, "csq")),
    "'bit'": lambda index: Hasher().set_params(bit=3),
    "fitted": lambda index: Hasher().encode(X),
    "model": lambda index: Hasher.from_pretrained("nope"),
    "directory is": lambda index: Hasher(method="itq", bits=4).fit(X).save_pretrained(__file__),
    "X is 5": lambda index: Hasher(backbone="x").fit(5, Y),
    "X has 1 in row 1": lambda index: Hasher(backbone="x").fit(["a", 1], [0, 1]),
    "k": lambda index: Hasher(method="itq", bits=4).fit(X, Y).predict(X, k="a"),
    "y holds the label 5": lambda index: Hasher(method="itq", bits=4).fit(X, Y).score(X, Y + 5),
    "labels": lambda index: bound(CODES, Y[:3]),
    "classes": lambda index: bound(CODES, Y, classes="a"),
    "percentile": lambda index: bound(CODES, Y, "a"),
    "classes is 300": lambda index: class_centers(300, 8),
    "kind": lambda index: class_centers(3, 8, "besst"),
    "seed": lambda index: class_centers(3, 8, seed="a"),
    "query_embeddings": lambda index: evaluate_neighbors(CODES, X[:3], CODES, X),
    "query_embeddings is NaN": lambda index: evaluate_neighbors(CODES, X * np.nan, CODES, X),
    "values holds text": lambda index: pack([["a"]]),
    "codes is ragged": lambda index: as_packed([[1], [1, -1]]),
    "form": lambda index: convert(CODES, 8, "hexx"),
    "base_labels": lambda index: knn_predict(CODES, CODES, HOT, 3),
    "path is 'nope'": lambda index: Index.open("nope", mode="a"),
    "path is 5": lambda index: Index.open(5, mode="a"),
    "codes": lambda index: index.search(None, 3),
    "k is 'a'": lambda index: index.search(CODES, "a"),
    "where": lambda index: index.search(CODES, 3, where={"x": 1}),
    "ids": lambda index: index.add(CODES, ["a"] * 60),
    "ids holds": lambda index: index.remove([99999]),
    "table": lambda index: build_index(CODES, "new"),
    "kind is 'flt'": lambda index: build_index(table(), "new", "flt"),
    "options": lambda index: build_index(table(), "new", "ivf", options=5),
    "option nprobe": lambda index: build_index(table(), "new", "ivf", options={"nprobe": "a"}),
    "metadata": lambda index: build_index(table(), "new", metadata=5),
    "vectors": lambda index: build_index(table(), "new", vectors=X),
    "vectors is": lambda index: build_index(table(), "new", store="embeddins", vectors=X),
    "rerank": lambda index: index.search(CODES, 3, rerank="x"),
    "bits is 8": lambda index: compare(X, Y, bits=8),
    "classes is 1,000,000,000, whose centers of 1,024 bits would take": lambda index: class_centers(10**9, 1024),
    "outputs": lambda index: index.search(outputs="x", k=3),
    "data": lambda index: load_dataset("nope.npy"),
    "protocol": lambda index: load_dataset("digits", protocol="holdut"),
    "seed of the split": lambda index: load_dataset("digits", seed="a"),
    "base": lambda index: load_dataset("digits", base="x"),
    "embedding_column": lambda index: load_table("digits", embedding_column="x"),
    "codes is 'nope.npz'": lambda index: read_codes("nope.npz"),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(work, monkeypatch, name):
    monkeypatch.chdir(work)
    with pytest.raises((TypeError, ValueError)) as raised:
        CALLS[name](Index.open("index", mode="a"))
    check_line(str(raised.value), name)
    assert not (work / "new").exists()


# ---------------------------------------------------------------------------------------------- on the command line

COMMANDS = """
train | DATA
train digits | --out
train digits --out model | --out
train digits rows.npz --out n | rows.npz stands without an option
train digits --out n --bits 0 | bits
train digits --out n --bits 1e3 | bits
train digits --out n --lr -1 | lr
train nope.csv --out n | data
train model --out n | data
train rows.npz --out n --label-column x | label-column
train digits --out n --option lam | option
train rows.npz --out n --option lamb=3 | --option has 'lamb'
train rows.npz --out n --option lam=x | lam
train digits --out n --guidance-weight x | guidance-weight
train digits --out n --backbone nope | backbone
train digits --out n --damaged x | damaged is 'x'
train digits --out n --base base.npz | base
train digits --out n --protocol cifar10 | protocol
train rows.npz --out n --top-k 0 | --top-k
train digits --out n --backbone-lr x | backbone-lr
train rows.npz --out n --split-seed -1 | split-seed is -1
encode digits --model nope --out x.npz | --model
encode rows.npz --model model --out x.txt | out
encode rows.npz --model model --out x.npz --split x | split is 'x'
encode rows.npz --model model --out x.npz --metadata x | --metadata
encode rows.npz --model model --out x.npz --batch-size 5 | --batch-size
evaluate | queries
evaluate --queries query.npz | base
evaluate --queries query.npz --base nope | base
evaluate --queries query.npz --base base.npz --bits 9 | bits 9
evaluate --queries query.npz --base base.npz --rank 0 | --rank
evaluate --queries query.npz --base base.npz --top-k x | top-k
evaluate --queries query.npz --base base.npz --query-labels nope.npy | labels of queries
evaluate --queries query.npz --base base.npz --share 0.3 | share
evaluate --protocol unseen | data
evaluate --protocol unseen --data rows.npz --share 2 | share
evaluate --protocol unseen --data digits --method x | method
search | INDEX
search index --model model --data rows.npz --row x | row
search index --code xyz | code
search index --code 00 -k 0 | k
search index --code 00 --radius 99 | radius
search index --code 00 --where x=1 | where
search index --code 00 --rerank magic | rerank is 'magic'
search nope --code 00 | index
index build | --out
index build --codes base.npz --out index | out
index build --codes base.npz --out j --kind x | kind is 'x'
index build --codes base.npz --out j --option x=1 | --option
index build --codes base.npz --out j --kind ivf --option nprobe=x | option
index build --codes base.npz --out j --option x | option
index remove index --ids x | ids
index remove index --ids 99999 | ids
index add index --codes base.npz | ids
info nope | path
index info nope | lbhash info
export model --out x.txt | out
centers --bits 8 | classes
centers --bits 8 --classes 0 | classes
tune digits --out t --trials 0 | trials
tune digits --out t --by x | by is 'x'
tune digits --out t --space nope | space
tune digits --out t --held-out 2 | --held-out
reproduce nope | name
reproduce map --seeds 0 | seeds
serve nope --model model | index
serve index --model model --port x | port
demo --data x | data is 'x'
nope | nope
--nope | --nope
"""


@pytest.mark.parametrize("line", COMMANDS.strip().splitlines())
def test_commands(work, monkeypatch, command, line):
    monkeypatch.chdir(work)
    before = sorted(work.rglob("*"))
    given, _, name = line.partition(" | ")
    status, out, errors = command(*given.split())
    assert (status, out) == (2, ""), errors
    *said, last = errors.splitlines()
    assert all("names one" in one or "embeddings are in" in one for one in said), errors
    assert last.startswith("lbhash: error: ")
    check_line(last, name)
    assert sorted(work.rglob("*")) == before


# ------------------------------------------------------------------------------------- options beside each other

TOGETHER = """
train x --out n --backbone b --encoder e | --backbone is 'b', and --encoder is 'e'; one embeds images, the other texts
train x --out n --freeze | --freeze is given, and --backbone is not given; there is nothing to freeze: give --backbone
compare x --backbone b --label-column y | --backbone is 'b', and --label-column is 'y'; images are one file or folder
tune x --out n --text-column t | --text-column is 't', and --encoder is not given; it is the column of what an
evaluate --rerank 20 | --rerank is '20', and --neighbors is not given; codes are ranked again by their embeddings: give
evaluate --queries q --base b --ties stable --engine ray | --engine is 'ray', and --ties is 'stable'; a cluster counts
index build --out i --model m | DATA is missing; an index takes codes, or what a model makes of data: give DATA
index add i d --codes c | --codes is 'c', and DATA is 'd'; codes are taken as they are: leave one of the two out
search i --model m --row 3 | --row is '3', and --data is not given; rows are those of a file: give --data
search i --model m --data d --text t | --data is 'd', and --row is not given; its rows are the queries: give --row, or
search i --model m | --row is missing; a search has a query: give --row, or --code or --image or --text
reproduce | NAME is missing; there are several experiments: give NAME, or --list
serve i --model m --ssl-keyfile k | --ssl-keyfile is 'k', and --ssl-certfile is not given; a key goes with its
"""


@pytest.mark.parametrize("line", TOGETHER.strip().splitlines())
def test_options_that_exclude_or_need_each_other(command, line):
    given, _, said = line.partition(" | ")
    status, out, errors = command(*given.split())
    assert (status, out, errors.count("\n")) == (2, "", 1), errors
    assert errors.startswith(f"lbhash: error: {said}")


def test_rules_name_commands_and_parameters():
    known = {name: set() for name in RULES}

    def find(command, words):
        if " ".join(words) in known:
            known[" ".join(words)] = {one.name for one in command.params}
        for name, one in getattr(command, "commands", {}).items():
            find(one, [*words, name])

    find(typer.main.get_command(app), [])
    images = {one.name for one in arguments(images=True)}  # some of which have no option
    shared = {"index", "out", "kind", "option", "vectors", "overwrite", "upsert"}  # by the two commands that take codes
    for command, rules in RULES.items():
        for rule in rules:
            names = {name.partition("=")[0] for name in f"{rule.options} {rule.others}".split()}
            assert names - known[command] <= (shared if command.startswith("index") else images), (command, rule)


def test_rules_hold_however_the_program_is_started():
    run = subprocess.run(
        [sys.executable, "-m", "lbhash", "index", "build", "--out", "i"], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("lbhash: error: DATA is missing; an index takes codes")
