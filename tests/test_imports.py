from __future__ import annotations

import ast
import pkgutil

import pytest

import lbhash

pytestmark = pytest.mark.end_to_end

HEAVY = ("PIL", "datasets", "faiss", "fastapi", "jinja2", "matplotlib", "numba", "numpy", "onnx")
HEAVY += ("onnxruntime", "onnxscript", "optuna", "pandas", "pyarrow", "pymilvus", "ray", "scipy", "seaborn", "sklearn")
HEAVY += ("sqlalchemy", "torch", "transformers")


def test_nothing_heavy_is_loaded_before_it_is_needed(python_script):
    """In one process, so that what any of these loads is seen after it."""
    script = f"""
import sys
def loaded(after):
    found = [name for name in {HEAVY!r} if name in sys.modules]
    assert not found, (after, found)
import lbhash; dir(lbhash); lbhash.__version__
loaded("lbhash")
from lbhash.cli.app import main
loaded("lbhash.cli.app")
for words in ("--help", "train --help", "tune --help", "encode --help", "export --help", "--version"):
    sys.argv = ["lbhash", *words.split()]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code
    loaded(words)
"""
    python_script(script)


def test_every_public_name_is_there():
    for name in lbhash.__all__:
        assert getattr(lbhash, name) is not None
    assert set(dir(lbhash)) == set(lbhash.__all__)
    with pytest.raises(AttributeError, match="'Hascher' is no attribute of lbhash; did you mean Hasher"):
        lbhash.Hascher  # noqa: B018


def test_what_evaluates_loads_no_training(python_script):
    script = "import sys, lbhash.pipeline.evaluate; print([n for n in ('torch', 'sklearn') if n in sys.modules])"
    assert ast.literal_eval(python_script(script)) == []


def test_what_trains_loads_no_more_than_it_needs(python_script, tmp_path):
    """PyTorch's compiler and scikit-learn take as long to import as all else together."""
    pytest.importorskip("torch")
    script = """
import sys
from lbhash.data import load_dataset
from lbhash.pipeline.train import train_model
train_model(load_dataset("digits"), sys.argv[1], bits=8, hidden=0, epochs=1)
needless = ("torch._dynamo", "sklearn", "matplotlib", "pandas")
print([name for name in needless if name in sys.modules])
"""
    assert ast.literal_eval(python_script(script, tmp_path / "model")) == []


def test_no_module_takes_the_place_of_a_public_name():
    """A module that is imported becomes an attribute of its package, whatever stood there."""
    assert {module.name for module in pkgutil.iter_modules(lbhash.__path__)}.isdisjoint(lbhash.__all__)
