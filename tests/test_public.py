"""The interface: one list of its names, and what each of them must have."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import typing
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

import lbhash

ROOT = Path(__file__).parents[1]
PUBLIC = {
    "lbhash": """CodeTable Comparison Hasher Index Report SearchResult TrainingArguments __version__ compare convert
        evaluate hamming_distances load_dataset pack read_codes unpack write_codes""",
    "lbhash.centers": "class_centers design_centers",
    "lbhash.data": "Dataset load_dataset load_images load_table",
    "lbhash.evaluation": "Bound RankHistogram average_precision bound",
    "lbhash.index": "DamagedIndexError Index SearchResult UnknownIdError export_index",
    "lbhash.losses": "Objective Task",
    "lbhash.service": "Settings create_app",
    "lbhash.tuning": "SearchOptions tune",
}
"""All that 1.0 promises, by module."""

INSIDE = {"lbhash.cli", "lbhash.models", "lbhash.reproduce", "lbhash.training"}
"""Packages whose ``__all__``, like that of modules further down, is for the library's own use."""

NAMES = [(module, name) for module, names in PUBLIC.items() for name in names.split() if name != "__version__"]


def object_of(module, name):
    return getattr(import_module(module), name)


def test_every_module_lists_the_public_names_alone():
    found = {"lbhash": sorted(lbhash.__all__)}
    for one in iter_modules(lbhash.__path__, "lbhash."):
        if one.name not in INSIDE and not one.name.endswith("__main__"):
            module = import_module(one.name)
            if hasattr(module, "__all__"):
                found[one.name] = sorted(module.__all__)
    assert found == {module: sorted(names.split()) for module, names in PUBLIC.items()}


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_public_name_is_described_with_an_example_and_hints(module, name):
    value = object_of(module, name)
    text = inspect.getdoc(value) or ""
    assert len(text.splitlines()[0]) > 20
    assert ">>> " in text  # which tests/test_docstrings.py runs
    members = [getattr(value, one) for one in dir(value) if not one.startswith("_")] if inspect.isclass(value) else []
    for one in [value, *filter(inspect.isroutine, members)]:
        if getattr(one, "__module__", "").startswith("lbhash"):
            typing.get_type_hints(one)
            assert inspect.getdoc(one), one


def test_the_docs_have_all_public_names():
    page = (Path(__file__).parents[1] / "docs" / "api.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^::: [\w.]*?(\w+)$", page, re.M)) | set(re.findall(r"\w+", page.partition("## Codes")[2]))
    assert {name for _, name in NAMES} <= shown


@pytest.mark.slow
def test_a_type_checker_finds_wrong_names(tmp_path):
    (tmp_path / "user.py").write_text(
        "import lbhash\nlbhash.nope\nlbhash.Hasher(16).encod([])\nlbhash.Hasher.load('m')\nlbhash.Index(8).serch()\n"
    )
    command = [sys.executable, "-m", "mypy", "--config-file=", "--ignore-missing-imports", tmp_path / "user.py"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"MYPYPATH": str(ROOT / "src")})
    assert [line.split(":")[1] for line in done.stdout.splitlines()[:-1]] == ["2", "3", "4", "5"], done.stdout


def test_what_is_not_there_is_no_attribute():
    for name in ("bound", "class_centers", "no_such_name"):
        assert not hasattr(lbhash, name)
    assert set(lbhash.__all__) <= set(dir(lbhash))
