from __future__ import annotations

import re

import numpy as np
import pytest
from jinja2 import UndefinedError

from lbhash import Hasher, evaluate
from lbhash.cli.demo import METHODS, run_demo
from lbhash.data import load_dataset
from lbhash.hasher import encode_split, name_of, outputs_split
from lbhash.index import Index
from lbhash.utils.html import png_url, render

NAMES = [name for name, _, _ in METHODS]


def new_rows(data):
    """The base rows that are not trained on, which the demo searches."""
    return data.base.where(~np.isin(data.base.rows, data.train.rows))


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """A demo of one epoch on the digits: its folder."""
    folder = tmp_path_factory.mktemp("demo")
    run_demo(folder, "digits", epochs=1)
    return folder


def test_the_report_is_one_file_of_its_own(demo):
    page = (demo / "report.html").read_text()
    outside = re.sub("<code>http://127.0.0.1:8000</code>", "", page)  # what a reader types in
    assert not re.findall(r"https?://|<script|<link|@import|url\(", outside)
    sources = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert all(source.startswith("data:image/png;base64,iVBOR") for source in sources)
    assert len(sources) == 2 + 3 * 8
    assert sorted(map(len, sources))[-2] > 10_000
    rows = re.findall(r"<tr(?: class=\"ours\")?><td>([^<]*)</td>((?:<td>[^<]*</td>){6})</tr>", page)
    assert [name for name, _ in rows] == NAMES


def test_it_leaves_a_model_and_an_index_of_the_base(demo):
    assert {file.name for file in demo.iterdir()} == {"index", "model", "report.html"}
    hasher, index = Hasher.from_pretrained(demo / "model"), Index.open(demo / "index", mode="a")
    base = new_rows(load_dataset("digits"))
    assert (name_of(hasher), hasher.bits, hasher.head, len(index)) == ("csq", 16, "joined", len(base))
    distances, rows = index.search(encode_split(hasher, base), 1)
    assert not distances.any()
    assert np.isin(rows, base.rows).all()
    assert index.model == hasher.model_.fingerprint()
    assert index.metadata_of(base.rows)["label"].to_pylist() == base.labels.tolist()


def test_the_page_says_what_its_codes_say(demo):
    page, data = (demo / "report.html").read_text(), load_dataset("digits")
    hasher, index = Hasher.from_pretrained(demo / "model"), Index.open(demo / "index", mode="a")
    query, base = encode_split(hasher, data.query), new_rows(data)
    outputs = outputs_split(hasher, data.query)
    report = evaluate(query, data.query.labels, encode_split(hasher, base), base.labels, query_outputs=outputs)
    figures = (report.map, report.map_macro, report.by_bits.map)
    assert "".join(f"<td>{shown}</td>" for shown in (NAMES[-1], *(f"{value:.3f}" for value in figures))) in page
    classes = re.findall(r"<tr><td>(\d)</td><td>([01]\.\d+)</td><td>(\d+)</td></tr>", page)
    order = np.argsort(report.by_class.map, kind="stable")
    assert [int(label) for label, _, _ in classes] == report.by_class.label[order].tolist()
    assert [value for _, value, _ in classes] == [f"{value:.3f}" for value in report.by_class.map[order]]
    assert re.search(r"<tr><td>\d and \d</td><td>\d+</td><td>\d+ bits</td></tr>", page)
    captions = re.findall(r"<figcaption>(.*)</figcaption>", page)
    bits = [re.findall(r'<i class="b([01])( off)?">', card) for card in page.split("<figure")[1:]]
    labels = re.findall(r'<img alt="(\w)" src', page)
    wrong = re.findall(r'<figure class="(query|wrong|)">', page)
    first = [np.flatnonzero(data.query.labels == label)[0] for label in (2, 4, 6)]
    for start in range(0, 24, 8):
        asked, *cards = bits[start : start + 8]
        code = np.packbits([bit == "1" for bit, _ in asked])
        place = first[start // 8]
        assert (query[place] == code).all()
        found = index.search(outputs=outputs[[place]], k=7)
        assert [sum(off == " off" for _, off in card) for card in cards] == found.hamming[0].tolist()
        assert captions[start : start + 8] == ["query", *(f"{distance:.3f}" for distance in found.distances[0])]
        for card, row in zip(cards, found.ids[0], strict=True):
            found = np.packbits([bit == "1" for bit, _ in card])
            np.testing.assert_array_equal(found, index.codes_of([row])[0])
        expected = ["wrong" if label != labels[start] else "" for label in labels[start + 1 : start + 8]]
        assert wrong[start : start + 8] == ["query", *expected]


@pytest.mark.slow
def test_it_shows_characters_and_says_what_comes_next(tmp_path, capsys):
    run_demo(tmp_path, epochs=1, seed=1)
    said = capsys.readouterr().out
    assert str(tmp_path / "report.html") in said
    commands = [line.strip().split()[:2] for line in said.splitlines() if line.strip().startswith("lbhash ")]
    assert commands == [["lbhash", word] for word in ("serve", "compare", "compare", "train", "index", "search")]
    assert "--split" not in said  # all rows of a file are the collection
    for name in NAMES:
        assert re.search(rf"^ *{name} +0\.\d", said, re.MULTILINE)
    assert "40 classes" in said
    assert re.search(r"the pixels themselves, by their cosine: 0\.\d{3}, in 784 bytes", said)
    assert "seed 1" in said
    index, dataset = Index.open(tmp_path / "index", mode="a"), load_dataset("characters", seed=1)
    base = new_rows(dataset)
    labels = [dataset.class_names[label] for label in base.labels]
    assert index.metadata_of(base.rows)["label"].to_pylist() == labels


def test_a_page_escapes_what_it_is_given():
    values = {"columns": ["<b>"], "runs": [("<i>", "c < d", ["a & b"])], "searched": "<i>", "best": "", "confused": []}
    values |= {"curves": png_url(b"x"), "map": "", "best_unseen": "", "commands": ["x > y", "z"], "searches": []}
    values |= {"weakest": [], "pixels": "0.5"}
    counts = dict.fromkeys(("train", "base", "queries", "bits", "bytes", "numbers", "classes", "votes", "epochs"), 1)
    page = render("lbhash.cli", "demo.html", title="<u>", seed=6, **counts, **values)
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "<td>a &amp; b</td>" in page
    assert "by &lt;i&gt;." in page
    assert "<pre>x &gt; y</pre>" in page
    assert 'src="data:image/png;base64,eA=="' in page
    with pytest.raises(UndefinedError, match="'title' is undefined"):
        render("lbhash.cli", "demo.html", **values)
