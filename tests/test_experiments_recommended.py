"""The search for recommended settings: a whole one on the digits, which goes on where it stopped."""

import json

import pytest
from benchmarks.experiments import recommended

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
    tried = [json.loads((tmp_path / f"csq_d-0{number}.json").read_text())["map"] for number in range(2)]
    means = [100 * sum(own.values()) / 2 for own in tried if len(own) == 2]
    assert printed[-1].split(" | ")[0] == "| csq_d"
    assert float(printed[-1].split(" | ")[3]) == pytest.approx(max(means), abs=0.051)
