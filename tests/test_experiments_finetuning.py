"""Fine-tuned methods side by side: the runs, those that are there already, and the page."""

from __future__ import annotations

import csv
import json
import shutil

import pytest
from benchmarks.experiments import finetuning
from PIL import Image

from image_tools import write_backbone, write_stripes

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    root = tmp_path_factory.mktemp("finetuning")
    write_stripes(root / "images", 160)
    write_backbone(root / "small")
    return root


@pytest.fixture
def compare(place, monkeypatch):
    """The command, its runs in this process; gives the runs that it began."""
    begun = []

    def inline(tasks, execute, workers):
        for name, arguments in tasks.items():
            begun.append(name)
            yield name, execute(*arguments)

    def call(**options):
        begun.clear()
        given = {"data": place / "images", "backbone": place / "small", "methods": "csq", "bits": 8, "epochs": 3}
        given |= {"image-size": 16, "runs": place / "runs", "out": place / "page.md"} | options
        words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        monkeypatch.setattr("sys.argv", ["finetuning", *words])
        finetuning.main()
        return list(begun)

    monkeypatch.setattr(finetuning, "in_processes", inline)
    monkeypatch.setenv("LBHASH_CACHE", str(place / "cache"))
    return call


def cells(line):
    return [cell.strip() for cell in line.strip("|\n").split("|")]


def test_the_runs_and_the_page(place, compare):
    assert compare() == ["csq", "csq_d"]
    folders = {name: place / "runs" / f"images-{name}-8bits-16px-3epochs-seed0" for name in ("csq", "csq_d")}
    metrics = {name: json.loads((folder / "metrics.json").read_text()) for name, folder in folders.items()}
    page = (place / "page.md").read_text()
    rows = {cells(line)[0]: cells(line) for line in page.split("## Learning curves")[0].splitlines() if "| csq" in line}
    for name, found in metrics.items():
        assert rows[name][1] == f"{found['map']:.4f}"
        assert rows[name][2] == f"{found['map_worst']:.4f}–{found['map_best']:.4f}"
    assert rows["csq"][3] == ""
    assert rows["csq_d"][3] == f"{100 * (metrics['csq_d']['map'] - metrics['csq']['map']):+.1f}"

    watched = {
        cells(line)[0]: cells(line) for line in page.split("## Learning curves")[1].splitlines() if "| csq" in line
    }
    for name, folder in folders.items():
        with (folder / "logs" / "metrics.csv").open() as file:
            logged = [float(row["validation_map"]) for row in csv.DictReader(file)]
        assert watched[name][1] == str(logged.index(max(logged)))
        assert watched[name][2] == f"{max(logged):.4f}"
    with Image.open(place / "page.png") as drawn:
        assert drawn.width > 800

    assert compare(recipes="arranged") == ["csq_d-arranged"]  # without a host it has no lift
    row = next(cells(line) for line in (place / "page.md").read_text().splitlines() if "| csq_d-arranged" in line)
    assert row[3] == ""
    file = place / "runs/images-csq_d-arranged-8bits-16px-3epochs-seed0/config.json"
    about = json.loads(file.read_text())["metadata"]
    assert (about["pull"], about["centers"]) == ("surrogate", "arranged")

    assert compare() == []  # what is there is not run again
    assert (place / "page.md").read_text() == page
    shutil.rmtree(folders["csq_d"])
    assert compare() == ["csq_d"]


def test_without_validation_there_are_no_curves(place, compare):
    assert compare(validation=0, epochs=1, out=place / "whole.md") == ["csq", "csq_d"]
    assert "Learning curves" not in (place / "whole.md").read_text()
    assert not (place / "whole.png").exists()
