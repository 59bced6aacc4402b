from __future__ import annotations

import ast

import pytest

import lbhash

HEAVY = ("PIL", "datasets", "faiss", "fastapi", "lightning", "matplotlib", "numba", "onnx", "onnxruntime", "onnxscript")
HEAVY += (
    "numpy",
    "optuna",
    "pandas",
    "pyarrow",
    "pymilvus",
    "ray",
    "scipy",
    "seaborn",
    "sklearn",
    "sqlalchemy",
    "torch",
)
HEAVY += ("jinja2", "transformers")


@pytest.mark.parametrize(
    "script",
    [
        "import lbhash; dir(lbhash); lbhash.__version__",
        "import lbhash.cli.app",
        "from lbhash.cli.app import main; sys.argv = ['lbhash', '--help']; run(main)",
        "from lbhash.cli.app import main; sys.argv = ['lbhash', 'train', '--help']; run(main)",
        "from lbhash.cli.app import main; sys.argv = ['lbhash', 'tune', '--help']; run(main)",
        "from lbhash.cli.app import main; sys.argv = ['lbhash', 'encode', '--help']; run(main)",
        "from lbhash.cli.app import main; sys.argv = ['lbhash', 'export', '--help']; run(main)",
        "from lbhash.cli.app import main; sys.argv = ['lbhash', '--version']; run(main)",
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(python_script, script):
    before = """
import sys
def run(main):
    try:
        main()
    except SystemExit as ended:
        assert not ended.code
"""
    after = f"\nprint()\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    assert ast.literal_eval(python_script(before + script + after).splitlines()[-1]) == []


def test_every_public_name_is_there():
    for name in lbhash.__all__:
        assert getattr(lbhash, name) is not None
    assert set(dir(lbhash)) == set(lbhash.__all__)
    with pytest.raises(AttributeError, match="module 'lbhash' has no attribute 'Hascher'"):
        lbhash.Hascher  # noqa: B018


def test_what_evaluates_loads_no_training(python_script):
    script = "import sys, lbhash.pipeline.evaluate; print([n for n in ('torch', 'lightning') if n in sys.modules])"
    assert ast.literal_eval(python_script(script)) == []


def test_no_module_takes_the_place_of_a_public_name(python_script):
    # A module that is imported becomes an attribute of its package, whatever stood there.
    script = """
import importlib, pkgutil
import lbhash
for module in pkgutil.walk_packages(lbhash.__path__, "lbhash."):
    importlib.import_module(module.name)
from lbhash import Bound, Hasher, Report, bound, class_centers, evaluate
print([callable(name) for name in (Bound, Hasher, Report, bound, class_centers, evaluate)])
"""
    assert ast.literal_eval(python_script(script)) == [True] * 6
