"""What the command line calls things: lists, options given twice, former options, the panels of the help, errors."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import numpy as np
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

import lbhash
from lbhash import Hasher
from lbhash.cli.app import app
from lbhash.cli.commands.options import split_values
from lbhash.cli.panels import MOST
from lbhash.cli.rules import in_words_of
from lbhash.cli.usage import GUESSES
from lbhash.codes.io import CodeTable, read_codes, write_codes
from lbhash.data import load_table
from lbhash.index import Index
from lbhash.index.factory import build_index
from lbhash.tuning import tune

FREE = {"where", "text", "image", "option", "neighbors"}
"""Options of several values that may hold commas, and are given once for each value; ``--data NAME=FILE`` too."""


def walk(command, words=()):
    children = getattr(command, "commands", None)
    if children is None:
        yield " ".join(words), command
    for name, one in (children or {}).items():
        yield from walk(one, (*words, name))


COMMANDS = dict(walk(typer.main.get_command(app)))
X, Y = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32), np.arange(60) % 3


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a model, its codes in a file and in a folder, an index, and files of rows."""
    folder = tmp_path_factory.mktemp("made")
    hasher = Hasher(method="itq", bits=8).fit(X, Y)
    hasher.save_pretrained(folder / "model")
    table = CodeTable(hasher.encode(X), 8, np.arange(60), Y, hasher.model_.fingerprint())
    write_codes(folder / "codes.parquet", table)
    build_index(table, folder / "index")
    np.savez(folder / "rows.npz", embedding=X, label=Y)
    np.save(folder / "unlabeled.npy", X)
    np.savez(folder / "one.npz", embedding=X, label=Y * 0)
    np.savez(folder / "nan.npz", embedding=np.where(np.arange(60)[:, None] == 3, np.nan, X), label=Y)
    return folder


@pytest.fixture
def inside(made, unchanged):
    return unchanged(made)


# --------------------------------------------------------------------------------------------------- once and several


@pytest.mark.end_to_end
@pytest.mark.parametrize("words", COMMANDS)
def test_an_option_of_one_value_is_given_once(words, refuse):
    command = COMMANDS[words]
    for one in command.params:
        if one.param_type_name == "argument" or one.multiple or (one.is_flag and not one.secondary_opts):
            continue
        line = refuse(
            *words.split(), *([one.opts[0], one.secondary_opts[0]] if one.is_flag else 2 * [one.opts[0], "1"])
        )
        assert line == f"lbhash: error: {max(one.opts, key=len)} is given twice; give it once", (words, one.name)


def test_a_flag_may_be_repeated(inside, succeed):
    assert succeed("index", "verify", "index", "--json", "--json") == succeed("index", "verify", "index", "--json")


def test_lists_are_commas_or_repeats_everywhere():
    seen = set()
    for words, command in COMMANDS.items():
        for one in command.params:
            if one.param_type_name == "argument" or not one.multiple:
                continue

            needed = [other for other in command.params if other.required and other is not one]
            needed = [
                part for other in needed for part in ([] if "--" not in other.opts[0] else other.opts[:1]) + ["1"]
            ]

            def read(*given, command=command, words=words, needed=needed, name=one.name):
                return list(map(str, command.make_context(words, [*needed, *given]).params[name]))

            together, apart = read(one.opts[0], "1,2"), read(one.opts[0], "1", one.opts[0], "2")
            assert apart == ["1", "2"], (words, one.name)
            free = one.name in FREE or (words, one.name) == ("reproduce", "data")
            assert together == (["1,2"] if free else apart), (words, one.name)
            seen.add(one.name)
    assert seen > FREE | {"bits", "metadata", "ids", "rank", "rerank", "method", "row", "code", "allow_host"}


word = st.text("ab 1,'-", min_size=1)


@given(st.lists(st.lists(word, min_size=1), min_size=1))
def test_a_value_with_a_comma_is_in_quotes(lists):
    typed = [", ".join(f'"{one}"' if "," in one or one[0] == " " else one for one in words) for words in lists]
    assert split_values(None, typed) == [one for words in lists for one in words]


def test_values_on_lines_of_their_own():
    assert split_values(None, ["1\n2,3\r\n4\r", '"5\n6"']) == ["1", "2", "3", "4", "5\n6"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        *(
            (
                ("index", "remove", "index", *given),
                f"--ids is '{given[1]}', whose quotes are not closed or inside a value",
            )
            for given in (("--ids", '"10', "--ids", '00"'), ("--ids", '"1"0'))
        ),
        (("compare", "rows.npz", "--bits", "16,x"), "--bits is '16,x'; it must be integers with commas between them"),
        (("reproduce", "map", "--bits", "x"), "--bits is 'x'; it must be integers with commas"),
        (("index", "remove", "index", "--ids", "1,x"), "--ids is 'x'; it must be an integer"),
        (("index", "remove", "index", "--ids", ""), "--ids is empty; give a value, or leave it out"),
        (
            ("evaluate", "--queries", "codes.parquet", "--base", "codes.parquet", "--rank", "1,,2"),
            "--rank is '1,,2'; it must be integers with commas between them, such as 1,10,100",
        ),
    ],
)
def test_what_is_no_list(inside, refuse, arguments, said):
    assert said in refuse(*arguments)


# ------------------------------------------------------------------------------------------ what must be given, and how

FORGOTTEN = """
train --out m | DATA is missing; give it: lbhash train DATA
compare | DATA is missing; give it: lbhash compare DATA
tune --out t | DATA is missing; give it: lbhash tune DATA
encode --model model --out c.npz | DATA is missing; give it: lbhash encode DATA
index build --model model --out i | DATA is missing; an index takes codes, or what a model makes of data: give DATA
index add index --model model | DATA is missing; an index takes codes, or what a model makes of data: give DATA
search index --model model --row 3 | --row is '3', and --data is not given; rows are those of a file: give --data, or
evaluate --protocol unseen | --protocol is 'unseen', and --data is not given; methods are trained on data: give
"""


@pytest.mark.parametrize("line", FORGOTTEN.strip().splitlines())
def test_no_command_takes_sample_data_if_data_are_forgotten(inside, refuse, line):
    typed, _, said = line.partition(" | ")
    errors = refuse(*typed.split())
    assert errors.startswith(f"lbhash: error: {said}")
    assert errors.endswith("; 'digits' and 'characters' come with lbhash")


GUESSED = """
train --data FILE --out m | there is no --data; type lbhash train DATA
compare --data FILE | there is no --data; type lbhash compare DATA
index build --data FILE --model m --out i | there is no --data; type lbhash index build DATA
index add --index i --codes c | there is no --index; type lbhash index add INDEX
search --index i --code 00 | there is no --index; type lbhash search INDEX
serve --model m --index i | there is no --index; type lbhash serve INDEX
export --model m --out x.onnx | there is no --model; type lbhash export MODEL
encode d --model m --out c --columns a | there is no --columns; --metadata names the columns that go with codes
index info i | there is no info; 'lbhash info PATH' says what an index, a model or a file of codes is
"""


@pytest.mark.parametrize("line", GUESSED.strip().splitlines())
def test_a_guess_is_answered_with_the_right_word(refuse, line):
    typed, _, said = line.partition(" | ")
    assert refuse(*typed.split()) == f"lbhash: error: {said}"


def test_what_is_said_not_to_be_there_is_not():
    for key in GUESSES:
        *words, guess = key.split()
        if guess.startswith("--") and words:
            assert not any(guess in one.opts for one in COMMANDS[" ".join(words)].params), key


# ------------------------------------------------------------------------------------------------------------- the help


def panels_of(words, lbhash_command):
    shown = lbhash_command(*words.split(), "--help", env={**os.environ, "COLUMNS": "100", "TERM": "dumb"}).stdout
    panels = {}
    for line in shown.splitlines():
        if title := re.search(r"[╭+][─-]+ ([A-Z][^─-]+?) [─-]", line):
            panel = panels.setdefault(title[1], [])
        elif name := re.match(r"[│|] {0,9}\*? {0,9}(?:--)?(-?[A-Za-z][A-Za-z-]*)", line):
            panel.append(name[1])
    return panels


def test_the_help_of_train_has_what_most_need_first(lbhash_command):
    panels = panels_of("train", lbhash_command)
    assert list(panels) == ["Arguments", "Options", "Advanced", "Images", "Texts", "Machine"]
    assert panels["Arguments"] == ["DATA"]
    assert panels["Options"][:6] == ["out", "labels", "label-column", "embedding-column", "bits", "method"]
    assert len(panels["Options"]) < MOST
    assert panels["Images"] == ["backbone", "freeze", "backbone-lr", "image-size", "augment"]
    assert panels["Texts"] == ["encoder", "text-column"]
    assert panels["Machine"] == ["resume", "seed", "device", "precision", "workers"]


def test_every_long_help_has_panels_in_one_order():
    order = [None, "Advanced", "Images", "Texts", "Machine"]
    for words, command in COMMANDS.items():
        panels = [one.rich_help_panel for one in command.params if one.rich_help_panel in order]
        assert panels == sorted(panels, key=order.index), words
        assert panels.count(None) <= MOST, words  # with the help's own option
        assert len(set(panels)) > 1 or len(command.params) <= MOST, words


def test_commands_are_listed_in_the_order_of_work(lbhash_command):
    panels = panels_of("", lbhash_command)
    work = "demo compare train tune encode evaluate index search serve info export methods"
    assert panels["Commands"] == work.split()
    assert panels["Research"] == ["centers", "prepare", "reproduce"]


# ---------------------------------------------------------------------------------------------------- what a path holds


def test_what_a_path_holds(inside, json_of, succeed, tmp_path):
    model, index, codes = (json_of("info", name) for name in ("model", "index", "codes.parquet"))
    fingerprint = Hasher.from_pretrained("model").model_.fingerprint()
    assert (model["what"], model["bits"], model["takes"], model["numbers"]) == ("model", 8, "embeddings", 8)
    assert (model["method"], model["fingerprint"]) == ("itq", fingerprint)
    assert index == {"what": "index", "path": "index", **Index.open("index").info()}
    assert (codes["what"], codes["codes"], codes["bytes"], codes["model"]) == ("codes", 60, 60, fingerprint)
    succeed("encode", "rows.npz", "--model", "model", "--out", tmp_path / "parts")
    assert json_of("info", tmp_path / "parts")["codes"] == 60
    for name, said in (("model", "itq"), ("index", "generation"), ("codes.parquet", "60")):
        assert said in succeed("info", name)[0]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "nope",
            "path is 'nope', and there is no such file or folder; it must be a model, an index",
        ),
        ("rows.npz", "path is 'rows.npz', which has no array 'codes'"),
        ("notes.txt", "path is 'notes.txt', a file of none of the kinds .parquet, .npz, .npy; it must be"),
        ("folder", "path is 'folder', a folder that holds notes.txt; it must be a model, an index or a file of codes"),
        ("empty", "path is 'empty', a folder that holds nothing; it must be"),
    ],
)
def test_what_a_path_does_not_hold(made, tmp_path, refuse, monkeypatch, name, said):
    monkeypatch.chdir(tmp_path)
    for folder in ("folder", "empty"):
        Path(folder).mkdir()
    for file in ("notes.txt", "folder/notes.txt"):
        Path(file).write_text("mine")
    Path("rows.npz").write_bytes((made / "rows.npz").read_bytes())
    assert refuse("info", name).startswith(f"lbhash: error: {said}")


# ------------------------------------------------------------------------------------------------- the words of a door

DOORS = {
    "index build --codes codes.parquet --out index": (
        "--out is 'index', which already holds an index; give another folder, or --overwrite",
        lambda: build_index(read_codes("codes.parquet"), "index"),
        "path is 'index', which already holds an index; give another folder, or overwrite=True",
    ),
    "index build --codes codes.parquet --out model": (
        "--out is 'model', which holds the config.json of a model; give another folder",
        lambda: Index(8).save("model"),
        "path is 'model', which holds the config.json of a model; give another folder",
    ),
    "index export index --out x.txt": (
        "--out is 'x.txt'; it must end in .parquet",
        lambda: write_codes("x.txt", read_codes("codes.parquet")),
        "path is 'x.txt'; it must end in .parquet or .npz",
    ),
    "index build --codes codes.parquet --out i --option x=1": (
        "--option has 'x', which an index of kind flat does not have",
        lambda: build_index(read_codes("codes.parquet"), "i", options={"x": 1}),
        "options has 'x', which an index of kind flat does not have",
    ),
    "search index --model model --data rows.npz --row 0 --rerank outputs": (
        "--rerank is 'outputs' and the index stores no vectors",
        lambda: Index.open("index").search(outputs=np.zeros((1, 8), np.float32), rerank="outputs"),
        "rerank is 'outputs' and the index stores no vectors",
    ),
    "evaluate --queries codes.parquet --base codes.parquet --rank 99": (
        "--rank is 99; it must be from 1 to the size of the base (60)",
        lambda: lbhash.evaluate(*2 * [np.zeros((60, 1), np.uint8), Y], ranks=[99]),
        "ranks is 99; it must be from 1 to the size of the base (60)",
    ),
    "train digits --label-column x --out n": (
        "--label-column is 'x' and data is 'digits'",
        lambda: load_table("digits", label_column="x"),
        "label_column is 'x' and data is 'digits'",
    ),
    "train one.npz --out n": (
        "there is nothing to learn from one class: give the right one as --label-column",
        lambda: lbhash.load_dataset("one.npz").check_several_classes(),
        "there is nothing to learn from one class: give the right one as label_column",
    ),
    "train nan.npz --out n": (
        "mend them, or leave them out (--damaged skip)",
        lambda: load_table("nan.npz"),
        "mend them, or leave them out (damaged='skip')",
    ),
    "tune unlabeled.npy --out n": (
        "give a file of labels or a --label-column, or train without a search",
        lambda: tune(Hasher(8), lbhash.load_dataset("unlabeled.npy").train),
        "give a file of labels or a label_column, or train without a search",
    ),
    "tune rows.npz --held-out 2 --out n": (
        "--held-out is 2.0; it must be above 0 and below 1",
        lambda: tune(Hasher(8), lbhash.load_dataset("rows.npz"), held_out=2.0),
        "held_out is 2.0; it must be above 0 and below 1",
    ),
}
"""A command and its line, a call in Python and its own."""


@pytest.mark.parametrize("typed", DOORS)
def test_an_error_names_an_argument_as_its_door_does(inside, refuse, typed):
    shown, call, raised = DOORS[typed]
    assert shown in refuse(*typed.split())
    with pytest.raises(ValueError, match=re.escape(raised)):
        call()


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("out is 'top_k', and label_column is 3", "--out is 'top_k', and --label-column is 3"),
        ("codes of 12 bits and of 8 bits", "codes of 12 bits and of 8 bits"),
        ("guidance-weight is 'x'; seed is 3", "--guidance-weight is 'x'; --seed is 3"),
        ("data is 'x.npy', and out is missing", "data is 'x.npy', and --out is missing"),
        ("lib/top_k.py has top_k.x", "lib/top_k.py has top_k.x"),
        ("batch_norm='train', recipe='paper', resume=True", "batch_norm='train', --recipe paper, --resume"),
    ],
)
def test_only_what_is_an_option_is_called_one(said, wanted):
    assert in_words_of(COMMANDS["train"].params, said) == wanted


def test_no_error_of_a_python_function_speaks_of_an_option():
    """Unless it says that it does: a command of lbhash, or "on the command line"."""
    source, found = Path(lbhash.__file__).parent, 0
    own = ("cli", "pipeline", "reproduce", "service", "trials")
    for file in source.rglob("*.py"):
        if file.relative_to(source).parts[0] in own:
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        whole = [node for node in ast.walk(tree) if isinstance(node, (ast.Expr, ast.JoinedStr))]
        parts = {
            id(part) for node in whole for part in ast.iter_child_nodes(node)
        }  # docstrings, and those of f-strings
        texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in parts]
        texts += ["".join(map(ast.unparse, one.values)) for one in whole if isinstance(one, ast.JoinedStr)]
        for text in texts:
            if isinstance(text, str) and re.search(r"--[a-z]", text):
                assert re.search("lbhash |command line|the same command with", text), (file.name, text)
                found += 1
    assert found
