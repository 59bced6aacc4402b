"""Numba's cache of compiled code, when it is there, damaged, on a full disk, or has no place."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import resource, signal
import lbhash.utils.compiled

{first}

@lbhash.utils.compiled.compiled
def twice(number):
    return 2 * number

@lbhash.utils.compiled.compiled
def run(number):
    return twice(number) + 1

print(run(20), sum(run.stats.cache_hits.values()))
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Run the program with a cache of its own; returns its answer and how often the cache had it."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))

    def run(first=""):
        file = tmp_path / "program.py"
        if not file.exists():  # a newer file has another cache
            file.write_text(PROGRAM.format(first=first))
        done = subprocess.run([sys.executable, file], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    return run


def test_the_second_process_finds_the_code(program):
    assert program() == ["41", "0"]
    assert program() == ["41", "1"]


@pytest.mark.end_to_end
@pytest.mark.parametrize("length", [0, 40])
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_damaged_files_are_made_anew(program, tmp_path, suffix, length):
    program()
    for file in Path(tmp_path / "cache").rglob(f"*.{suffix}"):
        file.write_bytes(file.read_bytes()[:length])
    assert program() == ["41", "0"]
    assert program() == ["41", "1"]


@pytest.mark.end_to_end
def test_a_full_disk(program):
    full = "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (9, 9))"
    assert program(full) == ["41", "0"]
    assert program(full) == ["41", "0"]


@pytest.mark.end_to_end
def test_no_place_for_a_cache(program):
    """As for a read-only installation and a user without a folder of their own."""
    none = "from numba.core import caching; caching.CacheImpl._locator_classes = []"
    assert program(none) == ["41", "0"]
