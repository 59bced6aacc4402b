"""The attacks of ``python -m tests.faults`` run, count, can be repeated, and find nothing in a fault or two."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.faults import __main__ as faults
from tests.faults.attack import ATTACKS, Attack, Run, attack

pytestmark = pytest.mark.end_to_end

ROOT = Path(__file__).parent.parent


@pytest.fixture
def coin(monkeypatch):
    """An attack that finds something in about every second fault."""

    @attack("coin", "a coin is thrown", 20)
    def throw(run: Run) -> None:
        for rng in run.faults():
            run.count(*rng.choice([("survived",), ("wrong", "tails")]))

    monkeypatch.setattr(faults, "load", lambda: None)
    yield
    del ATTACKS["coin"]


def main(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["faults", *map(str, arguments)])
    with ExitStack() as stack:
        return faults.main(stack)


def test_faults_are_counted_and_repeated(coin, monkeypatch, tmp_path, capsys):
    file, page = tmp_path / "results.json", tmp_path / "page.md"
    page.write_text(f"before\n{faults.BEGIN}\nold\n{faults.END}\nafter\n")
    kept = {"counts": {"refused": 1500}, "notes": {"most": "3"}, "seed": 1}
    file.write_text(json.dumps({name: {"what": "it", **kept} for name in ("flip-one", "flip-two")}))
    assert main(monkeypatch, "co", "--seed", 5, "--json", file, "--page", page) == 1
    kept = json.loads(file.read_text())
    counts = kept["coin"]["counts"]
    assert (sum(counts.values()), kept["coin"]["seed"], len(kept)) == (20, 5, 3)
    assert page.read_text().startswith(f"before\n{faults.BEGIN}\n\n| what |")
    assert "| damaged files | 2 | 3,000 | 0 | 3,000 | 0 |" in page.read_text()
    assert "flip-two,it,1,0,1500,0,0,0,most 3\n" in page.with_suffix(".csv").read_text()
    assert page.read_text().endswith(f"{faults.END}\nafter\n")
    number = int(kept["coin"]["findings"][0].split("fault ")[1].split(":")[0])
    assert main(monkeypatch, "coin", "--seed", 5, "--only", number) == 1
    assert f"coin, seed 5, fault {number}: silently wrong: tails" in capsys.readouterr().err


def test_an_attack_that_stops_is_a_finding(monkeypatch, capsys):
    monkeypatch.setitem(ATTACKS, "stops", Attack("stops", "", 1, lambda run: 1 / 0))
    monkeypatch.setattr(faults, "load", lambda: None)
    assert main(monkeypatch, "stops") == 1
    assert "ZeroDivisionError" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(monkeypatch, "nothing")
    assert "no attack is called nothing" in capsys.readouterr().err


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("flip-index-verify", "kill-compact", "writers"), id="some"),
        *(
            pytest.param((name,), id=name, marks=pytest.mark.slow)
            for name in ("kill", "flip", "disk", "memory", "images")
        ),
    ],
)
def test_attacks_find_nothing(names):
    command = [sys.executable, "-m", "tests.faults", *names, "--faults", "2", "--minutes", "0.1", "--seed", "0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("| 0 | 0 |") >= len(names)
