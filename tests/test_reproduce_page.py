"""``lbhash reproduce all``: the page of all experiments, and what the command says."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from jinja2 import UndefinedError

from lbhash.reproduce import Settings, experiments
from lbhash.reproduce import page as everything
from lbhash.reproduce.page import LONG, difference, run_all, table_html
from lbhash.reproduce.results import Interval, Result
from lbhash.reproduce.runs.settings import command_line
from lbhash.reproduce.runs.sources import Source, UnsuitableData
from lbhash.utils.html import png_url, render
from reproduce_tools import split_blobs

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def file(blobs, write_parquet, tmp_path_factory):
    x, columns = split_blobs(blobs, label=np.concatenate([blobs.y, blobs.query_y]))
    return str(write_parquet(tmp_path_factory.mktemp("data") / "blobs.parquet", x, **columns))


@pytest.fixture
def only(monkeypatch):
    """A function that makes these all the experiments."""

    def names(*chosen):
        known = {name: experiments()[name] for name in chosen}
        monkeypatch.setattr(everything, "experiments", lambda: known)

    return names


class Outline(HTMLParser):
    """Tags, ids, links and the cells of the tables."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.images, self.open, self.rows = [], [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag not in ("meta", "img", "br", "hr"):
            self.open.append(tag)
        if "id" in given:
            self.ids.append(given["id"])
        if tag == "a":
            self.links.append(given["href"])
        if tag == "img":
            self.images.append(given)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def test_the_papers_figure_beside_ours_cell_by_cell():
    rows = [["a", Interval.of([80.0, 81.0]), 79.0, 3, 2], ["<b>", Interval.of([70.0]), None, 1, 4]]
    columns, paper = ("name", "x", "x, paper", "d", "d, paper"), {"x, paper": "x", "d, paper": "d"}
    assert Outline(table_html(Result("T", columns, rows, "", lambda: None, digits=1, paper=paper))).rows == [
        ["name", "x", "x, paper", "ours − paper", "d", "d, paper", "ours − paper"],
        ["a", "80.5 ± 6.4", "79.0", "+1.5", "3", "2", "+1.0"],
        ["<b>", "70.0", "", "", "1", "4", "−3.0"],
    ]
    uncompared = Result("T", ("KL", "paper"), [[0.2, 0.1]], "", lambda: None, paper={"paper": None})
    assert Outline(table_html(uncompared)).rows == [["KL", "paper"], ["0.2000", "0.1000"]]
    assert '<td class="paper">0.1000</td>' in table_html(uncompared)


def test_what_has_no_difference():
    for ours, paper in [(None, 1.0), (1.0, None), ("a", 1.0), (math.inf, 1.0), (Interval.of([math.inf]), 1.0)]:
        assert difference(ours, paper, 2) == ""
    assert (difference(2, 1, 0), difference(0.5, 1.0, 1)) == ("+1", "−0.5")


def test_a_page_escapes_what_it_is_given():
    values = {"columns": ["<b>"], "runs": [("<i>", "c < d", ["a & b"])], "searched": "<i>", "best": "", "confused": []}
    values |= {"curves": png_url(b"x"), "map": "", "best_unseen": "", "commands": ["x > y"], "searches": []}
    values |= {"weakest": []}
    counts = dict.fromkeys(("train", "base", "queries", "bits", "bytes", "numbers", "classes", "votes", "epochs"), 1)
    page = render("lbhash.cli", "demo.html", title="<u>", seed=6, **counts, **values)
    assert Outline(page).rows[:2] == [["<b>"], ["a & b"]]
    assert "<td>a &amp; b</td>" in page
    assert "by &lt;i&gt;." in page
    assert "<pre>x &gt; y</pre>" in page
    assert 'src="data:image/png;base64,eA=="' in page
    with pytest.raises(UndefinedError, match="'title' is undefined"):
        render("lbhash.cli", "demo.html", **values)


def test_a_long_table_is_folded_up():
    rows = [[i] for i in range(LONG + 1)]
    assert table_html(Result("T", ("n",), rows, "", lambda: None)).startswith("<details><summary>The table, 25 rows")
    assert not table_html(Result("T", ("n",), rows[:-1], "", lambda: None)).startswith("<details>")


def test_all(only, file, tmp_path, capsys):
    few = ("map", "imagenet", "theory")  # one that trains, one that does not suit the data, one that takes none
    only(*few)
    given = {"epochs": 1, "lr": 0.01, "bits": (16,), "methods": ("dch", "csq")}
    sources = (Source("cifar10", file),)
    settings = Settings(seeds=2, sources=sources, workers=1, runs=tmp_path / "runs", hidden=8, **given)
    found = run_all(settings, tmp_path / "out")
    assert tuple(found) == few
    assert found["imagenet"].startswith("imagenet needs data of 1,000 classes, and cifar10 has 4")
    assert "[4/4] cifar10, csq_d, 16 bits, 1 epochs, 2 seeds: mAP " in capsys.readouterr().err
    text = (tmp_path / "out" / "report.html").read_text()
    page = Outline(text)
    assert {link.removeprefix("#") for link in page.links} == set(few) <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    images = [result for name in ("map", "theory") for result in found[name].tables(name)]
    assert len(page.images) == len(images)
    assert all(image["src"].startswith("data:image/png;base64,") and image["alt"] for image in page.images)
    assert not re.search(r'(src|href)="(?!#|data:)', text)
    assert 'name="viewport"' in text
    assert "prefers-color-scheme: dark" in text
    assert "Not made: imagenet needs data" in text
    command = "lbhash reproduce map --data cifar10=blobs.parquet --seeds 2 --epochs 1 --lr 0.01 --bits 16"
    command += " --methods dch --methods csq"
    assert command in text
    made = (tmp_path / "out" / "map.md").read_text()
    assert command in made
    assert "Adam at 0.01 with a decay" in made
    trained = [json.loads(run.read_text())["run"] for run in (tmp_path / "runs").glob("cifar10-*.json")]
    assert [run["lr"] for run in trained] == 8 * [0.01]
    assert "<code>lbhash reproduce theory --seeds 2</code>" in text
    assert str(tmp_path) not in text
    # Every cell of a table is there, with the paper's beside ours and the difference.
    row = next(row for row in page.rows if row[:2] == ["16", "CSQ"])
    table = dict(zip(found["map"].more["cifar10"].columns, found["map"].more["cifar10"].rows[1], strict=True))
    assert row[2:5] == [
        table["host"].shown(2),
        "83.20",
        f"{table['host'].mean - 83.2:+.2f}".replace("-", "−"),
    ]
    files = {found.name: found.read_bytes() for found in (tmp_path / "out").iterdir()}
    run_all(settings, tmp_path / "out")  # again, from the runs that are there
    assert {found.name: found.read_bytes() for found in (tmp_path / "out").iterdir()} == files
    assert "[1/" not in capsys.readouterr().err


def test_an_experiment_gets_what_it_can_use(file):
    settings = Settings(sources=(Source("a", file),), epochs=3, bits=(8,), methods=("csq",))
    assert experiments()["theory"].suited(settings) == Settings()
    assert experiments()["map"].suited(settings) == settings
    assert experiments()["ratio"].suited(settings) == replace(settings, methods=())
    assert experiments()["posterior-2bits"].suited(settings) == Settings(sources=settings.sources)
    assert command_line("posterior-2bits", Settings(sources=(Source("blobs", file),), seed=4)) == (
        "lbhash reproduce posterior-2bits --data blobs.parquet --seeds 5 --seed 4"
    )


def test_one_set_of_data_is_the_first_with_one_label_a_row(blobs, file, write_parquet, tmp_path):
    hot = np.vstack([blobs.hot, blobs.query_hot])
    x, columns = split_blobs(blobs, labels=[np.flatnonzero(row).tolist() for row in hot])
    several = write_parquet(tmp_path / "s.parquet", x, **columns)
    both = Settings(sources=(Source("several", str(several)), Source("one", file)))
    assert experiments()["posterior-2bits"].suited(both).sources == both.sources[1:]
    with pytest.raises(UnsuitableData, match="needs data with one label a row"):
        experiments()["posterior-2bits"].suited(replace(both, sources=both.sources[:1]))


def test_the_command_for_all(only, succeed, json_of, file, tmp_path):
    only("recognition", "imagenet")
    arguments = ["--data", f"cifar10={file}", "--seeds", 1, "--epochs", 1, "--bits", 8, "--methods", "csq"]
    arguments += ["--workers", 1, "--out", tmp_path / "out"]
    out, _ = succeed("reproduce", "all", *arguments)
    assert "imagenet was left out: imagenet needs data of 1,000 classes" in out
    assert f"The page is {tmp_path / 'out' / 'report.html'}" in out
    assert list((tmp_path / "out" / "runs").glob("cifar10-csq_d-8bits-1epochs-seed0-*.json"))
    held = json_of("reproduce", "all", *arguments)
    assert [made["name"] for made in held["experiments"]] == ["recognition"]
    assert list(held["left_out"]) == ["imagenet"]
    assert held["report"].endswith("report.html")
