"""Small helpers: optional packages, and errors in one line."""

import pytest

from lbhash.utils.formatting import one_line
from lbhash.utils.system import check_packages


def test_packages_that_are_missing_are_named_with_the_command_that_installs_them():
    check_packages("a test", "dev", "numpy", "json")
    with pytest.raises(ValueError, match=r"^a test needs the package no_such_package: pip install 'lbhash\[dev\]'$"):
        check_packages("a test", "dev", "numpy", "no_such_package")


def test_errors_in_one_line():
    assert one_line(ValueError("first line\n  second line")) == "first line second line"
    assert one_line(KeyError()) == "KeyError"
