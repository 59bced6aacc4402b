"""The tables of the docs: their pages, and the pool that fills them."""

from __future__ import annotations

import csv
import os

import numpy as np
import pytest
from benchmarks.experiments import centers_effect, centers_table, methods_table

from lbhash.centers.targets import centers_fingerprint
from lbhash.trials.intervals import Interval
from lbhash.utils.parallel import read_run, run_missing, write_run


def execute(number: int, factor: int) -> dict[str, int]:
    return {"product": number * factor, "process": os.getpid()}


def test_only_missing_runs_are_run(tmp_path, capsys):
    write_run(tmp_path / "b.json", {"product": -1, "process": 0})
    runs = {"a": (2, 3), "b": (4, 5), "c": (6, 7)}
    done = run_missing(runs, execute, tmp_path, 2)
    assert {name: result["product"] for name, result in done.items()} == {"a": 6, "b": -1, "c": 42}
    assert os.getpid() not in {result["process"] for result in done.values()}
    assert read_run(tmp_path / "c.json") == done["c"]
    assert "3/3 runs" in capsys.readouterr().err
    assert run_missing({"d": (1, 1)}, execute, None, progress=False) == {"d": {"product": 1, "process": os.getpid()}}


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
    page, new = tmp_path / "numbers.md", tmp_path / "new-classes.md"
    for file, part in ((page, "methods-table"), (new, "new-classes")):
        file.write_text(f"<!-- {part}: begin -->\n<!-- {part}: end -->\n")
    settings = ["--data", "digits@100=digits", "--methods", "csq", "ridge", "--bits", "8", "--epochs", "1"]
    settings += ["--page", str(page), "--seeds"]
    methods_table.main([*settings, "2"])
    rows, new_rows = (
        [line.strip("| ").split(" | ") for line in file.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
        for file in (page, new)
    )
    assert rows[0] == new_rows[0] == ["method", "8 bits", "guided"]
    assert [row[0] for row in rows[2:]] == ["csq", "ridge"]
    with (tmp_path / "methods-table.csv").open() as file:
        cells = {(line["protocol"], line["method"]): line for line in csv.DictReader(file)}
    for row, protocol in [*((row, "") for row in rows[2:]), *((row, "unseen") for row in new_rows[4:])]:
        for said, form in zip(row[1:], ("", "_d"), strict=True):
            if row[0] == "ridge" and form:
                assert said == "–"
                continue
            line = cells[protocol, row[0] + form]
            assert said == f"{100 * float(line['map']):.1f}±{100 * float(line['half']):.1f}"
            assert 0 < float(line["map_worst"]) <= float(line["map"]) <= float(line["map_best"]) < 1
    for row in new_rows[2:4]:  # the mean and the best of one method with a network
        assert row[1:] == [f"{100 * float(cells['unseen', name]['map']):.1f}" for name in ("csq", "csq_d")]
    for name in ("methods-table.png", "new-classes.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    assert len(ran) == 6
    before = page.read_text(encoding="utf-8")
    methods_table.main([*settings, "1"])
    assert len(ran) == 6  # the cells of two seeds say more
    assert page.read_text(encoding="utf-8") == before
    methods_table.main([*settings, "3", "--protocols", "own"])
    assert len(ran) == 9
    with (tmp_path / "methods-table.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["seeds"] for line in lines] == ["3"] * 3 + ["2"] * 3  # a third was added
    with pytest.raises(SystemExit):
        methods_table.main(["--data", "digits@x=digits", "--page", str(page)])
    assert "data is 'digits@x=digits'; its R must be an integer of at least 1" in capsys.readouterr().err


def test_means_over_data_sets():
    line = {"method": "csq", "bits": "16", "map": "0.5", "half": "0.03"}
    lines = [
        line | {"data": "a"},
        line | {"data": "b", "map": "0.7", "half": "0.04"},
        line | {"data": "a", "bits": "32"},
    ]
    (cell,) = methods_table.means(lines).items()  # 32 bits are not on all sets
    assert cell == (("csq", 16), Interval(pytest.approx(60), pytest.approx(2.5), 2))
    assert methods_table.means([lines[0], lines[1] | {"half": ""}])["csq", 16].half is None


def test_the_table_of_distances():
    cells = {(classes, bits): centers_table.cell(classes, bits) for classes in (10, 21) for bits in (8, 16)}
    page = centers_table.grid(cells, (10, 21), (8, 12, 16))
    assert "| 10 | **4** | – | **8** |" in page
    assert "| 21 | 2 | – | **8** |" in page
    assert "3 of the 4 distances are proven optimal." in page


@pytest.fixture(scope="module")
def effect():
    rng = np.random.default_rng(0)
    table = {}
    for cell in centers_effect._cells(3):
        distance = cell.bits // 4 + 2 * centers_effect.KINDS.index(cell.kind)
        noise = 0.01 * rng.random()
        table[cell] = {"map": 0.5 + 0.1 * distance / cell.bits + noise}
    return table


def test_the_page_of_the_effect(effect):
    lines = centers_effect.summary(effect).splitlines()
    assert len(lines) == 2 + 2 * len(centers_effect.AT)
    # "best" has the smallest distance here, and distance is made to help.
    assert lines[-1].startswith("| mosaic, csq_d | -")
    assert lines[-1].count("| -") == lines[-1].count("±") == len(centers_effect.KINDS) - 1


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
