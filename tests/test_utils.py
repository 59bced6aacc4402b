"""Small helpers: arguments, fingerprints, optional packages, errors in one line, memory, tasks in processes."""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbhash.utils.fingerprint import fingerprint
from lbhash.utils.parallel import in_processes
from lbhash.utils.system import peak_memory
from lbhash.utils.validation import check_choice, check_float, check_int
from lbhash.utils.vectors import Vectors, key_of


def test_two_may_store_vectors_in_one_file_at_once(tmp_path):
    keys, rows = [key_of(bytes([at])) for at in range(6)], np.arange(18, dtype=np.float32).reshape(6, 3)
    with Vectors(tmp_path / "v", 3, "a", "") as one, Vectors(tmp_path / "v", 3, "b", "") as other:
        one.put(keys[:2], rows[:2])
        other.put(keys[1:4], rows[1:4])
        for store in (one, other):
            found, there = store.get(keys)
            assert there.tolist() == [True] * 4 + [False] * 2
            np.testing.assert_array_equal(found[:4], rows[:4])
    with Vectors(tmp_path / "v", 2, "a", "") as narrow:
        assert not narrow.get(keys)[1].any()


@given(st.integers() | st.sampled_from([2**63 - 1, 2**63]), st.integers(-5, 5), st.none() | st.integers(5, 9))
def test_integers_in_range_are_returned(value, least, most):
    if value >= least and (value < 2**63 if most is None else value <= most):
        assert check_int(np.int64(value) if abs(value) < 2**62 else value, "k", least, most) == value
    else:
        with pytest.raises(ValueError, match=f"^k is {value}; it must be "):
            check_int(value, "k", least, most)


@pytest.mark.parametrize(
    ("check", "value", "limits", "error", "line"),
    [
        (check_int, True, {"least": 1}, TypeError, "k is True; it must be an integer of at least 1"),
        (check_int, 1.0, {"least": 1, "most": 9}, TypeError, "k is 1.0; it must be an integer from 1 to 9"),
        (check_int, 10, {"most": 9, "of": "the base"}, ValueError, "k is 10; it must be from 0 to the base (9)"),
        (check_int, 2**63, {"least": 1}, ValueError, f"k is {2**63}; it must be at least 1 and below 2^63"),
        (check_float, "1", {"above": 0}, TypeError, "k is '1'; it must be a number, above 0 and finite"),
        (check_float, math.inf, {"least": 0}, ValueError, "k is inf; it must be at least 0 and finite"),
        (check_float, 1, {"least": 0, "below": 1}, ValueError, "k is 1; it must be at least 0 and below 1"),
        (check_choice, None, {"choices": ["a", "b"]}, ValueError, "k is None; it must be one of a, b"),
    ],
)
def test_what_is_said_of_arguments(check, value, limits, error, line):
    with pytest.raises(error) as raised:
        check(value, "k", **limits)
    assert str(raised.value) == line


@given(st.floats(), st.sampled_from(["least", "above"]), st.sampled_from(["most", "below"]))
def test_numbers_in_range_are_returned(value, lower, upper):
    inside = (value >= 0 if lower == "least" else value > 0) and (value <= 1 if upper == "most" else value < 1)
    if inside:
        assert check_float(np.float64(value), "x", **{lower: 0, upper: 1}) == value
    else:
        with pytest.raises(ValueError, match=r"^x is "):
            check_float(value, "x", **{lower: 0, upper: 1})


def test_a_fingerprint_is_that_of_its_parts_in_a_row():
    array = np.arange(6).reshape(2, 3)
    parts = (b"x", "y", array, array[:, ::2], {"b": 1, "a": None}, np.empty((0, 2)))
    written = b"xy" + array.tobytes() + array[:, ::2].tobytes() + b'{"a": null, "b": 1}'
    assert fingerprint(*parts) == hashlib.sha256(written).hexdigest()[:16]


def test_peak_memory_is_of_this_process_alone():
    held = np.ones(60_000_000)  # 480 MB, which a process started now must not count as its own
    code = "from lbhash.utils.system import peak_memory; print(peak_memory())"
    peak = int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
    assert peak < 200e6 < held.nbytes <= peak_memory()


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
from test_utils import begin_and_end
from lbhash.utils.parallel import in_processes

if __name__ == "__main__":
    list(in_processes({"a": ("a", FOLDER), "b": ("b", FOLDER)}, begin_and_end, 1))
"""


def begin_and_end(name, folder):
    (Path(folder) / f"{name} began").touch()
    time.sleep(1)
    (Path(folder) / f"{name} ended").touch()


@pytest.mark.end_to_end
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
    time.sleep(2)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a began", "program.py"]
