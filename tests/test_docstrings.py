"""The examples in docstrings print what they say."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import lbhash

ROOT = Path(lbhash.__file__).parent
FILES = [file.relative_to(ROOT.parent) for file in ROOT.rglob("*.py") if ">>> " in file.read_text(encoding="utf-8")]
MODULES = sorted(".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in FILES)


@pytest.mark.parametrize("module", MODULES)
def test_examples(module):
    failed, tried = doctest.testmod(import_module(module))
    assert tried
    assert not failed
