from __future__ import annotations

import re

import numpy as np
import pytest

from lbhash import Hasher
from lbhash.cli.demo import run_demo
from lbhash.data import load_dataset
from lbhash.index import open_index


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """A demo of one epoch: its folder."""
    folder = tmp_path_factory.mktemp("demo")
    run_demo(folder, epochs=1)
    return folder


def test_the_report_is_one_file_of_its_own(demo):
    page = (demo / "report.html").read_text()
    assert not re.findall(r"https?://|<script|<link|@import|url\(", page)
    sources = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert len(sources) == 2
    for source in sources:
        assert source.startswith("data:image/png;base64,iVBOR")
        assert len(source) > 10_000
    rows = re.findall(r"<tr><td>(\w+)</td>", page)
    assert rows == ["hashnet", "hashnet_d", "csq", "csq_d"]
    assert all(len(re.findall("<td>", row)) == 8 for row in re.findall(r"<tr><td>.*?</tr>", page))


def test_it_leaves_a_model_and_an_index_of_the_base(demo):
    assert {file.name for file in demo.iterdir()} == {"index", "model", "report.html"}
    hasher, index = Hasher.from_pretrained(demo / "model"), open_index(demo / "index")
    base = load_dataset("digits").base
    assert (hasher.name, hasher.bits, len(index)) == ("csq_d", 16, len(base))
    distances, rows = index.search(hasher.encode_split(base), 1)
    assert not distances.any()
    assert np.isin(rows, base.rows).all()
    assert index.model == hasher.model_.fingerprint()
    assert index.attributes_of(base.rows)["label"].to_pylist() == base.labels.tolist()


def test_it_says_what_comes_next(tmp_path, capsys):
    run_demo(tmp_path, epochs=1, seed=1)
    said = capsys.readouterr().out
    assert str(tmp_path / "report.html") in said
    commands = [line.strip().split()[:2] for line in said.splitlines() if line.strip().startswith("lbhash ")]
    assert commands == [["lbhash", word] for word in ("serve", "train", "index", "search")]
    for name in ("hashnet", "hashnet_d", "csq", "csq_d"):
        assert re.search(rf"^ *{name} +0\.\d", said, re.MULTILINE)
    assert "seed 1" in said
