"""Tasks in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lbhash.utils.parallel import in_processes


def divide(number):
    return 1 / number, os.getpid(), os.environ["OMP_NUM_THREADS"]


def leave_a_file(number, folder):
    (Path(folder) / f"{number}").touch()
    return 1 / number


def test_tasks_in_processes_with_a_thread_each(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    found = dict(in_processes({str(n): (n,) for n in (1, 2, 4)}, divide, 2))
    assert {name: value for name, (value, _, _) in found.items()} == {"1": 1.0, "2": 0.5, "4": 0.25}
    assert os.getpid() not in {process for _, process, _ in found.values()}
    assert {threads for _, _, threads in found.values()} == {"1"}
    assert os.environ["OMP_NUM_THREADS"] == "7"


def test_an_error_cancels_what_has_not_begun(tmp_path):
    tasks = {str(n): (n, tmp_path) for n in range(2000)}
    with pytest.raises(ZeroDivisionError):
        list(in_processes(tasks, leave_a_file, 1))
    assert (tmp_path / "0").exists()
    assert len(list(tmp_path.iterdir())) < len(tasks)


KILLED = """
from pathlib import Path
from test_pool import begin_and_end
from lbhash.utils.parallel import in_processes

if __name__ == "__main__":
    list(in_processes({"a": ("a", FOLDER), "b": ("b", FOLDER)}, begin_and_end, 1))
"""


def begin_and_end(name, folder):
    (Path(folder) / f"{name} began").touch()
    time.sleep(3)
    (Path(folder) / f"{name} ended").touch()


def test_no_worker_outlives_a_pool_that_is_killed(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(KILLED.replace("FOLDER", repr(str(tmp_path))))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    running = subprocess.Popen([sys.executable, program], env=environment)
    until = time.monotonic() + 60
    while not (tmp_path / "a began").exists() and time.monotonic() < until:
        time.sleep(0.05)
    running.kill()
    running.wait()
    time.sleep(4)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a began", "program.py"]
