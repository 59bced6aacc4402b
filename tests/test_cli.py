from __future__ import annotations

import inspect
import io
import json
import shlex
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Literal, get_args, get_origin

import numpy as np
import pytest

import lbhash.cli.app
from lbhash import Hasher
from lbhash.codes import hamming_distances
from lbhash.codes.io import CodeTable, read_codes
from lbhash.data import load_dataset
from lbhash.hasher import encode_split
from lbhash.index import Index
from lbhash.index.factory import build_index
from lbhash.losses.registry import METHODS
from lbhash.models.encoder import load_encoder
from lbhash.training.coders import CODERS
from lbhash.training.loop import Training
from lbhash.utils.files import write_text

pytestmark = pytest.mark.end_to_end

TINY = ("--bits", "12", "--hidden", "16", "--epochs", "2")


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with a model of digits, and the codes of its base and queries, made by the program."""
    folder = tmp_path_factory.mktemp("work")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["lbhash", "train", "digits", *TINY, "--out", "model", "--json"])
        with redirect_stdout(io.StringIO()) as told:
            lbhash.cli.app.app(standalone_mode=False)
        (folder / "train.json").write_text(told.getvalue())
        for split, name in (("base", "base.parquet"), ("query", "query.npz")):
            patch.setattr(
                sys, "argv", ["lbhash", "encode", "digits", "--model", "model", "--split", split, "--out", name]
            )
            lbhash.cli.app.app(standalone_mode=False)
    return folder


@pytest.fixture
def inside(work, unchanged):
    return unchanged(work)


def assert_refused(result, *parts):
    """Exit status 2 and one line on standard error that has all of these in it."""
    status, out, errors = result
    assert status == 2
    assert out == ""
    assert errors.startswith("lbhash: error: ")
    assert errors.count("\n") == 1
    assert errors.endswith("\n")
    for part in parts:
        assert part in errors, errors


# ------------------------------------------------------------------------------------------------------- the path


def test_train_leaves_a_model_and_its_metrics(work):
    metrics = json.loads((work / "train.json").read_text())
    assert metrics == json.loads((work / "model" / "metrics.json").read_text())
    facts = {"data": "digits", "protocol": "digits", "method": "csq", "bits": 12, "seed": 0, "epochs": 2}
    assert {name: metrics[name] for name in facts} == facts
    assert (metrics["queries"], metrics["base"], metrics["top_k"]) == (200, 1597, 1597)
    assert 0 <= metrics["map_worst"] <= metrics["map"] <= metrics["map_best"] <= 1
    assert metrics["map"] > 0.13  # more than chance
    assert set(metrics["bound"]) == {"inter", "intra", "ratio"}
    assert metrics["curve"]["radius"] == list(range(13))
    assert metrics["train_seconds"] > 0
    assert {file.name for file in (work / "model").iterdir()} == {
        "README.md",
        "checkpoints",
        "config.json",
        "logs",
        "metrics.json",
        "model.safetensors",
    }


def test_encode_writes_the_codes_of_a_split(work):
    hasher, dataset = Hasher.from_pretrained(work / "model"), load_dataset("digits")
    for split, name in (("base", "base.parquet"), ("query", "query.npz")):
        held, part = read_codes(work / name), dataset.split(split)
        np.testing.assert_array_equal(held.codes, encode_split(hasher, part))
        np.testing.assert_array_equal(held.rows, part.rows)
        np.testing.assert_array_equal(held.labels, part.labels)
        assert (held.bits, held.model) == (12, hasher.model_.fingerprint())


def test_encode_draws_the_splits_of_the_training(work, succeed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ("--split-seed", 5, "--protocol", "holdout", "--bits", 8, "--hidden", 0, "--epochs", 1)
    succeed("train", "digits", *arguments, "--out", "m")
    succeed("encode", "digits", "--model", "m", "--split", "query", "--out", "q.npz")
    expected = load_dataset("digits", protocol="holdout", seed=5).query.rows
    np.testing.assert_array_equal(read_codes("q.npz").rows, expected)
    succeed("encode", "digits", "--model", "m", "--split", "query", "--split-seed", 6, "--out", "p.npz")
    assert not np.array_equal(read_codes("p.npz").rows, expected)


def test_evaluate_agrees_with_the_training(inside, json_of):
    found = json_of("evaluate", "--queries", "query.npz", "--base", "base.parquet")
    metrics = json.loads(Path("model/metrics.json").read_text())
    assert {name: found[name] for name in ("map", "map_best", "map_worst")} == metrics["by_bits"]
    assert found["by_bits"] is None  # which takes the queries' outputs
    by_bits = ("queries", "base", "bits", "radius", "precision_within_radius", "curve", "bound", "bound_99.9")
    assert {name: found[name] for name in by_bits} == {name: metrics[name] for name in by_bits}
    at = json_of("evaluate", "--queries", "query.npz", "--base", "base.parquet", "--top-k", 5)
    assert (at["top_k"], at["bits"]) == (5, 12)
    assert at["map"] != found["map"]


def test_search_finds_the_nearest(inside, json_of):
    found = json_of("search", "base.parquet", "--model", "model", "--data", "digits", "--row", 17, "-k", 5)
    data, base = load_dataset("digits"), read_codes("base.parquet")
    code = Hasher.from_pretrained("model").encode(data.base.embeddings[17:18])
    distances = hamming_distances(code, base.codes)[0]
    (query,) = found["queries"]
    assert (query["row"], query["code"], query["label"]) == (17, code.tobytes().hex(), 7)
    assert [hit["rank"] for hit in query["neighbors"]] == [1, 2, 3, 4, 5]
    ranking = np.lexsort((base.rows, distances))[:5]
    assert [hit["id"] for hit in query["neighbors"]] == base.rows[ranking].tolist()
    assert [hit["distance"] for hit in query["neighbors"]] == distances[ranking].tolist()
    assert [hit["label"] for hit in query["neighbors"]] == base.labels[ranking].tolist()


def test_centers_and_methods(inside, json_of, tmp_path):
    out = tmp_path / "c.npy"
    facts = json_of("centers", "--classes", 10, "--bits", 16, "--out", out)
    assert (facts["classes"], facts["bits"], facts["minimum_distance"]) == (10, 16, 8)
    assert np.load(out).shape == (10, 16)
    assert (facts["bound"], facts["optimal"]) == ("Plotkin", True)
    assert sum(facts["histogram"].values()) == 45
    rows = json_of("methods")["methods"]
    assert [row["name"] for row in rows] == [*METHODS, *CODERS]
    assert all(row["summary"] and row["source"] for row in rows)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("evaluate", "--queries", "query.npz", "--base", "base.parquet"), ("mAP, expected over ties", "200, 1,597")),
        (
            ("search", "base.parquet", "--model", "model", "--data", "digits", "--row", "3", "-k", "2"),
            ("nearest to row 3",),
        ),
        (
            ("search", "base.parquet", "--model", "model", "--data", "digits", "--row", "3", "--where", "label=77"),
            ("nothing is near to row 3, label 3: the index is empty, or no code is within the radius",),
        ),
        (
            ("centers", "--classes", "12", "--bits", "24"),
            ("12 centers of 24 bits", "12 (proven optimal: Plotkin)", "reed-solomon"),
        ),
        (("centers", "--classes", "100", "--bits", "16", "--kind", "stored"), ("Nordstrom-Robinson code",)),
        (("methods",), tuple(METHODS)),
        (("--version",), (f"lbhash {lbhash.__version__}",)),
        ((), ("Usage:", "train", "encode")),
        (("--help",), ("train", "encode", "evaluate", "search", "centers", "methods", "demo")),
    ],
)
def test_what_people_read(inside, succeed, arguments, said):
    out, _ = succeed(*arguments)
    for part in said:
        assert part in out


def test_overwrite_and_resume(tmp_path, command, json_of, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ("train", "digits", "--bits", "8", "--hidden", "0", "--epochs", "1", "--out", "m", "--json")
    first = json_of(*arguments)
    files = {file: file.read_bytes() for file in Path("m").rglob("*") if file.is_file()}
    assert_refused(command(*arguments), "out is 'm', which already holds a model; give another folder, or --overwrite")
    # Before the data are read, or embedded.
    assert_refused(command("train", "gone.parquet", *arguments[2:]), "out is 'm', which already holds a model")
    assert {file: file.read_bytes() for file in Path("m").rglob("*") if file.is_file()} == files
    assert json_of(*arguments, "--resume")["map"] == first["map"]
    assert_refused(
        command(*arguments, "--resume", "--seed", 1), "--seed is 1, and the checkpoint in 'm' was made with 0"
    )
    again = json_of(*arguments, "--overwrite", "--seed", 1)
    assert again["map"] != first["map"]
    assert json.loads(Path("m/metrics.json").read_text()) == again
    shutil.rmtree("m/checkpoints")
    assert_refused(
        command(*arguments, "--resume"), "holds a model and no checkpoint to resume from; give another folder"
    )
    assert json.loads(Path("m/metrics.json").read_text()) == again


def test_ctrl_c_ends_any_command_with_one_line(tmp_path, command, monkeypatch):
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lbhash.pipeline.encode.encode", interrupt)
    assert command("encode", "digits", "--model", "m", "--out", "x") == (130, "", "lbhash: interrupted\n")


@pytest.mark.parametrize(("epoch", "said"), [(0, "nothing was kept to go on from"), (1, "--resume goes on")])
def test_an_interrupted_training_says_how_it_goes_on(tmp_path, command, succeed, monkeypatch, epoch, said):
    run_epoch = Training.run_epoch

    def interrupt(training, number, watchers):
        if number == epoch:
            raise KeyboardInterrupt
        run_epoch(training, number, watchers)

    monkeypatch.chdir(tmp_path)
    arguments = ("train", "digits", "--bits", 8, "--hidden", 0, "--epochs", 3, "--out", "m")
    with monkeypatch.context() as patch:
        patch.setattr(Training, "run_epoch", interrupt)
        status, out, errors = command(*arguments)
    assert (status, out) == (130, "")
    assert errors.splitlines()[-1].startswith(f"lbhash: interrupted after epoch {epoch} of 3; ")
    assert errors.endswith(f"{said}\n")
    if epoch:
        succeed(*arguments, "--resume")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("label,e0,e1\n0,1.5,2\n1,3,x\n", "whose column 'e1' holds text beside columns of numbers"),
        ("label,e0,e1\n0,,2\n1,3,4\n", "embeddings of data is NaN or infinite in row 0; every number must be finite"),
        ("label,e0,e1\n0,inf,2\n1,3,4\n", "embeddings of data is NaN or infinite in row 0; every number"),
        (None, "data is '-'; standard input is not read, give a file"),
    ],
)
def test_a_file_is_named(tmp_path, command, monkeypatch, text, said):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        write_text("d.csv", text)
    data = "-" if text is None else "d.csv"
    status, _, errors = command("train", data, "--out", "m")
    (line,) = [line for line in errors.splitlines() if line.startswith("lbhash: error: ")]
    assert status == 2
    assert said in line
    assert data in line


def test_one_class_and_equal_rows(tmp_path, command, write_parquet, monkeypatch, blobs):
    monkeypatch.chdir(tmp_path)
    for name in (0, "a"):
        write_parquet("d.parquet", blobs.x, label=[name] * len(blobs.x))
        said = f"every training row of d.parquet has the label {name}; there is nothing to learn from one class"
        assert_refused(command("train", "d.parquet", "--out", "m"), said, "--label-column")
    assert not Path("m").exists()
    with pytest.raises(ValueError, match=r"^y has one class, .*; there is nothing to learn"):
        Hasher(8).fit(blobs.x, np.zeros(len(blobs.x), int))
    write_parquet("d.parquet", np.ones_like(blobs.x), label=blobs.y)
    status, _, errors = command("train", "d.parquet", *TINY, "--out", "m")
    assert "codes of the training rows are equal, which finds nothing" in errors
    assert status == 0, errors
    # as many as a class of the base has, that none is outvoted
    assert json.loads(Path("m/metrics.json").read_text())["k"] == 4


def test_files_that_are_no_model_are_never_replaced(tmp_path, command, succeed, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = {"README.md": "# Mine", "metrics.json": '{"mine": 1}', "config.json": '{"bits": 8}', "backbone/a.txt": "b"}
    for name, text in own.items():
        write_text(f"one-{Path(name).parts[0]}/{name}", text)
    arguments = ("train", "digits", "--method", "itq", "--bits", 8)
    hasher = Hasher(8, method="itq").fit(np.random.default_rng(0).normal(size=(40, 12)))
    for folder in sorted(tmp_path.glob("one-*")):
        name = folder.name.removeprefix("one-")
        for overwrite in ((), ("--overwrite",)):
            said = f"out is '{folder.name}', which holds {name} and no model of lbhash; nothing there is replaced"
            assert_refused(command(*arguments, "--out", folder.name, *overwrite), said)
        with pytest.raises(ValueError, match=f"directory is .*, which holds {name} and no model of lbhash"):
            hasher.save_pretrained(folder)
    for name, text in own.items():
        assert [file.read_text() for file in Path(f"one-{Path(name).parts[0]}").rglob("*") if file.is_file()] == [text]
    write_text("model/notes.txt", "mine")
    succeed(*arguments, "--out", "model")
    (tmp_path / "model/config.json").write_text("damaged")
    succeed(*arguments, "--out", "model", "--overwrite")
    assert Path("model/notes.txt").read_text() == "mine"
    build = ("index", "build", "--model", "model", "digits", "--out", "model", "--overwrite")
    before = sorted(Path("model").rglob("*"))
    assert_refused(command(*build), "out is 'model', which holds the config.json of a model; give another folder")
    assert sorted(Path("model").rglob("*")) == before


# ------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("train.json",), "data is 'train.json', which has no column 'embedding'"),
        (
            ("--guidance-weight", "balanced", "--pull", "none"),
            "--guidance-weight is 'balanced', and --pull is 'none'; there is no pull to weigh: leave one of the two",
        ),
        (("--method", "csqq"), "method is 'csqq'; it must be one of hashnet, dbdh, dsdh, dch, greedyhash, csq"),
        (("--recipe", "tunned"), "recipe is 'tunned'; it must be one of tuned, paper; did you mean tuned?"),
        (("--lr", "small"), "lr is 'small'; it must be a number"),
        (("Digitz",), "data is 'Digitz', and there is no such file; did you mean digits?"),
        (("--head", "joint"), "head is 'joint'; it must be one of bits, joined; did you mean joined?"),
        (("--top-k", "1598"), "--top-k is 1598; it must be from 1 to the size of the base (1597)"),
    ],
)
def test_bad_trainings(inside, command, arguments, said):
    # The fixture sees that nothing is written.
    data = () if arguments[0] in ("train.json", "Digitz") else ("digits",)
    assert_refused(command("train", *data, *TINY, "--out", "new", *arguments), said)


@pytest.fixture(scope="module")
def others(work, blobs):
    """Codes that do not fit the model: of other bits, of another model, and without labels."""
    table = read_codes(work / "base.parquet")
    folder = work.parent / "others"
    folder.mkdir()
    from dataclasses import replace

    from lbhash.codes.io import write_codes

    write_codes(folder / "bits.npz", replace(table, bits=11))
    write_codes(folder / "model.npz", replace(table, model="0123456789abcdef"))
    write_codes(folder / "unlabeled.npz", replace(table, labels=None))
    wide = np.concatenate([table.codes, table.codes], axis=1)
    write_codes(folder / "wide.npz", replace(table, codes=wide, bits=28))
    build_index(CodeTable(wide, 28, table.rows), folder / "wide")
    write_text(folder / "text.faiss", "no index\n")
    write_text(folder / "text.parquet", "no codes\n")
    return folder


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bits.npz", "base and queries do not go together: codes of 11 bits and of 12 bits; use one model for both"),
        ("model.npz", "base and queries do not go together: codes of model 0123456789abcdef and of model "),
        ("unlabeled.npz", "base has no labels; an evaluation needs them"),
        ("text.parquet", "which is damaged or not a file of codes"),
    ],
)
def test_bad_evaluations(inside, others, command, name, said):
    assert_refused(command("evaluate", "--queries", "query.npz", "--base", others / name), said, "base ")


@pytest.mark.parametrize(
    ("base", "arguments", "said"),
    [
        ("model.npz", (), "index and the model do not go together: codes of model 0123456789abcdef and of model "),
        ("wide", (), "index and the model do not go together: codes of 28 bits and of 12 bits"),
    ],
)
def test_bad_searches(inside, others, command, base, arguments, said):
    assert_refused(
        command("search", others / base, "--model", "model", "--data", "digits", "--row", 0, *arguments), said
    )


def test_the_program_itself_refuses(tmp_path, lbhash_command):
    """As the others, in a process of its own: nothing but the line reaches standard error."""
    done = lbhash_command("train", "no.parquet", "--out", "new", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "lbhash: error: data is 'no.parquet', and there is no such file\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is always full")
def test_standard_output_on_a_full_disk_is_named():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lbhash", "methods"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (2, "lbhash: error: No space left on device: standard output\n")


def test_upper_and_lower_case_are_one(tmp_path, succeed, json_of, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"protocol": "Holdout", "method": "CSQ", "centers": "Hadamard", "head": "Bits"}
    names |= {"recipe": "Tuned", "schedule": "Cosine"}
    for folder, change in (("upper", str), ("lower", str.lower)):
        given = [part for name, value in names.items() for part in (f"--{name}", change(value))]
        succeed("train", change("Digits"), *given, *TINY[:2], "--epochs", 1, "--hidden", 0, "--out", folder)
    upper, lower = (json.loads((tmp_path / folder / "config.json").read_text()) for folder in ("upper", "lower"))
    assert upper["metadata"] == lower["metadata"]
    encode = ("encode", "--model", "upper", "DIGITS", "--split", "Base", "--out", "Base.npz")
    succeed(*encode)
    built = json_of("index", "build", "--codes", "Base.npz", "--kind", "IVF", "--out", "index")
    assert built["kind"] == "ivf"


def test_every_choice_of_the_command_line_takes_upper_and_lower_case():
    from lbhash.cli.app import app

    commands = [one.callback for one in app.registered_commands]
    commands += [one.callback for group in app.registered_groups for one in group.typer_instance.registered_commands]
    choices = 0
    for one in commands:
        for parameter in inspect.signature(one, eval_str=True).parameters.values():
            kind, *more = get_args(parameter.annotation) or (None,)
            if any(get_origin(part) is Literal for part in (kind, *get_args(kind))):
                assert more[0].case_sensitive is False, (one.__name__, parameter.name)
                choices += 1
    assert choices > 20


def test_a_traceback_on_request(command, monkeypatch):
    monkeypatch.setenv("LBHASH_TRACEBACK", "1")
    monkeypatch.setattr(sys, "argv", ["lbhash", "centers", "--classes", "0", "--bits", "8"])
    with pytest.raises(ValueError, match="classes is 0"):
        lbhash.cli.app.main()


# ------------------------------------------------------------------------------------------- the next step that is told


def next_step(succeed, *arguments):
    """Train, and give the arguments of the command that it says to run next."""
    out, _ = succeed("train", *TINY, *arguments)
    (line,) = [line for line in out.splitlines() if line.startswith("next: lbhash ")]
    return shlex.split(line.removeprefix("next: lbhash "))


@pytest.mark.parametrize("form", ["folder", "labels"])
def test_the_next_step_works_as_it_is_printed(tmp_path, succeed, monkeypatch, write_parquet, blobs, form):
    home = tmp_path / "a place with spaces"
    home.mkdir()
    monkeypatch.chdir(home)
    parts = {"train": (blobs.x, blobs.y), "base": (blobs.x[:90], blobs.y[:90]), "query": (blobs.query_x, blobs.query_y)}
    for name, (x, y) in parts.items():
        write_parquet(f"{name}.parquet", x, label=y)
    np.save("x.npy", blobs.x)
    np.save("the labels.npy", blobs.y)
    whole = form == "labels"
    arguments = ("x.npy", "--labels", "the labels.npy") if whole else (home,)
    step = next_step(succeed, *arguments, "--out", "the model")
    succeed(*step)
    assert len(Index.open("index", mode="a")) == (len(blobs.x) if whole else 90)
    assert ("--split" in step) == whole
    step = [*step[2 : -4 if whole else -2], "--split", "base", "--out", "codes of base.parquet"]
    succeed("encode", *step)
    held = read_codes("codes of base.parquet")
    hasher = Hasher.from_pretrained("the model")
    np.testing.assert_array_equal(held.labels, blobs.y[held.rows])
    if not whole:
        np.testing.assert_array_equal(held.codes, hasher.encode(blobs.x[:90]))
    assert hasher.model_.metadata["classes"] == [0, 1, 2, 3]


def test_encode_takes_one_form_of_data(inside, command, succeed, tmp_path, write_parquet):
    file = write_parquet(tmp_path / "train.parquet", np.zeros((4, 64), np.float32), label=[0, 1, 2, 3])
    encode = ("encode", "--model", "model", "--out", tmp_path / "new.npz")
    assert_refused(command(*encode, tmp_path), "split is 'all' and data is the folder")
    assert_refused(command(*encode, file, "--base", file, "--query", file), "split is 'all' and base or query")
    more = (file, "--base", file, "--query", file, "--split", "base")
    assert_refused(command(*encode, *more, "--protocol", "holdout"), "protocol is 'holdout' and --base is ")
    succeed(*encode, *more)
    search = ("search", "base.parquet", "--model", "model", "--row", 0)
    assert_refused(command(*search, "--data", "model"), "data is ", "which is a folder; it must be a file")


def test_files_of_label_lists_encoded_one_at_a_time(tmp_path, succeed, monkeypatch, write_parquet, blobs):
    monkeypatch.chdir(tmp_path)
    lists = [np.flatnonzero(row).tolist() for row in blobs.hot]
    small = [row for row in lists if max(row) < 3]
    write_parquet("train.parquet", blobs.x, labels=lists)
    write_parquet("base.parquet", blobs.x[:120], labels=lists[:120])
    write_parquet("query.parquet", blobs.x[120:], labels=lists[120:])
    write_parquet("few.parquet", blobs.x[: len(small)], labels=small)
    succeed("train", ".", *TINY, "--out", "m")
    for name in ("few", "base"):
        arguments = ("encode", "--model", "m", f"{name}.parquet", "--out", f"{name}.npz")
        succeed(*arguments)
    assert [read_codes(f"{name}.npz").labels.shape[1] for name in ("few", "base")] == [3, 4]
    succeed("evaluate", "--queries", "few.npz", "--base", "base.npz")


@pytest.mark.parametrize("multi", [False, True])
def test_classes_with_gaps(tmp_path, succeed, json_of, monkeypatch, write_parquet, blobs, multi):
    monkeypatch.chdir(tmp_path)
    names = np.array([1, 5, 7, 300])
    for name in ("plain", "gaps"):
        (tmp_path / name).mkdir()
        for split, x, y in (
            ("train", blobs.x, blobs.y),
            ("base", blobs.x, blobs.y),
            ("query", blobs.query_x, blobs.query_y),
        ):
            labels = names[y] if name == "gaps" else y.copy()
            if name == "gaps" and split != "train":
                labels[0] = 9  # a class that is not trained
            column = {"labels": [[int(label)] for label in labels]} if multi else {"label": labels}
            write_parquet(tmp_path / name / f"{split}.parquet", x, **column)
        metrics = json_of("train", name, *TINY, "--out", f"{name}-model")
        assert 0 < metrics["map"] <= 1
    plain, gaps = (Hasher.from_pretrained(f"{name}-model") for name in ("plain", "gaps"))
    assert plain.classes_.tolist() == [0, 1, 2, 3]
    assert gaps.classes_.tolist() == names.tolist()
    assert gaps.model_.fingerprint() == plain.model_.fingerprint()
    arguments = ("gaps/query.parquet", "--model", "gaps-model", "--out", "q.npz")
    succeed("encode", *arguments)
    codes = read_codes("q.npz")
    assert codes.labels.shape == ((40, 5) if multi else (40,))
    assert list(codes.class_names) == [1, 5, 7, 9, 300]


@pytest.mark.parametrize("method", ["greedyhash", "dsdh", "csq"])
def test_the_methods_own_classifier_is_scored(json_of, tmp_path, monkeypatch, method):
    monkeypatch.chdir(tmp_path)
    arguments = ("--method", method, "--pull", "none", "--bits", 16, "--hidden", 32, "--epochs", 3, "--batch-size", 16)
    metrics = json_of("train", "digits", *arguments, "--dropout", 0.2, "--out", "m")
    if method == "csq":
        assert metrics["classifier_accuracy"] is None
        return
    model = load_encoder("m")
    query = load_dataset("digits").query
    signs = np.where(model.outputs(query.take(slice(None))) >= 0, 1.0, -1.0)
    found = (signs @ model.classifier.T.astype(float)).argmax(axis=1)
    assert metrics["classifier_accuracy"] == pytest.approx(np.mean(found == query.labels), abs=0.011)
    assert metrics["classifier_accuracy"] > 0.6


def test_labels_in_brackets_are_printed_as_they_are(tmp_path, command):
    """Rich would take them for its markup."""
    rng, names = np.random.default_rng(0), ["[news]", "[/b]", ":smile:", "[red] x"]
    rows = [f"{names[at % 4]},{','.join(map(str, rng.normal(at % 4, 0.1, 3)))}" for at in range(80)]
    (tmp_path / "d.csv").write_text("\n".join(["label,e0,e1,e2", *rows]))
    given = (tmp_path / "d.csv", "--bits", 8, "--hidden", 0, "--epochs", 1, "--out", tmp_path / "m")
    assert command("train", *given)[0] == 0
    rows = tmp_path / "d.csv"
    assert command("index", "build", rows, "--model", tmp_path / "m", "--split", "all", "--out", tmp_path / "i")[0] == 0
    _, out, _ = command("search", tmp_path / "i", "--model", tmp_path / "m", "--data", rows, "--row", "0", "-k", "80")
    assert all(f" {name} " in out for name in names)
