"""What a notebook asks of an estimator and of a report, and the notebooks of the docs."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path

import nbformat
import numpy as np
import pytest
from sklearn.base import clone

from image_tools import write_small_resnet
from lbhash import Hasher, TrainingArguments, evaluate

pytestmark = pytest.mark.end_to_end

CELLS = {
    "fit": """
import numpy as np
from lbhash import Hasher, TrainingArguments, evaluate
X = np.random.default_rng(0).normal(size=(60, 4)).astype("float32")
y = np.array(["cat", "dog", "eel"] * 20)
h = Hasher(bits=8, epochs=3, progress=True, training=TrainingArguments(hidden=8)).fit(X, y)
""",
    "display": "h",
    "report": "evaluate(h.encode(X), np.arange(60) % 3, h.train_codes_, np.arange(60) % 3)",
    "complete": """
from IPython.core.completer import provisionalcompleter
with provisionalcompleter():
    print([one.text for one in get_ipython().Completer.completions("h.enc", 5)])
""",
}


@pytest.fixture(scope="module")
def fitted():
    X = np.random.default_rng(0).normal(size=(60, 4)).astype("float32")
    return Hasher(bits=8, epochs=1, progress=False, training=TrainingArguments(hidden=8)).fit(X, np.arange(60) % 3), X


def test_a_fitted_hasher_can_be_looked_at(fitted):
    hasher, _ = fitted
    assert "encode" in dir(hasher)
    assert not hasattr(hasher, "backbone_")
    assert repr(clone(hasher)) == "Hasher(bits=8, epochs=1, training=TrainingArguments(hidden=8))"


def test_a_look_loads_no_backbone(fitted, monkeypatch):
    from lbhash.models import backbone_files

    asked = []
    monkeypatch.setattr(backbone_files, "load_backbone", lambda *given, **more: asked.append(given))
    dir(fitted[0]), repr(fitted[0])
    assert not asked


def test_columns_have_names(fitted):
    hasher, X = fitted
    assert hasher.get_feature_names_out().tolist() == [f"hasher{bit}" for bit in range(8)]
    frame = hasher.set_output(transform="pandas").transform(X)
    assert (frame.shape, frame.columns[0]) == ((60, 8), "hasher0")


def test_a_report_is_a_few_lines_or_a_table(fitted):
    codes, labels = fitted[0].train_codes_, np.arange(60) % 3
    report = evaluate(codes, labels, codes, labels)
    assert len(str(report).splitlines()) == 5
    assert str(report).startswith("mAP")
    assert report._repr_html_().count("<tr>") == 11


def test_in_a_kernel():
    import nbclient

    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS.values()])
    nbclient.NotebookClient(book, timeout=600, kernel_name="python3").execute()
    outputs = {name: cell.outputs for name, cell in zip(CELLS, book.cells, strict=True)}
    fit = "".join(one.get("text", "") for one in outputs["fit"])
    assert "3/3 epochs" in fit
    # No line for each step: every new state of the bar takes the place of the one before.
    assert all(state.count("epochs") <= 1 for state in fit.split("\r\x1b[2K")), fit
    assert "Hasher" in outputs["display"][0].data["text/html"]
    assert "<table>" in outputs["report"][0].data["text/html"]
    assert outputs["report"][0].data["text/plain"].count("\n") == 4
    assert "encode" in outputs["complete"][0].text


BOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))
SLOW = {"sentences": pytest.mark.slow, "pictures": pytest.mark.slow}  # half a minute


@pytest.mark.parametrize("path", [pytest.param(path, marks=SLOW.get(path.stem, ()), id=path.stem) for path in BOOKS])
@pytest.mark.usefixtures("short_trainings")
def test_a_notebook_of_the_docs_runs(path, tmp_path, monkeypatch, request):
    """Its cells run one after the other, and it is stored without outputs."""
    if path.stem == "sentences":
        request.getfixturevalue("encoder_on_the_hub")
    if path.stem == "pictures":  # a small random model in place of the one that it names
        (tmp_path / "backbone").mkdir()
        request.getfixturevalue("on_the_hub")("google/mobilenet_v2_1.0_224", write_small_resnet(tmp_path / "backbone"))
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for number, cell in enumerate(nbformat.read(path, 4).cells):
        if cell.cell_type == "code":
            exec(compile(cell.source, f"{path.name}, cell {number}", "exec"), names)
            assert (cell.outputs, cell.execution_count) == ([], None)
        if "server" in names and not names["server"].should_exit:
            while not names["server"].started:
                time.sleep(0.1)
            with urllib.request.urlopen("http://127.0.0.1:8765/v1/info") as answer:
                assert json.load(answer)["codes"] == len(names["rows"])
