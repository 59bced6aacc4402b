"""Small helpers: optional packages, errors in one line, and memory."""

import subprocess
import sys

import numpy as np
import pytest

from lbhash.utils.formatting import one_line
from lbhash.utils.system import check_packages, peak_memory


def test_packages_that_are_missing_are_named_with_the_command_that_installs_them():
    check_packages("a test", "dev", "numpy", "json")
    with pytest.raises(ValueError, match=r"^a test needs the package no_such_package: pip install 'lbhash\[dev\]'$"):
        check_packages("a test", "dev", "numpy", "no_such_package")


def test_errors_in_one_line():
    assert one_line(ValueError("first line\n  second line")) == "first line second line"
    assert one_line(KeyError()) == "KeyError"


def test_peak_memory_is_of_this_process_alone():
    held = np.ones(60_000_000)  # 480 MB, which a process started now must not count as its own
    code = "from lbhash.utils.system import peak_memory; print(peak_memory())"
    peak = int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
    assert peak < 200e6 < held.nbytes <= peak_memory()
