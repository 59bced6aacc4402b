"""The search for recommended settings: a whole one on the digits, which goes on where it stopped."""

import json

import numpy as np
import pytest
from benchmarks.experiments import recommended

from lbhash.utils.parallel import read_run

pytest.importorskip("optuna")


def test_a_search_goes_on_and_its_winner_was_tried_on_every_set(tmp_path, capsys):
    given = ["--data", "one=digits", "--last", "two=digits", "--methods", "csq", "--epochs", "1", "--bits", "8"]
    given += ["--workers", "1", "--out", str(tmp_path)]
    recommended.main([*given, "--trials", "1"])
    first = (tmp_path / "csq-00.json").read_text()
    recommended.main([*given, "--trials", "2"])
    assert (tmp_path / "csq-00.json").read_text() == first
    assert set(json.loads(first)["map"]) == {"one", "two"}
    printed = capsys.readouterr().out.splitlines()
    tried = [json.loads((tmp_path / f"csq_d-{name}.json").read_text())["map"] for name in ("00", "01")]
    tried.append(json.loads((tmp_path / "csq_d-paper.json").read_text())["map"])
    *means, paper = (100 * sum(own.values()) / 2 for own in tried if len(own) == 2)
    assert printed[-1].split(" | ")[0] == "| csq_d"
    assert float(printed[-1].split(" | ")[3]) == pytest.approx(max(means), abs=0.051)
    assert float(printed[-1].split(" | ")[5]) == pytest.approx(paper, abs=0.051)


def test_the_same_settings_are_tried_at_another_length(tmp_path, capsys):
    given = ["--at", "16", "--data", "one=digits", "--methods", "dch", "--epochs", "1", "--workers", "1"]
    recommended.main([*given, "--out", str(tmp_path)])
    host, guided = (recommended.candidates("dch", guided, 16) for guided in (False, True))
    assert list(host) == list(guided)
    assert len(host) == 11
    assert host["own"]["options"]["gamma"] == 10 * 16 / 32  # in bits of distance, found at 32 bits
    assert host["512"] == {**recommended.START, "options": host["own"]["options"]}
    assert "options" not in host["own, default options"]
    assert host["512, default options"] == recommended.START
    assert host["paper"] == {}  # what the recipe has
    assert guided["128"]["guidance"] == guided["own"]["guidance"]
    tried = read_run(tmp_path / "dch-16bits.json")
    assert len({maps["one"] for maps in tried.values()}) > 3  # without the options of the recipe
    printed = capsys.readouterr().out.splitlines()
    for line, name in zip(printed[-2:], ("dch", "dch_d"), strict=True):
        tried = read_run(tmp_path / f"{name}-16bits.json")
        means = [100 * np.mean(list(maps.values())) for maps in tried.values()]
        shown = [float(cell.strip("* ")) for cell in line.split("|")[2:-2]]
        assert shown == pytest.approx(means, abs=0.051)
        assert line.split("|")[2 + list(tried).index(recommended.best_of(tried))].startswith(" **")


def test_between_settings_that_are_near_the_best_mean_the_first_set_decides():
    maps = {"a": {"x": 0.30, "y": 0.72}, "b": {"x": 0.31, "y": 0.702}, "c": {"x": 0.5, "y": 0.4}}
    assert recommended.best_of(maps) == "b"
    assert recommended.best_of({**maps, "d": {"x": 0.30, "y": 0.74}}) == "d"
