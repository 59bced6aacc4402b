"""The tables of the docs: their pages, and the pool that fills them."""

from __future__ import annotations

import csv
import os

import numpy as np
import pytest
from benchmarks import center_times
from benchmarks.experiments import arrangement, centers_effect, centers_table, label_free, methods_table

from lbhash.centers.targets import centers_fingerprint
from lbhash.data import load_dataset
from lbhash.utils.parallel import read_run, run_missing


def execute(number: int, factor: int) -> dict[str, int]:
    return {"product": number * factor, "process": os.getpid()}


def test_only_missing_runs_are_run_each_in_a_process(tmp_path, capsys):
    (tmp_path / "b.json").write_text('{"product": -1, "process": 0}')
    runs = {"a": (2, 3), "b": (4, 5), "c": (6, 7)}
    done, minutes = run_missing(runs, execute, tmp_path, 1, lambda result: f"product {result['product']}")
    assert {name: result["product"] for name, result in done.items()} == {"a": 6, "b": -1, "c": 42}
    assert minutes is None
    assert os.getpid() not in {result["process"] for result in done.values()}
    assert read_run(tmp_path / "c.json") == done["c"]
    assert "[1/2] a: product 6" in capsys.readouterr().err


def test_centers_have_a_fingerprint():
    marks = {kind: centers_fingerprint(10, 16, kind, 0) for kind in ("best", "hadamard", "bch", "random")}
    assert len(set(marks.values())) == 4
    assert centers_fingerprint(10, 16, "random", 1) != marks["random"]


def test_the_table_of_methods(tmp_path, monkeypatch, capsys):
    ran = []

    def run_here(tasks, execute, workers):
        for name, arguments in tasks.items():
            ran.append(name)
            yield name, execute(*arguments)

    monkeypatch.setattr(methods_table, "in_processes", run_here)
    page = tmp_path / "page.md"
    page.write_text("<!-- methods-table: begin -->\n<!-- methods-table: end -->\n")
    settings = [
        "--data",
        "digits@100=digits",
        "--methods",
        "dch",
        "csq",
        "ridge",
        "--bits",
        "8",
        "--epochs",
        "1",
        "--seeds",
        "2",
    ]
    settings += ["--page", str(page)]
    methods_table.main(settings)
    rows = [line.strip("| ").split(" | ") for line in page.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    assert [row[0] for row in rows] == ["method", ":--|--:|--:", "dch", "csq", "ridge"] * 2
    assert rows[0] == rows[5] == ["method", "8", "guided"]
    with (tmp_path / "methods-table.csv").open() as file:
        cells = {(line["protocol"], line["method"]): line for line in csv.DictReader(file)}
    for row, protocol in [*zip(rows[2:5], [""] * 3, strict=True), *zip(rows[7:], ["unseen"] * 3, strict=True)]:
        for said, form in zip(row[1:], ("", "_d"), strict=True):
            if row[0] == "ridge" and form:
                assert said == "–"
                continue
            line = cells[protocol, row[0] + form]
            assert said == f"{100 * float(line['map']):.1f} ± {100 * float(line['half']):.1f}"
            assert 0 < float(line["map_worst"]) <= float(line["map"]) <= float(line["map_best"]) < 1
    for name in ("methods-table.png", "methods-table-unseen.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    assert len(ran) == 10
    before = page.read_text(encoding="utf-8")
    methods_table.main(settings)
    assert len(ran) == 10
    assert page.read_text(encoding="utf-8") == before
    methods_table.main([*settings[:-4], "--seeds", "1", "--protocols", "own", "--page", str(page)])
    assert len(ran) == 10  # the cells of two seeds say more
    assert page.read_text(encoding="utf-8") == before
    methods_table.main([*settings[:-4], "--seeds", "3", "--protocols", "own", "--page", str(page)])
    assert len(ran) == 15
    with (tmp_path / "methods-table.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["seeds"] for line in lines] == ["3"] * 5 + ["2"] * 5  # a third was added
    alone = tmp_path / "alone.md"
    alone.write_text("<!-- methods-table: begin -->\n<!-- methods-table: end -->\n")
    (tmp_path / "methods-table.csv").unlink()
    methods_table.main([*settings[:-4], "--seeds", "3", "--protocols", "own", "--page", str(alone)])
    with (tmp_path / "methods-table.csv").open() as file:
        for found, whole in zip(lines, csv.DictReader(file), strict=False):
            for name in ("map", "half", "map_worst", "knn_accuracy"):
                assert float(found[name]) == pytest.approx(float(whole[name]), abs=3e-5)
    with pytest.raises(SystemExit):
        methods_table.main(["--data", "digits@x=digits", "--page", str(page)])
    assert "data is 'digits@x=digits'; its R must be an integer of at least 1" in capsys.readouterr().err


def test_the_table_of_distances():
    cells = {(classes, bits): centers_table.cell(classes, bits) for classes in (10, 21) for bits in (8, 16)}
    page = centers_table.grid(cells)
    assert "| 10 | **4** | – | **8** |" in page
    assert "4 of the 4 distances are proven optimal." in page
    rows = centers_table.details(cells).splitlines()
    assert len(rows) == 6
    assert rows[3].startswith("| 10 | 16 | 8 | 8 | 8 | Plotkin | Hadamard C_16 | ")


@pytest.fixture(scope="module")
def effect():
    rng = np.random.default_rng(0)
    table = {}
    for cell in centers_effect._cells(3):
        distance = cell.bits // 4 + 2 * centers_effect.KINDS.index(cell.kind)
        noise = 0.01 * rng.random()
        table[cell] = {
            "minimum_distance": distance,
            "map": 0.5 + 0.1 * distance / cell.bits + noise,
            "ratio_of_most": 0.5 + noise,
        }
    return table


def test_the_page_of_the_effect(effect):
    page = centers_effect.report(effect, 12, 360, 60.4)
    assert page.startswith("360 runs of 12 epochs, seeds 0, 1, 2, 60 minutes.")
    line = next(line for line in page.splitlines() if line.startswith("| 16 | csq_d |"))
    assert line.count("±") == len(centers_effect.KINDS)
    assert "(4)" in line
    assert "(12)" in line
    last = page.splitlines()[-1]
    assert last.startswith("| mosaic | csq_d | +0.")
    # "best" has the smallest distance here, and distance is made to help.
    assert "| -" in last


def test_the_image_of_the_effect(effect, tmp_path):
    from matplotlib.image import imread

    centers_effect.draw(effect, tmp_path / "p.png")
    image = imread(tmp_path / "p.png")
    assert image.shape[0] > 500
    assert len(np.unique(image.reshape(-1, image.shape[-1]), axis=0)) > 100


@pytest.mark.parametrize("module", [centers_effect, centers_table])
def test_pages_without_their_markers_are_refused(module, tmp_path, monkeypatch, capsys):
    page, data = tmp_path / "page.md", tmp_path / "data.parquet"
    page.write_text("no markers")
    data.write_bytes(b"")
    arguments = ["--out", str(page)]
    if module is centers_effect:
        arguments += ["--cifar10", str(data), "--tiny-imagenet", str(data), "--mosaic", str(data)]
    monkeypatch.setattr("sys.argv", ["program", *arguments])
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == 2
    assert "it must hold <!-- " in capsys.readouterr().err


def test_times_of_centers():
    distance, cold, warm, megabytes = center_times.measure("10", "16")
    assert distance == 8
    assert cold > 0 < warm
    assert 20 < megabytes < 2000


def test_a_row_of_an_arrangement_is_the_mean_of_its_seeds():
    words = np.array([[1, 1, 1, 1], [1, 1, -1, -1], [-1, -1, -1, 1]], np.int8)  # 2, 3 and 3 apart
    taken = np.array([[9.0, 2, 0], [1, 9, 0], [1, 0, 9]])  # 0 and 1 for each other in three of four cases
    one = arrangement.Arrangement(words, taken, 40.0)
    two = arrangement.Arrangement(-words[:, ::-1], np.ones((3, 3)), 41.0)
    assert arrangement.row("two", [one, two]) == [
        "two",
        "2.0",
        "2.7",
        f"{(2 * 0.75 + 3 * 0.25 - 8 / 3) / 2:.2f}",
        "40.50",
    ]


def test_the_page_of_the_arrangement(tmp_path, monkeypatch, capsys):
    page = tmp_path / "guidance.md"
    page.write_text("a\n<!-- arrangement: begin -->\n<!-- arrangement: end -->\nb\n")
    command = ["arrangement", "--bits", "16", "--epochs", "1", "--seeds", "2", "--out", str(page)]
    monkeypatch.setattr("sys.argv", command)
    arrangement.main()
    printed = capsys.readouterr().out
    table = {line.split(" | ")[0].strip("| "): line.strip("| ").split(" | ")[1:] for line in printed.splitlines()[2:]}
    assert list(table)[:2] == ["HashNet's own", "DBDH's own"]
    assert table["best-ratio, CSQ_D"][:3] == ["8.0", "8.0", "0.00"]
    assert float(table["arranged, CSQ_D"][2]) < 0
    assert page.read_text() == f"a\n<!-- arrangement: begin -->\n{printed}<!-- arrangement: end -->\nb\n"
    assert (tmp_path / "guidance-arrangement.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--seeds", "0"], "seeds is 0; it must be at least 1"),
        (["--bits", "0"], "bits is 0; it must be from 1"),
        (["--epochs", "0"], "epochs is 0; it must be at least 1"),
        (["--data", "some=missing.parquet"], "data is 'missing.parquet', and there is no such file"),
    ],
)
def test_what_an_experiment_refuses_is_a_line(tmp_path, monkeypatch, capsys, wrong, said):
    page = tmp_path / "guidance.md"
    page.write_text(f"<!-- {arrangement.PART}: begin -->\n<!-- {arrangement.PART}: end -->\n")
    monkeypatch.setattr("sys.argv", ["arrangement", *wrong, "--out", str(page)])
    with pytest.raises(SystemExit) as stopped:
        arrangement.main()
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


def test_codes_without_labels_are_measured_on_train_rows():
    line = label_free.Line("digits", "lsh", (4, 8), 1)
    found = label_free.execute(line, "digits")
    assert (found["method"], found["seed"], list(found["recalls"])) == ("lsh", 1, ["4", "8"])
    assert all(0 < low < high < 1 for low, high in zip(found["recalls"]["4"], found["recalls"]["8"], strict=True))
    work = label_free._work("digits")
    train = load_dataset("digits").train
    assert len(work.query) + len(work.base) == len(train)
    assert len(work.query) == len(train) // 5
    other = {**found, "method": "FAISS RaBitQ", "recalls": {"8": [0.9, 0.1]}}
    page = label_free.page([found, other], "made so")
    assert "Made by `made so`" in page
    (row,) = (text for text in page.splitlines() if text.startswith("| FAISS RaBitQ"))
    assert row == "| FAISS RaBitQ | – | **0.900** / 0.100 |"
