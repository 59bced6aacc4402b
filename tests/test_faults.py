"""Each attack of ``python -m tests.faults`` runs, and finds nothing in a fault or two."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*arguments):
    command = [sys.executable, "-m", "tests.faults", "--seed", "0", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("names", ["kill", "flip"])
def test_attacks_run_and_find_nothing(names):
    done = run(names, "--minutes", "0.01")
    assert done.returncode == 0, done.stderr
    assert "| 0 | 0 |" in done.stdout


def test_an_attack_that_is_not_there():
    done = run("nothing")
    assert done.returncode == 2
    assert "no attack is called nothing" in done.stderr
